//! What an erasure promises: what was said is in no table, no file and no list afterwards, also when the relay crashes in
//! the middle; what was not meant stays; and the file gives its room back.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use super::tests::{asked, end, record};
use super::*;
use crate::core::effect::Erasure;
use crate::core::exchange::{End, Late, Record};
use crate::core::ids::{ConversationId, Millis, RequestId};
use crate::core::outcome::Outcome;

const NONE: Option<RequestId> = None;
const ALL: Seq = Seq(u64::MAX);

/// Question `n` of conversation `c`, `n` milliseconds after 1970, in the words of its number.
fn question(n: u128, c: u128, words: &str) -> Fact {
    let mut question = asked(n << 80, c, words);
    question.key = Some(format!("key {n}").into());
    Fact::Asked(Arc::new(question))
}

fn answer(n: u128) -> Fact {
    end(n << 80, Outcome::Answered)
}

fn id(n: u128) -> RequestId {
    RequestId::from_u128(n << 80)
}

fn oldest(store: &Store, after: Option<RequestId>, before: Millis, floor: Seq, count: usize) -> Doomed {
    store.oldest(after, Old { before, only: None, floor, beside: before }, count).unwrap()
}

fn erase(store: &Store, doomed: Doomed) {
    let erasure = Erasure { ids: doomed.ids, rows: doomed.rows, at: Millis(7), why: "a test".into() };
    assert_eq!(record(store, vec![Fact::Erased(Arc::new(erasure))]), Written::Durable);
}

fn wipe(store: &Store) {
    let permit = futures_util::FutureExt::now_or_never(store.reserve()).unwrap().unwrap();
    let (told, done) = sync_channel(1);
    store.wipe(permit, move |written| told.send(written).unwrap());
    assert_eq!(done.recv().unwrap(), Written::Durable);
}

fn numbers(ids: &[RequestId]) -> Vec<u128> {
    ids.iter().map(|id| id.as_u128() >> 80).collect()
}

/// Whether any file of the data directory has these bytes.
fn is_on_disk(dir: &Path, words: &str) -> bool {
    fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_file()).any(|path| {
        let bytes = fs::read(path).unwrap();
        bytes.windows(words.len()).any(|w| w == words.as_bytes())
    })
}

#[test]
fn what_is_erased_is_in_no_table_and_the_rest_stays() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for n in 1..=4 {
        record(&store, vec![question(n, 1 + n % 2, "secret"), Fact::Received { id: id(n), instance: "b".into(), attempt: 1 }, answer(n)]);
    }
    record(&store, vec![question(5, 2, "open")]);
    let doomed = store.of_conversation(ConversationId::from_u128(2), NONE, 100).unwrap();
    assert_eq!((numbers(&doomed.ids), doomed.open, doomed.next), (vec![1, 3], 1, None));
    erase(&store, doomed);
    let left: Vec<u128> = store.newest(None, 10).unwrap().iter().map(|r| r.asked.id.as_u128() >> 80).collect();
    assert_eq!(left, [5, 4, 2]);
    assert!(store.record(id(1)).unwrap().is_none() && store.keyed(&AgentName::parse("alice").unwrap(), "key 1").unwrap().is_none());
    assert!(store.keyed(&AgentName::parse("alice").unwrap(), "key 2").unwrap().is_some());
    // The conversation goes on between the same two: its beginning is what is left of it.
    assert_eq!(store.beginning(ConversationId::from_u128(2)).unwrap().unwrap().id, id(5));
    let about: Vec<u128> = store.log(Seq(0), 100).unwrap().0.iter().filter_map(|(_, f)| f.request()).map(|id| id.as_u128() >> 80).collect();
    assert_eq!(about, [2, 2, 2, 4, 4, 4, 5]);
    assert_eq!(store.erasures().unwrap(), [(Millis(7), "a test".to_owned(), 2)]);
}

#[test]
fn an_erasure_survives_a_crash_and_happens_once() {
    let dir = tempfile::tempdir().unwrap();
    let (data, crashed) = (dir.path().join("data"), dir.path().join("crashed"));
    let store = Store::open(&data).unwrap();
    record(&store, vec![question(1, 1, "secret"), answer(1), question(2, 2, "kept"), answer(2)]);
    erase(&store, store.of_conversation(ConversationId::from_u128(1), NONE, 100).unwrap());
    fs::create_dir(&crashed).unwrap();
    for file in ["bridge.redb", "journal"] {
        fs::copy(data.join(file), crashed.join(file)).unwrap();
    }
    let store = Store::open(&crashed).unwrap();
    assert_eq!(store.newest(None, 10).unwrap().len(), 1);
    assert_eq!(*store.last().borrow(), Seq(5));
    assert_eq!(store.erasures().unwrap()[0].2, 1);
    assert_eq!(record(&store, vec![question(3, 3, "more")]), Written::Durable);
    assert_eq!(store.newest(None, 10).unwrap().len(), 2);
    assert_eq!(*store.last().borrow(), Seq(6));
}

#[test]
fn of_the_security_log_the_old_goes_and_the_surplus_and_what_is_an_exchange_stays_with_it() {
    use crate::core::audit::{Event, Kind};
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let entry = |at: u64, kind| Fact::Audit(Arc::new(Event::new(Millis(at), kind, "", "", "secret")));
    let refused = |n: u128| {
        let end = End { outcome: Outcome::LoopLimit, text: "".into(), at: Millis(1), call: None, by: None };
        Fact::Refused(Arc::new(asked(n << 80, n, "a loop")), Arc::new(end))
    };
    // Positions 1 to 8.
    let kinds = [(1, Kind::Login), (1, Kind::RefusedAgent)].map(|(at, kind)| entry(at, kind));
    record(
        &store,
        [&kinds[..], &[refused(1), entry(5, Kind::Login), entry(5, Kind::RefusedLogin)], &[5, 6, 7].map(|at| entry(at, Kind::RefusedAgent))].concat(),
    );
    let surplus = |keep| store.surplus_refusals(keep).unwrap();
    assert_eq!([0, 2, 4, 5, 100].map(surplus), [8, 6, 2, 0, 0].map(Seq));
    let old = |after, before, surplus, count| store.old_entries(Seq(after), Millis(before), Seq(surplus), count).unwrap();
    assert_eq!(old(0, 0, 0, 100), (vec![], None));
    assert_eq!(old(0, 5, 0, 2), (vec![Seq(1), Seq(2)], Some(Seq(2))));
    assert_eq!(old(2, 5, 0, 100), (vec![], None));
    assert_eq!(old(0, 0, 6, 100), (vec![Seq(2), Seq(5), Seq(6)], None));
    erase(&store, Doomed { rows: old(0, 5, 6, 100).0, ..Doomed::default() });
    let left = |store: &Store| store.audit(None, None, 100).unwrap().iter().map(|(seq, event)| (seq.0, event.kind)).collect::<Vec<_>>();
    let kept = [(8, Kind::RefusedAgent), (7, Kind::RefusedAgent), (4, Kind::Login), (3, Kind::Loop)];
    assert_eq!(left(&store), kept);
    assert_eq!(surplus(2), Seq(0), "the index has no more than these two");
    // Whoever follows the log goes on from anywhere in it; of the removal itself no number is left.
    assert_eq!(store.log(Seq(1), 100).unwrap().0.iter().map(|(seq, _)| seq.0).collect::<Vec<_>>(), [3, 4, 7, 8, 9]);
    assert!(matches!(&store.log(Seq(8), 1).unwrap().0[0].1, Fact::Erased(erasure) if erasure.rows.is_empty()));
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    assert_eq!((left(&store), *store.last().borrow()), (kept.to_vec(), Seq(9)));
    assert_eq!(store.erasures().unwrap(), []);
}

#[test]
fn a_late_answer_to_what_was_erased_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    record(&store, vec![question(1, 1, "q"), end(1 << 80, Outcome::Timeout)]);
    erase(&store, store.of_conversation(ConversationId::from_u128(1), NONE, 100).unwrap());
    record(&store, vec![Fact::Late { id: id(1), late: Arc::new(Late { answer: "too late".into(), at: Millis(9), call: None }) }]);
    assert!(store.log(Seq(0), 100).unwrap().0.iter().all(|(_, fact)| !format!("{fact:?}").contains("too late")));
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(*store.last().borrow(), Seq(4));
}

#[test]
fn the_oldest_are_taken_in_pieces_and_what_is_open_or_unread_is_spared() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for n in 1..=9 {
        // The log has the third question late, as an import would.
        record(&store, if n == 3 { vec![question(n, n, "q")] } else { vec![question(n, n, "q"), answer(n)] });
    }
    let first = oldest(&store, None, Millis(9), ALL, 2);
    assert_eq!((numbers(&first.ids), first.next), (vec![1, 2], Some(id(2))));
    let second = oldest(&store, first.next, Millis(9), ALL, 100);
    assert_eq!((numbers(&second.ids), second.open, second.next), (vec![4, 5, 6, 7, 8], 1, None));
    let spared = oldest(&store, None, Millis(9), Seq(8), 100);
    assert_eq!((numbers(&spared.ids), spared.unread), (vec![1, 2, 4], 4));
    assert!(oldest(&store, None, Millis(1), ALL, 100).ids.is_empty());
    assert_eq!(numbers(&store.of_agent(&AgentName::parse("bob").unwrap(), Some(id(7)), 100).unwrap().ids), [8, 9]);
    assert!(store.of_agent(&AgentName::parse("carol").unwrap(), None, 100).unwrap().ids.is_empty());
}

#[test]
fn of_the_old_only_those_go_that_ended_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for n in 1..=9 {
        let outcome = if n % 3 == 0 { Outcome::Timeout } else { Outcome::Answered };
        record(&store, vec![question(n, n, "q"), end(n << 80, outcome)]);
    }
    record(&store, vec![question(10, 10, "open")]);
    let old = Old { before: Millis(100), only: Some(&[Outcome::Timeout]), floor: ALL, beside: Millis(0) };
    let doomed = store.oldest(None, old, 2).unwrap();
    assert_eq!((numbers(&doomed.ids), doomed.open, doomed.next), (vec![3, 6], 0, Some(id(6))));
    let doomed = store.oldest(doomed.next, old, 2).unwrap();
    assert_eq!((numbers(&doomed.ids), doomed.open, doomed.next), (vec![9], 1, None));
    let none = store.oldest(None, Old { only: Some(&[Outcome::Failed]), ..old }, 2).unwrap();
    assert_eq!((none.ids.len(), none.open, none.next), (0, 0, Some(id(8))));
}

#[test]
fn no_file_has_a_byte_of_it_after_the_next_start_and_the_rest_is_equal() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for n in 1..=300 {
        let words = format!("the {} {}", if n % 3 == 0 { "weather" } else { "unmentionable" }, "of today ".repeat(200));
        record(&store, vec![question(n, n % 3, &words), answer(n)]);
    }
    for conversation in [1, 2] {
        erase(&store, store.of_conversation(ConversationId::from_u128(conversation), NONE, 1000).unwrap());
    }
    wipe(&store);
    assert_eq!(dir.path().join("journal").metadata().unwrap().len(), 0);
    record(&store, vec![question(400, 9, "after"), answer(400)]);
    fs::create_dir(dir.path().join("index-v1")).unwrap();
    drop(store);
    let before = copy::contents(&dir.path().join("bridge.redb"), &mut |_, _, _| true).unwrap();
    assert!(rewrite_if_marked(dir.path(), &mut |_, _, _| true).unwrap());
    assert!(!is_on_disk(dir.path(), "unmentionable") && is_on_disk(dir.path(), "weather") && !dir.path().join("index-v1").exists());
    assert!(!rewrite_if_marked(dir.path(), &mut |_, _, _| true).unwrap());
    let mut after = copy::contents(&dir.path().join("bridge.redb"), &mut |_, _, _| true).unwrap();
    assert_eq!((after.last, after.rows["exchanges"]), (before.last, 101));
    after.rows.insert("meta".into(), before.rows["meta"]);
    assert_eq!(after.rows, before.rows);
    let (large, small) = rewrite(dir.path(), &mut |_, _, _| true).unwrap();
    assert!(small <= large, "{small} {large}");
    assert_eq!(record(&Store::open(dir.path()).unwrap(), vec![question(500, 9, "more")]), Written::Durable);
}

#[test]
fn a_real_file_of_format_1_is_taken_over_whole() {
    let dir = tempfile::tempdir().unwrap();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/old/format-1.redb");
    fs::copy(old, dir.path().join("bridge.redb")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.format().unwrap(), tables::FORMAT);
    let records = store.newest(None, 100).unwrap();
    let statuses: Vec<&str> = records.iter().rev().map(Record::status).collect();
    assert_eq!(statuses, STATUSES);
    assert_eq!(records.last().unwrap().answer().map(|a| &**a), Some("5"));
    assert_eq!(store.open_exchanges().unwrap().len(), 1);
    assert_eq!(store.agents().unwrap().len(), 1);
    let doomed = oldest(&store, None, Millis(u64::MAX), ALL, 100);
    let count = doomed.ids.len();
    erase(&store, doomed);
    assert_eq!(store.exchange_count().unwrap(), (records.len() - count) as u64);
}

const STATUSES: [&str; 5] = ["ok", "ok", "failed", "agent_offline", "pending"];

#[test]
fn what_is_used_shrinks_with_what_is_erased() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for n in 1..=100 {
        record(&store, vec![question(n, 1, &"x".repeat(10_000)), answer(n)]);
    }
    let full = store.used_bytes().unwrap();
    let doomed = oldest(&store, None, Millis(91), ALL, 1000);
    assert!(full > 1_000_000 && doomed.bytes > 900_000, "{full} {}", doomed.bytes);
    erase(&store, doomed);
    let left = store.used_bytes().unwrap();
    assert!(left < full / 5, "{left} of {full}");
}
