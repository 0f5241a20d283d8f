//! Off the record: `erase` and `compact` as the owner runs them. What was said is found nowhere afterwards, that it was
//! erased is.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::rig::{Relay, Worker, text, until};

fn echo(question: &str) -> String {
    format!("echo of {question}")
}

async fn found(relay: &Relay, query: &str) -> u64 {
    let (status, body) = relay.get(&format!("/ui/api/search?q={query}")).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["total"].as_u64().unwrap()
}

/// Whether a file below the directory has these bytes.
fn is_on_disk(dir: &Path, words: &str) -> bool {
    fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).any(|path| match path.is_dir() {
        true => is_on_disk(&path, words),
        false => fs::read(&path).is_ok_and(|bytes| bytes.windows(words.len()).any(|w| w == words.as_bytes())),
    })
}

#[tokio::test]
async fn an_erased_conversation_is_found_nowhere_and_the_other_goes_on() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    let _bob = Worker::start(relay.address.clone(), "bob", echo);
    relay.wait_online("bob", true).await;
    let alice = relay.caller("alice");
    let secret = alice.ask("bob", "the unmentionable thing").await;
    let kept = alice.ask("bob", "the weather").await;
    let conversation = text(&secret, "conversation_id").to_owned();
    until("indexed", async || (found(&relay, "unmentionable").await == 1).then_some(())).await;

    let dry = relay.run(&["erase", "--conversation", &conversation]).await;
    assert!(dry.code == 0 && dry.out.contains("would erase 1 exchanges") && dry.err.contains("--yes"), "{dry:?}");
    assert_eq!(alice.get_answer(text(&secret, "request_id"), 0).await["answer"], "echo of the unmentionable thing");
    let done = relay.run(&["erase", "--conversation", &conversation, "--yes"]).await;
    assert!(done.code == 0 && done.out.contains("erased 1 exchanges"), "{done:?}");

    assert_eq!(text(&alice.get_answer(text(&secret, "request_id"), 0).await, "error"), "unknown_request");
    until("search has followed", async || (found(&relay, "unmentionable").await == 0).then_some(())).await;
    assert_eq!(relay.exchanges().await.len(), 1);
    let on = |result: &Value, message: &str| json!({"to": "bob", "message": message, "conversation_id": result["conversation_id"]});
    assert_eq!(text(&alice.call("ask_agent", on(&secret, "and more of it")).await, "error"), "unknown_conversation");
    assert_eq!(alice.call("ask_agent", on(&kept, "again")).await["ok"], true);
    let list = relay.run(&["erase", "--list"]).await;
    assert!(list.code == 0 && list.out.contains(&format!("1  conversation {conversation}")), "{list:?}");

    let told = relay.noted("erasure", "").await;
    assert_eq!((text(&told, "who"), text(&told, "what")), ("command line", "1 exchanges of a conversation taken off the record"));

    // Its bytes go with the next start.
    relay.stop().await;
    relay.up().await;
    assert!(!is_on_disk(&relay.path("data"), "unmentionable") && is_on_disk(&relay.path("data"), "the weather"));
    until("the index is there again", async || (found(&relay, "weather").await == 1).then_some(())).await;
    assert_eq!(relay.run(&["erase", "--list"]).await.out, list.out);
}

#[tokio::test]
async fn an_agent_is_erased_from_the_store_of_a_stopped_relay_to_the_last_byte() {
    let mut relay = Relay::start("", &["alice", "bob", "carol"]).await;
    let _bob = Worker::start(relay.address.clone(), "bob", echo);
    relay.wait_online("bob", true).await;
    for n in 0..5 {
        relay.caller("carol").ask("bob", &format!("carols words {n}")).await;
        relay.caller("alice").ask("bob", &format!("other words {n}")).await;
    }
    relay.stop().await;
    assert!(is_on_disk(&relay.path("data"), "carols words"));
    let done = relay.run(&["erase", "--agent", "Carol", "--yes"]).await;
    assert!(done.code == 0 && done.out.contains("erased 5 exchanges of agent carol"), "{done:?}");
    assert!(!is_on_disk(&relay.path("data"), "carols words") && is_on_disk(&relay.path("data"), "other words"));
    let list = relay.run(&["erase", "--list"]).await;
    assert!(list.out.contains("5  agent carol"), "{list:?}");
    relay.up().await;
    let told = relay.noted("erasure", "").await;
    assert_eq!(text(&told, "what"), "5 exchanges of an agent taken off the record");
    assert_eq!(relay.security("?kind=erasure").await.len(), 1);
    until("the index is there", async || (found(&relay, "words").await == 5).then_some(())).await;
    assert_eq!(found(&relay, "agent:carol").await, 0);
}

#[tokio::test]
async fn erase_says_what_it_cannot_do() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    for wrong in [&["erase"][..], &["erase", "--yes"], &["erase", "--agent", "a", "--conversation", "c"], &["erase", "--list", "--yes"]] {
        assert_eq!(relay.run(wrong).await.code, 2, "{wrong:?}");
    }
    let nonsense = relay.run(&["erase", "--conversation", "nonsense", "--yes"]).await;
    assert!(nonsense.code == 1 && nonsense.err.contains("is no conversation id"), "{nonsense:?}");
    let _bob = relay.bot("bob").await;
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "still going on"}));
    relay.on_record("still going on").await;
    let open = relay.run(&["erase", "--agent", "bob", "--yes"]).await;
    assert!(open.code == 0 && open.out.contains("erased 0 exchanges") && open.out.contains("1 still open"), "{open:?}");
    asking.abort();
    let elsewhere = relay.run(&["erase", "--agent", "bob", "--data-dir", "nowhere"]).await;
    assert!(elsewhere.code == 1 && elsewhere.err.contains("no store"), "{elsewhere:?}");
}

#[tokio::test]
async fn compact_gives_room_back_and_loses_nothing() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    let long = "long words ".repeat(10_000);
    for _ in 0..20 {
        let _ = relay.caller("alice").ask("bob", &long).await;
    }
    let running = relay.run(&["compact"]).await;
    assert!(running.code == 1 && running.err.contains("stop it first"), "{running:?}");
    let _ = relay.caller("bob").ask("alice", "kept").await;
    let ids: Vec<String> = relay.exchanges().await.iter().map(|e| text(e, "conversation_id").to_owned()).collect();
    assert_eq!(ids.len(), 21);
    for id in &ids[..19] {
        assert_eq!(relay.run(&["erase", "--conversation", id, "--yes"]).await.code, 0);
    }
    relay.kill().await;
    let store = relay.path("data/bridge.redb");
    let before = store.metadata().unwrap().len();
    let done = relay.run(&["compact"]).await;
    assert!(done.code == 0 && done.out.contains("bytes before"), "{done:?}");
    let after = store.metadata().unwrap().len();
    assert!(after < before / 4, "{before} {after}");
    relay.up().await;
    let left: Vec<String> = relay.exchanges().await.iter().map(|e| text(e, "conversation_id").to_owned()).collect();
    assert_eq!(left, ids[19..]);
}
