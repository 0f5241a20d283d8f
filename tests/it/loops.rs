//! Bots that keep asking each other, with the limits that a relay has when nobody sets any: loops are stopped and say so,
//! ordinary talk is not disturbed.

use serde_json::{Value, json};

use crate::rig::{Bot, Relay, text};

/// One asks, the other answers; what the asker was told.
async fn turn(asker: &mut Bot, asked: &mut Bot, n: usize, conversation: Option<&str>) -> Value {
    let id = format!("turn {n}");
    let mut arguments = json!({"to": asked.name, "message": format!("thank you {n}")});
    if let Some(conversation) = conversation {
        arguments["conversation_id"] = conversation.into();
    }
    asker.begin_call(&id, "ask_agent", arguments).await;
    tokio::select! {
        refused = asker.result_of(&id) => return refused,
        wake = asked.wake() => drop(asked.answer(&wake, "you are welcome").await),
    }
    asker.result_of(&id).await
}

#[tokio::test]
async fn two_polite_bots_stop_saying_goodbye() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let (mut alice, mut bob) = (relay.bot("alice").await, relay.bot("bob").await);
    let mut last = Value::Null;
    for n in 0..100 {
        last = match n % 2 {
            0 => turn(&mut alice, &mut bob, n, None).await,
            _ => turn(&mut bob, &mut alice, n, None).await,
        };
        if last["ok"] == false {
            break;
        }
    }
    assert_eq!((text(&last, "error"), text(&last, "limit")), ("loop_limit", "max_asks_per_pair_per_hour"));
    assert!(text(&last, "message").contains("alice -> bob -> alice"), "{last}");
    let kept = relay.exchanges().await.into_iter().find(|e| e["status"] == "loop_limit").expect("the refusal is on record");
    assert_eq!(text(&kept, "request_id"), text(&last, "request_id"));
}

#[tokio::test]
async fn one_conversation_ends_when_nobody_else_ends_it() {
    let relay = Relay::start("[limits]\nmax_turns_per_conversation = 6", &["alice", "bob"]).await;
    let (mut alice, mut bob) = (relay.bot("alice").await, relay.bot("bob").await);
    let first = turn(&mut alice, &mut bob, 0, None).await;
    let conversation = text(&first, "conversation_id").to_owned();
    for n in 1..6 {
        assert_eq!(turn(&mut alice, &mut bob, n, Some(&conversation)).await["ok"], true, "{n}");
    }
    let last = turn(&mut alice, &mut bob, 6, Some(&conversation)).await;
    assert_eq!((text(&last, "error"), text(&last, "limit")), ("loop_limit", "max_turns_per_conversation"));
    assert_eq!(turn(&mut alice, &mut bob, 7, None).await["ok"], true);
}

#[tokio::test]
async fn bots_that_ask_in_a_circle_before_they_answer_are_stopped_with_the_path() {
    let relay = Relay::start("", &["alice", "bob", "carol"]).await;
    let mut bots = [relay.bot("alice").await, relay.bot("bob").await, relay.bot("carol").await];
    let mut last = Value::Null;
    for n in 0..20 {
        let to = bots[(n + 1) % 3].name.clone();
        let id = format!("round {n}");
        bots[n % 3].begin_call(&id, "ask_agent", json!({"to": to, "message": format!("pass it on {n}")})).await;
        let (left, right) = bots.split_at_mut(2);
        let (asker, asked) = match n % 3 {
            0 => {
                let (a, b) = left.split_at_mut(1);
                (&mut a[0], &mut b[0])
            }
            1 => (&mut left[1], &mut right[0]),
            _ => (&mut right[0], &mut left[0]),
        };
        tokio::select! {
            refused = asker.result_of(&id) => { last = refused; break }
            _ = asked.wake() => {}
        }
    }
    assert_eq!((text(&last, "error"), text(&last, "limit")), ("loop_limit", "max_depth"));
    assert!(text(&last, "message").contains("alice -> bob -> carol -> alice -> bob"), "{last}");
}

#[tokio::test]
async fn a_thousand_questions_one_way_are_no_loop() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let (mut alice, mut bob) = (relay.bot("alice").await, relay.bot("bob").await);
    for n in 0..1000 {
        assert_eq!(turn(&mut alice, &mut bob, n, None).await["ok"], true, "{n}");
    }
}
