//! Tests of the room as a whole, on an index in a directory that vanishes. Here: making records and asking.

mod files;
mod found;
mod hostile;
mod pages;
mod parsing;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Found, Index, Now, Opened, Order, PageRequest, Query, open};
use crate::core::exchange::{Asked, End, Late, Record, Trail};
use crate::core::ids::{AgentName, ConversationId, Millis, RequestId, Seq};
use crate::core::outcome::Outcome;

/// 2026-11-30T11:00:00Z.
pub(super) const NOW: u64 = 1_796_036_400_000;
const HOUR: u64 = 3_600_000;

pub(super) fn now() -> Now {
    Now::utc(Millis(NOW))
}

pub(super) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// An id as a UUIDv7 of that moment has it, made different by `n`.
pub(super) fn id_at(at: u64, n: u64) -> u128 {
    u128::from(at) << 80 | 7 << 76 | 2 << 62 | u128::from(n)
}

/// The `n`th exchange, asked `n` hours before `NOW`, answered after `n` seconds.
pub(super) fn exchange(n: u64, from: &str, to: &str, message: &str, answer: &str) -> Record {
    let at = Millis(NOW - n * HOUR);
    let from = AgentName::parse(from).unwrap();
    let asked = Asked {
        id: RequestId::from_u128(id_at(at.0, n)),
        conversation: ConversationId::from_u128(id_at(at.0 - 1_000_000_000, n / 3)),
        begins: n.is_multiple_of(3),
        from: from.clone(),
        to: to.into(),
        message: message.into(),
        at,
        trail: Trail { root: RequestId::from_u128(1), parent: None, origin: from.clone(), path: [from].into() },
        key: None,
        when_offline: Default::default(),
        traceparent: None,
    };
    let end = End { outcome: Outcome::Answered, text: answer.into(), at: at.plus(n * 1_000), call: None, by: None };
    Record { asked: Arc::new(asked), end: Some(Arc::new(end)), late: None, refused: false }
}

pub(super) fn ended(record: &Record, outcome: Outcome, text: &str) -> Record {
    let end = End { outcome, text: text.into(), at: record.asked.at.plus(120_000), call: None, by: None };
    Record { end: Some(Arc::new(end)), late: None, ..record.clone() }
}

pub(super) fn late(record: &Record, answer: &str) -> Record {
    Record { late: Some(Arc::new(Late { answer: answer.into(), at: record.asked.at.plus(600_000), call: None })), ..record.clone() }
}

pub(super) fn pending(record: &Record) -> Record {
    Record { end: None, late: None, ..record.clone() }
}

/// A fresh index with these records.
pub(super) fn holding(dir: &Path, records: &[Record]) -> Index {
    let Opened { index, .. } = open(dir).unwrap();
    records.iter().for_each(|record| index.add(record).unwrap());
    index.commit(Seq(records.len() as u64)).unwrap();
    index
}

pub(super) fn ask(index: &Index, text: &str) -> Found {
    index.search(&Query::parse(text, &now()), &PageRequest { limit: 200, ..PageRequest::default() }, soon()).unwrap()
}

pub(super) fn best(index: &Index, text: &str) -> Found {
    index.search(&Query::parse(text, &now()), &PageRequest { limit: 200, order: Order::Best, before: None }, soon()).unwrap()
}

/// Which of the records are found, by their place in the list, in ascending order; the count must be theirs.
pub(super) fn found(index: &Index, records: &[Record], text: &str) -> Vec<usize> {
    let hits = ask(index, text);
    let mut places: Vec<usize> = hits.ids.iter().map(|id| records.iter().position(|r| r.asked.id == *id).unwrap()).collect();
    places.sort_unstable();
    assert_eq!(hits.total, places.len() as u64, "{text}");
    assert!(!hits.partial && !hits.typo, "{text}: {hits:?}");
    places
}
