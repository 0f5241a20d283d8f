//! The disk is full, in the middle of it: each write of the real program fails from one moment on, and works again from another.
//! As configured the relay goes on relaying and says that it cannot record, or refuses new asks; in both cases it promises
//! nothing that it could not keep. `/ready`, the page and one line of the log say it. When there is room again it
//! recovers by itself: what waited is written, and after a kill everything that anybody was told is there.
//! (What happens at each single write and sync that fails is told in `src/store/faults.rs`.)

use serde_json::{Value, json};

use crate::rig::{Relay, text, until};

async fn ready(relay: &Relay, expected: u16) -> String {
    until(&format!("/ready says {expected}"), async || {
        let (status, body) = relay.get("/ready").await;
        (status == expected).then_some(body)
    })
    .await
}

fn lines_with(relay: &Relay, words: &str) -> usize {
    relay.said().lines().filter(|line| line.contains(words)).count()
}

async fn on_a_disk_that_fills(keys: &str) -> Relay {
    let mut relay = Relay::prepare(keys, &["alice", "bob", "carol"]);
    relay.on_a_disk_that_fills();
    relay.up().await;
    relay
}

#[tokio::test]
async fn a_relay_whose_disk_is_full_goes_on_says_so_and_writes_everything_when_it_can() {
    let mut relay = on_a_disk_that_fills("").await;
    let alice = relay.caller("alice");
    let mut bob = relay.bot_of("bob", "b1").await;
    let open = alice.asking(json!({"to": "bob", "message": "asked before"}));
    let before = bob.wake().await;
    bob.received(text(&before, "request_id")).await;
    bob.settle().await;

    relay.disk_is_full(true);
    let mut results: Vec<Value> = Vec::new();
    for n in 0..10 {
        let asking = alice.asking(json!({"to": "bob", "message": format!("while it is full {n}")}));
        let wake = bob.wake().await;
        assert_eq!(bob.answer(&wake, &format!("answer {n}")).await, json!({"ok": true}));
        let mut result = asking.await.unwrap();
        assert_eq!((&result["answer"], &result["recorded"]), (&json!(format!("answer {n}")), &json!(false)), "{result}");
        result.as_object_mut().unwrap().remove("recorded");
        results.push(result);
    }
    bob.answer(&before, "answered meanwhile").await;
    assert_eq!(open.await.unwrap()["answer"], "answered meanwhile");
    assert!(ready(&relay, 503).await.contains("the store cannot write"));
    let (_, page) = relay.get("/ui").await;
    // While redb cannot be opened there is nothing to put the banner over.
    assert!(page.contains(r#"class="banner bad""#) || page.contains("History cannot be read at the moment"), "{page}");
    let kept = alice.call("ask_agent", json!({"to": "carol", "message": "keep it", "when_offline": "queue"})).await;
    assert_eq!(text(&kept, "error"), "store_unavailable", "what must be kept is refused");
    assert_eq!(lines_with(&relay, "the store refuses to write"), 1, "{}", relay.said());

    relay.disk_is_full(false);
    ready(&relay, 200).await;
    assert_eq!(lines_with(&relay, "the store writes again"), 1, "{}", relay.said());
    relay.bot("carol").await.is_not_woken().await;
    let (_, page) = relay.get("/ui").await;
    assert!(!page.contains(r#"class="banner bad""#), "{page}");
    relay.kill().await;
    relay.up().await;
    for result in &results {
        assert_eq!(&alice.get_answer(text(result, "request_id"), 0).await, result);
    }
    assert_eq!(alice.get_answer(text(&before, "request_id"), 0).await["answer"], "answered meanwhile");
    let mut bob = relay.bot_of("bob", "b1").await;
    bob.is_not_woken().await;
}

#[tokio::test]
async fn where_only_recorded_asks_may_go_on_a_full_disk_refuses_them_and_wakes_nobody() {
    let relay = on_a_disk_that_fills("on_store_failure = \"refuse\"").await;
    let alice = relay.caller("alice");
    let mut bob = relay.bot_of("bob", "b1").await;
    bob.settle().await;
    relay.disk_is_full(true);
    for n in 0..5 {
        let refused = alice.ask("bob", &format!("while it is full {n}")).await;
        assert_eq!((text(&refused, "error"), &refused["recorded"]), ("store_unavailable", &json!(false)), "{refused}");
    }
    let kept = alice.call("ask_agent", json!({"to": "carol", "message": "keep it", "when_offline": "queue"})).await;
    assert_eq!(text(&kept, "error"), "store_unavailable");
    assert!(ready(&relay, 503).await.contains("the store cannot write"));
    assert_eq!(lines_with(&relay, "the store refuses to write"), 1, "{}", relay.said());
    relay.disk_is_full(false);
    ready(&relay, 200).await;
    let asking = alice.asking(json!({"to": "bob", "message": "and now?"}));
    let wake = bob.wake().await;
    assert_eq!(text(&wake, "message"), "and now?", "nobody was woken for what was refused");
    bob.answer(&wake, "fine").await;
    let result = asking.await.unwrap();
    assert_eq!((&result["answer"], &result["recorded"]), (&json!("fine"), &json!(null)));
}
