//! A bot's process dies with a question, or only its connection does, or the relay. The same process is not woken again for what
//! it said it has; a new one is, with the attempt counted, until the question is answered, or the time that a bot is
//! waited for is over. One turn, whatever dies.

use serde_json::json;

use crate::rig::{Bot, Relay, soon, text};

/// A socket that is gone without a goodbye.
fn die(bot: Bot) {
    drop(bot);
}

#[tokio::test]
async fn a_bot_that_dies_and_returns_is_woken_again() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let asker = relay.caller("alice");
    let mut bob = relay.bot_of("bob", "b1").await;
    let asking = asker.asking(json!({"to": "bob", "message": "q"}));
    let wake = bob.wake().await;
    bob.received(text(&wake, "request_id")).await;
    bob.settle().await;
    die(bob);
    relay.wait_online("bob", false).await;
    // The same process has the question already.
    let mut same = relay.bot_of("bob", "b1").await;
    same.is_not_woken().await;
    die(same);
    relay.wait_online("bob", false).await;
    // Another process has not.
    let mut other = relay.bot_of("bob", "b2").await;
    let again = other.wake().await;
    assert_eq!((&again["request_id"], &again["attempt"]), (&wake["request_id"], &json!(2)));
    die(other);
    relay.wait_online("bob", false).await;
    // It had not said that it received it, and one of the original never does.
    let mut original = relay.bot("bob").await;
    let again = original.wake().await;
    assert_eq!((&again["request_id"], &again["attempt"]), (&wake["request_id"], &json!(3)));
    original.answer(&again, "third time").await;
    assert_eq!(asking.await.unwrap()["answer"], "third time");
}

#[tokio::test]
async fn a_bot_that_does_not_return_in_time_is_given_up() {
    let relay = Relay::start("reconnect_grace_ms = 300", &["alice", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "q"}));
    let wake = bob.wake().await;
    die(bob);
    let result = soon("the asker hears", asking).await.unwrap();
    assert_eq!((text(&result, "error"), &result["request_id"]), ("agent_disconnected", &wake["request_id"]));
    // Its answer is kept if it still comes.
    assert_eq!(relay.caller("bob").reply(text(&wake, "request_id"), "after all").await, json!({"ok": true, "late": true}));
    assert_eq!(relay.caller("alice").get_answer(text(&wake, "request_id"), 0).await["answer"], "after all");
}

#[tokio::test]
async fn a_new_process_is_woken_again_after_a_crash() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    let mut bob = relay.bot_of("bob", "b1").await;
    let asking = tokio::spawn({
        let alice = relay.caller("alice");
        async move { alice.try_call("ask_agent", &json!({"to": "bob", "message": "q"})).await }
    });
    let wake = bob.wake().await;
    bob.received(text(&wake, "request_id")).await;
    bob.settle().await;
    relay.kill().await;
    assert!(soon("the caller notices", asking).await.unwrap().is_err());
    relay.up().await;
    let mut bob = relay.bot_of("bob", "b2").await;
    let again = bob.wake().await;
    assert_eq!((&again["request_id"], &again["attempt"]), (&wake["request_id"], &json!(2)));
    assert_eq!(bob.answer(&again, "done").await, json!({"ok": true}));
    assert_eq!(relay.caller("alice").get_answer(text(&wake, "request_id"), 30).await["answer"], "done");
}
