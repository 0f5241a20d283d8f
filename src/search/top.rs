//! The first so many hits in an order, and the count of all. Owns the ranking of a page; ids are read for those few that
//! may be on it.

use tantivy::{DocId, Searcher, SegmentReader};

use super::page::{Cursor, Order, PageRequest};
use super::schema::column;
use super::walk::{Sink, Values, Want, values};
use crate::core::ids::RequestId;

#[derive(Clone, Copy, Debug)]
struct Hit {
    score: u32,
    started: u64,
    segment: u32,
    doc: DocId,
}

impl Hit {
    fn rank(&self) -> (u32, u64) {
        (self.score, self.started)
    }
}

pub(super) struct Top {
    limit: usize,
    before: Option<Cursor>,
    scored: bool,
    pub(super) total: u64,
    segment: u32,
    /// Of the segment at hand, to tell hits apart that stand level with the cursor.
    ids: Option<(Values, Values)>,
    kept: Vec<Hit>,
    /// Hits below this are off the page.
    floor: (u32, u64),
    /// The length at which `kept` is cut back.
    full: usize,
}

fn id(ids: &(Values, Values), doc: DocId) -> RequestId {
    RequestId::from_u128(u128::from(ids.0.get_val(doc)) << 64 | u128::from(ids.1.get_val(doc)))
}

fn id_columns(segment: &SegmentReader) -> tantivy::Result<(Values, Values)> {
    Ok((values(segment, column::ID_HIGH)?, values(segment, column::ID_LOW)?))
}

impl Top {
    /// `limit` is one more than the page, to know whether there is another.
    pub(super) fn new(request: &PageRequest, limit: usize) -> Self {
        Self {
            limit,
            before: request.before,
            scored: request.order == Order::Best,
            total: 0,
            segment: 0,
            ids: None,
            kept: Vec::new(),
            floor: (0, 0),
            full: 4 * limit,
        }
    }

    fn offer(&mut self, score: f32, started: u64, doc: DocId) {
        let hit = Hit { score: if self.scored { score.max(0.0).to_bits() } else { 0 }, started, segment: self.segment, doc };
        if hit.rank() < self.floor {
            return;
        }
        if let Some(cursor) = &self.before {
            let place = (cursor.score, cursor.started);
            let level = || self.ids.as_ref().is_some_and(|ids| id(ids, doc) < cursor.id);
            if hit.rank() > place || (hit.rank() == place && !level()) {
                return;
            }
        }
        self.kept.push(hit);
        if self.kept.len() >= self.full {
            self.cut_back();
        }
    }

    /// Drops what cannot be on the page. Hits level with the last stay: their ids decide in the end.
    fn cut_back(&mut self) {
        let last = self.limit - 1;
        let (_, hit, _) = self.kept.select_nth_unstable_by_key(last, |hit| std::cmp::Reverse(hit.rank()));
        self.floor = hit.rank();
        let floor = self.floor;
        self.kept.retain(|hit| hit.rank() >= floor);
        self.full = (2 * self.kept.len()).max(4 * self.limit);
    }

    /// The places of the first `limit`, in order.
    pub(super) fn finish(mut self, searcher: &Searcher) -> tantivy::Result<Vec<Cursor>> {
        if self.kept.len() > self.limit {
            self.cut_back();
        }
        self.kept.sort_unstable_by_key(|hit| hit.segment);
        let mut places = Vec::with_capacity(self.kept.len());
        for hits in self.kept.chunk_by(|a, b| a.segment == b.segment) {
            let Some(first) = hits.first() else { continue };
            let ids = id_columns(searcher.segment_reader(first.segment))?;
            places.extend(hits.iter().map(|hit| Cursor { score: hit.score, started: hit.started, id: id(&ids, hit.doc) }));
        }
        places.sort_unstable_by(|a, b| b.cmp(a));
        places.truncate(self.limit);
        Ok(places)
    }
}

impl Sink for Top {
    fn enter(&mut self, ordinal: u32, segment: &SegmentReader, oldest: u64, newest: u64) -> tantivy::Result<Want> {
        self.segment = ordinal;
        self.ids = None;
        if let Some(cursor) = &self.before {
            self.ids = Some(id_columns(segment)?);
            if !self.scored && oldest > cursor.started {
                return Ok(Want::Count);
            }
        }
        Ok(if !self.scored && newest < self.floor.1 { Want::Count } else { Want::Documents })
    }

    fn hits(&mut self, docs: &[DocId], started: &[u64], scores: &[f32]) {
        self.total += docs.len() as u64;
        for (at, (doc, started)) in docs.iter().zip(started).enumerate() {
            self.offer(scores.get(at).copied().unwrap_or_default(), *started, *doc);
        }
    }

    fn count(&mut self, n: u64) {
        self.total += n;
    }
}
