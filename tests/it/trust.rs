//! Who may reach whom and how much one caller may take: what is not a bot's own reads as unknown, whom it may not ask it does
//! not see, and every limit of the doors says its name and when to come back.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Error;

use crate::rig::{Bot, Caller, OWNER, Relay, http, http_unled, soon, text, token, until};

const GUESS: &str = "01937000-0000-7000-8000-000000000001";

/// What somebody gets for a request that exists and is not its own, and for one that does not exist; both as if for `GUESS`.
async fn both(caller: &Caller, tool: &str, real: &str, more: Value) -> (String, String) {
    let call = async |id: &str| {
        let mut arguments = more.clone();
        arguments["request_id"] = id.into();
        caller.call(tool, arguments).await.to_string()
    };
    (call(real).await.replace(real, GUESS), call(GUESS).await)
}

/// It was not told sooner than both what is another's and what is nobody's can be found.
async fn hushed<T>(what: &str, call: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let told = call.await;
    assert!(begun.elapsed() >= Duration::from_millis(10), "{what}: {:?}", begun.elapsed());
    told
}

#[tokio::test]
async fn what_belongs_to_others_reads_as_unknown_before_and_after_its_end() {
    let relay = Relay::start("", &["alice", "bob", "mallory"]).await;
    let (alice, mallory) = (relay.caller("alice"), relay.caller("mallory"));
    let mut bob = relay.bot_of("bob", "b").await;
    let mut spy = relay.bot_of("mallory", "m").await;
    let asking = alice.asking(json!({"to": "bob", "message": "a secret"}));
    let wake = bob.wake().await;
    let (request, conversation) = (text(&wake, "request_id").to_owned(), text(&wake, "conversation_id").to_owned());

    let look = async || {
        for (tool, more) in [("reply", json!({"answer": "stolen"})), ("reply", json!({"error": "no"})), ("get_answer", json!({"wait_seconds": 0}))] {
            let (foreign, unknown) = both(&mallory, tool, &request, more).await;
            assert_eq!(foreign, unknown);
            assert!(foreign.contains("unknown_request") && !foreign.contains("secret"), "{foreign}");
        }
        // What is another's is found later than what is nobody's is not: both are told when neither can be on its way still.
        for (tool, more) in [("reply", json!({"answer": "stolen"})), ("get_answer", json!({"wait_seconds": 0}))] {
            for id in [request.as_str(), GUESS] {
                let mut arguments = more.clone();
                arguments["request_id"] = id.into();
                hushed(tool, mallory.call(tool, arguments)).await;
            }
        }
        let resume = async |id: &str| hushed("Last-Event-ID", mallory.resume(&format!("{id}.37"))).await;
        let resumed = (resume(&request).await, resume(GUESS).await);
        assert_eq!(resumed.0, resumed.1);
        assert_eq!(resumed.0.0, 404);
        for to in ["bob", "alice"] {
            let mut results = Vec::new();
            for id in [conversation.as_str(), GUESS] {
                let asking = mallory.call("ask_agent", json!({"to": to, "message": "and me?", "conversation_id": id}));
                let result = hushed("a conversation", asking).await;
                results.push((text(&result, "error").to_owned(), text(&result, "message").replace(id, GUESS)));
            }
            assert_eq!(results[0], results[1]);
            // Nobody listens for alice, which is told only to those who take part.
            assert_eq!(results[0].0, "unknown_conversation");
        }
    };
    look().await;
    spy.heartbeat(&request).await;
    spy.received(&request).await;
    spy.is_not_woken().await;
    assert_eq!(bob.answer(&wake, "for alice alone").await, json!({"ok": true}));
    assert_eq!(asking.await.unwrap()["answer"], "for alice alone");
    look().await;
}

#[tokio::test]
async fn a_call_id_is_the_bots_own() {
    let relay = Relay::start("", &["alice", "bob", "mallory"]).await;
    let (mut alice, mut bob, mut mallory) = (relay.bot("alice").await, relay.bot("bob").await, relay.bot("mallory").await);
    let ask = json!({"to": "bob", "message": "same words"});
    alice.begin_call("c1", "ask_agent", ask.clone()).await;
    let first = bob.wake().await;
    bob.answer(&first, "for alice").await;
    assert_eq!(alice.result_of("c1").await["answer"], "for alice");
    mallory.begin_call("c1", "ask_agent", ask).await;
    let second = bob.wake().await;
    assert_ne!(first["request_id"], second["request_id"]);
    bob.answer(&second, "for mallory").await;
    assert_eq!(mallory.result_of("c1").await["answer"], "for mallory");
}

#[tokio::test]
async fn a_bot_sees_whom_it_may_ask_and_is_told_what_the_owner_says_of_an_asker() {
    let trust = "[[trust]]\nfrom = \"ops\"\nto = \"bob\"\nnote = \"Knows the servers.\"";
    let agents = ["alice\nmay_ask = [\"ops\"]\ngroups = [\"ops\"]", "bob\ngroups = [\"ops\"]", &format!("carol\n{trust}")];
    let relay = Relay::start("", &agents).await;
    let names = async |of: &str| -> Vec<String> {
        let listed = relay.caller(of).call("list_agents", json!({})).await;
        listed.as_array().unwrap().iter().map(|a| text(a, "name").to_owned()).collect()
    };
    assert_eq!(names("alice").await, ["alice", "bob"]);
    assert_eq!(names("carol").await, ["alice", "bob", "carol"]);
    assert_eq!(relay.caller("alice").ask("carol", "may I?").await["error"], "not_allowed");
    let mut bob = relay.bot("bob").await;
    for (from, note) in [("alice", json!("Knows the servers.")), ("carol", Value::Null)] {
        let asking = relay.caller(from).asking(json!({"to": "bob", "message": "hi"}));
        let wake = bob.wake().await;
        assert_eq!(wake["note"], note);
        bob.answer(&wake, "hello").await;
        assert_eq!(asking.await.unwrap()["answer"], "hello");
    }
}

#[tokio::test]
async fn who_sends_too_much_is_told_the_limit_and_when_to_come_back_and_others_are_not_concerned() {
    let relay = Relay::start("[limits]\nrequests_per_second = 5\nmax_connections_per_agent = 1", &["alice", "mallory"]).await;
    let mallory = relay.caller("mallory");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_agents", "arguments": {}}}).to_string();
    // At once: on a slow machine one after the other is no flood.
    let (_, refused) = until("requests too many", async || {
        let many = join_all((0..30).map(|_| mallory.post(body.clone()))).await;
        many.into_iter().map(Result::unwrap).find(|(status, _)| *status == 429)
    })
    .await;
    assert!(refused.contains("requests_per_second = 5") && refused.contains("come back in 1 seconds"), "{refused}");
    assert_eq!(relay.caller("alice").post(body).await.unwrap().0, 200);

    let mut bot = relay.bot("alice").await;
    for n in 0..30 {
        bot.begin_call(&format!("c{n}"), "list_agents", json!({})).await;
    }
    let mut over = 0;
    for n in 0..30 {
        let result = bot.result_of(&format!("c{n}")).await;
        if result["error"] == "rate_limited" {
            assert_eq!((text(&result, "limit"), result["retry_after_ms"].is_u64()), ("requests_per_second", true), "{result}");
            over += 1;
        }
    }
    assert!(over > 0, "thirty frames at once are too many");
    let second = loop {
        match Bot::connect(&relay.url(), "alice", "tok-alice-0123456789").await {
            Err(Error::Http(response)) => {
                let said = String::from_utf8_lossy(response.body().as_deref().unwrap_or_default()).into_owned();
                assert_eq!(response.status(), 429, "{said}");
                assert!(response.headers().contains_key("retry-after"));
                if said.contains("max_connections_per_agent") {
                    break said;
                }
            }
            other => panic!("a second socket: {:?}", other.map(|b| b.name)),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(second.contains("max_connections_per_agent = 1"), "{second}");
}

#[tokio::test]
async fn one_address_opens_so_many_connections_and_searches_so_often() {
    let relay = Relay::start("[limits]\nmax_connections_per_address = 3\nsearches_per_second = 1", &["alice"]).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(TcpStream::connect(relay.host()).await.unwrap());
    }
    let refused = crate::rig::until("the fourth connection is refused", async || {
        let mut fourth = TcpStream::connect(relay.host()).await.unwrap();
        let mut said = String::new();
        soon("the refusal", fourth.read_to_string(&mut said)).await.ok()?;
        Some(said)
    });
    let refused = refused.await;
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("max_connections_per_address = 3"), "{refused}");
    drop(held);
    // The relay counts a closed connection until it has read its end: until then these are refused for the connections.
    let said = crate::rig::until("a search too many is refused", async || {
        let (status, body) = relay.get("/ui/api/search?q=x").await;
        (status == 429 && !body.contains("max_connections_per_address")).then_some(body)
    });
    let said = said.await;
    assert!(said.contains("searches_per_second = 1"), "{said}");
}

#[tokio::test]
async fn who_lets_question_after_question_time_out_is_asked_nothing_for_a_while() {
    let keys = "ask_timeout_ms = 1500\n[limits]\nmax_timeouts_in_a_row = 2\nsilent_rest_ms = 600000";
    let relay = Relay::start(keys, &["alice", "bob"]).await;
    let (alice, mut bob) = (relay.caller("alice"), relay.bot("bob").await);
    for n in 0..2 {
        assert_eq!(alice.ask("bob", &format!("anybody {n}?")).await["error"], "timeout");
    }
    let refused = alice.ask("bob", "really?").await;
    assert_eq!((text(&refused, "error"), text(&refused, "limit")), ("rate_limited", "max_timeouts_in_a_row"));
    assert!(text(&refused, "message").contains("Do not retry before") && refused["retry_after_ms"].is_u64(), "{refused}");
    let first = bob.wake().await;
    assert_eq!(bob.answer(&first, "I was asleep").await, json!({"ok": true, "late": true}));
    bob.wake().await;
    let asking = alice.asking(json!({"to": "bob", "message": "awake now?"}));
    let wake = bob.wake().await;
    bob.answer(&wake, "yes").await;
    assert_eq!(asking.await.unwrap()["ok"], true);
}

#[tokio::test]
async fn a_page_of_another_site_reaches_no_door_and_does_nothing() {
    let relay = Relay::start("", &["alice"]).await;
    let at = |path: &str| format!("{}{path}", relay.url());
    let upgrade =
        [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13"), ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")];
    let requests = || {
        let acts = ["ask", "answer", "cancel", "clear", "pause", "resume"].map(|what| http().post(at(&format!("/ui/act/{what}"))).body("one=alice"));
        let reads = ["/ui", "/ui/api/state", "/ui/events", "/ui/export.csv", "/metrics", "/health"].map(|path| http().get(at(path)));
        let socket = upgrade.iter().fold(http().get(at("/bridge/connect")), |request, (name, value)| request.header(*name, *value));
        let bots = [socket, http().post(at("/mcp")).body("{}")].map(|request| request.bearer_auth(token("alice")));
        acts.into_iter().chain(reads).map(|request| request.bearer_auth(OWNER)).chain(bots)
    };
    for (header, value) in [("host", "evil.example"), ("origin", "https://evil.example"), ("origin", "http://127.0.0.1:3000"), ("origin", "null")] {
        for request in requests() {
            let answer = soon(value, request.header(header, value).send()).await.unwrap();
            let (status, url) = (answer.status(), answer.url().clone());
            let said = answer.text().await.unwrap();
            assert!(status == 403 && said.contains(value), "{header}: {value} at {url}: {status} {said}");
        }
    }
    for what in ["the host \"evil.example\"", "\"https://evil.example\""] {
        relay.noted("refused_request", what).await;
    }
    assert!(relay.security("?kind=person").await.is_empty(), "nothing was done");
    assert!(!relay.is_online("alice").await);
    let own = http().post(at("/ui/act/pause")).bearer_auth(OWNER).header("origin", relay.url()).body("one=alice&back=/ui/agents");
    assert_eq!(soon("its own page", own.send()).await.unwrap().status(), 200, "it is led back");
    assert_eq!(relay.security("?kind=person").await.len(), 1);
}

#[tokio::test]
async fn a_browser_only_shows_what_it_gets() {
    let relay = Relay::start("", &["alice"]).await;
    let policy = ["content-security-policy", "referrer-policy", "cross-origin-opener-policy", "cross-origin-resource-policy"];
    for path in [
        "/ui",
        "/ui/agents",
        "/ui/api/state",
        "/ui/export.csv",
        "/health",
        "/ready",
        "/install.py",
        "/metrics",
        "/mcp",
        "/bridge/connect",
        "/nothing",
    ] {
        for bearer in [OWNER, "nobody's"] {
            let answer = soon(path, http_unled().get(format!("{}{path}", relay.url())).bearer_auth(bearer).send()).await.unwrap();
            let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            assert_eq!(header("x-content-type-options").as_deref(), Some("nosniff"), "{path} for {bearer}");
            if path.starts_with("/ui") {
                assert!(header(policy[0]).unwrap().starts_with("default-src 'none'; "), "{path} for {bearer}");
                assert_eq!(policy[1..].iter().map(|name| header(name).unwrap()).collect::<Vec<_>>(), ["same-origin"; 3], "{path} for {bearer}");
            }
        }
    }
}

/// Nobody has said a token: everything that an address beyond this machine opens has one all the same.
#[tokio::test]
async fn a_public_address_starts_only_with_tokens() {
    let mut relay = Relay::prepare("", &[]);
    relay.write_config("[[agents]]\nname = \"alice\"\n[[agents]]\nname = \"bob\"\n");
    relay.up_in(&["--listen", "0.0.0.0:0"], &[("HERMES_BRIDGE_UI_TOKEN", "")]).await;
    let said = relay.said();
    assert_eq!((said.matches("hbt_").count(), said.matches("hbo_").count()), (2, 1), "{said}");
    let here = relay.url().replace("0.0.0.0", "127.0.0.1");
    for (path, expected) in [
        ("/ui", 303),
        ("/ui/agents", 303),
        ("/ui/api/state", 401),
        ("/ui/api/security", 401),
        ("/ui/events", 401),
        ("/ui/export.ndjson", 401),
        ("/metrics", 401),
        ("/mcp", 401),
        ("/bridge/connect", 401),
    ] {
        for bearer in [None, Some(""), Some("alice")] {
            let request = http_unled().get(format!("{here}{path}"));
            let request = bearer.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
            assert_eq!(soon(path, request.send()).await.unwrap().status(), expected, "{path} with {bearer:?}");
        }
    }
    let acted = http_unled().post(format!("{here}/ui/act/pause")).body("one=alice");
    assert_eq!(soon("act", acted.send()).await.unwrap().status(), 401);
}
