//! What is erased, by its owner or by the clock, is gone from the record and from the index, and nothing else is; the clock
//! minds who has not read it yet, and a changed `[retention]`.

use std::time::{Duration, Instant};

use super::erase::PIECE;
use super::retention::{DAY_MS, Looked, Pass, Removed};
use super::*;
use crate::config::{Config, Retention};
use crate::core::exchange::{Asked, End, Trail, WhenOffline};
use crate::core::ids::Seq;
use crate::core::outcome::Outcome;
use crate::store::Old;

fn name(text: &str) -> AgentName {
    AgentName::parse(text).unwrap()
}

/// An answered exchange of so many days ago.
fn old(n: u128, days: u64, now: Millis) -> [Fact; 2] {
    let at = Millis(now.0 - days * DAY_MS);
    let id = RequestId::from_u128(u128::from(at.0) << 80 | n);
    let asked = Asked {
        id,
        conversation: ConversationId::from_u128(n % 4),
        begins: true,
        from: name("alice"),
        to: "bob".into(),
        message: format!("yesteryear number {n} {}", "and more of it ".repeat(40)).into(),
        at,
        when_offline: WhenOffline::Fail,
        trail: Trail { root: id, parent: None, origin: name("alice"), path: [name("alice")].into() },
        key: None,
        traceparent: None,
    };
    let end = End { outcome: Outcome::Answered, text: "done".into(), at, call: None, by: None };
    [Fact::Asked(Arc::new(asked)), Fact::Ended { id, end: Arc::new(end), work: Default::default() }]
}

async fn record(store: &Store, facts: Vec<Fact>) {
    let permit = store.reserve().await.unwrap();
    let (told, done) = oneshot::channel();
    store.submit(permit, facts, move |written| told.send(written).unwrap());
    assert_eq!(done.await, Ok(Written::Durable));
}

async fn start(dir: &std::path::Path, retention: Retention) -> Arc<Engine> {
    let store = Store::open(dir).unwrap();
    if store.exchange_count().unwrap() == 0 {
        let now = Millis(jiff::Timestamp::now().as_millisecond() as u64);
        record(&store, (0..1_000).flat_map(|n| old(n, if n < 900 { 40 } else { 3 }, now)).collect()).await;
    }
    let flags = crate::config::Flags { config: Some("/dev/null".into()), data_dir: Some(dir.to_owned()), ..Default::default() };
    let mut config = crate::config::load(&flags, &|_| None).unwrap();
    config.retention = retention;
    config.agents = ["alice", "bob"].map(|n| crate::config::AgentEntry { name: name(n), credential: None }).into();
    Engine::start(config, store).unwrap()
}

async fn found(engine: &Arc<Engine>, text: &str) -> u64 {
    engine.search(Search { text: text.into(), ..Search::default() }).await.unwrap().total
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds().await {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn stop(engine: Arc<Engine>) {
    engine.stop().await;
    tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_older_than_the_limit_goes_while_asks_are_served_and_the_index_follows() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path(), Retention { days: Some(30), ..Retention::default() }).await;
    until("indexed", async || found(&engine, "yesteryear").await == 1_000).await;
    engine.keep_up(Vec::new());
    let mut asked = 0;
    until("the old ones are removed", async || {
        // Refused, for bob is away; recorded like any other.
        engine.ask(&name("alice"), AskRequest { to: "bob".into(), message: "today".into(), ..Default::default() }).await.unwrap();
        asked += 1;
        engine.store.exchange_count().unwrap() == 100 + asked
    })
    .await;
    until("the index has followed", async || found(&engine, "yesteryear").await == 100).await;
    let all = engine.erasures().await.unwrap();
    assert_eq!(all.iter().map(|(_, why, n)| (why.as_str(), *n)).collect::<Vec<_>>(), [("older than 30 days", 900)]);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_go_when_there_is_more_than_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path(), Retention { max_bytes: Some(500_000), ..Retention::default() }).await;
    assert!(engine.store.used_bytes().unwrap() > 700_000);
    engine.keep_up(Vec::new());
    until("there is room", async || engine.store.used_bytes().unwrap() <= 500_000).await;
    let left = engine.store.exchange_count().unwrap();
    assert!((100..1_000).contains(&left), "{left}");
    let newest = engine.newest(None, 1).await.unwrap();
    assert!(newest[0].asked.message.contains("number 999"));
    stop(engine).await;
}

/// redb gives a value of 9 KB a page of 16.
#[tokio::test(flavor = "multi_thread")]
async fn no_more_goes_than_must_however_much_room_a_text_takes() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let long = |n| {
        old(n, 3, Millis(1_700_000_000_000)).map(|fact| match fact {
            Fact::Asked(asked) => Fact::Asked(Arc::new(Asked { message: "long text ".repeat(900).into(), ..(*asked).clone() })),
            other => other,
        })
    };
    record(&store, (0..2_000).flat_map(long).collect()).await;
    let (before, bytes) = (store.used_bytes().unwrap(), 2_000 * 9_000);
    assert!(before > bytes * 3 / 2, "{before}");
    drop(store);
    let max = before / 2;
    let engine = start(dir.path(), Retention { max_bytes: Some(max), ..Retention::default() }).await;
    engine.keep_up(Vec::new());
    until("there is room", async || engine.store.used_bytes().unwrap() <= max).await;
    stop(engine).await;
    let left = Store::open(dir.path()).unwrap().exchange_count().unwrap();
    assert!((1_000 - 2 * PIECE as u64..=1_000).contains(&left), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_security_log_what_is_too_old_goes_and_of_refusals_only_the_newest_stay() {
    let dir = tempfile::tempdir().unwrap();
    // 1,000 refusals are a tenth of this.
    let engine = start(dir.path(), Retention { security_days: Some(30), max_bytes: Some(6_400_000), ..Retention::default() }).await;
    let now = engine.now().0;
    let entry = |days: u64, kind, n: u64| Fact::Audit(Arc::new(Event::new(Millis(now - days * DAY_MS), kind, "", "", &format!("{days} days, {n}"))));
    let old = (0..1_500).map(|n| entry(40, if n % 2 == 0 { Kind::Login } else { Kind::RefusedLogin }, n));
    let young = (0..1_200).map(|n| entry(10, Kind::RefusedAgent, n));
    record(&engine.store, old.chain([entry(20, Kind::Token, 0)]).chain(young).chain([entry(3, Kind::Login, 0)]).collect()).await;
    let log = async |kind| engine.audit_log(None, kind, 10_000).await.unwrap();
    assert_eq!(log(None).await.len(), 2_702);
    engine.keep_up(Vec::new());
    until("the old and the many are removed", async || log(None).await.len() == 1_002).await;
    let left: Vec<_> = log(None).await.iter().map(|(_, event)| (event.kind, event.what.to_string())).collect();
    assert_eq!((&left[0], &left[1_001]), (&(Kind::Login, "3 days, 0".to_owned()), &(Kind::Token, "20 days, 0".to_owned())));
    let refused = [1, 1_000].map(|at| &left[at]);
    assert_eq!(refused, [&(Kind::RefusedAgent, "10 days, 1199".to_owned()), &(Kind::RefusedAgent, "10 days, 200".to_owned())]);
    assert_eq!(engine.store.exchange_count().unwrap(), 1_000, "no exchange made room for them");
    engine.stop().await;
    until("the stop puts on record what was removed", async || {
        let told = log(Some(Kind::Erasure)).await;
        told.first().is_some_and(|(_, e)| (&*e.who, &*e.what) == ("relay", "1700 entries of the security log removed by [retention]"))
    })
    .await;
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_follower_has_not_read_is_spared() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path(), Retention::default()).await;
    let (gone, unread) = {
        let engine = engine.clone();
        let prune = move || {
            let old = Old { before: Millis(engine.now().0 - 30 * DAY_MS), only: None, floor: Seq(600), beside: Millis(0) };
            let plan = &Retention::default();
            let mut pass = Pass { plan, old, from: None, bytes: u64::MAX, freed: 0, exported: old.floor, lost: 0, at: Millis(1), why: "test".into() };
            let done = engine.prune_until(&mut pass, &mut Removed::default());
            // The next pass begins at the first that was spared, not behind it.
            assert!(engine.store.oldest(pass.from, old, 1_000).unwrap().unread >= 600 - 3 * PIECE as u64);
            done
        };
        tokio::task::spawn_blocking(prune).await.unwrap().unwrap()
    };
    assert_eq!((gone, unread), (300, 600));
    stop(engine).await;
}

#[tokio::test]
async fn a_pass_that_panics_is_not_the_last_and_a_new_limit_counts_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path(), Retention::default()).await;
    engine.keep_up(Vec::new());
    until("they listen to the configuration", async || engine.config.receiver_count() == 2).await;
    let keep = |days| {
        let mut config = Config::clone(&engine.config());
        config.retention = Retention { days: Some(days), ..Retention::default() };
        engine.config.send_replace(Arc::new(config));
    };
    // More days than can be reckoned with; no configuration that is read has such a number.
    keep(u64::MAX);
    // On this one thread the pass has been begun now.
    tokio::task::yield_now().await;
    for (days, left) in [(30, 100), (2, 0)] {
        keep(days);
        until("the old ones are removed", async || engine.store.exchange_count().unwrap() == left).await;
    }
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_taken_back_removes_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path(), Retention::default()).await;
    let (pruning, plan) = (engine.clone(), Retention { days: Some(30), ..Retention::default() });
    let prune = move || pruning.prune(&plan, &mut Removed::default(), &mut Looked::default());
    tokio::task::spawn_blocking(prune).await.unwrap().unwrap();
    assert_eq!(engine.store.exchange_count().unwrap(), 1_000 - PIECE as u64);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_conversation_is_not_found_and_a_dry_run_erases_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path(), Retention::default()).await;
    until("indexed", async || found(&engine, "yesteryear").await == 1_000).await;
    let what = Unwanted::Conversation(ConversationId::from_u128(3));
    let dry = engine.begin_erase(what.clone(), true, "test").unwrap().await.unwrap().unwrap();
    assert!(dry.contains("would erase 250 exchanges"), "{dry}");
    assert_eq!(engine.store.exchange_count().unwrap(), 1_000);
    let wet = engine.begin_erase(what, false, "test").unwrap().await.unwrap().unwrap();
    assert!(wet.contains("erased 250 exchanges"), "{wet}");
    until("the index has followed", async || found(&engine, "yesteryear").await == 750).await;
    let all = engine.begin_erase(Unwanted::Agent(name("bob")), false, "test").unwrap().await.unwrap().unwrap();
    assert!(all.contains("erased 750 exchanges"), "{all}");
    until("nothing is left", async || found(&engine, "yesteryear").await == 0).await;
    assert_eq!(engine.erasures().await.unwrap().iter().map(|e| e.2).collect::<Vec<_>>(), [250, 750]);
    stop(engine).await;
}
