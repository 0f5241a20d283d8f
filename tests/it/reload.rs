//! SIGHUP: what a running relay takes over of a changed bridge.toml without dropping anything, what it says has to wait, and
//! that what it takes over counts: hosts, backups, how long history is kept, which tokens no export may carry.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Collector, Relay, attribute, http, soon, text, until};

#[tokio::test]
async fn a_reload_takes_over_what_it_can_and_names_the_keys_that_wait_for_the_next_start() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    let named = async || {
        let request = http().get(format!("{}/health", relay.url())).header("host", "bridge.example");
        soon("an answer", request.send()).await.unwrap().status().as_u16()
    };
    assert_eq!(named().await, 403);
    let keys = "allowed_hosts = [\"bridge.example\"]\nask_timeout_ms = 5000\n[limits]\nmax_depth = 3\n[backup]\nevery = 1000\n\
        [otlp]\nendpoint = \"http://127.0.0.1:1\"";
    relay.configure(keys, &["alice", "bob"]);
    relay.signal(Signal::HUP);
    let read = relay.noted("configuration", "read anew").await;
    assert_eq!(text(&read, "what"), "read anew: 2 agents; for the next start: [otlp], ask_timeout_ms, max_depth");
    assert!(relay.said().contains("wait for the next start"), "{}", relay.said());
    assert_eq!(named().await, 200);
    until("a backup is taken", async || fs::read_dir(relay.path("data/backups")).ok()?.next()).await.unwrap();
    bob.settle().await;

    // The old configuration again, and a start with it: nothing waits.
    relay.configure("", &["alice", "bob"]);
    relay.signal(Signal::HUP);
    until("it is taken back", async || (named().await == 403).then_some(())).await;
    bob.settle().await;
    let (code, _) = relay.stop().await;
    assert_eq!(code, Some(0));
    assert_eq!(relay.said().matches("wait for the next start").count(), 1, "{}", relay.said());
}

#[tokio::test]
async fn how_long_history_is_kept_follows_a_reload_each_status_by_its_own_days() {
    let mut relay = Relay::prepare("", &["alice", "bob"]);
    let mut history = String::new();
    for (n, (status, days)) in [("ok", 400), ("ok", 40), ("timeout", 40), ("timeout", 3), ("agent_offline", 40), ("ok", 2)].iter().enumerate() {
        let at = (jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days)).to_string();
        let row = json!({"request_id": format!("r-{n}"), "conversation_id": format!("c-{n}"), "from_agent": "alice", "to_agent": "bob",
            "message": format!("{status} {days}"), "status": status, "started_at": at, "ended_at": at});
        history.push_str(&format!("{row}\n"));
    }
    fs::write(relay.path("history.jsonl"), history).unwrap();
    let imported = relay.run(&["import", "history.jsonl"]).await;
    assert!(imported.code == 0 && imported.out.contains("6 exchanges imported"), "{imported:?}");
    relay.up().await;
    let left = async || -> Vec<String> { relay.exchanges().await.iter().map(|e| text(e, "message").to_owned()).collect() };
    assert_eq!(left().await.len(), 6);
    relay.configure("[retention]\ndays = 30\nstatus_days = { ok = 365, timeout = 7 }", &["alice", "bob"]);
    relay.signal(Signal::HUP);
    let kept = ["ok 40", "timeout 3", "ok 2"];
    until("the old ones are gone", async || (left().await.len() == 3).then_some(())).await;
    assert_eq!(left().await, kept);
    let list = relay.run(&["erase", "--list"]).await;
    for why in ["1  older than 30 days", "1  ok older than 365 days", "1  timeout older than 7 days"] {
        assert!(list.out.contains(why), "{why}: {list:?}");
    }
    // The security log is told once a day, and at a stop.
    relay.stop().await;
    relay.configure("", &["alice", "bob"]);
    relay.up().await;
    let told = relay.noted("erasure", "").await;
    assert_eq!((text(&told, "who"), text(&told, "what")), ("relay", "3 exchanges removed by [retention]"));
    assert_eq!(relay.exchanges().await.len(), 3);
}

#[tokio::test]
async fn the_token_of_an_agent_that_came_or_went_with_a_reload_is_hidden_in_exports() {
    let collector = Collector::start().await;
    let relay = Relay::start(&collector.langfuse(""), &["alice"]).await;
    let message = "my token is tok-carol-0123456789";
    let exported = async |count: usize| {
        relay.caller("alice").ask("alice", message).await;
        let spans = until("it arrives", async || Some(collector.spans()).filter(|spans| spans.len() == count)).await;
        let input: Value = serde_json::from_str(attribute(&spans[count - 1], "langfuse.observation.input").as_str().unwrap()).unwrap();
        text(&input, "message").to_owned()
    };
    assert_eq!(exported(1).await, message, "nobody's token yet");
    relay.configure(&collector.langfuse(""), &["alice", "carol"]);
    relay.signal(Signal::HUP);
    relay.noted("configuration", "read anew: 2 agents").await;
    assert_eq!(exported(2).await, "my token is [redacted]");

    // It is nobody's any more; what is exported may be of a time when it was.
    relay.configure(&collector.langfuse(""), &["alice"]);
    relay.signal(Signal::HUP);
    relay.noted("configuration", "read anew: 1 agents").await;
    assert_eq!(exported(3).await, "my token is [redacted]");
}
