//! The security log: what was refused, changed and done stands there with who and from where, newest first, whole after a
//! kill, small after a flood, and without a token in it.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Bot, OWNER, Relay, http, soon, text, until};

const WRONG: &str = "hbt_somebody-elses-token";

pub async fn entries(relay: &Relay, query: &str) -> Vec<Value> {
    let (status, body) = relay.get(&format!("/ui/api/security{query}")).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["events"].as_array().unwrap().clone()
}

/// The newest entry of a kind, once there is one whose text has `part`.
pub async fn entry(relay: &Relay, kind: &str, part: &str) -> Value {
    let found = async || entries(relay, &format!("?kind={kind}")).await.into_iter().find(|e| e["what"].as_str().unwrap_or_default().contains(part));
    until(&format!("{kind} {part} stands in the security log"), found).await
}

async fn log_in(relay: &Relay, token: &str) -> u16 {
    let request = http().post(format!("{}/ui/login", relay.url())).header("x-forwarded-for", "203.0.113.5").body(format!("token={token}"));
    soon("login", request.send()).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn what_was_refused_changed_and_done_stands_there_with_who_and_from_where() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    assert!(relay.caller_with(WRONG).rpc("list_agents", &json!({})).await.is_err());
    let refused = entry(&relay, "refused_agent", "/mcp").await;
    assert_eq!((text(&refused, "address"), refused["times"].as_u64()), ("127.0.0.1", Some(1)), "{refused}");
    assert!(text(&refused, "what").contains("sha256 "), "{refused}");
    assert_eq!(log_in(&relay, "not the owner's token").await, 403);
    assert_eq!(text(&entry(&relay, "refused_login", "login").await, "address"), "203.0.113.5");
    log_in(&relay, OWNER).await;
    let login = entry(&relay, "login", "").await;
    assert_eq!((text(&login, "who"), text(&login, "address")), ("owner", "203.0.113.5"));
    relay.run(&["agent", "add", "carol"]).await;
    relay.run(&["ui-token", "--viewer", "claire"]).await;
    assert_eq!(text(&entry(&relay, "token", "viewer claire added").await, "who"), "command line");
    entry(&relay, "token", "agent carol added").await;
    relay.configure("nonsense = 1", &["alice", "bob"]);
    relay.signal(Signal::HUP);
    entry(&relay, "configuration", "not taken over").await;
    relay.configure("", &["alice", "bob"]);
    relay.signal(Signal::HUP);
    entry(&relay, "configuration", "read anew").await;
    relay.caller("alice").ask("alice", "do I hear myself?").await;
    let policy = entry(&relay, "policy", "self_ask").await;
    let exchange = relay.on_record("do I hear myself?").await;
    assert_eq!(policy["request_id"], exchange["request_id"]);

    let before = entries(&relay, "").await;
    let order: Vec<u64> = before.iter().map(|e| e["seq"].as_u64().unwrap()).collect();
    assert!(order.is_sorted_by(|a, b| a > b), "newest first: {order:?}");
    relay.kill().await;
    relay.up().await;
    assert_eq!(entries(&relay, "").await, before, "a kill loses nothing of it");
    let (_, export) = relay.get("/ui/export-security.ndjson").await;
    let exported: Vec<Value> = export.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(exported, before);
    let one = relay.get("/ui/api/security?limit=1").await.1;
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(entries(&relay, &format!("?before={}", one["next_before"])).await, before[1..]);
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
    entry(&relay, "refused_agent", "/bridge/connect").await;
    assert_eq!(entries(&relay, "?kind=refused_agent").await.len(), 1);
    counted_in_few_rows(&mut relay, "refused_agent", 300).await;
}

/// After a stop everything that was refused stands in the log, and a flood of it in no more rows than minutes.
pub async fn counted_in_few_rows(relay: &mut Relay, kind: &str, times: u64) {
    relay.stop().await;
    relay.up().await;
    let all = entries(relay, &format!("?kind={kind}")).await;
    let counted: u64 = all.iter().map(|e| e["times"].as_u64().unwrap()).sum();
    assert!(counted == times && all.len() <= 3, "{all:?}");
}

#[tokio::test]
async fn hostile_names_and_headers_leave_one_harmless_line() {
    let relay = Relay::start("log_format = \"json\"", &["alice"]).await;
    let request = http().get(format!("{}/mcp", relay.url())).header("x-forwarded-for", "<script>alert(1)</script>").bearer_auth("a\"}{\"level\":\"x");
    assert_eq!(soon("mcp", request.send()).await.unwrap().status(), 401);
    let refused = entry(&relay, "refused_agent", "/mcp").await;
    assert_eq!(text(&refused, "address"), "127.0.0.1", "what is no address is not believed");
    let (_, page) = relay.get("/ui/security").await;
    assert!(!page.contains("<script>alert"), "{page}");
    for line in relay.said().lines().filter(|l| l.contains("refused_agent")) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["kind"], "refused_agent");
    }
}
