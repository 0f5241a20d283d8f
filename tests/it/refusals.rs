//! What is not asked at all: each refusal is an outcome with a sentence for the model, is on record, and wakes nobody.

use serde_json::{Value, json};

use crate::rig::{Relay, text};

#[tokio::test]
async fn a_refusal_is_an_outcome_with_a_sentence_and_is_on_record() {
    let relay = Relay::start("", &["alice", "bob", "carol\nmay_ask = [\"bob\"]"]).await;
    let mut alice = relay.bot("alice").await;
    let cases = [
        ("alice", "alice", "self_ask", "You asked yourself"),
        ("alice", "nobody", "unknown_agent", "list_agents"),
        ("alice", "no such name!", "unknown_agent", "list_agents"),
        ("alice", "bob", "agent_offline", "has never been"),
        ("carol", "alice", "not_allowed", "Do not retry"),
    ];
    for (from, to, word, sentence) in cases {
        let message = format!("{from} asks {to}");
        let result = relay.caller(from).ask(to, &message).await;
        assert_eq!((&result["ok"], text(&result, "error")), (&json!(false), word));
        assert!(text(&result, "message").contains(sentence), "{result}");
        let kept = relay.on_record(&message).await;
        let shown = (text(&kept, "request_id"), text(&kept, "status"), text(&kept, "to"), text(&kept, "error"));
        assert_eq!(shown, (text(&result, "request_id"), word, to, word));
        assert_eq!(relay.caller(from).get_answer(text(&result, "request_id"), 0).await["error"], word);
    }
    alice.is_not_woken().await;
}

#[tokio::test]
async fn names_are_not_case_sensitive() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    let asking = relay.caller("alice").asking(json!({"to": "BOB", "message": "loud"}));
    let wake = bob.wake().await;
    bob.answer(&wake, "yes").await;
    assert_eq!(asking.await.unwrap()["answer"], "yes");
}

#[tokio::test]
async fn what_is_too_large_is_refused_with_its_limit_also_when_only_its_escapes_are() {
    let relay = Relay::start("[limits]\nmax_message_bytes = 5000\nmax_answer_bytes = 3000\nmax_frame_bytes = 8192", &["alice", "bob"]).await;
    let (alice, mut bob) = (relay.caller("alice"), relay.bot("bob").await);
    let check = |result: &Value, limit: &str, sentence: &str| {
        assert_eq!((text(result, "error"), text(result, "limit")), ("too_large", limit), "{result}");
        assert!(text(result, "message").contains(sentence), "{result}");
    };
    check(&alice.ask("bob", &"x".repeat(5001)).await, "max_message_bytes", "5001 bytes");
    // 2,000 bytes, 12,000 as JSON.
    check(&alice.ask("bob", &"\u{1}".repeat(2000)).await, "max_frame_bytes", "max_frame_bytes = 8192");
    bob.is_not_woken().await;
    let just_so = "é".repeat(2500);
    let asking = alice.asking(json!({"to": "bob", "message": just_so}));
    let wake = bob.wake().await;
    assert_eq!(text(&wake, "message"), just_so);
    check(&bob.answer(&wake, &"y".repeat(3001)).await, "max_answer_bytes", "3001 bytes");
    check(&bob.answer(&wake, &"\u{1}".repeat(2000)).await, "max_frame_bytes", "bytes");
    assert_eq!(bob.answer(&wake, &"y".repeat(3000)).await, json!({"ok": true}));
    assert_eq!(text(&asking.await.unwrap(), "answer").len(), 3000);
}

#[tokio::test]
async fn a_text_beyond_every_limit_is_still_an_outcome_and_its_beginning_is_kept() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let result = relay.caller("alice").ask("bob", &"long ".repeat(700_000)).await;
    assert_eq!((text(&result, "error"), text(&result, "limit")), ("too_large", "max_message_bytes"));
    let exchanges = relay.exchanges().await;
    assert_eq!(text(&exchanges[0], "message").len(), 1_024);
    let (status, body) = relay.caller("alice").post("x".repeat((4 << 20) + 1)).await.unwrap();
    assert_eq!(status, 413, "{body}");
}
