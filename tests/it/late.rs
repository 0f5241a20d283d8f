//! Time: silence ends a question, the asked bot's heartbeats (and nobody else's) hold it open, what comes after the end is
//! kept and handed over: by get_answer, as a frame, as a note with the next result of the conversation. A kill changes nothing of it.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::rig::{Relay, soon, text};

#[tokio::test]
async fn an_answer_after_the_end_is_kept_and_handed_over() {
    let relay = Relay::start("ask_timeout_ms = 300", &["alice", "bob", "carol"]).await;
    let mut alice = relay.bot_of("alice", "a1").await;
    let mut bob = relay.bot("bob").await;
    let result = alice.call("ask_agent", json!({"to": "bob", "message": "quick!"})).await;
    let wake = bob.wake().await;
    assert_eq!((text(&result, "error"), &result["request_id"]), ("timeout", &wake["request_id"]));
    assert!(text(&result, "message").contains("Do not ask again"), "{result}");
    let id = text(&result, "request_id");
    assert_eq!(text(&relay.caller("carol").reply(id, "stolen").await, "error"), "unknown_request");
    assert_eq!(bob.answer(&wake, "slow").await, json!({"ok": true, "late": true}));
    let frame = alice.next("answer").await;
    let expected = json!({"type": "answer", "request_id": id, "conversation_id": wake["conversation_id"], "to": "bob", "answer": "slow"});
    assert_eq!(frame, expected);
    let fetched = relay.caller("alice").get_answer(id, 0).await;
    assert_eq!(
        (&fetched["ok"], text(&fetched, "answer"), &fetched["late"], text(&fetched, "outcome")),
        (&json!(true), "slow", &json!(true), "timeout")
    );
    assert_eq!(text(&bob.answer(&wake, "slower").await, "error"), "already_answered");
    assert_eq!(text(&relay.caller("carol").get_answer(id, 0).await, "error"), "unknown_request");
    let kept = relay.on_record("quick!").await;
    assert_eq!((text(&kept, "status"), text(&kept, "answer"), &kept["late"]), ("timeout", "slow", &json!(true)));
}

#[tokio::test]
async fn a_bot_at_work_on_what_ended_before_a_restart_is_not_taken_for_one_that_guesses() {
    let mut relay = Relay::start("ask_timeout_ms = 300", &["alice", "bob"]).await;
    let mut bob = relay.bot_of("bob", "b1").await;
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "quick!"}));
    let wake = bob.wake().await;
    assert_eq!(text(&asking.await.unwrap(), "error"), "timeout");
    relay.kill().await;
    relay.up().await;
    let mut bob = relay.bot_of("bob", "b1").await;
    bob.received(text(&wake, "request_id")).await;
    // It is heard in order, and a guess is on record.
    bob.heartbeat("01937000-0000-7000-8000-000000000004").await;
    relay.noted("refused_request", "heartbeat: no such request of its own").await;
    assert_eq!(relay.security("?kind=refused_request").await.len(), 1);
}

#[tokio::test]
async fn heartbeats_of_the_asked_bot_hold_a_question_open_and_those_of_others_do_not() {
    let timeout = Duration::from_millis(1_500);
    let relay = Relay::start("ask_timeout_ms = 1500", &["alice", "bob", "carol"]).await;
    let (mut bob, mut carol) = (relay.bot("bob").await, relay.bot("carol").await);
    let held = relay.caller("alice").asking(json!({"to": "bob", "message": "held"}));
    let held_wake = bob.wake().await;
    let foreign = relay.caller("alice").asking(json!({"to": "bob", "message": "foreign"}));
    let foreign_wake = bob.wake().await;
    let began = Instant::now();
    while began.elapsed() < timeout * 2 || !foreign.is_finished() {
        assert!(began.elapsed() < timeout * 10, "the foreign heartbeats count");
        bob.heartbeat(text(&held_wake, "request_id")).await;
        carol.heartbeat(text(&foreign_wake, "request_id")).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let ended = foreign.await.unwrap();
    assert_eq!(text(&ended, "error"), "timeout");
    let kept = relay.on_record("foreign").await;
    let lasted = kept["ended_at"].as_u64().unwrap() - kept["started_at"].as_u64().unwrap();
    assert!(lasted >= 1_500, "{lasted} ms");
    assert_eq!(relay.on_record("held").await["status"], "pending");
    bob.answer(&held_wake, "at last").await;
    assert_eq!(held.await.unwrap()["answer"], "at last");
}

#[tokio::test]
async fn the_quiet_clock_of_a_question_in_line_starts_with_its_wake() {
    let relay = Relay::start("ask_timeout_ms = 600", &["alice", "bob"]).await;
    let (alice, mut bob) = (relay.caller("alice"), relay.bot("bob").await);
    let first = alice.asking(json!({"to": "bob", "message": "first"}));
    let wake = bob.wake().await;
    let second = alice.asking(json!({"to": "bob", "message": "second", "conversation_id": wake["conversation_id"]}));
    relay.on_record("second").await;
    assert_eq!(text(&soon("the first ends", first).await.unwrap(), "error"), "timeout");
    let wake = bob.wake().await;
    assert_eq!(text(&wake, "message"), "second");
    assert_eq!(text(&soon("the second ends", second).await.unwrap(), "error"), "timeout");
    let (a, b) = (relay.on_record("first").await, relay.on_record("second").await);
    assert!(b["ended_at"].as_u64() >= a["ended_at"].as_u64().map(|at| at + 600), "{a} {b}");
}

#[tokio::test]
async fn a_turn_that_failed_ends_at_once_and_says_why() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    for (detail, said) in [(Some("model overloaded"), "model overloaded"), (None, "interrupted")] {
        let asking = relay.caller("alice").asking(json!({"to": "bob", "message": said}));
        let wake = bob.wake().await;
        let arguments = json!({"request_id": wake["request_id"], "error": "interrupted", "detail": detail});
        assert_eq!(bob.call("reply", arguments).await, json!({"ok": true}));
        let result = soon("the asker hears", asking).await.unwrap();
        assert_eq!((text(&result, "error"), &result["request_id"]), ("failed", &wake["request_id"]));
        assert!(text(&result, "message").contains(said), "{result}");
        assert_eq!(relay.on_record(said).await["status"], "failed");
    }
}

#[tokio::test]
async fn a_late_answer_is_told_with_the_next_result_of_its_conversation_and_only_with_that() {
    let mut relay = Relay::start("ask_timeout_ms = 1000", &["alice", "bob"]).await;
    let (alice, mut bob) = (relay.caller("alice"), relay.bot_of("bob", "b1").await);
    let timed_out = alice.ask("bob", "quick!").await;
    let wake = bob.wake().await;
    assert_eq!(text(&timed_out, "error"), "timeout");
    assert_eq!(bob.answer(&wake, "slow").await, json!({"ok": true, "late": true}));
    relay.kill().await;
    relay.up().await;
    let mut bob = relay.bot_of("bob", "b1").await;
    relay.wait_online("bob", true).await;
    let notes = [json!([{"request_id": wake["request_id"], "answer": "slow"}]), json!(null)];
    for (question, note) in ["and now?", "and then?"].into_iter().zip(&notes) {
        let asking = alice.asking(json!({"to": "bob", "message": question, "conversation_id": wake["conversation_id"]}));
        let next = bob.wake().await;
        bob.answer(&next, "at once").await;
        let result = asking.await.unwrap();
        assert_eq!((&result["answer"], &result["late_answers"]), (&json!("at once"), note), "{question}");
    }
}

#[tokio::test]
async fn a_late_answer_that_was_fetched_or_handed_over_is_not_told_again() {
    let relay = Relay::start("ask_timeout_ms = 1000", &["alice", "bob"]).await;
    let mut bob = relay.bot_of("bob", "b1").await;
    let (alice, mut socket) = (relay.caller("alice"), relay.bot_of("alice", "a1").await);
    let fetched = alice.ask("bob", "one").await;
    let one = bob.wake().await;
    socket.say_goodbye().await;
    relay.wait_online("alice", false).await;
    bob.answer(&one, "late one").await;
    assert_eq!(alice.get_answer(text(&fetched, "request_id"), 0).await["answer"], "late one");
    let ask = |question: &str| json!({"to": "bob", "message": question, "conversation_id": one["conversation_id"]});
    let handed = alice.call("ask_agent", ask("two")).await;
    assert_eq!((text(&handed, "error"), &handed["late_answers"]), ("timeout", &json!(null)));
    socket = relay.bot_of("alice", "a1").await;
    socket.settle().await;
    let two = bob.wake().await;
    bob.answer(&two, "late two").await;
    assert_eq!(text(&socket.next("answer").await, "answer"), "late two");
    // With the first its pong goes out, with the second that has arrived.
    socket.settle().await;
    socket.settle().await;
    let asking = alice.asking(ask("three"));
    let three = bob.wake().await;
    bob.answer(&three, "in time").await;
    let result = asking.await.unwrap();
    assert_eq!((&result["answer"], &result["late_answers"]), (&json!("in time"), &json!(null)));
}

#[tokio::test]
async fn an_answer_after_still_working_is_handed_to_a_bot_that_understands_it() {
    let relay = Relay::start("ask_max_wait_ms = 200", &["alice", "bob"]).await;
    let mut alice = relay.bot_of("alice", "p1").await;
    let mut bob = relay.bot("bob").await;
    alice.begin_call("ask", "ask_agent", json!({"to": "bob", "message": "slow"})).await;
    let wake = bob.wake().await;
    assert_eq!(text(&alice.result_of("ask").await, "error"), "still_working");
    bob.answer(&wake, "done").await;
    let handed = alice.next("answer").await;
    assert_eq!((&handed["request_id"], &handed["answer"]), (&wake["request_id"], &json!("done")));
}

#[tokio::test]
async fn who_looks_while_its_call_waits_hears_the_answer_once() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    let (caller, mut alice) = (relay.caller("alice"), relay.bot_of("alice", "a1").await);
    let asking = caller.asking(json!({"to": "bob", "message": "slow"}));
    let wake = bob.wake().await;
    assert_eq!(caller.get_answer(text(&wake, "request_id"), 0).await["error"], "still_working");
    bob.answer(&wake, "done").await;
    assert_eq!(asking.await.unwrap()["answer"], "done");
    alice.settle().await;
    alice.settle().await;
    let mut again = relay.bot_of("alice", "a1").await;
    again.settle().await;
    assert!(alice.has_none("answer") && again.has_none("answer"), "its call had it");
}

#[tokio::test]
async fn a_frame_that_went_into_a_dead_connection_was_not_handed_over() {
    let relay = Relay::start("ask_timeout_ms = 1000", &["alice", "bob"]).await;
    let mut bob = relay.bot_of("bob", "b1").await;
    let (alice, mut socket) = (relay.caller("alice"), relay.bot_of("alice", "a1").await);
    socket.settle().await;
    let one = {
        alice.ask("bob", "one").await;
        bob.wake().await
    };
    // Nothing reads alice's socket.
    bob.answer(&one, "late one").await;
    let asking = alice.asking(json!({"to": "bob", "message": "two", "conversation_id": one["conversation_id"]}));
    let two = bob.wake().await;
    bob.answer(&two, "in time").await;
    let note = json!([{"request_id": one["request_id"], "answer": "late one"}]);
    assert_eq!(asking.await.unwrap()["late_answers"], note, "told as a note instead");
    drop(socket);
    let mut socket = relay.bot_of("alice", "a1").await;
    assert_eq!(socket.next("answer").await["request_id"], one["request_id"], "and to the connection that came after it");
}

#[tokio::test]
async fn an_answer_that_came_while_its_asker_was_away_is_handed_over_when_it_is_back() {
    let relay = Relay::start("ask_max_wait_ms = 200", &["alice", "bob"]).await;
    let mut alice = relay.bot_of("alice", "p1").await;
    let mut bob = relay.bot("bob").await;
    let working = alice.call("ask_agent", json!({"to": "bob", "message": "slow"})).await;
    assert_eq!(text(&working, "error"), "still_working");
    alice.say_goodbye().await;
    relay.wait_online("alice", false).await;
    let wake = bob.wake().await;
    bob.answer(&wake, "done").await;
    let mut alice = relay.bot_of("alice", "p1").await;
    assert_eq!(alice.next("answer").await["answer"], "done");
    alice.settle().await;
    alice.settle().await;
    let mut again = relay.bot_of("alice", "p1").await;
    again.settle().await;
    assert!(again.has_none("answer"), "once is enough");
}

#[tokio::test]
async fn what_is_owed_to_an_asker_who_is_away_is_handed_over_once_by_the_relay_that_came_after() {
    let mut relay = Relay::start("ask_max_wait_ms = 200", &["alice", "bob"]).await;
    let mut alice = relay.bot_of("alice", "p1").await;
    let mut bob = relay.bot("bob").await;
    let mut wakes = Vec::new();
    for question in ["in time", "late", "fetched"] {
        let working = alice.call("ask_agent", json!({"to": "bob", "message": question})).await;
        assert_eq!(text(&working, "error"), "still_working");
        wakes.push(bob.wake().await);
    }
    bob.call("reply", json!({"request_id": wakes[1]["request_id"], "error": "interrupted"})).await;
    alice.say_goodbye().await;
    relay.wait_online("alice", false).await;
    for wake in &wakes {
        assert_eq!(bob.answer(wake, text(wake, "message")).await["ok"], true);
    }
    relay.kill().await;
    relay.up().await;
    let fetched = relay.caller("alice").get_answer(text(&wakes[2], "request_id"), 0).await;
    assert_eq!(fetched["answer"], "fetched");
    relay.stop().await;
    relay.up().await;
    let mut alice = relay.bot_of("alice", "p2").await;
    for answer in ["in time", "late"] {
        assert_eq!(text(&alice.next("answer").await, "answer"), answer);
    }
    alice.settle().await;
    alice.settle().await;
    assert!(alice.has_none("answer"), "it was fetched");
    relay.stop().await;
    relay.up().await;
    let mut again = relay.bot_of("alice", "p2").await;
    again.settle().await;
    assert!(again.has_none("answer"), "once is enough");
}

#[tokio::test]
async fn an_asker_whose_call_was_cut_and_sent_again_is_handed_the_answer_too() {
    let relay = Relay::start("ask_max_wait_ms = 1000", &["alice", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    let mut alice = relay.bot_of("alice", "p1").await;
    let question = json!({"to": "bob", "message": "slow"});
    alice.begin_call("ask", "ask_agent", question.clone()).await;
    let wake = bob.wake().await;
    drop(alice);
    relay.wait_online("alice", false).await;
    let mut alice = relay.bot_of("alice", "p1").await;
    alice.begin_call("ask", "ask_agent", question).await;
    assert_eq!(text(&alice.result_of("ask").await, "error"), "still_working");
    bob.answer(&wake, "done").await;
    assert_eq!(text(&alice.next("answer").await, "answer"), "done");
}

#[tokio::test]
async fn an_answer_after_still_working_is_handed_over_by_the_relay_that_came_after_a_kill() {
    let mut relay = Relay::start("ask_max_wait_ms = 200", &["alice", "bob"]).await;
    let mut alice = relay.bot_of("alice", "p1").await;
    let mut bob = relay.bot_of("bob", "b1").await;
    alice.begin_call("ask", "ask_agent", json!({"to": "bob", "message": "slow"})).await;
    let wake = bob.wake().await;
    bob.received(text(&wake, "request_id")).await;
    assert_eq!(text(&alice.result_of("ask").await, "error"), "still_working");
    relay.kill().await;
    relay.up().await;
    let mut alice = relay.bot_of("alice", "p1").await;
    alice.settle().await;
    let mut bob = relay.bot_of("bob", "b1").await;
    bob.answer(&wake, "done").await;
    let handed = alice.next("answer").await;
    assert_eq!((&handed["request_id"], &handed["answer"]), (&wake["request_id"], &json!("done")));
}
