//! The exports on the real program: a server plays Langfuse or a collector and keeps what it was sent. What must come out
//! each time: every exchange that ended, once, as what it was, and asks that never noticed. Here are the hands for it.

mod check;
mod kept;
mod mending;
mod outages;
mod told;

use std::collections::HashMap;

use serde_json::Value;

use crate::rig::{Collector, PATIENCE, Relay, attribute, text, until};

/// An exchange that ends at once: asking oneself is refused, and on record. Its request id.
async fn exchange(relay: &Relay, message: &str) -> String {
    let refused = relay.caller("alice").ask("alice", message).await;
    assert_eq!(text(&refused, "error"), "self_ask");
    text(&refused, "request_id").to_owned()
}

async fn exchanges(relay: &Relay, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(exchange(relay, &format!("number {n}")).await);
    }
    ids
}

fn id_of(span: &Value) -> String {
    attribute(span, "langfuse.observation.metadata.request_id").as_str().unwrap().to_owned()
}

/// How often each exchange was taken.
fn counts(collector: &Collector) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    collector.spans().iter().for_each(|span| *counts.entry(id_of(span)).or_default() += 1);
    counts
}

async fn all_arrived(collector: &Collector, ids: &[String]) -> HashMap<String, usize> {
    until("every exchange arrives", async || {
        let counts = counts(collector);
        ids.iter().all(|id| counts.contains_key(id)).then_some(counts)
    })
    .await
}

async fn all_arrived_once(collector: &Collector, ids: &[String]) {
    let counts = all_arrived(collector, ids).await;
    assert!(counts.len() == ids.len() && counts.values().all(|n| *n == 1), "{counts:?}");
}

/// After a long absence it is tried once a minute; waits until something more than `before` was taken.
async fn is_tried_again(collector: &Collector, before: usize) {
    let more = async {
        while collector.count() == before {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(2 * PATIENCE, more).await.expect("the export tries again");
}

/// One series of the metrics.
async fn counted(relay: &Relay, series: &str) -> f64 {
    let (status, metrics) = relay.get("/metrics").await;
    assert_eq!(status, 200, "{metrics}");
    let line = metrics.lines().find_map(|l| l.strip_prefix("hermes_bridge_")?.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(0.0, |v| v.parse().unwrap())
}

/// A request to a Langfuse that is gone, begun after this was called, has failed.
async fn is_tried_in_vain(relay: &Relay) {
    let tries = async || counted(relay, "export_requests_total{sink=\"langfuse\",code=\"none\"}").await;
    // The one that is under way was read before.
    let before = tries().await;
    until("it is tried in vain", async || (tries().await >= before + 2.0).then_some(())).await;
}
