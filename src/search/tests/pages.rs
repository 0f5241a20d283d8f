//! Pages, counts and deadlines.

use super::super::{Bar, LATE};
use super::*;

fn many(n: u64) -> Vec<Record> {
    (0..n).map(|n| exchange(n, "ana-bot", "ops-bot", &format!("common number{n}"), "answer")).collect()
}

/// All ids, page by page, with more exchanges coming in between.
fn paged(index: &Index, text: &str, order: Order, limit: usize) -> Vec<RequestId> {
    let query = Query::parse(text, &now());
    let (mut ids, mut before) = (Vec::new(), None);
    loop {
        let found = index.search(&query, &PageRequest { limit, order, before }, soon()).unwrap();
        assert!(found.ids.len() <= limit);
        ids.extend(found.ids);
        before = found.next.map(|cursor| cursor.to_string().parse().unwrap());
        if before.is_none() {
            return ids;
        }
    }
}

#[test]
fn pages_join_without_gap_or_repetition() {
    let dir = tempfile::tempdir().unwrap();
    let mut records = many(100);
    // A storm: many in one millisecond, told apart by their ids.
    let storm = |n: u64| {
        let mut record = exchange(5, "ana-bot", "ops-bot", "common storm", "answer");
        let asked = Asked { id: RequestId::from_u128(id_at(record.asked.at.0, 1_000 + n)), ..(*record.asked).clone() };
        record.asked = Arc::new(asked);
        record
    };
    records.extend((0..500).map(storm));
    let index = holding(dir.path(), &records);
    // A second segment, out of order.
    let older: Vec<_> = (100..130).map(|n| exchange(n, "ana-bot", "ops-bot", "common old", "answer")).collect();
    older.iter().for_each(|r| index.add(r).unwrap());
    index.commit(Seq(700)).unwrap();
    records.extend(older);
    records.sort_by_key(|r| std::cmp::Reverse((r.asked.at, r.asked.id)));
    let want: Vec<RequestId> = records.iter().map(|r| r.asked.id).collect();
    for text in ["", "common ", "common", "-nothing", "before:2030-01-01"] {
        for limit in [7, 30, 200] {
            assert_eq!(paged(&index, text, Order::Newest, limit), want, "{text} {limit}");
        }
        let mut all = paged(&index, text, Order::Best, 30);
        assert_eq!(all.len(), want.len(), "{text}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), want.len(), "{text}");
    }
}

#[test]
fn the_total_is_of_all_pages() {
    let dir = tempfile::tempdir().unwrap();
    let index = holding(dir.path(), &many(100));
    let query = Query::parse("common ", &now());
    let first = index.search(&query, &PageRequest::default(), soon()).unwrap();
    let second = index.search(&query, &PageRequest { before: first.next, ..PageRequest::default() }, soon()).unwrap();
    assert_eq!((first.ids.len(), first.total, second.ids.len(), second.total), (30, 100, 30, 100));
    let bounded = index.search(&query, &PageRequest { limit: usize::MAX, ..PageRequest::default() }, soon()).unwrap();
    assert_eq!((bounded.ids.len(), bounded.next), (100, None));
}

#[test]
fn counts_are_by_status_agent_and_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut records = many(10);
    records[3] = ended(&records[3], Outcome::Timeout, "silence");
    records[4] = late(&ended(&records[4], Outcome::Timeout, "silence"), "at last");
    records[5] = pending(&records[5]);
    records.push(exchange(11, "ops-bot", "nobody", "common", "x"));
    records.push(ended(&exchange(12, "ops-bot", "ops-bot", "common", "x"), Outcome::SelfAsk, "you asked yourself"));
    let index = holding(dir.path(), &records);
    let facets = index.facets(&Query::parse("common ", &now()), false, &now(), soon()).unwrap();
    assert_eq!((facets.total, facets.partial, facets.step_ms), (12, false, 3_600_000));
    assert_eq!(facets.statuses, [("pending", 1), ("ok", 8), ("timeout", 2), ("self_ask", 1), (LATE, 1)]);
    let want = [("ops-bot", 12), ("ana-bot", 10), ("nobody", 1)].map(|(name, n)| (name.to_owned(), n));
    assert_eq!(facets.agents, want);
    assert_eq!(facets.bars.len(), 12);
    assert_eq!(facets.bars.last(), Some(&Bar { from_ms: NOW, answered: 1, others: 0 }));
    assert_eq!(facets.bars[12 - 1 - 4], Bar { from_ms: NOW - 4 * HOUR, answered: 1, others: 0 });
    let some = index.facets(&Query::parse("common after:2h", &now()), false, &now(), soon()).unwrap();
    assert_eq!((some.total, some.bars.len()), (3, 3));
    let (figures, whole) = index.figures(&Query::default(), soon()).unwrap();
    assert!(whole);
    let ops = figures.iter().find(|f| f.name == "ops-bot").unwrap();
    assert_eq!((ops.asked, &ops.statuses[..]), (11, &[("pending", 1), ("ok", 7), ("timeout", 2), ("self_ask", 1), (LATE, 1)][..]));
    assert!(ops.p50_ms.is_some_and(|ms| (1_500..=6_500).contains(&ms)), "{ops:?}");
}

#[test]
fn a_search_past_its_deadline_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let index = holding(dir.path(), &many(50));
    for text in ["common ", "\"common number3\"", "", "com"] {
        let found = index.search(&Query::parse(text, &now()), &PageRequest::default(), Instant::now()).unwrap();
        assert!(found.partial && found.ids.is_empty() && !found.typo, "{text}: {found:?}");
    }
    assert!(index.facets(&Query::default(), false, &now(), Instant::now()).unwrap().partial);
}

#[test]
fn searches_run_beside_commits() {
    let dir = tempfile::tempdir().unwrap();
    let index = holding(dir.path(), &many(50));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..100).for_each(|_| assert!(ask(&index, "common ").total >= 50)));
        }
        for n in 50..70 {
            index.add(&exchange(n, "ana-bot", "ops-bot", "common", "x")).unwrap();
            index.commit(Seq(n + 1)).unwrap();
        }
    });
    assert_eq!(ask(&index, "common ").total, 70);
}
