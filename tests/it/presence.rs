//! Comings and goings: a connection is a number, not a name. What a lost, an old or a silent connection costs (nothing),
//! and what a clean goodbye says (ask later).

use std::collections::{HashMap, HashSet};

use serde_json::json;

use crate::rig::{Bot, Relay, Seeded, Worker, soon, text, until};

/// A socket that is gone without a goodbye.
fn die(bot: Bot) {
    drop(bot);
}

#[tokio::test]
async fn an_older_connection_closing_takes_nobody_offline_and_loses_nothing() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut older = relay.bot_of("bob", "b1").await;
    let first = relay.caller("alice").asking(json!({"to": "bob", "message": "to the older"}));
    let to_older = older.wake().await;
    older.received(text(&to_older, "request_id")).await;
    older.settle().await;
    let mut newer = relay.bot_of("bob", "b1").await;
    newer.settle().await;
    let second = relay.caller("alice").asking(json!({"to": "bob", "message": "to the newer"}));
    let to_newer = newer.wake().await;
    assert_eq!(text(&to_newer, "message"), "to the newer");
    older.say_goodbye().await;
    newer.is_not_woken().await;
    assert!(relay.is_online("bob").await);
    newer.answer(&to_newer, "new").await;
    newer.answer(&to_older, "old").await;
    assert_eq!(first.await.unwrap()["answer"], "old");
    assert_eq!(second.await.unwrap()["answer"], "new");
}

#[tokio::test]
async fn when_the_newer_connection_is_lost_the_older_takes_over() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut older = relay.bot_of("bob", "b1").await;
    older.settle().await;
    let mut newer = relay.bot_of("bob", "b2").await;
    newer.settle().await;
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "q"}));
    let wake = newer.wake().await;
    die(newer);
    let again = older.wake().await;
    assert_eq!((&again["request_id"], &again["attempt"]), (&wake["request_id"], &json!(2)));
    older.answer(&again, "from the older").await;
    assert_eq!(asking.await.unwrap()["answer"], "from the older");
}

#[tokio::test]
async fn after_a_goodbye_asks_fail_at_once_and_after_a_loss_they_wait_for_the_return() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let alice = relay.caller("alice");
    relay.bot("bob").await.say_goodbye().await;
    relay.wait_online("bob", false).await;
    let refused = alice.ask("bob", "anybody there?").await;
    assert_eq!(text(&refused, "error"), "agent_offline");
    assert!(text(&refused, "last_seen").ends_with('Z') && text(&refused, "message").contains("last seen"), "{refused}");
    die(relay.bot("bob").await);
    relay.wait_online("bob", false).await;
    let asking = alice.asking(json!({"to": "bob", "message": "back soon?"}));
    relay.on_record("back soon?").await;
    let mut bob = relay.bot("bob").await;
    let wake = bob.wake().await;
    assert_eq!((text(&wake, "message"), &wake["attempt"]), ("back soon?", &json!(1)));
    bob.answer(&wake, "here").await;
    assert_eq!(asking.await.unwrap()["answer"], "here");
}

/// Four bots of two processes each, all of whose connections are lost after a few frames, whatever is under way.
#[tokio::test]
async fn connections_that_come_and_go_lose_nothing_and_mix_nothing_up() {
    let answer = |question: &str| format!("<{}>", question.chars().rev().collect::<String>());
    let names = ["bot0", "bot1", "bot2", "bot3", "asker"];
    let relay = Relay::start("", &names).await;
    let workers: Vec<Worker> = (0..8).map(|n| Worker::flapping(relay.address.clone(), names[n as usize % 4], answer, n + 1)).collect();
    for name in &names[..4] {
        until(name, async || workers.iter().any(|w| w.memory.lock().unwrap().connects > 0).then_some(())).await;
        relay.wait_online(name, true).await;
    }
    let askers = (0..16).map(|asker| {
        let caller = relay.caller("asker");
        tokio::spawn(async move {
            let mut dice = Seeded(asker + 100);
            for n in 0..12 {
                let question = format!("{asker} asks {n}: {}", dice.below(u64::MAX));
                let result = caller.ask(&format!("bot{}", dice.below(4)), &question).await;
                assert_eq!((&result["ok"], &result["answer"]), (&json!(true), &json!(answer(&question))), "{result}");
            }
        })
    });
    for asker in askers.collect::<Vec<_>>() {
        soon("an asker ends", asker).await.unwrap();
    }
    let (mut wakes, mut connects, mut taken) = (HashMap::new(), 0, HashSet::new());
    for worker in &workers {
        let memory = worker.memory.lock().unwrap();
        connects += memory.connects;
        for (question, request, attempt) in &memory.wakes {
            let attempts: &mut Vec<(String, u64)> = wakes.entry(question.clone()).or_default();
            attempts.push((request.clone(), *attempt));
        }
        for (request, acknowledged) in &memory.acknowledged {
            let fine = acknowledged["ok"] == true || acknowledged["error"] == "already_answered";
            assert!(fine && acknowledged["late"] != true, "{request}: {acknowledged}");
            assert!(acknowledged["ok"] != true || taken.insert(request.clone()), "{request} was answered twice");
        }
        assert_eq!(memory.needless, Vec::<String>::new(), "woken for what it had answered");
    }
    assert!(connects > 30, "{connects} connections");
    for (question, mut attempts) in wakes {
        attempts.sort_by_key(|(_, attempt)| *attempt);
        assert!(attempts.iter().all(|(request, _)| *request == attempts[0].0), "{question} became two: {attempts:?}");
        assert!(attempts.windows(2).all(|w| w[0].1 < w[1].1), "{question}: an attempt came twice: {attempts:?}");
    }
}
