//! A question for who is away. With `when_offline = "queue"` it is on disk before the asker hears its place and until when it
//! is kept; the asker goes on and fetches the answer later. A kill changes nothing of that. At the return it is delivered in
//! order; what has expired wakes nobody.

use serde_json::json;

use crate::rig::{Relay, soon, text, until};

#[tokio::test]
async fn what_is_left_for_an_absent_agent_is_delivered_in_order_when_it_comes() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let alice = relay.caller("alice");
    let mut ids = Vec::new();
    for n in 1..=3 {
        let left = alice.call("ask_agent", json!({"to": "bob", "message": format!("left {n}"), "when_offline": "queue"})).await;
        assert_eq!((text(&left, "error"), &left["position"]), ("queued", &json!(n)));
        assert!(text(&left, "expires_at").ends_with('Z'), "{left}");
        let fetched = alice.get_answer(text(&left, "request_id"), 0).await;
        assert_eq!((text(&fetched, "error"), &fetched["expires_at"]), ("queued", &left["expires_at"]));
        ids.push(text(&left, "request_id").to_owned());
    }
    let mut bob = relay.bot("bob").await;
    for (n, id) in ids.iter().enumerate() {
        let wake = bob.wake().await;
        assert_eq!((text(&wake, "request_id"), text(&wake, "message")), (id.as_str(), format!("left {}", n + 1).as_str()));
        assert_eq!(bob.answer(&wake, &format!("answer {n}")).await, json!({"ok": true}));
        assert_eq!(alice.get_answer(id, 30).await["answer"], format!("answer {n}"));
    }
    bob.is_not_woken().await;
}

#[tokio::test]
async fn what_was_left_too_long_ago_expires_and_wakes_nobody() {
    let relay = Relay::start("queue_ttl_ms = 1000", &["alice", "bob"]).await;
    let alice = relay.caller("alice");
    let left = alice.call("ask_agent", json!({"to": "bob", "message": "too late", "when_offline": "queue"})).await;
    let id = text(&left, "request_id");
    let ended = until("it expires", async || Some(alice.get_answer(id, 5).await).filter(|a| a["error"] != "queued")).await;
    assert_eq!(text(&ended, "error"), "expired");
    relay.bot("bob").await.is_not_woken().await;
    assert_eq!(relay.on_record("too late").await["status"], "expired");
}

#[tokio::test]
async fn a_question_that_was_left_and_is_asked_again_is_not_waited_for() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let alice = relay.caller("alice");
    let ask = json!({"to": "bob", "message": "left", "when_offline": "queue", "request_key": "k"});
    let first = alice.call("ask_agent", ask.clone()).await;
    let again = alice.call("ask_agent", ask);
    let again = soon("the second call, which does not wait for an absent agent", again).await;
    assert_eq!((text(&again, "error"), &again["request_id"]), ("queued", &first["request_id"]));
}

#[tokio::test]
async fn what_was_left_for_an_absent_agent_survives_a_crash() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    let left = relay.caller("alice").call("ask_agent", json!({"to": "bob", "message": "left", "when_offline": "queue"})).await;
    relay.kill().await;
    relay.up().await;
    let fetched = relay.caller("alice").get_answer(text(&left, "request_id"), 0).await;
    assert_eq!((text(&fetched, "error"), &fetched["expires_at"]), ("queued", &left["expires_at"]));
    let wake = relay.bot("bob").await.wake().await;
    assert_eq!((&wake["request_id"], text(&wake, "message")), (&left["request_id"], "left"));
}

#[tokio::test]
async fn a_call_that_waits_for_a_queued_question_waits_over_its_delivery_and_without_one_a_frame_says_it() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut socket = relay.bot_of("alice", "a1").await;
    socket.settle().await;
    let alice = relay.caller("alice");
    let left = |message: &str| json!({"to": "bob", "message": message, "when_offline": "queue"});
    let (waited, left_alone) = (alice.call("ask_agent", left("waited for")).await, alice.call("ask_agent", left("left alone")).await);
    let id = text(&waited, "request_id").to_owned();
    let waiting = tokio::spawn({
        let (alice, id) = (relay.caller("alice"), id.clone());
        async move { alice.get_answer(&id, 200).await }
    });
    let mut bob = relay.bot("bob").await;
    for answer in ["one", "two"] {
        let wake = bob.wake().await;
        bob.answer(&wake, answer).await;
    }
    let answered = soon("the call that waits returns", waiting).await.unwrap();
    assert_eq!((&answered["answer"], text(&answered, "request_id")), (&json!("one"), &*id));
    let mut handed = vec![socket.next("answer").await];
    if handed[0]["request_id"] == waited["request_id"] {
        // The call was on its way still when the answer came.
        handed.push(socket.next("answer").await);
    }
    assert_eq!(handed.last().unwrap()["request_id"], left_alone["request_id"]);
}
