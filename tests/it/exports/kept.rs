//! What an export has not read yet is kept for it, however old it is: as the real program wires cursors and retention.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use super::{all_arrived, counted};
use crate::rig::{Collector, Relay, attribute, text, until};

/// So many answered exchanges of six weeks ago, each of a conversation of its own.
async fn prepare(keys: &str, count: usize, message: &str) -> Relay {
    let relay = Relay::prepare(keys, &["alice", "bob"]);
    let at = (jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * 42)).to_string();
    let row = |n| {
        json!({"request_id": format!("r-{n}"), "conversation_id": format!("c-{n}"), "from_agent": "alice", "to_agent": "bob",
            "message": message, "answer": "yes", "status": "ok", "started_at": at, "ended_at": at})
    };
    fs::write(relay.path("history.jsonl"), (0..count).map(|n| format!("{}\n", row(n))).collect::<String>()).unwrap();
    let imported = relay.run(&["import", "history.jsonl"]).await;
    assert_eq!(imported.code, 0, "{imported:?}");
    relay
}

#[tokio::test]
async fn what_is_too_old_waits_for_the_export_and_then_goes() {
    let mut collector = Collector::start().await;
    collector.close().await;
    let keys = format!("[retention]\ndays = 30\n{}", collector.langfuse("start = \"all\""));
    let mut relay = prepare(&keys, 5, "long ago").await;
    relay.up().await;
    until("it was looked at", async || relay.said().contains("not_exported_yet=5").then_some(())).await;
    let ids: Vec<String> = relay.exchanges().await.iter().map(|e| text(e, "request_id").to_owned()).collect();
    assert_eq!(ids.len(), 5);
    collector.open().await;
    all_arrived(&collector, &ids).await;
    assert!(collector.spans().iter().all(|span| attribute(span, "langfuse.observation.output") == r#"{"answer":"yes"}"#));
    // The next look is an hour away, or when the configuration is read anew.
    until("they go", async || {
        relay.signal(Signal::HUP);
        relay.exchanges().await.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn where_room_must_be_made_no_export_is_waited_for_and_that_is_told() {
    let mut collector = Collector::start().await;
    collector.close().await;
    let keys = format!("[retention]\nmax_bytes = 1000000\n{}", collector.langfuse("start = \"all\""));
    let mut relay = prepare(&keys, 1_000, &"long ago ".repeat(100)).await;
    relay.up().await;
    until("room is made", async || relay.said().contains("removed the oldest exchanges to make room").then_some(())).await;
    let said = relay.said();
    let line = said.lines().find(|line| line.contains("to make room")).unwrap();
    assert!(line.contains(" WARN ") && line.contains("not_exported="), "{line}");
    collector.open().await;
    until("all that is left is exported", async || (counted(&relay, "export_backlog{sink=\"langfuse\"}").await < 0.5).then_some(())).await;
    assert!((1..1_000).contains(&collector.count()), "{}", collector.count());
}
