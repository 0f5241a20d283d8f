//! What the store promises: what was acknowledged is there after a crash, in order, whole; and files it must not touch
//! stay as they are.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use super::*;
use crate::core::audit::{Event, Kind};
use crate::core::effect::Erasure;
use crate::core::exchange::{Asked, End, Late, Record, Trail, WhenOffline, Work};
use crate::core::ids::{ConversationId, Millis, RequestId};
use crate::core::outcome::Outcome;

fn name(text: &str) -> AgentName {
    AgentName::parse(text).unwrap()
}

pub(super) fn asked(n: u128, conversation: u128, message: &str) -> Asked {
    Asked {
        id: RequestId::from_u128(n),
        conversation: ConversationId::from_u128(conversation),
        begins: true,
        from: name("alice"),
        to: "bob".into(),
        message: message.into(),
        at: Millis(n as u64),
        when_offline: WhenOffline::Fail,
        trail: Trail { root: RequestId::from_u128(n), parent: None, origin: name("alice"), path: [name("alice")].into() },
        key: None,
        traceparent: None,
    }
}

pub(super) fn ask(n: u128) -> Fact {
    Fact::Asked(Arc::new(asked(n, n, &format!("question {n}"))))
}

pub(super) fn end(n: u128, outcome: Outcome) -> Fact {
    let end = End { outcome, text: format!("answer {n}").into(), at: Millis(n as u64 + 1), call: None, by: None };
    Fact::Ended { id: RequestId::from_u128(n), end: Arc::new(end), work: Work::default() }
}

/// Records and waits until it is acknowledged.
pub(super) fn record(store: &Store, facts: Vec<Fact>) -> Written {
    let permit = futures_util::FutureExt::now_or_never(store.reserve()).unwrap().unwrap();
    let (told, done) = sync_channel(1);
    store.submit(permit, facts, move |written| told.send(written).unwrap());
    done.recv_timeout(std::time::Duration::from_secs(10)).unwrap()
}

/// What a kill -9 leaves behind: the files as they are, without a last sync.
pub(super) fn crash(store: &Store, from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in ["bridge.redb", "journal"] {
        std::fs::copy(from.join(file), to.join(file)).unwrap();
    }
    assert_eq!(store.trouble(), None);
}

#[test]
fn what_was_acknowledged_is_read_at_once_and_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = (dir.path().join("a"), dir.path().join("b"));
    let store = Store::open(&before).unwrap();
    assert_eq!(record(&store, vec![ask(1)]), Written::Durable);
    assert_eq!(record(&store, vec![end(1, Outcome::Answered), ask(2)]), Written::Durable);
    assert_eq!(store.record(RequestId::from_u128(1)).unwrap().unwrap().status(), "ok");
    crash(&store, &before, &after);
    let reopened = Store::open(&after).unwrap();
    let one = reopened.record(RequestId::from_u128(1)).unwrap().unwrap();
    assert_eq!((one.status(), &**one.answer().unwrap(), &*one.asked.message), ("ok", "answer 1", "question 1"));
    let open: Vec<u128> = reopened.open_exchanges().unwrap().iter().map(|r| r.asked.id.as_u128()).collect();
    assert_eq!(open, [2]);
    let positions: Vec<u64> = reopened.log(Seq(0), 10).unwrap().0.iter().map(|(seq, _)| seq.0).collect();
    assert_eq!(positions, [1, 2, 3]);
}

#[test]
fn what_nobody_reads_is_shown_to_followers_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let followed = store.last();
    for n in 1..=300 {
        assert_eq!(record(&store, vec![ask(n)]), Written::Durable);
    }
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while *followed.borrow() != Seq(300) {
        assert!(std::time::Instant::now() < deadline, "redb has {:?} of 300", *followed.borrow());
        std::thread::yield_now();
    }
    assert_eq!(store.log(Seq(0), 400).unwrap().0.len(), 300);
}

#[test]
fn a_store_goes_on_where_it_stopped_after_many_laps_of_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let big = "x".repeat(400_000);
    let mut n = 0;
    for _ in 0..3 {
        let store = Store::open(dir.path()).unwrap();
        for _ in 0..40 {
            n += 1;
            record(&store, vec![Fact::Asked(Arc::new(asked(n, 1, &big)))]);
        }
    }
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.exchange_count().unwrap(), 120);
    let ids: Vec<u128> = store.newest(None, 120).unwrap().iter().map(|r| r.asked.id.as_u128()).collect();
    assert_eq!(ids, (1..=120).rev().collect::<Vec<_>>());
    // One journal, however much went through it.
    assert!(dir.path().join("journal").metadata().unwrap().len() < 40 << 20);
}

#[test]
fn a_thread_is_read_oldest_first_and_history_newest_first_by_cursor() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for n in 1..=6 {
        record(&store, vec![Fact::Asked(Arc::new(asked(n, n % 2, "q")))]);
    }
    let numbers = |records: Vec<crate::core::exchange::Record>| records.iter().map(|r| r.asked.id.as_u128()).collect::<Vec<_>>();
    assert_eq!(numbers(store.thread(ConversationId::from_u128(1), None, 10).unwrap()), [1, 3, 5]);
    assert_eq!(numbers(store.thread(ConversationId::from_u128(1), Some(RequestId::from_u128(1)), 1).unwrap()), [3]);
    assert_eq!(numbers(store.newest(None, 2).unwrap()), [6, 5]);
    assert_eq!(numbers(store.newest(Some(RequestId::from_u128(5)), 2).unwrap()), [4, 3]);
    assert!(store.beginning(ConversationId::from_u128(9)).unwrap().is_none());
}

#[test]
fn every_fact_survives_its_stored_form() {
    let mut whole = asked(7, 8, "with \u{0} and \u{1F600} and \"quotes\"");
    let path = [name("carol"), name("alice")].into();
    whole.trail = Trail { root: RequestId::from_u128(4), parent: Some(RequestId::from_u128(5)), origin: name("carol"), path };
    (whole.key, whole.traceparent, whole.begins, whole.when_offline) = (Some("k".into()), Some("00-a".into()), false, WhenOffline::Queue);
    let (id, text, call): (_, Arc<str>, Option<Arc<str>>) = (whole.id, "t".into(), Some("c".into()));
    let ended = Arc::new(End { outcome: Outcome::Timeout, text, at: Millis(9), call: call.clone(), by: None });
    let facts = [
        Fact::Asked(Arc::new(whole.clone())),
        Fact::Refused(Arc::new(whole), ended.clone()),
        Fact::Queued { id, at: Millis(1), expires: Millis(2) },
        Fact::Received { id, instance: "i".into(), attempt: 3 },
        Fact::Ended { id, end: ended.clone(), work: Work::default() },
        Fact::Ended { id, end: ended, work: Work { delivered: Some(Millis(3)), heartbeats: 2, session: Some("s".into()) } },
        Fact::Late { id, late: Arc::new(Late { answer: "l".into(), at: Millis(4), call }) },
        Fact::Owed { id, at: Millis(7) },
        Fact::Taken { id, at: Millis(8) },
        Fact::Presence { agent: name("bob"), at: Millis(5), online: true },
        Fact::Audit(Arc::new(Event { request: Some(id), ..Event::new(Millis(6), Kind::Person, "owner", "1.2.3.4", "cancelled") })),
    ];
    for fact in facts {
        assert_eq!(record::decode(&record::encode(&fact).unwrap()).unwrap(), fact);
    }
}

#[test]
fn what_is_owed_is_known_until_it_is_taken_or_erased() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let owe = |n: u128| Fact::Owed { id: RequestId::from_u128(n), at: Millis(1) };
    for n in 1..=3 {
        record(&store, vec![ask(n), owe(n), end(n, Outcome::Answered)]);
    }
    // Of what is not on record nothing is owed.
    record(&store, vec![owe(9)]);
    let owed = |store: &Store| store.owed().unwrap().iter().map(|(asker, id)| (asker.to_string(), id.as_u128())).collect::<Vec<_>>();
    assert_eq!(owed(&store), [("alice".into(), 1), ("alice".into(), 2), ("alice".into(), 3)]);
    record(&store, vec![Fact::Taken { id: RequestId::from_u128(2), at: Millis(2) }]);
    let erasure = Erasure { ids: vec![RequestId::from_u128(1)], rows: Vec::new(), at: Millis(3), why: "test".into() };
    record(&store, vec![Fact::Erased(Arc::new(erasure))]);
    drop(store);
    assert_eq!(owed(&Store::open(dir.path()).unwrap()), [("alice".into(), 3)]);
}

#[test]
fn what_a_restart_must_know_of_an_open_exchange_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let id = RequestId::from_u128(1);
    record(&store, vec![ask(1), Fact::Queued { id, at: Millis(3), expires: Millis(99) }]);
    record(&store, vec![Fact::Received { id, instance: "p".into(), attempt: 2 }, Fact::Received { id, instance: "q".into(), attempt: 3 }]);
    record(&store, vec![Fact::Presence { agent: name("bob"), at: Millis(5), online: true }]);
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    let open = store.open_exchanges().unwrap();
    assert_eq!(open[0].queued, Some((Millis(3), Millis(99))));
    assert_eq!((open[0].holders.iter().map(|h| &**h).collect::<Vec<_>>(), open[0].attempt), (vec!["p", "q"], 3));
    assert_eq!(store.presence().unwrap(), [(name("bob"), Millis(5), true)]);
}

#[test]
fn a_file_of_a_newer_format_is_refused_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path()).unwrap());
    let path = dir.path().join("bridge.redb");
    {
        let database = Database::open(&path).unwrap();
        let write = database.begin_write().unwrap();
        write.open_table(tables::META).unwrap().insert("format", tables::FORMAT + 1).unwrap();
        write.commit().unwrap();
    }
    let before = std::fs::read(&path).unwrap();
    let error = Store::open(dir.path()).err().unwrap();
    assert!(matches!(error, StoreError::Newer { found, known: tables::FORMAT, .. } if found == tables::FORMAT + 1), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_key_is_forgotten_when_its_question_is_days_old() {
    let dir = tempfile::tempdir().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let keyed = |ms: u128, key: &str| {
        let mut asked = asked(ms << 80, 1, "q");
        asked.key = Some(key.into());
        Fact::Asked(Arc::new(asked))
    };
    let store = Store::open(dir.path()).unwrap();
    record(&store, vec![keyed(now - 3 * 86_400_000, "old"), keyed(now, "new")]);
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    assert!(store.keyed(&name("alice"), "old").unwrap().is_none());
    assert!(store.keyed(&name("alice"), "new").unwrap().is_some());
}

#[test]
fn files_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o755)).unwrap();
    let _store = Store::open(&data).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&data), mode(&data.join("bridge.redb")), mode(&data.join("journal"))), (0o700, 0o600, 0o600));
}

#[test]
fn a_second_process_is_told_whose_the_directory_is() {
    let dir = tempfile::tempdir().unwrap();
    let _first = Store::open(dir.path()).unwrap();
    let error = Store::open(dir.path()).err().unwrap();
    assert!(matches!(&error, StoreError::InUse { path } if path.ends_with("bridge.redb")), "{error}");
}

#[test]
fn credentials_are_kept_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let put = |agent: Option<StoredAgent>| {
        let permit = futures_util::FutureExt::now_or_never(store.reserve()).unwrap().unwrap();
        let (told, done) = sync_channel(1);
        store.put_agent(permit, name("carol"), agent, move |written| told.send(written).unwrap());
        assert_eq!(done.recv().unwrap(), Written::Durable);
    };
    let token = StoredToken { sha256: "ab".repeat(32), created: 1, until: Some(2) };
    let agent = StoredAgent { added: true, tokens: vec![token], created: 1 };
    put(Some(agent.clone()));
    assert_eq!(store.agents().unwrap(), [(name("carol"), agent)]);
    put(None);
    assert_eq!(store.agents().unwrap(), []);
}

#[test]
fn what_ended_is_read_from_a_position_in_order_and_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let refused = End { outcome: Outcome::SelfAsk, text: "no".into(), at: Millis(3), call: None, by: None };
    let facts =
        vec![ask(1), ask(2), end(2, Outcome::Timeout), Fact::Refused(Arc::new(asked(3, 1, "third")), Arc::new(refused)), end(1, Outcome::Answered)];
    record(&store, facts);
    record(&store, vec![end(9, Outcome::Answered), ask(4)]);
    let read = |after, count, bytes| {
        let ends = store.ends(Seq(after), count, bytes).unwrap();
        let found: Vec<_> = ends.found.iter().map(|f| (f.seq.0, f.record.asked.id.as_u128(), f.turn)).collect();
        (found, ends.upto.0, ends.gone.len())
    };
    assert_eq!(read(0, 10, 1_000), (vec![(3, 2, 1), (4, 3, 2), (5, 1, 1)], 7, 1));
    assert_eq!(read(0, 2, 1_000), (vec![(3, 2, 1), (4, 3, 2)], 4, 0));
    assert_eq!(read(3, 10, 1), (vec![(4, 3, 2)], 4, 0));
    assert_eq!(read(7, 10, 1_000), (vec![], 7, 0));
}

/// Four answered questions and two open ones in one conversation; the end of the second, and the third and the sixth question
/// are damaged.
fn damaged(dir: &std::path::Path) -> Store {
    let store = Store::open(dir).unwrap();
    let ask = |n| Fact::Asked(Arc::new(asked(n, 1, "a question")));
    record(&store, (1..=4).flat_map(|n| [ask(n), end(n, Outcome::Answered)]).chain([ask(5), ask(6)]).collect());
    assert_eq!(store.exchange_count().unwrap(), 6);
    let write = store.database().unwrap().begin_write().unwrap();
    {
        let mut log = write.open_table(tables::LOG).unwrap();
        log.insert(4, br#"{"t":"ended", and so on"#.as_slice()).unwrap();
        for question in [5, 10] {
            log.insert(question, b"no question".as_slice()).unwrap();
        }
    }
    write.commit().unwrap();
    store
}

#[test]
fn an_end_that_cannot_be_read_hides_none_of_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = damaged(dir.path());
    let ends = store.ends(Seq(0), 10, 1_000).unwrap();
    assert_eq!(ends.found.iter().map(|f| f.seq.0).collect::<Vec<_>>(), [2, 8]);
    assert_eq!(ends.unreadable.iter().map(|(seq, _)| seq.0).collect::<Vec<_>>(), [4, 6]);
    assert_eq!((ends.upto.0, ends.gone.len()), (10, 0));
    assert_eq!(store.count_ends(Seq(0), 5).unwrap(), (2, Seq(5)));
    assert_eq!(store.count_ends(Seq(5), 3).unwrap(), (2, Seq(8)));
    assert_eq!(store.count_ends(Seq(8), 5).unwrap(), (0, Seq(10)));
}

#[test]
fn what_is_damaged_is_missing_in_lists_and_hides_nothing_beside_it_not_even_from_a_start() {
    let dir = tempfile::tempdir().unwrap();
    drop(damaged(dir.path()));
    let store = Store::open(dir.path()).unwrap();
    let ids = |records: Vec<Record>| records.iter().map(|r| r.asked.id.as_u128()).collect::<Vec<_>>();
    assert_eq!(ids(store.newest(None, 2).unwrap()), [5, 4]);
    assert_eq!(ids(store.newest(None, 10).unwrap()), [5, 4, 1]);
    assert_eq!(ids(store.thread(ConversationId::from_u128(1), None, 10).unwrap()), [1, 4, 5]);
    assert_eq!(ids(store.records(&(1..=9).map(RequestId::from_u128).collect::<Vec<_>>()).unwrap()), [1, 4, 5]);
    assert!(matches!(store.record(RequestId::from_u128(3)), Err(StoreError::Record(_))));
    let (facts, upto) = store.log(Seq(3), 2).unwrap();
    assert_eq!((facts.len(), upto), (0, Seq(5)));
    assert_eq!(store.open_exchanges().unwrap().iter().map(|open| open.asked.id.as_u128()).collect::<Vec<_>>(), [5]);
    // Age is all that is known of it.
    let old = |only| Old { before: Millis(u64::MAX), only, floor: Seq(u64::MAX), beside: Millis(u64::MAX) };
    assert_eq!(store.oldest(None, old(None), 10).unwrap().ids.len(), 4);
    assert_eq!(store.oldest(None, old(Some(&[Outcome::Answered])), 10).unwrap().ids.len(), 3);
}

#[test]
fn a_followers_cursor_survives_a_start_and_replaces_those_of_its_kind() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let put = |name: &str, seq| {
        let permit = futures_util::FutureExt::now_or_never(store.reserve()).unwrap().unwrap();
        let (told, done) = sync_channel(1);
        store.put_cursor(permit, name, Seq(seq), move |written| told.send(written).unwrap());
        assert_eq!(done.recv().unwrap(), Written::Durable);
    };
    assert_eq!(store.cursor("langfuse:a").unwrap(), None);
    for (name, seq) in [("langfuse:a", 7), ("otlp:a", 8), ("plain", 9), ("langfuse:b", 5), ("langfuse:b", 6)] {
        put(name, seq);
    }
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    let kept = [("langfuse:b", 6), ("otlp:a", 8), ("plain", 9)].map(|(name, seq)| (name.to_owned(), Seq(seq)));
    assert_eq!(store.cursors().unwrap(), kept);
}
