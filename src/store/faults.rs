//! The disk refuses: full, or an I/O error at the nth write or sync. What was acknowledged is never lost, what could not
//! be written waits in memory and is written when the disk recovers, in order and once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use super::medium::{Access, Faults};
use super::tests::{ask, end, record};
use super::*;
use crate::core::outcome::Outcome;

/// Takes `left` changes, then refuses each until it is mended.
#[derive(Debug)]
struct Failing {
    left: AtomicI64,
    mended: AtomicBool,
    only: Option<Access>,
}

impl Faults for Failing {
    fn before(&self, what: Access) -> io::Result<()> {
        let counts = self.only.is_none_or(|only| only == what);
        if self.mended.load(Ordering::SeqCst) || !counts || self.left.fetch_sub(1, Ordering::SeqCst) > 0 {
            return Ok(());
        }
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come");
        std::thread::yield_now();
    }
}

/// Records twelve questions one by one while the disk begins to refuse after `left` changes, mends it, and compares. Who
/// reads between them has redb take each at once.
fn story(left: i64, only: Option<Access>, reading: bool) {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path()).unwrap());
    let disk = Arc::new(Failing { left: AtomicI64::new(i64::MAX), mended: AtomicBool::new(false), only });
    let store = Store::open_on(dir.path(), Some(disk.clone())).unwrap();
    disk.left.store(left, Ordering::SeqCst);
    let told: Vec<Written> = (1..=12)
        .map(|n| {
            let written = record(&store, vec![ask(n)]);
            if reading && let Ok(count) = store.exchange_count() {
                assert!(count == n as u64 || written != Written::Durable, "a read after question {n} finds {count}");
            }
            written
        })
        .collect();
    let crashed = tempfile::tempdir().unwrap();
    for file in ["bridge.redb", "journal"] {
        std::fs::copy(dir.path().join(file), crashed.path().join(file)).unwrap();
    }
    // Killed in the middle of the trouble: whatever was acknowledged is there.
    let after_crash = Store::open(crashed.path()).unwrap();
    for (n, written) in (1..).zip(&told) {
        let there = after_crash.record(crate::core::ids::RequestId::from_u128(n)).unwrap().is_some();
        assert!(there || *written != Written::Durable, "question {n} was acknowledged and is gone (left {left}, {only:?})");
    }
    // Mended: everything is there, once, in order.
    disk.mended.store(true, Ordering::SeqCst);
    // What was under way in that moment may have been refused still; behind this the writer has done with it.
    assert_ne!(record(&store, vec![ask(13)]), Written::Lost);
    until("recovery", || store.trouble().is_none());
    assert_eq!(record(&store, vec![ask(14)]), Written::Durable);
    let asked: Vec<u128> = store.log(Seq(0), 100).unwrap().0.iter().filter_map(|(_, fact)| Some(fact.request()?.as_u128())).collect();
    assert_eq!(asked, (1..=14).collect::<Vec<_>>(), "left {left}, {only:?}, told {told:?}");
}

#[test]
fn no_write_that_fails_loses_or_doubles_anything() {
    for left in 0..30 {
        story(left, None, false);
        story(left, None, true);
    }
}

#[test]
fn no_sync_that_fails_loses_or_doubles_anything() {
    for left in 0..14 {
        story(left, Some(Access::Sync), false);
        story(left, Some(Access::Sync), true);
    }
}

#[derive(Debug)]
struct Panicking;

impl Faults for Panicking {
    fn before(&self, what: Access) -> io::Result<()> {
        assert!(std::thread::current().name() != Some(WRITER) || what != Access::Write, "a fault of ours");
        Ok(())
    }
}

#[test]
fn a_writer_that_panics_is_known_to_be_gone_and_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(record(&store, vec![ask(1)]), Written::Durable);
    drop(store);
    let store = Store::open_on(dir.path(), Some(Arc::new(Panicking))).unwrap();
    let permit = futures_util::FutureExt::now_or_never(store.reserve()).unwrap().unwrap();
    let (told, done) = mpsc::sync_channel(1);
    store.submit(permit, vec![ask(2)], move |written| told.send(written).unwrap());
    assert!(done.recv_timeout(Duration::from_secs(20)).is_err(), "told and not written");
    until("the end", || store.ended().is_cancelled());
    assert!(store.trouble().is_some_and(|why| why.contains("a fault of this program")), "{:?}", store.trouble());
    drop(store);
    assert_eq!(Store::open(dir.path()).unwrap().exchange_count().unwrap(), 1);
}

#[test]
fn while_the_disk_refuses_nothing_is_called_durable_and_reads_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing { left: AtomicI64::new(i64::MAX), mended: AtomicBool::new(false), only: None });
    let store = Store::open_on(dir.path(), Some(disk.clone())).unwrap();
    assert_eq!(record(&store, vec![ask(1)]), Written::Durable);
    disk.left.store(0, Ordering::SeqCst);
    assert_eq!(record(&store, vec![ask(2)]), Written::Deferred);
    assert!(store.trouble().is_some_and(|why| why.contains("no storage space")), "{:?}", store.trouble());
    disk.mended.store(true, Ordering::SeqCst);
    until("recovery", || store.trouble().is_none());
    assert_eq!(store.exchange_count().unwrap(), 2);
}

#[test]
fn what_waits_for_the_disk_has_a_bound_in_bytes_and_nothing_that_was_let_in_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing { left: AtomicI64::new(0), mended: AtomicBool::new(true), only: None });
    let store = Store::open_on(dir.path(), Some(disk.clone())).unwrap();
    let admitted = || futures_util::FutureExt::now_or_never(store.admit()).unwrap().is_ok();
    disk.mended.store(false, Ordering::SeqCst);
    let words = "x".repeat(256 << 10);
    let mut asked = 0;
    while admitted() {
        asked += 1;
        assert!(asked < 1_000, "256 MiB and more in memory");
        assert_eq!(record(&store, vec![Fact::Asked(Arc::new(super::tests::asked(asked, asked, &words)))]), Written::Deferred);
    }
    assert!(asked > 50, "{asked}");
    let away = Fact::Presence { agent: crate::core::ids::AgentName::parse("bob").unwrap(), at: crate::core::ids::Millis(1), online: false };
    assert_eq!(record(&store, vec![away, end(1, Outcome::Answered)]), Written::Deferred);
    disk.mended.store(true, Ordering::SeqCst);
    until("recovery", || store.trouble().is_none());
    assert!(admitted(), "there is room again");
    assert_eq!(store.exchange_count().unwrap(), asked as u64);
    assert!(store.record(crate::core::ids::RequestId::from_u128(1)).unwrap().unwrap().end.is_some());
    assert!(store.presence().unwrap().is_empty(), "who came and went was forgotten");
}
