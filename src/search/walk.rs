//! Goes through the documents of a plan, newest segments first, and hands them to a sink in blocks. Owns the deadline
//! (the clock is looked at between segments and every `CHECK` documents), deletions and the window of time; never knows what a sink
//! makes of it.

use std::sync::Arc;

use tantivy::columnar::ColumnValues;
use tantivy::query::{EnableScoring, Weight};
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId, DocSet, Searcher, SegmentReader, TERMINATED};

use super::plan::Plan;
use super::schema::column;

const BLOCK: usize = COLLECT_BLOCK_BUFFER_LEN;
/// Documents between two looks at the clock; a block takes some microseconds.
const CHECK: u32 = 4_096;

pub(super) type Values = Arc<dyn ColumnValues<u64>>;

/// A column that every document has.
pub(super) fn values(segment: &SegmentReader, name: &str) -> tantivy::Result<Values> {
    segment.fast_fields().column_first_or_default::<u64>(name)
}

/// What a sink wants of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Want {
    Count,
    Documents,
}

pub(super) trait Sink {
    /// A segment begins whose documents were asked from `oldest` to `newest`.
    fn enter(&mut self, ordinal: u32, segment: &SegmentReader, oldest: u64, newest: u64) -> tantivy::Result<Want>;
    /// Hits of the segment that was entered, with the moments of asking and, if it scores, their scores.
    fn hits(&mut self, docs: &[DocId], started: &[u64], scores: &[f32]);
    /// Hits that are counted only.
    fn count(&mut self, n: u64);
}

/// `false` when the deadline came first.
pub(super) fn walk(searcher: &Searcher, plan: &Plan, sink: &mut dyn Sink) -> tantivy::Result<bool> {
    let scoring = if plan.scored { EnableScoring::enabled_from_searcher(searcher) } else { EnableScoring::disabled_from_searcher(searcher) };
    let weight = plan.lookup.weight(scoring)?;
    let mut segments = Vec::new();
    for (ordinal, segment) in (0u32..).zip(searcher.segment_readers()) {
        if segment.num_docs() > 0 {
            let started = values(segment, column::STARTED)?;
            segments.push((started.max_value(), ordinal, segment, started));
        }
    }
    segments.sort_unstable_by_key(|(newest, ordinal, ..)| std::cmp::Reverse((*newest, *ordinal)));
    for (newest, ordinal, segment, started) in segments {
        let oldest = started.min_value();
        if newest < plan.window.start || oldest >= plan.window.end {
            continue;
        }
        if plan.clock.look() {
            return Ok(false);
        }
        let inside = oldest >= plan.window.start && newest < plan.window.end;
        let want = sink.enter(ordinal, segment, oldest, newest)?;
        if want == Want::Count && inside && (plan.all || (plan.counted && !segment.has_deletes())) {
            let n = if plan.all { segment.num_docs() } else { weight.count(segment)? };
            sink.count(u64::from(n));
            continue;
        }
        let mut visit = Visit { segment, started: &*started, inside, plan, want, sink, since: 0 };
        let whole = match (plan.all, plan.scored) {
            (true, _) => visit.everything(),
            (false, false) => visit.unscored(&*weight)?,
            (false, true) => visit.scored(&*weight)?,
        };
        if !whole {
            return Ok(false);
        }
    }
    Ok(!plan.clock.passed())
}

struct Visit<'a> {
    segment: &'a SegmentReader,
    started: &'a dyn ColumnValues<u64>,
    /// The whole segment lies in the window.
    inside: bool,
    plan: &'a Plan,
    want: Want,
    sink: &'a mut dyn Sink,
    since: u32,
}

impl Visit<'_> {
    /// From the end, where the newest documents are, so that a sink learns early what is too old.
    fn everything(&mut self) -> bool {
        let mut end = self.segment.max_doc();
        while end > 0 {
            let begin = end.saturating_sub(BLOCK as u32);
            let mut docs = [0; BLOCK];
            let n = (end - begin) as usize;
            docs.iter_mut().zip(begin..end).for_each(|(slot, doc)| *slot = doc);
            if !self.block(&mut docs, n, &mut []) {
                return false;
            }
            end = begin;
        }
        true
    }

    fn unscored(&mut self, weight: &dyn Weight) -> tantivy::Result<bool> {
        let mut scorer = weight.scorer(self.segment, 1.0)?;
        let mut docs = [0; BLOCK];
        loop {
            let n = scorer.fill_buffer(&mut docs);
            if !self.block(&mut docs, n, &mut []) {
                return Ok(false);
            }
            if n < BLOCK {
                return Ok(true);
            }
        }
    }

    fn scored(&mut self, weight: &dyn Weight) -> tantivy::Result<bool> {
        let mut scorer = weight.scorer(self.segment, 1.0)?;
        let (mut docs, mut scores) = ([0; BLOCK], [0.0; BLOCK]);
        let mut n = 0;
        let mut doc = scorer.doc();
        while doc != TERMINATED {
            (docs[n], scores[n]) = (doc, scorer.score());
            n += 1;
            if n == BLOCK {
                if !self.block(&mut docs, n, &mut scores) {
                    return Ok(false);
                }
                n = 0;
            }
            doc = scorer.advance();
        }
        Ok(self.block(&mut docs, n, &mut scores))
    }

    /// Hands on the first `n` that are alive and in the window. `false` at the deadline.
    fn block(&mut self, docs: &mut [DocId; BLOCK], mut n: usize, scores: &mut [f32]) -> bool {
        self.since += n as u32;
        if let Some(alive) = self.segment.alive_bitset() {
            n = retain(docs, n, scores, |doc, _| alive.is_alive(doc));
        }
        let mut started = [0; BLOCK];
        if !self.inside || self.want == Want::Documents {
            self.started.get_vals(&docs[..n], &mut started[..n]);
        }
        if !self.inside {
            let (window, all) = (self.plan.window.clone(), started);
            n = retain(docs, n, scores, |_, at| window.contains(&all[at]));
            self.started.get_vals(&docs[..n], &mut started[..n]);
        }
        match self.want {
            Want::Count => self.sink.count(n as u64),
            Want::Documents => self.sink.hits(&docs[..n], &started[..n], scores.get(..n).unwrap_or_default()),
        }
        if self.since >= CHECK {
            self.since = 0;
            return !self.plan.clock.look();
        }
        !self.plan.clock.passed()
    }
}

/// Moves those that `keep` (by document and place) to the front; how many.
fn retain(docs: &mut [DocId; BLOCK], n: usize, scores: &mut [f32], keep: impl Fn(DocId, usize) -> bool) -> usize {
    let mut kept = 0;
    for at in 0..n {
        let doc = docs[at];
        if keep(doc, at) {
            docs[kept] = doc;
            if let Some(score) = scores.get(at).copied() {
                scores[kept] = score;
            }
            kept += 1;
        }
    }
    kept
}
