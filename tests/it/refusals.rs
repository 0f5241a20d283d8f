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

/// One question more than fits is refused with the limit's name, and wakes nobody; it fits again when the first has ended.
#[tokio::test]
async fn what_one_agent_may_have_open_and_waiting_is_bounded_by_number_and_by_bytes() {
    for (limit, keys) in [
        ("max_open_asks_per_agent", "max_open_asks_per_agent = 2"),
        ("max_open_bytes_per_agent", "max_open_bytes_per_agent = 2500"),
        ("max_waiting_per_agent", "max_wakes_per_agent = 1\nmax_waiting_per_agent = 1"),
        ("max_waiting_bytes_per_agent", "max_wakes_per_agent = 1\nmax_waiting_bytes_per_agent = 1500"),
    ] {
        let relay = Relay::start(&format!("[limits]\n{keys}"), &["alice", "bob"]).await;
        let (alice, mut bob) = (relay.caller("alice"), relay.bot("bob").await);
        let of = |n: u32| format!("{n}{}", "x".repeat(999));
        let first = alice.asking(json!({"to": "bob", "message": of(1)}));
        let wake = bob.wake().await;
        let second = alice.asking(json!({"to": "bob", "message": of(2)}));
        relay.on_record(&of(2)).await;
        let refused = alice.ask("bob", &of(3)).await;
        assert_eq!((text(&refused, "error"), text(&refused, "limit")), ("rate_limited", limit), "{refused}");
        assert!(text(&refused, "message").contains(limit), "{refused}");
        bob.answer(&wake, "one").await;
        assert_eq!(first.await.unwrap()["answer"], "one");
        let third = alice.asking(json!({"to": "bob", "message": of(4)}));
        for answer in ["two", "four"] {
            let wake = bob.wake().await;
            bob.answer(&wake, answer).await;
        }
        assert_eq!((&second.await.unwrap()["answer"], &third.await.unwrap()["answer"]), (&json!("two"), &json!("four")));
        bob.is_not_woken().await;
    }
}

#[tokio::test]
async fn what_one_question_leads_to_is_bounded_in_all() {
    let relay = Relay::start("[limits]\nmax_asks_per_root = 3", &["alice", "bob", "carol"]).await;
    let (mut bob, mut carol) = (relay.bot("bob").await, relay.bot("carol").await);
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "the first"}));
    let wake = bob.wake().await;
    for n in 2..=4 {
        bob.begin_call(&format!("ask {n}"), "ask_agent", json!({"to": "carol", "message": format!("number {n} of this chain")})).await;
        if n <= 3 {
            let wake = carol.wake().await;
            carol.answer(&wake, "yes").await;
        }
        let result = bob.result_of(&format!("ask {n}")).await;
        match n {
            4 => assert_eq!((text(&result, "error"), text(&result, "limit")), ("loop_limit", "max_asks_per_root"), "{result}"),
            _ => assert_eq!(result["answer"], "yes", "{n}"),
        }
    }
    carol.is_not_woken().await;
    bob.answer(&wake, "done").await;
    assert_eq!(asking.await.unwrap()["answer"], "done");
}
