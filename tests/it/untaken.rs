//! A bot that has hundreds of calls wait for one long answer and does not read what it is sent: the relay holds so many bytes for it
//! and no more; the other calls are told to fetch the answer, which stays whole on record.

use std::time::Duration;

use serde_json::{Value, json};

use crate::refused::noted;
use crate::rig::{Bot, Relay, text, token, until};

const CALLS: usize = 200;

/// Results of get_answer that were made, by the relay's own count.
async fn made(relay: &Relay) -> usize {
    let (_, metrics) = relay.get("/metrics").await;
    let lines = metrics.lines().filter(|line| line.contains("mcp_requests_total{tool=\"get_answer\""));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<usize>().ok()).sum()
}

#[tokio::test]
async fn a_bot_that_does_not_take_its_results_costs_a_bounded_number_of_bytes_and_loses_none() {
    let relay = Relay::start("[limits]\nrequests_per_second = 100000", &["alice", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "all of it"}));
    let wake = bob.wake().await;
    let id = text(&wake, "request_id").to_owned();
    let mut sockets = Vec::new();
    for _ in 0..3 {
        let mut socket = Bot::connect(&relay.url(), "alice", &token("alice")).await.unwrap();
        for n in 0..CALLS {
            socket.begin_call(&format!("c{n}"), "get_answer", json!({"request_id": id, "wait_seconds": 600})).await;
        }
        // Frames are taken in order: after this one, all have come.
        socket.call("list_agents", json!({})).await;
        sockets.push(socket);
    }
    let answer = "x".repeat(262_144);
    bob.answer(&wake, &answer).await;
    assert_eq!(asking.await.unwrap()["answer"].as_str().map(str::len), Some(answer.len()));

    let (mut results, mut pace) = (Vec::new(), tokio::time::interval(Duration::from_secs(1)));
    while made(&relay).await < 3 * CALLS {
        // Just so much that it is not taken for dead.
        pace.tick().await;
        for socket in &mut sockets {
            for _ in 0..4 {
                results.push(socket.next("result").await["result"].take());
            }
        }
    }
    let already = results.len();
    for _ in 0..CALLS - already / 3 {
        for socket in &mut sockets {
            results.push(socket.next("result").await["result"].take());
        }
    }
    let whole = results.iter().filter(|result| result["answer"].as_str() == Some(&answer)).count();
    let later: Vec<&Value> = results.iter().filter(|result| result["error"] == "still_working").collect();
    assert_eq!(whole + later.len(), 3 * CALLS);
    assert!(whole > 0 && !later.is_empty(), "{whole} came whole");
    assert!(later.iter().all(|result| result["request_id"] == *id && result["limit"] == "bytes of results that one agent has not taken"));
    noted(&relay, "refused_request", "alice", "bytes of results that one agent has not taken = 33554432").await;
    let fetched = until("there is room again", async || {
        let result = relay.caller("alice").get_answer(&id, 0).await;
        (result["ok"] == true).then_some(result)
    });
    assert_eq!(fetched.await["answer"].as_str(), Some(&*answer));
    relay.is_well().await;
}
