//! A restart that a waiting caller does not notice: its stream began with an event that has an id; the relay is killed,
//! comes back, the bot answers, and the caller that returns with that id gets the response to the very request it sent.

use serde_json::json;

use crate::rig::{Relay, event_id, soon, text, tool_result};

#[tokio::test]
async fn a_caller_whose_relay_is_killed_comes_back_for_its_answer() {
    let mut relay = Relay::start("", &["alice", "bob", "carol"]).await;
    let alice = relay.caller("alice");
    let mut bob = relay.bot_of("bob", "p1").await;
    let waiting = alice.streaming(json!({"to": "bob", "message": "in the middle of it"}));
    let wake = bob.wake().await;
    bob.received(text(&wake, "request_id")).await;
    bob.settle().await;
    relay.kill().await;
    let stream = soon("the stream is cut", waiting).await.unwrap();
    let id = event_id(&stream);
    assert!(stream.contains("\nretry: 15000\n"), "{stream}");

    relay.up().await;
    let resumed = tokio::spawn({
        let (alice, id) = (alice.clone(), id.to_owned());
        async move { alice.resume(&id).await }
    });
    let mut bob = relay.bot_of("bob", "p1").await;
    bob.is_not_woken().await;
    assert_eq!(bob.answer(&wake, "after all").await, json!({"ok": true}));
    let (status, response) = soon("the answer", resumed).await.unwrap();
    assert_eq!((status, &response["id"]), (200, &json!("my own")));
    let result = tool_result(&response);
    assert_eq!((&result["answer"], &result["request_id"]), (&json!("after all"), &wake["request_id"]));
    assert_eq!(alice.resume(id).await.1, response);
}

#[tokio::test]
async fn a_stream_is_taken_up_by_its_asker_alone() {
    let relay = Relay::start("ask_max_wait_ms = 200", &["alice", "bob"]).await;
    let alice = relay.caller("alice");
    let mut bob = relay.bot("bob").await;
    let waiting = alice.asking(json!({"to": "bob", "message": "m"}));
    let request = text(&bob.wake().await, "request_id").to_owned();
    assert_eq!(text(&waiting.await.unwrap(), "error"), "still_working");
    let seven = format!("{request}.37");
    assert_eq!(relay.caller("bob").resume(&seven).await.0, 404);
    for unknown in [request.clone(), format!("{request}.zz"), format!("{request}.7b7d"), "01937000-0000-7000-8000-000000000001.37".into(), "x".into()]
    {
        assert_eq!(alice.resume(&unknown).await.0, 404, "{unknown}");
    }
    let (status, response) = alice.resume(&seven).await;
    assert_eq!((status, &response["id"]), (200, &json!(7)));
    assert_eq!(tool_result(&response)["error"], "still_working");
}
