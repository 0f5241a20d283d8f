//! Langfuse slow, refusing, cut off, silent, gone; the relay is killed meanwhile. Each time every exchange that ended comes
//! out, once, and asks never noticed.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::{all_arrived, all_arrived_once, counted, counts, exchange, exchanges, id_of, is_tried_again, is_tried_in_vain};
use crate::rig::{Answer, Collector, Relay, Worker, attribute, soon, text, until};

#[tokio::test]
async fn an_outage_costs_nothing_and_a_wish_to_wait_is_respected() {
    let mut collector = Collector::start().await;
    let relay = Relay::start(&collector.langfuse(""), &["alice"]).await;
    let mut ids = exchanges(&relay, 3).await;
    all_arrived_once(&collector, &ids).await;
    collector.close().await;
    ids.extend(exchanges(&relay, 20).await);
    collector.always(Answer::Refuse(503, ""));
    collector.open().await;
    until("it is tried again", async || collector.requests().iter().any(|r| !r.taken).then_some(())).await;
    ids.extend(exchanges(&relay, 20).await);
    collector.once(Answer::Refuse(429, "retry-after: 3\r\n"));
    collector.always(Answer::Take);
    all_arrived_once(&collector, &ids).await;
    let requests = collector.requests();
    let last_refused = requests.iter().rposition(|r| !r.taken).unwrap();
    assert!(requests[last_refused + 1].at - requests[last_refused].at >= Duration::from_secs(3));
    let said = relay.said();
    assert_eq!(said.matches("the export waits").count(), 1, "{said}");
    assert_eq!(said.matches("the export goes on").count(), 1, "{said}");
}

#[tokio::test]
async fn neither_kill_9_nor_kill_9_in_an_outage_loses_an_exchange() {
    let mut collector = Collector::start().await;
    let mut relay = Relay::start(&collector.langfuse(""), &["alice"]).await;
    let mut ids = exchanges(&relay, 10).await;
    all_arrived(&collector, &ids).await;
    ids.extend(exchanges(&relay, 10).await);
    relay.kill().await;
    relay.up().await;
    let before = all_arrived(&collector, &ids).await;
    // The moment of the kill decides whether the batch before it goes out again; nothing else may.
    let twice: usize = before.values().filter(|n| **n > 1).count();
    assert!(before.len() == ids.len() && before.values().all(|n| *n <= 2) && twice <= 10, "{before:?}");
    collector.close().await;
    ids.extend(exchanges(&relay, 10).await);
    relay.kill().await;
    relay.up().await;
    ids.extend(exchanges(&relay, 10).await);
    relay.kill().await;
    collector.open().await;
    relay.up().await;
    let after = all_arrived(&collector, &ids).await;
    assert_eq!(ids[20..].iter().filter(|id| after[*id] != 1).count(), 0, "{after:?}");
}

#[tokio::test]
async fn a_lost_answer_sends_one_batch_again_and_no_more() {
    let collector = Collector::start().await;
    let relay = Relay::start(&collector.langfuse(""), &["alice"]).await;
    collector.once(Answer::TakeAndCut);
    let ids = exchanges(&relay, 5).await;
    all_arrived(&collector, &ids).await;
    let more = exchanges(&relay, 5).await;
    let counts = all_arrived(&collector, &[ids, more].concat()).await;
    let first: Vec<String> = collector.requests()[0].spans.iter().map(id_of).collect();
    for (id, n) in counts {
        assert_eq!(n, if first.contains(&id) { 2 } else { 1 }, "{id}");
    }
}

#[tokio::test]
async fn a_langfuse_that_never_answers_delays_neither_asks_nor_the_stop() {
    let collector = Collector::start().await;
    collector.always(Answer::Never);
    let mut silent = Relay::start(&collector.langfuse("shutdown_ms = 500"), &["alice", "bob"]).await;
    let plain = Relay::start("", &["alice", "bob"]).await;
    exchange(&silent, "first").await;
    until("it waits for an answer", async || (!collector.requests().is_empty()).then_some(())).await;
    let both = [&silent, &plain];
    let _bobs = both.map(|relay| Worker::start(relay.address.clone(), "bob", |_| "yes".to_owned()));
    for relay in both {
        relay.wait_online("bob", true).await;
    }
    let mut took = [Vec::new(), Vec::new()];
    // In turns, so that whatever else the machine does meets both.
    for n in 0..100 {
        for (relay, took) in both.into_iter().zip(&mut took) {
            let begun = Instant::now();
            assert_eq!(relay.caller("alice").ask("bob", &format!("ask {n}")).await["answer"], "yes");
            took.push(begun.elapsed());
        }
    }
    let [with, without] = took.map(|mut took| {
        took.sort();
        took[took.len() / 2]
    });
    assert!(with < without * 3 / 2, "half of the asks take longer than {with:?} with it, {without:?} without");
    let (code, took) = silent.stop().await;
    assert!(code == Some(0) && took < Duration::from_secs(10), "{code:?} {took:?}");
}

#[tokio::test]
async fn a_stop_sends_what_has_just_ended() {
    let collector = Collector::start().await;
    let mut relay = Relay::start(&collector.langfuse(""), &["alice"]).await;
    let ids = exchanges(&relay, 5).await;
    soon("the relay stops", relay.stop()).await;
    let counts = counts(&collector);
    assert!(ids.iter().all(|id| counts.get(id) == Some(&1)), "{counts:?}");
}

/// 50 s; the TypeScript relay delivered 70 of these 100.
#[tokio::test]
async fn an_outage_of_half_a_minute_at_two_exchanges_a_second_costs_none_of_a_hundred() {
    let mut collector = Collector::start().await;
    let relay = Relay::start(&collector.langfuse(""), &["alice"]).await;
    let mut pace = tokio::time::interval(Duration::from_millis(500));
    let (mut ids, mut before) = (Vec::new(), 0);
    for n in 0..100 {
        pace.tick().await;
        match n {
            20 => {
                collector.close().await;
                before = collector.count();
            }
            80 => collector.open().await,
            _ => {}
        }
        ids.push(exchange(&relay, &format!("number {n}")).await);
    }
    is_tried_again(&collector, before).await;
    all_arrived_once(&collector, &ids).await;
}

#[tokio::test]
async fn what_is_erased_or_hidden_in_an_outage_does_not_leave_after_it() {
    let mut collector = Collector::start().await;
    collector.close().await;
    let relay = Relay::start(&collector.langfuse(""), &["alice"]).await;
    let erased = exchange(&relay, "what nobody is to know").await;
    let kept = exchange(&relay, "my token is tok-carol-0123456789").await;
    is_tried_in_vain(&relay).await;
    let conversation = relay.on_record("what nobody is to know").await["conversation_id"].as_str().unwrap().to_owned();
    assert_eq!(relay.run(&["erase", "--conversation", &conversation, "--yes"]).await.code, 0);
    relay.configure(&collector.langfuse(""), &["alice", "carol"]);
    relay.signal(Signal::HUP);
    relay.noted("configuration", "read anew: 2 agents").await;
    is_tried_in_vain(&relay).await;
    collector.open().await;
    is_tried_again(&collector, 0).await;
    all_arrived_once(&collector, std::slice::from_ref(&kept)).await;
    let span = &collector.spans()[0];
    let input: Value = serde_json::from_str(attribute(span, "langfuse.observation.input").as_str().unwrap()).unwrap();
    assert_eq!(input["message"], "my token is [redacted]");
    let spans = |outcome: &str| format!("export_spans_total{{sink=\"langfuse\",outcome=\"{outcome}\"}}");
    until("they are counted", async || (counted(&relay, &spans("exported")).await > 0.5).then_some(())).await;
    assert!((counted(&relay, &spans("retention")).await - 1.0).abs() < 0.1, "what is erased counts once, however often it was tried");
    assert!(!counts(&collector).contains_key(&erased));
}

/// HERMES_BRIDGE_BACKLOG=10000 is the long form; it says what it found with `-- --nocapture`.
#[tokio::test]
async fn a_backlog_drains_in_order_with_little_memory() {
    const LANES: usize = 8;
    let wanted = std::env::var("HERMES_BRIDGE_BACKLOG").map_or(400, |n| n.parse().unwrap());
    let each = wanted / LANES;
    let mut collector = Collector::start().await;
    collector.close().await;
    let mut relay = Relay::start(&collector.langfuse("[limits]\nasks_per_minute = 1000000"), &["alice", "bob"]).await;
    let alice = relay.caller("alice");
    // In all 16 MB at least, of which 10 MB may be in memory.
    let text_of = "x".repeat(40_000);
    let asking = (0..LANES).map(|lane| {
        let (alice, text_of) = (alice.clone(), text_of.clone());
        tokio::spawn(async move {
            for n in 0..each {
                // Bob is away: that is an exchange too, and its question is kept whole.
                alice.ask("bob", &format!("{lane} {n} {text_of}")).await;
            }
        })
    });
    for one in asking.collect::<Vec<_>>() {
        one.await.unwrap();
    }
    // Memory that a former life of the process had would hide what this one takes. What is read stays in the store's cache, and
    // the index follows: all that is there before the export begins.
    relay.stop().await;
    relay.up().await;
    assert_eq!(relay.get("/ui/export.ndjson").await.1.lines().count(), LANES * each);
    until("the index is at rest", async || (counted(&relay, "search_index_lag").await < 0.5).then_some(())).await;
    let before = relay.memory();
    relay.peak_begins();
    collector.open().await;
    is_tried_again(&collector, 0).await;
    // As long as something arrives: how many there are is no question of time.
    while collector.count() < LANES * each {
        let arrived = collector.count();
        until("the backlog drains", async || (collector.count() > arrived).then_some(())).await;
    }
    let most = relay.peak_memory();
    println!("{} exchanges drained; {before} KiB before, at most {most} meanwhile", collector.count());
    let mut lanes: HashMap<String, Vec<usize>> = HashMap::new();
    for span in collector.spans() {
        let input: Value = serde_json::from_str(attribute(&span, "langfuse.observation.input").as_str().unwrap()).unwrap();
        let mut words = text(&input, "message").split(' ');
        lanes.entry(words.next().unwrap().to_owned()).or_default().push(words.next().unwrap().parse().unwrap());
    }
    assert!(lanes.len() == LANES && lanes.values().all(|lane| lane.iter().copied().eq(0..each)), "{lanes:?}");
    assert!(most.saturating_sub(before) < 10 * 1024, "grew by {} KiB", most.saturating_sub(before));
}
