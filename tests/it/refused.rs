//! What the doors refuse stands in the security log: who, from where, by which rule; a flood of it is a few rows. And what a
//! sender leaves half sent is bounded in bytes and in time.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::rig::raw::{close_code, frame, upgraded};
use crate::rig::{Bot, OWNER, Relay, http, http_unled, soon, text, token, until};

/// Waits for the entry whose text has `part`; it names `who`.
pub async fn noted(relay: &Relay, kind: &str, who: &str, part: &str) -> Value {
    let entry = relay.noted(kind, part).await;
    assert_eq!(entry["who"].as_str().unwrap_or_default(), who, "{entry}");
    assert!(!text(&entry, "address").is_empty(), "{entry}");
    entry
}

async fn send(relay: &Relay, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(relay.host()).await.unwrap();
    // Who is refused early may be cut while it sends.
    let _ = stream.write_all(bytes).await;
    stream
}

fn post(path: &str, agent: &str, head: &str, body: &str) -> Vec<u8> {
    let bearer = token(agent);
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {bearer}\r\n{head}\r\n{body}").into()
}

#[tokio::test]
async fn what_a_door_does_not_take_is_on_record_with_who_sent_it_and_the_rule() {
    let relay = Relay::start("[limits]\nmax_connections_per_agent = 1", &["alice"]).await;
    let whole = [
        ("the host \"evil.example\"", "GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned()),
        ("\"https://evil.example\"", "GET /ui HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n".to_owned()),
        ("a request's head has more than 16384 bytes", format!("GET /health HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(200_000))),
        ("404 for GET /wp-login.php", "GET /wp-login.php HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned()),
        ("405 for DELETE /health", "DELETE /health HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned()),
        ("this is no HTTP", "\x16\x03\x01\x02 a TLS hello\r\n\r\n".to_owned()),
    ];
    for (part, bytes) in &whole {
        let _open = send(&relay, bytes.as_bytes()).await;
        noted(&relay, "refused_request", "", part).await;
    }
    send(&relay, b"GET /health HTTP/1.1\r\nHos").await.shutdown().await.unwrap();
    noted(&relay, "refused_request", "", "the connection ended within a request").await;

    let _large = send(&relay, &post("/mcp", "alice", "Content-Length: 5000000\r\n", &"x".repeat(5_000_000))).await;
    noted(&relay, "refused_request", "alice", "the body has more than 4194304 bytes").await;
    send(&relay, &post("/mcp", "alice", "Content-Length: 100\r\n", "{")).await.shutdown().await.unwrap();
    noted(&relay, "refused_request", "alice", "it ended early").await;
    let news = http().get(format!("{}/mcp", relay.url())).bearer_auth(token("alice"));
    assert_eq!(soon("an MCP client asks for news", news.send()).await.unwrap().status(), 405);
    let (status, _) = relay.caller("alice").post(b"no JSON".to_vec()).await.unwrap();
    assert!((400..500).contains(&status), "{status}");
    noted(&relay, "refused_request", "alice", &format!("{status} for POST /mcp")).await;
    let odd = relay.security("?kind=refused_request&limit=500").await.iter().filter(|e| text(e, "what").contains("GET /mcp")).count();
    assert_eq!(odd, 0, "what every client does is no refusal");
    let foreign = relay.caller("alice").get_answer("01937000-0000-7000-8000-000000000001", 0).await;
    assert_eq!(foreign["error"], "unknown_request");
    noted(&relay, "refused_request", "alice", "get_answer: no such request of its own").await;
    let form = http().post(format!("{}/ui/login", relay.url())).body("x".repeat(2 << 20));
    assert_eq!(soon("a form", form.send()).await.unwrap().status(), 413);
    noted(&relay, "refused_request", "", "the body has more than 1048576 bytes").await;

    for (part, bytes) in
        [("at most 4194304 bytes", [&[0x81, 0xff][..], &(1_u64 << 40).to_be_bytes(), &[0; 4]].concat()), ("JSON text", frame(0x82, b"{}"))]
    {
        let mut socket = upgraded(&relay, "alice").await;
        socket.write_all(&bytes).await.unwrap();
        assert!(close_code(&mut socket).await.is_some());
        noted(&relay, "refused_request", "alice", part).await;
        drop(socket);
        relay.wait_online("alice", false).await;
    }
    let first = relay.bot("alice").await;
    assert!(Bot::connect(&relay.url(), "alice", &token("alice")).await.is_err());
    noted(&relay, "refused_request", "alice", "max_connections_per_agent = 1").await;
    first.say_goodbye().await;
}

#[tokio::test]
async fn what_the_pages_doors_refuse_is_on_record() {
    let relay = Relay::start("", &["alice"]).await;
    let made = relay.run(&["ui-token", "--viewer", "claire"]).await.out;
    let viewer = made.trim().rsplit('#').next().unwrap();
    let at = |path: &str| format!("{}{path}", relay.url());
    for (path, from) in [("/ui/api/state", "203.0.113.1"), ("/metrics", "203.0.113.2")] {
        let request = http().get(at(path)).header("x-forwarded-for", from);
        assert_eq!(soon(path, request.send()).await.unwrap().status(), 401);
        assert_eq!(text(&noted(&relay, "refused_login", "", &format!("{path}: no token")).await, "address"), from);
    }
    let acted = http().post(at("/ui/act/pause")).bearer_auth(viewer).body("one=alice");
    assert_eq!(soon("act", acted.send()).await.unwrap().status(), 403);
    noted(&relay, "refused_request", "viewer claire", "for the owner only: /ui/act/pause").await;
    assert_eq!(soon("metrics", http().get(at("/metrics")).bearer_auth(viewer).send()).await.unwrap().status(), 401);
    let login = http_unled();
    let answer = soon("login", login.post(at("/ui/login")).body(format!("token={OWNER}")).send()).await.unwrap();
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let forged = login.post(at("/ui/settings")).header("cookie", cookie).body("hb_theme=dark");
    assert_eq!(soon("a forged form", forged.send()).await.unwrap().status(), 403);
    noted(&relay, "refused_request", "owner", "a form without its token: /ui/settings").await;
}

#[tokio::test]
async fn every_limit_of_the_doors_is_on_record_when_it_refuses() {
    let keys = "requests_per_second = 2\nrequests_per_second_per_address = 10\nsearches_per_second = 1";
    let relay = Relay::start(&format!("[limits]\n{keys}"), &["alice"]).await;
    // Many at a time: on a slow machine one after the other is no flood.
    let alice = relay.caller("alice");
    until("requests too many", async || {
        let nothing = json!({});
        let answers = join_all((0..20).map(|_| alice.rpc("list_agents", &nothing))).await;
        answers.into_iter().filter_map(Result::err).find(|said| said.contains("requests_per_second = 2"))
    })
    .await;
    let by_http = noted(&relay, "refused_request", "alice", "requests_per_second = 2").await;
    assert_eq!(text(&by_http, "address"), "127.0.0.1");
    until("searches too many", async || {
        join_all((0..10).map(|_| relay.get("/ui/api/search?q=x"))).await.into_iter().find(|(_, said)| said.contains("searches_per_second"))
    })
    .await;
    noted(&relay, "refused_request", "", "searches_per_second = 1").await;
    let flood = http();
    let one = || flood.get(format!("{}/health", relay.url())).header("x-forwarded-for", "203.0.113.9").send();
    until("requests of an address too many", async || {
        let many = soon("a flood", join_all((0..100).map(|_| one()))).await;
        many.into_iter().flatten().any(|answer| answer.status() == 429).then_some(())
    })
    .await;
    until("they are on record", async || {
        let log = relay.security("?kind=refused_request&limit=500").await;
        // The looks of this test may be too many for their own address.
        let of_this = |e: &Value| text(e, "what").contains("requests_per_second_per_address = 10") && text(e, "address") == "203.0.113.9";
        log.into_iter().find(of_this)
    })
    .await;

    let relay = Relay::start("[limits]\nmax_connections_per_address = 6", &["alice"]).await;
    until("connections too many", async || {
        let held = join_all((0..20).map(|_| TcpStream::connect(relay.host()))).await;
        let mut said: FuturesUnordered<_> = held
            .into_iter()
            .flatten()
            .map(|mut stream| async move {
                let mut answer = [0; 12];
                stream.read_exact(&mut answer).await.map(|_| answer)
            })
            .collect();
        // Those that are let in hear nothing, and stay as long as the others are read.
        while let Some(answer) = soon("an answer or an end", said.next()).await {
            if answer.is_ok_and(|answer| &answer == b"HTTP/1.1 429") {
                return Some(());
            }
        }
        None
    })
    .await;
    noted(&relay, "refused_request", "", "max_connections_per_address = 6").await;
}

#[tokio::test]
async fn calls_that_wait_over_http_are_so_many_of_one_bot() {
    let relay = Relay::start("[limits]\nmax_calls_per_agent = 2", &["alice", "bob"]).await;
    let (mut bob, alice) = (relay.bot("bob").await, relay.caller("alice"));
    let asking = alice.begin("ask_agent", &json!({"to": "bob", "message": "how long?"})).await;
    let wake = bob.wake().await;
    // It joins the first: no limit of the rules counts it.
    let joined = alice.begin("ask_agent", &json!({"to": "bob", "message": "how long?"})).await;
    let refused = alice.rpc("list_agents", &json!({})).await.unwrap_err();
    assert!(refused.starts_with("429") && refused.contains("max_calls_per_agent = 2 is reached"), "{refused}");
    noted(&relay, "refused_request", "alice", "max_calls_per_agent = 2").await;
    relay.caller("bob").call("list_agents", json!({})).await;
    bob.answer(&wake, "so long").await;
    for waiting in [asking, joined] {
        assert!(soon("the answer", waiting.text()).await.unwrap().contains("so long"));
    }
    until("their places are given back", async || alice.rpc("list_agents", &json!({})).await.ok()).await;
}

#[tokio::test]
async fn a_flood_of_refusals_is_a_few_rows_and_says_how_many() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    let client = http();
    for n in 0..300 {
        let request = client.get(format!("{}/health", relay.url())).header("host", format!("evil{n}.example"));
        assert_eq!(soon("health", request.send()).await.unwrap().status(), 403);
    }
    noted(&relay, "refused_request", "", "evil0.example").await;
    crate::audit::counted_in_few_rows(&mut relay, "refused_request", 300).await;
}

/// Frames, bodies and forms that stop before their end: how much of them the relay takes, and what stays of it.
#[tokio::test]
async fn one_sender_holds_no_more_half_sent_bytes_than_the_bound_and_others_are_not_concerned() {
    let relay = Relay::start("", &["alice", "bob", "mallory"]).await;
    let before = relay.memory();
    let half = vec![b'x'; 3_900_000];
    let head = [&[0x81, 0xff][..], &4_000_000_u64.to_be_bytes(), &[0; 4]].concat();
    let mut sockets = Vec::new();
    for _ in 0..30 {
        let mut socket = upgraded(&relay, "mallory").await;
        // Who is over the bound is cut while it sends.
        let _ = socket.write_all(&head).await;
        let _ = socket.write_all(&half).await;
        sockets.push(socket);
    }
    let entry = noted(&relay, "refused_request", "mallory", "bytes half sent by one agent = 33554432").await;
    assert_eq!(text(&entry, "address"), "127.0.0.1");
    let mut bodies = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let mut body = send(&relay, &post("/mcp", "mallory", "Content-Length: 4000000\r\n", &"x".repeat(3_900_000))).await;
        bodies.spawn(async move {
            let mut answer = vec![0; 12];
            let _ = body.read_exact(&mut answer).await;
            String::from_utf8_lossy(&answer).into_owned()
        });
    }
    // Ten are more than the bound by themselves; which of them is refused, and what ends before, is no matter.
    let refused = soon("one is refused", async {
        while let Some(answer) = bodies.join_next().await {
            if answer.unwrap() == "HTTP/1.1 429" {
                return true;
            }
        }
        false
    });
    assert!(refused.await);
    // 156 MB were sent; without the bound they would be here.
    assert!(relay.memory() < before + 100_000, "{} KiB, {before} before", relay.memory());
    let large = "y".repeat(200_000);
    let mut bob = relay.bot("bob").await;
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": large}));
    let wake = bob.wake().await;
    bob.answer(&wake, &large).await;
    assert_eq!(asking.await.unwrap()["answer"], large);
    drop((sockets, bodies));
    let again = until("the bytes are given back", async || {
        let (status, _) = relay.caller("mallory").post(vec![b'x'; 4_000_000]).await.ok()?;
        (status != 429).then_some(status)
    });
    assert!((200..500).contains(&again.await));

    let head = "POST /ui/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n";
    let form = [head.as_bytes(), &half[..1_048_000]].concat();
    until("forms are bounded too", async || {
        let _forms = join_all((0..40).map(|_| send(&relay, &form))).await;
        let log = relay.security("?kind=refused_request&limit=500").await;
        log.into_iter().find(|e| e["what"].as_str().unwrap().contains("bytes half sent by one address = 33554432"))
    })
    .await;
    relay.is_well().await;
}

/// On a clock that is set forward; the relay runs inside the test for it.
#[tokio::test(start_paused = true)]
async fn what_stays_half_sent_is_refused_in_time_and_put_on_record() {
    use hermes_bridge::config::{Flags, load};
    use hermes_bridge::engine::{Engine, Kind};
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bridge.toml"), "[[agents]]\nname = \"alice\"\ntoken = \"tok-alice-0123456789\"\n").unwrap();
    let flags = Flags { config: Some(dir.path().join("bridge.toml")), data_dir: Some(dir.path().join("data")), ..Flags::default() };
    let config = load(&flags, &|_| None).unwrap();
    let store = hermes_bridge::store::Store::open(&config.data_dir).unwrap();
    let engine = Engine::start(config, store).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut half = Vec::new();
    let mut silent = TcpStream::connect(address).await.unwrap();
    for bytes in [
        b"GET /hea".to_vec(),
        // It may become HTTP/2, or HTTP/1 by some other method.
        b"P".to_vec(),
        post("/mcp", "alice", "Content-Length: 100\r\n", "{"),
        b"POST /ui/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nto".to_vec(),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        half.push(stream);
    }
    let stop = tokio_util::sync::CancellationToken::new();
    let serving = tokio::spawn(hermes_bridge::inbound::serve(listener, engine.clone(), stop.clone()));
    let (mut told, begun) = (Vec::new(), tokio::time::Instant::now());
    assert_eq!(silent.read(&mut [0]).await.unwrap(), 0);
    let silence = begun.elapsed().as_secs();
    assert!((10..75).contains(&silence), "a connection that says nothing is kept for {silence} s");
    for mut stream in half {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        told.push(String::from_utf8_lossy(&answer).into_owned());
    }
    assert!(begun.elapsed() < Duration::from_secs(600), "{:?}", begun.elapsed());
    assert!(told[2].starts_with("HTTP/1.1 408") && told[3].starts_with("HTTP/1.1 408"), "{told:?}");
    // Alike ones are counted together.
    let log = until("four refusals", async || {
        let log = engine.audit_log(None, Some(Kind::RefusedRequest), 10).await.unwrap();
        (log.iter().map(|(_, event)| event.times).sum::<u32>() == 4).then_some(log)
    });
    let log = log.await;
    let mut rows: Vec<_> = log.iter().map(|(_, event)| (&*event.who, &*event.what, event.times)).collect();
    rows.sort_unstable();
    let expected = [
        ("", "a request's head did not arrive within 75 seconds", 1),
        ("", "a request's head did not arrive within 75 seconds", 1),
        ("", "the body did not arrive within 30 seconds", 1),
        ("alice", "the body did not arrive within 30 seconds", 1),
    ];
    assert_eq!(rows, expected);
    stop.cancel();
    serving.await.unwrap();
}
