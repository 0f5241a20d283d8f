//! The disk refuses, in the middle of it, and takes everything again later: it is full, was mounted read-only, or each write
//! or each sync is an I/O error; and once it lets the store be opened again and refuses all the same.
//! As configured the relay goes on relaying and says that it cannot record, or refuses new asks; in both cases it promises
//! nothing that it could not keep. `/ready`, the page and one line of the log say it. When the disk works again it
//! recovers by itself: what waited is written, and after a kill everything that anybody was told is there, as after a
//! kill in the middle of the trouble everything that was told as recorded.
//! (What happens at each single write and sync that fails is told in `src/store/faults.rs`.)

use serde_json::{Value, json};

use crate::rig::{Bot, Caller, Disk, OWNER, Relay, http, text, until};

const READ_ONLY: Disk = Disk::Fails { calls: "open,write,sync", errno: 30, on: "/data/" };
const NO_WRITE: Disk = Disk::Fails { calls: "write", errno: 5, on: "/data/" };
const NO_SYNC: Disk = Disk::Fails { calls: "sync", errno: 5, on: "/data/" };
/// The store can be opened and written at any time; what comes first, its journal, cannot.
const NO_JOURNAL: Disk = Disk::Fails { calls: "write", errno: 28, on: "/data/journal" };

async fn ready(relay: &Relay, expected: u16) -> String {
    until(&format!("/ready says {expected}"), async || {
        let (status, body) = relay.get("/ready").await;
        (status == expected).then_some(body)
    })
    .await
}

/// The log says this, once.
async fn is_logged_once(relay: &Relay, words: &str) {
    let lines = || relay.said().lines().filter(|line| line.contains(words)).count();
    until(&format!("{words} is logged"), async || (lines() > 0).then_some(())).await;
    assert_eq!(lines(), 1, "{}", relay.said());
}

async fn on(disk: Disk, keys: &str) -> Option<Relay> {
    let mut relay = Relay::prepare(keys, &["alice", "bob", "carol"]);
    relay.on(disk);
    if !disk.is_to_be_had() {
        return None;
    }
    relay.up().await;
    Some(relay)
}

/// Alice asks bob, who answers with the question's echo. Both are told alike whether it is on record.
async fn exchange(alice: &Caller, bob: &mut Bot, message: &str) -> Value {
    let asking = alice.asking(json!({"to": "bob", "message": message}));
    let wake = bob.wake().await;
    assert_eq!(text(&wake, "message"), message);
    let taken = bob.answer(&wake, &format!("<{message}>")).await;
    let result = asking.await.unwrap();
    assert_eq!(result["answer"], format!("<{message}>"), "{result}");
    assert_eq!((&taken["ok"], &taken["recorded"]), (&json!(true), &result["recorded"]), "{taken}");
    result
}

/// How often the disk has refused.
async fn refusals(relay: &Relay) -> u32 {
    let (_, metrics) = relay.get("/metrics").await;
    let line = metrics.lines().find_map(|line| line.strip_prefix("hermes_bridge_store_errors_total "));
    line.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
}

/// `/ready`, one line of the log and the page in every language say it, with `meanwhile` in English, also when the disk
/// was tried again meanwhile.
async fn it_is_said(relay: &Relay, meanwhile: &str) {
    assert!(ready(relay, 503).await.contains("the store cannot write"));
    let before = refusals(relay).await;
    until("it is tried again", async || (refusals(relay).await > before).then_some(())).await;
    is_logged_once(relay, "the store refuses to write").await;
    for (language, words) in
        [("en", meanwhile), ("fr", "Le disque refuse d’écrire."), ("es", "El disco no acepta escrituras."), ("zh", "磁盘无法写入。")]
    {
        let request = http().get(format!("{}/ui", relay.url())).bearer_auth(OWNER).header("accept-language", language);
        let page = request.send().await.unwrap().text().await.unwrap();
        let (_, banner) = page.split_once(r#"class="banner bad" role="alert""#).unwrap_or_else(|| panic!("no banner: {page}"));
        let (banner, _) = banner.split_once("</p>").unwrap();
        assert!(banner.contains(words) && banner.contains("os error"), "{banner}");
    }
}

async fn it_recovers(relay: &Relay) {
    relay.disk_refuses(false);
    ready(relay, 200).await;
    is_logged_once(relay, "the store writes again").await;
    is_logged_once(relay, "the store refuses to write").await;
    let (status, page) = relay.get("/ui").await;
    assert!(status == 200 && !page.contains(r#"class="banner bad""#), "{page}");
}

/// What anybody was told is what is kept.
async fn is_kept(alice: &Caller, results: &[Value]) {
    for result in results {
        assert_eq!(&alice.get_answer(text(result, "request_id"), 0).await, result);
    }
}

async fn the_relay_goes_on(disk: Disk) {
    let Some(mut relay) = on(disk, "").await else { return };
    let alice = relay.caller("alice");
    let mut bob = relay.bot_of("bob", "b1").await;
    let open = alice.asking(json!({"to": "bob", "message": "asked before"}));
    let before = bob.wake().await;
    bob.received(text(&before, "request_id")).await;
    bob.settle().await;

    relay.disk_refuses(true);
    let mut results: Vec<Value> = Vec::new();
    for n in 0..10 {
        let mut result = exchange(&alice, &mut bob, &format!("while it refuses {n}")).await;
        assert_eq!(result.as_object_mut().unwrap().remove("recorded"), Some(json!(false)));
        results.push(result);
    }
    bob.answer(&before, "answered meanwhile").await;
    assert_eq!(open.await.unwrap()["answer"], "answered meanwhile");
    it_is_said(&relay, "The disk refuses to write. What happens now is kept in memory until it recovers.").await;
    let kept = alice.call("ask_agent", json!({"to": "carol", "message": "keep it", "when_offline": "queue"})).await;
    assert_eq!(text(&kept, "error"), "store_unavailable", "what must be kept is refused");

    it_recovers(&relay).await;
    relay.bot("carol").await.is_not_woken().await;
    results.push(exchange(&alice, &mut bob, "and now?").await);
    assert_eq!(results.last().unwrap()["recorded"], json!(null), "that is on disk");
    relay.kill().await;
    relay.up().await;
    is_kept(&alice, &results).await;
    assert_eq!(alice.get_answer(text(&before, "request_id"), 0).await["answer"], "answered meanwhile");
    let mut bob = relay.bot_of("bob", "b1").await;
    bob.is_not_woken().await;
}

async fn new_asks_are_refused(disk: Disk) {
    let Some(mut relay) = on(disk, "on_store_failure = \"refuse\"").await else { return };
    let alice = relay.caller("alice");
    let mut bob = relay.bot_of("bob", "b1").await;
    let mut results = vec![exchange(&alice, &mut bob, "before").await];
    relay.disk_refuses(true);
    for n in 0..5 {
        let refused = alice.ask("bob", &format!("while it refuses {n}")).await;
        assert_eq!((text(&refused, "error"), &refused["recorded"]), ("store_unavailable", &json!(false)), "{refused}");
    }
    let kept = alice.call("ask_agent", json!({"to": "carol", "message": "keep it", "when_offline": "queue"})).await;
    assert_eq!(text(&kept, "error"), "store_unavailable");
    let counted = |n: u32| format!("exchanges_total{{to=\"bob\",status=\"store_unavailable\"}} {n}\n");
    let (_, metrics) = relay.get("/metrics").await;
    assert!(metrics.contains(&counted(5)), "each is counted once: {metrics}");
    it_is_said(&relay, "The disk refuses to write. New questions are refused until it recovers.").await;

    it_recovers(&relay).await;
    // Bob's next wake is this one: nobody was woken for what was refused.
    results.push(exchange(&alice, &mut bob, "and now?").await);
    assert_eq!(results.last().unwrap()["recorded"], json!(null));
    relay.kill().await;
    relay.up().await;
    is_kept(&alice, &results).await;
}

#[tokio::test]
async fn a_relay_whose_disk_is_full_goes_on_says_so_and_writes_everything_when_it_can() {
    the_relay_goes_on(Disk::Full).await;
}

#[tokio::test]
async fn a_relay_whose_disk_is_read_only_goes_on_says_so_and_writes_everything_when_it_can() {
    the_relay_goes_on(READ_ONLY).await;
}

#[tokio::test]
async fn a_relay_whose_writes_are_errors_goes_on_says_so_and_writes_everything_when_it_can() {
    the_relay_goes_on(NO_WRITE).await;
}

#[tokio::test]
async fn a_relay_whose_syncs_are_errors_goes_on_says_so_and_writes_everything_when_it_can() {
    the_relay_goes_on(NO_SYNC).await;
}

#[tokio::test]
async fn a_disk_that_can_be_opened_and_refuses_again_is_one_outage() {
    the_relay_goes_on(NO_JOURNAL).await;
}

#[tokio::test]
async fn where_only_recorded_asks_may_go_on_a_full_disk_refuses_them_and_wakes_nobody() {
    new_asks_are_refused(Disk::Full).await;
}

#[tokio::test]
async fn where_only_recorded_asks_may_go_on_a_read_only_disk_refuses_them_and_wakes_nobody() {
    new_asks_are_refused(READ_ONLY).await;
}

#[tokio::test]
async fn where_only_recorded_asks_may_go_on_write_errors_refuse_them_and_wake_nobody() {
    new_asks_are_refused(NO_WRITE).await;
}

#[tokio::test]
async fn where_only_recorded_asks_may_go_on_sync_errors_refuse_them_and_wake_nobody() {
    new_asks_are_refused(NO_SYNC).await;
}

#[tokio::test]
async fn a_kill_while_syncs_are_errors_loses_nothing_that_was_told_as_recorded() {
    let Some(mut relay) = on(NO_SYNC, "").await else { return };
    let alice = relay.caller("alice");
    let mut bob = relay.bot_of("bob", "b1").await;
    let mut results = Vec::new();
    for n in 0..20 {
        if n == 10 {
            relay.disk_refuses(true);
        }
        let result = exchange(&alice, &mut bob, &format!("question {n}")).await;
        assert_eq!(result["recorded"], if n < 10 { json!(null) } else { json!(false) });
        results.push(result);
    }
    relay.kill().await;
    relay.disk_refuses(false);
    relay.up().await;
    is_kept(&alice, &results[..10]).await;
}

#[tokio::test]
async fn what_is_owed_is_handed_over_when_it_is_on_record_and_not_before() {
    let Some(relay) = on(NO_WRITE, "ask_max_wait_ms = 200").await else { return };
    let mut alice = relay.bot_of("alice", "a1").await;
    let mut bob = relay.bot_of("bob", "b1").await;
    let mut wakes = Vec::new();
    for question in ["in time", "late"] {
        let working = alice.call("ask_agent", json!({"to": "bob", "message": question})).await;
        assert_eq!(text(&working, "error"), "still_working");
        wakes.push(bob.wake().await);
    }
    bob.call("reply", json!({"request_id": wakes[1]["request_id"], "error": "interrupted"})).await;
    relay.disk_refuses(true);
    for wake in &wakes {
        assert_eq!(bob.answer(wake, text(wake, "message")).await["recorded"], json!(false));
    }
    for again in 0..2 {
        alice.call("list_agents", json!({})).await;
        assert!(alice.has_none("answer"), "it is in memory alone");
        alice.say_goodbye().await;
        if again == 1 {
            it_recovers(&relay).await;
        }
        alice = relay.bot_of("alice", "a1").await;
    }
    for wake in &wakes {
        assert_eq!(alice.next("answer").await["answer"], wake["message"]);
    }
}

#[tokio::test]
async fn an_answer_that_only_memory_had_when_the_relay_was_killed_is_said_again_by_its_bot() {
    let Some(mut relay) = on(NO_WRITE, "").await else { return };
    let mut listener = relay.spawn(&["listen", "--as", "bob", "--exec", "cat"], "listen");
    relay.wait_online("bob", true).await;
    let alice = relay.caller("alice");
    // On record, and bob's answer to it is not.
    let mut carol = relay.bot("carol").await;
    let asking = alice.asking(json!({"to": "carol", "message": "before"}));
    let wake = carol.wake().await;
    carol.received(text(&wake, "request_id")).await;
    carol.settle().await;
    relay.disk_refuses(true);
    for _ in 0..2 {
        let reply = json!({"request_id": wake["request_id"], "answer": "in memory"});
        carol.begin_call("the same", "reply", reply).await;
        assert_eq!(carol.result_of("the same").await, json!({"ok": true, "recorded": false}));
    }
    assert_eq!(asking.await.unwrap()["recorded"], json!(false));
    let answered = alice.ask("bob", "while it refuses").await;
    assert_eq!((text(&answered, "answer"), &answered["recorded"]), ("while it refuses", &json!(false)));
    relay.kill().await;
    relay.disk_refuses(false);
    relay.up().await;
    // The bot keeps what was not recorded, and says it again.
    let mut carol = relay.bot("carol").await;
    assert_eq!(carol.answer(&wake, "in memory").await, json!({"ok": true}));
    assert_eq!(alice.get_answer(text(&wake, "request_id"), 0).await["answer"], "in memory");
    relay.wait_online("bob", true).await;
    listener.kill().await.unwrap();
}
