//! The security log: what was refused, changed and done stands there with who and from where, newest first, whole after a
//! kill, small after a flood, and without a token in it.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Bot, OWNER, Relay, http, soon, text};

const WRONG: &str = "hbt_somebody-elses-token";

async fn log_in(relay: &Relay, token: &str) -> u16 {
    let request = http().post(format!("{}/ui/login", relay.url())).header("x-forwarded-for", "203.0.113.5").body(format!("token={token}"));
    soon("login", request.send()).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn what_was_refused_changed_and_done_stands_there_with_who_and_from_where() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    assert!(relay.caller_with(WRONG).rpc("list_agents", &json!({})).await.is_err());
    let refused = relay.noted("refused_agent", "/mcp").await;
    assert_eq!((text(&refused, "address"), refused["times"].as_u64()), ("127.0.0.1", Some(1)), "{refused}");
    assert!(text(&refused, "what").contains("sha256 "), "{refused}");
    assert_eq!(log_in(&relay, "not the owner's token").await, 403);
    assert_eq!(text(&relay.noted("refused_login", "login").await, "address"), "203.0.113.5");
    log_in(&relay, OWNER).await;
    let login = relay.noted("login", "").await;
    assert_eq!((text(&login, "who"), text(&login, "address")), ("owner", "203.0.113.5"));
    relay.run(&["agent", "add", "carol"]).await;
    relay.run(&["ui-token", "--viewer", "claire"]).await;
    assert_eq!(text(&relay.noted("token", "viewer claire added").await, "who"), "command line");
    relay.noted("token", "agent carol added").await;
    relay.configure("nonsense = 1", &["alice", "bob"]);
    relay.signal(Signal::HUP);
    relay.noted("configuration", "not taken over").await;
    relay.configure("", &["alice", "bob"]);
    relay.signal(Signal::HUP);
    relay.noted("configuration", "read anew").await;
    relay.caller("alice").ask("alice", "do I hear myself?").await;
    let policy = relay.noted("policy", "self_ask").await;
    let exchange = relay.on_record("do I hear myself?").await;
    assert_eq!(policy["request_id"], exchange["request_id"]);

    let before = relay.security("").await;
    let order: Vec<u64> = before.iter().map(|e| e["seq"].as_u64().unwrap()).collect();
    assert!(order.is_sorted_by(|a, b| a > b), "newest first: {order:?}");
    relay.kill().await;
    relay.up().await;
    assert_eq!(relay.security("").await, before, "a kill loses nothing of it");
    let (_, export) = relay.get("/ui/export-security.ndjson").await;
    let exported: Vec<Value> = export.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(exported, before);
    let one = relay.get("/ui/api/security?limit=1").await.1;
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(relay.security(&format!("?before={}", one["next_before"])).await, before[1..]);
    assert_eq!(relay.get("/ui/security").await.0, 200);

    let said = relay.said();
    assert!(said.contains("security") && said.contains("refused_agent"), "each entry is a log line: {said}");
    for secret in [WRONG, OWNER, "not the owner's token"] {
        assert!(!export.contains(secret) && !said.contains(secret), "{secret}");
    }
    assert_eq!(relay.exchanges().await.len(), 1, "entries are no exchanges");
}

#[tokio::test]
async fn a_flood_of_wrong_tokens_is_counted_not_stored() {
    let mut relay = Relay::start("", &["alice"]).await;
    for n in 0..300 {
        assert!(Bot::connect(&relay.url(), "alice", &format!("wrong {n}")).await.is_err());
    }
    relay.noted("refused_agent", "/bridge/connect").await;
    counted_in_few_rows(&mut relay, "refused_agent", 300).await;
}

/// After a stop everything that was refused stands in the log, and a flood of it in no more rows than the first, one a minute
/// and the last.
pub async fn counted_in_few_rows(relay: &mut Relay, kind: &str, times: u64) {
    relay.stop().await;
    relay.up().await;
    let all = relay.security(&format!("?kind={kind}")).await;
    let [counted, last, first] = [
        all.iter().map(|e| e["times"].as_u64().unwrap()).sum::<u64>(),
        all.iter().map(|e| e["at"].as_u64().unwrap()).max().unwrap(),
        all.iter().map(|e| e["at"].as_u64().unwrap()).min().unwrap(),
    ];
    assert!(counted == times && all.len() as u64 <= 2 + (last - first) / 60_000, "{all:?}");
}

#[tokio::test]
async fn hostile_names_and_headers_leave_one_harmless_line() {
    let relay = Relay::start("log_format = \"json\"", &["alice"]).await;
    let request = http().get(format!("{}/mcp", relay.url())).header("x-forwarded-for", "<script>alert(1)</script>").bearer_auth("a\"}{\"level\":\"x");
    assert_eq!(soon("mcp", request.send()).await.unwrap().status(), 401);
    let refused = relay.noted("refused_agent", "/mcp").await;
    assert_eq!(text(&refused, "address"), "127.0.0.1", "what is no address is not believed");
    let (_, page) = relay.get("/ui/security").await;
    assert!(!page.contains("<script>alert"), "{page}");
    for line in relay.said().lines().filter(|l| l.contains("refused_agent")) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["kind"], "refused_agent");
    }
}

/// On record as exchanges, each; in the log the first of each kind and who asked, then how many.
#[tokio::test]
async fn a_refused_ask_is_a_line_of_the_log_and_a_flood_of_them_a_few() {
    let mut relay = Relay::start("log_format = \"json\"\n[limits]\nmax_turns_per_conversation = 1", &["alice", "bob"]).await;
    let (alice, mut bob) = (relay.caller("alice"), relay.bot("bob").await);
    for n in 0..50 {
        assert_eq!(alice.ask("alice", &format!("my own secret {n}")).await["error"], "self_ask");
    }
    let asking = alice.asking(json!({"to": "bob", "message": "once"}));
    let wake = bob.wake().await;
    bob.answer(&wake, "yes").await;
    asking.await.unwrap();
    let again = json!({"to": "bob", "message": "and again", "conversation_id": text(&wake, "conversation_id")});
    let stopped = alice.call("ask_agent", again).await;
    assert_eq!(stopped["error"], "loop_limit");
    assert_eq!(relay.security("?kind=policy&limit=500").await.len(), 50, "each is on record once");
    relay.stop().await;
    let said = relay.said();
    let lines = |kind: &str| -> Vec<Value> {
        let parsed = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        parsed.filter(|line| line["message"] == "security" && line["kind"] == kind && line["who"] == "alice").collect()
    };
    let (policy, loops) = (lines("policy"), lines("loop"));
    assert_eq!(policy.iter().map(|line| line["times"].as_u64().unwrap()).sum::<u64>(), 50, "{policy:?}");
    assert!(policy.len() < 25, "{policy:?}");
    assert!(text(&policy[0], "what").starts_with("to alice: self_ask: ") && !said.contains("my own secret"), "{policy:?}");
    assert_eq!((loops.len(), text(&loops[0], "request")), (1, text(&stopped, "request_id")));
    let what = text(&loops[0], "what");
    assert!(what.contains("max_turns_per_conversation = 1") && what.contains("alice -> bob"), "{what}");
}
