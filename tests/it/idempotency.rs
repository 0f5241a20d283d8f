//! The same thing said twice: a client that lost its session asks again, a bot that lost its connection sends its call again,
//! two copies arrive in the same moment, the relay is killed in between. One question, one wake, one answer for all who
//! asked; a key that stands for another question is a conflict.

use serde_json::json;

use crate::rig::{Relay, Worker, text};

#[tokio::test]
async fn a_request_key_is_one_question_however_often_it_is_asked() {
    let relay = Relay::start("ask_max_wait_ms = 300", &["alice", "bob", "carol"]).await;
    let (alice, mut bob) = (relay.caller("alice"), relay.bot("bob").await);
    let ask = |message: &str| json!({"to": "bob", "message": message, "request_key": "k1"});
    let first = alice.call("ask_agent", ask("one")).await;
    let second = alice.call("ask_agent", ask("one")).await;
    assert_eq!(text(&first, "error"), "still_working");
    assert_eq!((&first["request_id"], &first["conversation_id"]), (&second["request_id"], &second["conversation_id"]));
    let conflict = alice.call("ask_agent", ask("another")).await;
    assert_eq!((text(&conflict, "error"), &conflict["first_request_id"]), ("conflict", &first["request_id"]));
    // The key is the asker's own: another's is another question.
    let theirs = relay.caller("carol").call("ask_agent", ask("one")).await;
    assert_ne!(theirs["request_id"], first["request_id"]);
    let wake = bob.wake().await;
    assert_eq!((text(&wake, "from"), &wake["request_id"]), ("alice", &first["request_id"]));
    assert_eq!(text(&bob.wake().await, "from"), "carol");
    assert_eq!(bob.answer(&wake, "kept").await, json!({"ok": true}));
    let later = alice.call("ask_agent", ask("one")).await;
    assert_eq!(later, json!({"ok": true, "conversation_id": first["conversation_id"], "request_id": first["request_id"], "answer": "kept"}));
    assert_eq!(text(&alice.call("ask_agent", ask("another")).await, "error"), "conflict");
    bob.is_not_woken().await;
}

#[tokio::test]
async fn a_question_asked_twice_in_the_same_moment_is_one_question_with_one_answer() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let (mut alice, mut bob) = (relay.bot("alice").await, relay.bot("bob").await);
    for n in 0..30 {
        let (first, second) = (format!("first {n}"), format!("second {n}"));
        let key = (n % 2 == 0).then(|| format!("key {n}"));
        for id in [&first, &second] {
            // Without a key two numbered calls are two questions: each has a key of its own then.
            let arguments = json!({"to": "bob", "message": format!("q {n}"), "request_key": key});
            alice.begin_call(id, "ask_agent", arguments).await;
        }
        let wakes = if key.is_some() { 1 } else { 2 };
        for _ in 0..wakes {
            let wake = bob.wake().await;
            assert_eq!(text(&wake, "message"), format!("q {n}"));
            bob.answer(&wake, &format!("a {n}")).await;
        }
        let results = [alice.result_of(&first).await, alice.result_of(&second).await];
        assert_eq!((&results[0]["answer"], &results[1]["answer"]), (&json!(format!("a {n}")), &json!(format!("a {n}"))), "{results:?}");
        assert_eq!(results[0]["request_id"] == results[1]["request_id"], key.is_some());
    }
    bob.is_not_woken().await;
}

#[tokio::test]
async fn two_posts_of_one_question_in_the_same_moment_are_both_answered() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let bob = Worker::start(relay.address.clone(), "bob", |question| format!("to {question}"));
    relay.wait_online("bob", true).await;
    let alice = relay.caller("alice");
    for n in 0..30 {
        let ask = json!({"to": "bob", "message": format!("q {n}")});
        let (first, second) = tokio::join!(alice.asking(ask.clone()), alice.asking(ask));
        let (first, second) = (first.unwrap(), second.unwrap());
        for result in [&first, &second] {
            assert_eq!((&result["ok"], &result["answer"]), (&json!(true), &json!(format!("to q {n}"))), "{result}");
        }
        let wakes = bob.memory.lock().unwrap().wakes.iter().filter(|(question, ..)| *question == format!("q {n}")).count();
        assert_eq!(wakes, if first["request_id"] == second["request_id"] { 1 } else { 2 });
    }
}

#[tokio::test]
async fn a_question_that_ended_may_be_asked_again() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let (alice, mut bob) = (relay.caller("alice"), relay.bot("bob").await);
    let mut ids = Vec::new();
    for answer in ["first", "second"] {
        let asking = alice.asking(json!({"to": "bob", "message": "what time is it?"}));
        let wake = bob.wake().await;
        bob.answer(&wake, answer).await;
        assert_eq!(asking.await.unwrap()["answer"], answer);
        ids.push(text(&wake, "request_id").to_owned());
    }
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn a_call_sent_again_after_a_crash_gets_its_one_result() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    let ask = json!({"to": "bob", "message": "survive"});
    let mut bob = relay.bot_of("bob", "b1").await;
    let mut alice = relay.bot_of("alice", "a1").await;
    alice.begin_call("c1", "ask_agent", ask.clone()).await;
    let wake = bob.wake().await;
    bob.received(text(&wake, "request_id")).await;
    bob.settle().await;
    relay.kill().await;
    relay.up().await;

    // The bot still works; its process is not woken again, and neither by the caller's return.
    let mut bob = relay.bot_of("bob", "b1").await;
    let mut alice = relay.bot_of("alice", "a1").await;
    alice.begin_call("c1", "ask_agent", ask.clone()).await;
    alice.settle().await;
    bob.is_not_woken().await;
    let reply = json!({"request_id": wake["request_id"], "answer": "I did"});
    bob.begin_call("r1", "reply", reply.clone()).await;
    assert_eq!(bob.result_of("r1").await, json!({"ok": true}));
    let result = alice.result_of("c1").await;
    assert_eq!((&result["answer"], &result["request_id"]), (&json!("I did"), &wake["request_id"]));
    relay.kill().await;
    relay.up().await;

    // Once more, when all is over: neither is a second ask nor a second answer.
    let mut bob = relay.bot_of("bob", "b1").await;
    bob.begin_call("r1", "reply", reply.clone()).await;
    assert_eq!(bob.result_of("r1").await, json!({"ok": true}));
    bob.begin_call("r2", "reply", reply).await;
    assert_eq!(text(&bob.result_of("r2").await, "error"), "already_answered");
    let mut alice = relay.bot_of("alice", "a2").await;
    alice.begin_call("c1", "ask_agent", ask).await;
    assert_eq!(alice.result_of("c1").await, result);
    bob.is_not_woken().await;
}
