//! The index is derived from the log: new exchanges are found at once, and a kill in the middle of indexing, a deleted
//! directory and a damaged file all end the same way: it catches up, and nobody who asks notices.

use std::fs;

use serde_json::Value;

use crate::rig::{Relay, Worker, until};

fn echo(question: &str) -> String {
    format!("echo of {question}")
}

/// What the page's API finds.
async fn search(relay: &Relay, query: &str) -> Value {
    let (status, text) = relay.get(&format!("/ui/api/search?q={query}")).await;
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Waits until the index has as many finished exchanges as the store, and compares them one by one.
async fn index_equals_store(relay: &Relay, asked: u64) {
    until("the index has caught up", async || (search(relay, "status:ok").await["total"] == asked).then_some(())).await;
    let (status, export) = relay.get("/ui/export.ndjson?q=status:ok").await;
    assert_eq!(status, 200);
    let mut found: Vec<String> = export.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()["message"].as_str().unwrap().to_owned()).collect();
    found.sort();
    let mut expected: Vec<String> = (0..asked).map(|n| format!("question number{n}")).collect();
    expected.sort();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn an_exchange_is_found_right_after_its_answer() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let _bob = Worker::start(relay.address.clone(), "bob", echo);
    relay.wait_online("bob", true).await;
    relay.caller("alice").ask("bob", "où est l'étape 数据库迁移?").await;
    for query in ["etape", "%E6%95%B0%E6%8D%AE", "%E8%BF%81", "echo", "from:alice"] {
        until(query, async || (search(&relay, query).await["total"] == 1).then_some(())).await;
    }
    assert_eq!(search(&relay, "agent:bob+-echo").await["total"], 0);
}

#[tokio::test]
async fn a_kill_while_it_indexes_leaves_the_index_equal_to_the_store() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    let _bob = Worker::start(relay.address.clone(), "bob", echo);
    let mut asked = 0;
    for round in 0..24 {
        relay.wait_online("bob", true).await;
        for _ in 0..8 {
            let answer = relay.caller("alice").ask("bob", &format!("question number{asked}")).await;
            assert_eq!(answer["ok"], true, "{answer}");
            asked += 1;
        }
        if round < 20 {
            // In the middle of the work of the last half second.
            relay.kill().await;
            relay.up().await;
        }
    }
    index_equals_store(&relay, asked).await;
}

#[tokio::test]
async fn a_deleted_or_damaged_index_is_made_anew_while_asks_go_on() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    let _bob = Worker::start(relay.address.clone(), "bob", echo);
    relay.wait_online("bob", true).await;
    let mut asked = 0;
    let index = || fs::read_dir(relay.path("data")).unwrap().map(|e| e.unwrap().path()).find(|p| p.is_dir()).unwrap();
    let directory = index();
    assert!(directory.file_name().unwrap().to_string_lossy().starts_with("index"));
    for damage in ["none", "deleted", "truncated"] {
        if damage != "none" {
            index_equals_store(&relay, asked).await;
            relay.stop().await;
            if damage == "deleted" {
                fs::remove_dir_all(&directory).unwrap();
            } else {
                let largest = fs::read_dir(&directory).unwrap().map(|e| e.unwrap().path()).max_by_key(|p| p.metadata().unwrap().len()).unwrap();
                fs::OpenOptions::new().write(true).open(largest).unwrap().set_len(10).unwrap();
            }
            relay.up().await;
            relay.wait_online("bob", true).await;
        }
        for _ in 0..10 {
            assert_eq!(relay.caller("alice").ask("bob", &format!("question number{asked}")).await["ok"], true, "{damage}");
            asked += 1;
        }
        index_equals_store(&relay, asked).await;
    }
}

#[tokio::test]
async fn a_start_after_a_kill_waits_neither_for_much_on_disk_nor_for_an_index_that_is_gone() {
    const KEPT: u64 = 10_000;
    let mut relay = Relay::prepare("", &["alice", "bob"]);
    let mut history = String::from("request_id,conversation_id,from_agent,to_agent,message,status,answer,error,started_at,ended_at\n");
    for n in 0..KEPT {
        let (id, minute, second) = (format!("{:08x}-6a0e-4c3a-9a63-3b1f0e5a7c11", n / 4), n / 60 % 60, n % 60);
        let at = format!("2026-05-01 {:02}:{minute:02}:{second:02}+00", n / 3600);
        history.push_str(&format!("r-{n},{id},alice,bob,question number{n},ok,answer to number{n},,{at},{at}\n"));
    }
    fs::write(relay.path("history.csv"), history).unwrap();
    let imported = relay.run(&["import", "history.csv"]).await;
    assert!(imported.code == 0 && imported.out.contains("10000 exchanges imported"), "{imported:?}");
    relay.up().await;
    let _bob = Worker::start(relay.address.clone(), "bob", echo);
    relay.wait_online("bob", true).await;
    assert_eq!(relay.caller("alice").ask("bob", &format!("question number{KEPT}")).await["ok"], true);
    relay.kill().await;
    let index = fs::read_dir(relay.path("data")).unwrap().map(|e| e.unwrap().path()).find(|p| p.is_dir()).unwrap();
    fs::remove_dir_all(index).unwrap();
    relay.up().await;
    assert_eq!(relay.get("/ready").await.0, 200);
    let (_, metrics) = relay.get("/metrics").await;
    let lag = metrics.lines().find_map(|line| line.strip_prefix("hermes_bridge_search_index_lag ")).unwrap();
    assert!(lag.parse::<f64>().unwrap() > 1_000.0, "ready before the index has followed: {lag}");
    relay.wait_online("bob", true).await;
    assert_eq!(relay.caller("alice").ask("bob", &format!("question number{}", KEPT + 1)).await["ok"], true, "asks are served meanwhile");
    index_equals_store(&relay, KEPT + 2).await;
}

#[tokio::test]
async fn reindex_makes_the_index_anew_beside_a_running_relay_and_without_one() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    let _bob = Worker::start(relay.address.clone(), "bob", echo);
    relay.wait_online("bob", true).await;
    for n in 0..10 {
        assert_eq!(relay.caller("alice").ask("bob", &format!("question number{n}")).await["ok"], true);
    }
    index_equals_store(&relay, 10).await;
    let ran = relay.run(&["reindex"]).await;
    assert!(ran.code == 0 && ran.out.contains("the index is complete"), "{ran:?}");
    index_equals_store(&relay, 10).await;
    relay.stop().await;
    let index = fs::read_dir(relay.path("data")).unwrap().map(|e| e.unwrap().path()).find(|p| p.is_dir()).unwrap();
    fs::remove_dir_all(&index).unwrap();
    let ran = relay.run(&["reindex"]).await;
    assert!(ran.code == 0 && ran.out.contains("the index is complete"), "{ran:?}");
    assert!(index.join("meta.json").exists(), "a stopped relay's index was made");
    relay.up().await;
    index_equals_store(&relay, 10).await;
    let nothing = relay.run(&["reindex", "--data-dir", "nowhere"]).await;
    assert!(nothing.code == 1 && nothing.err.contains("no store") && !relay.path("nowhere").exists(), "{nothing:?}");
}
