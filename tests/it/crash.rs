//! kill -9. The story of the big test: eight bots work, 32 askers ask without a pause, and the relay is killed again and
//! again at moments that a seeded dice chooses. Whoever meets the dead relay asks again under the same key, as a client does
//! after a lost session. Each answer is a function of its question, so a mix-up would be seen. In the end every ask has
//! its one answer, every answer that an asker had read is on disk as it was read, and no question was two questions.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::rig::{Caller, Relay, Seeded, Worker, soon, text, until};

const BOTS: u64 = 8;
const ASKERS: u64 = 32;
const ROUNDS: u64 = 20;

fn answer_to(question: &str) -> String {
    format!("<{}>", question.chars().rev().collect::<String>())
}

/// Answers that an asker has read: question -> result.
type Read = Arc<Mutex<HashMap<String, Value>>>;

async fn asks(caller: Caller, number: u64, read: Read, enough: Arc<AtomicBool>, met_dead: Arc<AtomicUsize>) {
    let mut dice = Seeded(number * 7919 + 1);
    let mut n = 0;
    while !enough.load(Ordering::Relaxed) {
        n += 1;
        let question = format!("asker {number} asks {n}: {}", dice.below(u64::MAX));
        let ask = json!({"to": format!("bot{}", dice.below(BOTS)), "message": question, "request_key": question});
        let result = soon(&question, persist(&caller, &ask, &met_dead)).await;
        assert_eq!((&result["ok"], &result["answer"]), (&json!(true), &json!(answer_to(&question))), "{result}");
        read.lock().unwrap().insert(question, result);
        // Thinks a little, so that rounds differ in what is under way.
        tokio::time::sleep(Duration::from_millis(dice.below(60))).await;
    }
}

/// Asks under the same key until there is an outcome.
async fn persist(caller: &Caller, ask: &Value, met_dead: &AtomicUsize) -> Value {
    loop {
        match caller.try_call("ask_agent", ask).await {
            Ok(result) if result["error"] == "still_working" => {}
            Ok(result) => return result,
            Err(_) => {
                met_dead.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_that_was_read_survives_kill_9_and_no_question_is_asked_twice() {
    let names: Vec<String> = (0..BOTS).map(|n| format!("bot{n}")).chain((0..ASKERS).map(|n| format!("asker{n}"))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut relay = Relay::start("", &names).await;
    let workers: Vec<Worker> = names[..BOTS as usize].iter().map(|name| Worker::start(relay.address.clone(), name, answer_to)).collect();
    for name in &names[..BOTS as usize] {
        relay.wait_online(name, true).await;
    }
    let (read, enough, met_dead) = (Read::default(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let askers: Vec<_> =
        (0..ASKERS).map(|n| tokio::spawn(asks(relay.caller(&format!("asker{n}")), n, read.clone(), enough.clone(), met_dead.clone()))).collect();
    let mut dice = Seeded(20_261_130);
    for round in 0..ROUNDS {
        // Not before something was answered since the last start, and then at any moment.
        let before = read.lock().unwrap().len();
        until(&format!("answers in round {round}"), async || (read.lock().unwrap().len() >= before + 16).then_some(())).await;
        tokio::time::sleep(Duration::from_millis(dice.below(250))).await;
        relay.kill().await;
        relay.up().await;
    }
    enough.store(true, Ordering::Relaxed);
    for asker in askers {
        soon("an asker ends", asker).await.unwrap();
    }
    relay.kill().await;
    relay.up().await;

    let read = std::mem::take(&mut *read.lock().unwrap());
    assert!(read.len() >= ROUNDS as usize * 16 && met_dead.load(Ordering::Relaxed) > 0, "{} answers, {met_dead:?} met a dead relay", read.len());
    let mut requests = HashSet::new();
    for (question, result) in &read {
        let asker = question.split(' ').nth(1).unwrap();
        let fetched = relay.caller(&format!("asker{asker}")).get_answer(text(result, "request_id"), 0).await;
        assert_eq!(&fetched, result, "what was read is what is kept");
        assert!(requests.insert(text(result, "request_id").to_owned()), "one request for two questions: {question}");
    }
    let mut request_of: HashMap<String, String> = HashMap::new();
    for worker in &workers {
        let memory = worker.memory.lock().unwrap();
        for (question, request, _) in &memory.wakes {
            let first = request_of.entry(question.clone()).or_insert_with(|| request.clone());
            assert_eq!(first, request, "one question became two: {question}");
        }
        for (request, acknowledged) in &memory.acknowledged {
            assert_eq!(acknowledged, &json!({"ok": true}), "{request}");
        }
        assert_eq!(memory.needless, Vec::<String>::new(), "woken for what it had answered");
        assert!(memory.connects > ROUNDS as u32 / 2, "{} connections", memory.connects);
    }
    let exchanges = relay.exchanges().await;
    assert_eq!(exchanges.len(), 200);
    for exchange in exchanges {
        assert_eq!((text(&exchange, "status"), text(&exchange, "answer")), ("ok", answer_to(text(&exchange, "message")).as_str()));
    }
}

#[tokio::test]
async fn a_conversation_goes_on_after_a_crash() {
    let mut relay = Relay::start("", &["alice", "bob", "carol"]).await;
    let alice = relay.caller("alice");
    let mut bob = relay.bot("bob").await;
    let asking = alice.asking(json!({"to": "bob", "message": "before"}));
    let wake = bob.wake().await;
    bob.answer(&wake, "one").await;
    let first = asking.await.unwrap();
    relay.kill().await;
    relay.up().await;
    assert_eq!(alice.get_answer(text(&first, "request_id"), 0).await, first);
    let ask = json!({"to": "bob", "message": "after", "conversation_id": first["conversation_id"]});
    assert_eq!(text(&relay.caller("carol").call("ask_agent", ask.clone()).await, "error"), "unknown_conversation");
    let mut bob = relay.bot("bob").await;
    let asking = alice.asking(ask);
    let wake = bob.wake().await;
    assert_eq!(wake["conversation_id"], first["conversation_id"]);
    bob.answer(&wake, "two").await;
    assert_eq!(asking.await.unwrap()["answer"], "two");
}

#[tokio::test]
async fn after_a_crash_who_was_connected_is_expected_and_who_had_said_goodbye_is_not() {
    let mut relay = Relay::start("", &["alice", "bob", "carol"]).await;
    let mut bob = relay.bot("bob").await;
    relay.bot("carol").await.say_goodbye().await;
    relay.wait_online("carol", false).await;
    bob.settle().await;
    relay.kill().await;
    relay.up().await;
    let gone = relay.caller("alice").ask("carol", "are you there?").await;
    assert_eq!(text(&gone, "error"), "agent_offline");
    assert!(text(&gone, "last_seen").ends_with('Z'), "{gone}");
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "come back"}));
    relay.on_record("come back").await;
    let mut bob = relay.bot("bob").await;
    let wake = bob.wake().await;
    bob.answer(&wake, "here").await;
    assert_eq!(asking.await.unwrap()["answer"], "here");
}
