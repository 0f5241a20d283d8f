//! The story: 32 bots ask each other without a pause, over both doors, and everything goes wrong all the time. Answers come,
//! come late, come twice or never; sockets are lost and doubled, with a goodbye or without; processes die and others take
//! their place; and the relay is killed every second or so, now and then stopped in order. What must hold is `ledger`'s:
//! every ask that was taken has one end, the same to whoever hears of it; every answer that a bot was told is taken is
//! fetched whole; no process is woken again for what the relay knows it has, and nobody for what is answered. Each answer
//! is a function of its question and of who was asked, so a mix-up is seen.
//!
//! The short form runs with all tests. HERMES_BRIDGE_TORTURE_KILLS=1000 is the long one, HERMES_BRIDGE_TORTURE_SEED chooses the dice.

mod asks;
mod ledger;
mod process;
mod turns;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::rig::{PATIENCE, Relay, Seeded, text, until};
use ledger::Ledger;

const BOTS: u64 = 32;
const SHORT: u64 = 12;
/// From so many kills on, what is rare must have been seen too.
const LONG: u64 = 300;
/// Clocks that run out often, and no limits for bots that ask each other all the time.
const LIMITS: &str = "
ask_timeout_ms = 700
reconnect_grace_ms = 900
ask_max_wait_ms = 700
queue_ttl_ms = 4000
max_exchange_ms = 15000
[limits]
max_timeouts_in_a_row = 1000000
max_asks_per_root = 1000000
max_turns_per_conversation = 1000000
max_asks_per_pair_per_hour = 1000000";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_dies_at_any_moment_nothing_is_lost_and_nothing_happens_twice() {
    let kills = number("HERMES_BRIDGE_TORTURE_KILLS").unwrap_or(SHORT);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = number("HERMES_BRIDGE_TORTURE_SEED").unwrap_or(u64::from(now.subsec_micros()) + 1);
    println!("HERMES_BRIDGE_TORTURE_SEED={seed}");
    let names: Vec<String> = (0..BOTS).map(|n| format!("bot{n}")).collect();
    let mut relay = Relay::start(LIMITS, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let ledger = Arc::new(Ledger::new(&names));
    let (started, mut dice, mut bots) = (Instant::now(), Seeded(seed), JoinSet::new());
    for (n, name) in names.iter().enumerate() {
        bots.spawn(process::live(name.clone(), relay.address.clone(), ledger.clone(), Seeded(seed * 1000 + n as u64 + 1)));
    }
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(if dice.below(8) == 0 { dice.below(50) } else { 200 + dice.below(1600) })).await;
        fail_early(&ledger, &mut bots, &relay);
        if dice.below(10) == 0 {
            let (code, took) = relay.stop().await;
            assert!(code == Some(0) && took < PATIENCE, "{code:?} after {took:?}: {}", relay.said());
        } else {
            relay.kill().await;
        }
        if dice.below(5) == 0 {
            tokio::time::sleep(Duration::from_millis(dice.below(2000))).await;
        }
        relay.up().await;
    }
    let tortured = started.elapsed();
    ledger.wind_down();
    let anybody = relay.caller("bot0");
    until("everything has ended", async || {
        fail_early(&ledger, &mut bots, &relay);
        let listed = anybody.call("list_agents", json!({})).await;
        let idle = |agent: &Value| agent["online"] == true && agent["waiting"] == 0;
        (ledger.nobody_asks() && listed.as_array().unwrap().iter().all(idle)).then_some(())
    })
    .await;
    all_is_handed_over(&ledger, &relay).await;
    relay.kill().await;
    relay.up().await;
    bots.shutdown().await;
    compare(&relay, &ledger).await;
    complain(&ledger, &relay);
    let said = relay.said();
    let bad: Vec<&str> = said.lines().filter(|l| l.contains("ERROR") || l.contains("panicked")).collect();
    assert!(bad.is_empty(), "the relay complained: {bad:#?}");
    println!("{kills} kills and stops in {} s; {}", tortured.as_secs(), ledger.figures());
    let never = ledger.never(kills >= LONG);
    assert!(never.is_empty(), "this has not happened once, so nothing is shown of it: {never:?}");
}

/// The first fault tells most.
fn fail_early(ledger: &Ledger, bots: &mut JoinSet<()>, relay: &Relay) {
    if let Some(ended) = bots.try_join_next() {
        panic!("a bot of the test ended: {ended:?}");
    }
    complain(ledger, relay);
}

/// Whoever was told to go on with something else has its answer when it is back, whatever died in between.
async fn all_is_handed_over(ledger: &Ledger, relay: &Relay) {
    let handed = async {
        while !ledger.owed().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    if tokio::time::timeout(PATIENCE, handed).await.is_err() {
        ledger.owed().into_iter().for_each(|owed| ledger.fault(owed));
        complain(ledger, relay);
    }
}

/// With what the relay logged of the requests in question.
fn complain(ledger: &Ledger, relay: &Relay) {
    let faults = ledger.faults();
    if let Some(first) = faults.first() {
        let said = relay.said();
        let request = first.split(|c: char| !c.is_ascii_hexdigit() && c != '-').find(|word| word.len() == 36);
        let lines: Vec<&str> =
            said.lines().filter(|l| request.is_some_and(|id| l.contains(id)) || ["stop", "took up", "ERROR"].iter().any(|w| l.contains(w))).collect();
        // Its directory stays for whoever has to find out.
        std::mem::forget(relay.dir.clone());
        let dir = relay.dir.path().display();
        panic!("{} faults, the first:\n{first}\nthe relay, in {dir}, said:\n{}", faults.len(), lines.join("\n"));
    }
}

/// What is kept, fetched by its asker and seen by the owner, is what was told to anybody.
async fn compare(relay: &Relay, ledger: &Arc<Ledger>) {
    let mut fetching = JoinSet::new();
    for (asker, requests) in ledger.requests_by_asker() {
        let (caller, ledger) = (relay.caller(&asker), ledger.clone());
        fetching.spawn(async move {
            for request in requests {
                ledger.kept(&request, &caller.get_answer(&request, 0).await);
            }
        });
    }
    while let Some(fetched) = fetching.join_next().await {
        fetched.unwrap();
    }
    let (status, export) = relay.get("/ui/export.ndjson").await;
    assert_eq!(status, 200);
    let mut ends: HashMap<String, u32> = HashMap::new();
    for line in export.lines() {
        let exchange: Value = serde_json::from_str(line).unwrap();
        ledger.exported(&exchange);
        *ends.entry(text(&exchange, "request_id").to_owned()).or_default() += 1;
    }
    for (_, requests) in ledger.requests_by_asker() {
        assert!(requests.iter().all(|request| ends.get(request) == Some(&1)), "the owner sees each once");
    }
}
