//! A peer that is there and is not: its network is gone without a word, or its process hangs. The relay notices silence after
//! two pings without an answer (20 s apart unless configured, so within 60 s), and a bot that takes nothing from its
//! socket when its queue is full or a frame cannot be sent. Only that connection goes; its questions wait for its return, and
//! nobody else is hurt. (The bots' side is told in the adapter's tests.)

use futures_util::StreamExt;
use serde_json::json;
use tokio::sync::watch;

use crate::rig::raw::{close_code, upgraded};
use crate::rig::{Relay, soon, text, until};

#[tokio::test]
async fn a_silent_peer_is_dropped_after_two_pings_and_one_that_answers_them_stays() {
    // Long enough for a test machine that stands still for ten seconds to answer in time.
    let relay = Relay::start("ping_interval_ms = 5000", &["alice", "bob", "carol"]).await;
    let mut silent = upgraded(&relay, "bob").await;
    let mut lively = relay.bot("carol").await;
    let (pinged, mut pings) = watch::channel(0);
    let reading = tokio::spawn(async move {
        // Reading is what answers pings.
        while let Some(Ok(frame)) = lively.socket.next().await {
            assert!(frame.is_ping(), "{frame:?}");
            pinged.send_modify(|n| *n += 1);
        }
    });
    relay.wait_online("bob", true).await;
    relay.wait_online("bob", false).await;
    assert_eq!(close_code(&mut silent).await, Some(1001));
    soon("more pings than a silent peer gets", pings.wait_for(|n| *n >= 3)).await.unwrap();
    assert!(relay.is_online("carol").await && !reading.is_finished());
    reading.abort();
}

#[tokio::test]
async fn a_bot_that_never_reads_is_dropped_and_hurts_nobody() {
    let relay = Relay::start("[limits]\nmax_wakes_per_agent = 250\nmax_message_bytes = 300000", &["alice", "bob", "carol"]).await;
    let _deaf = upgraded(&relay, "bob").await;
    let mut carol = relay.bot("carol").await;
    let alice = relay.caller("alice");
    let before = relay.memory();
    let text_of = |n: usize| format!("{n} {}", "x".repeat(200_000));
    let askings: Vec<_> = (0..60).map(|n| alice.asking(json!({"to": "bob", "message": text_of(n)}))).collect();
    for n in 0..5 {
        let asking = alice.asking(json!({"to": "carol", "message": format!("meanwhile {n}")}));
        let wake = carol.wake().await;
        carol.answer(&wake, "fine").await;
        assert_eq!(asking.await.unwrap()["answer"], "fine");
    }
    until("the deaf bot is dropped", async || (alice.look_at("bob").await["online"] == false).then_some(())).await;
    // 12 MB of questions are open, each in a few copies under way, and the store's cache is full of them.
    assert!(relay.memory() < before + 250_000, "{} KiB, before {before}", relay.memory());
    // Its questions wait for its return.
    let mut bob = relay.bot("bob").await;
    for asking in askings {
        let wake = bob.wake().await;
        bob.answer(&wake, text(&wake, "message").split(' ').next().unwrap()).await;
        asking.abort();
    }
    let kept = relay.exchanges().await;
    let answered = kept.iter().filter(|e| e["to"] == "bob" && e["status"] == "ok");
    assert_eq!(answered.clone().count(), 60);
    assert!(answered.into_iter().all(|e| text(e, "message").starts_with(&format!("{} ", text(e, "answer")))));
    relay.is_well().await;
}

/// Of a caller over HTTP only the system can tell; it keeps a clock for each connection that it is to ask for a sign of life. (How
/// long that takes, and that what a waiting caller does not take is noticed as soon, is told in `inbound/alive.rs`.)
#[tokio::test]
async fn a_caller_that_is_silent_is_asked_for_a_sign_of_life() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    let asking = relay.caller("alice").streaming(json!({"to": "bob", "message": "are you there?"}));
    bob.wake().await;
    let port = relay.host().rsplit(':').next().unwrap().parse::<u16>().unwrap();
    // Columns of the kernel's table: local address, state (1: open), the clock that runs (2: for a sign of life).
    let clocks = || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let rows = table.lines().skip(1).map(|row| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let of_relay = rows.filter(|row| row[1].ends_with(&format!(":{port:04X}")) && row[3] == "01");
        of_relay.map(|row| row[5].split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    until("both are watched", async || (clocks().len() >= 2 && clocks().iter().all(|clock| clock == "02")).then_some(())).await;
    asking.abort();
}
