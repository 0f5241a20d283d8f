//! The deadline of one search, and the patience of phrases: tantivy looks for the next phrase in one breath, however many
//! documents have its words in another order. Owns when the clock is looked at; who notices the deadline stops and the
//! search says that it is partial.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tantivy::query::{EnableScoring, Explanation, PhraseQuery, Query, Scorer, Weight};
use tantivy::{DocId, DocSet, Score, SeekDangerResult, SegmentReader, TERMINATED};

#[derive(Debug)]
pub(super) struct Clock {
    deadline: Instant,
    passed: AtomicBool,
}

impl Clock {
    pub(super) fn new(deadline: Instant) -> Arc<Self> {
        Arc::new(Self { deadline, passed: AtomicBool::new(false) })
    }

    /// Looks at the time.
    pub(super) fn look(&self) -> bool {
        if Instant::now() >= self.deadline {
            self.passed.store(true, Ordering::Relaxed);
        }
        self.passed()
    }

    /// Somebody saw that the deadline had come.
    pub(super) fn passed(&self) -> bool {
        self.passed.load(Ordering::Relaxed)
    }
}

/// A phrase that gives up at the deadline.
#[derive(Clone, Debug)]
pub(super) struct PatientPhrase(pub(super) PhraseQuery, pub(super) Arc<Clock>);

impl Query for PatientPhrase {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(PatientWeight(self.0.weight(scoring)?, self.1.clone())))
    }
}

struct PatientWeight(Box<dyn Weight>, Arc<Clock>);

impl Weight for PatientWeight {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let (at, phrase) = self.0.scorer_danger(segment, 0, boost)?;
        let mut patient = Patient { phrase, doc: 0, tries: 0, clock: self.1.clone() };
        if let SeekDangerResult::SeekLowerBound(next) = at {
            patient.find(next);
        }
        Ok(Box::new(patient))
    }

    fn explain(&self, segment: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        self.0.explain(segment, doc)
    }
}

/// Documents with all words of the phrase between two looks at the clock.
const CHECK: u32 = 512;

struct Patient {
    /// Only ever asked for one document at a time.
    phrase: Box<dyn Scorer>,
    doc: DocId,
    tries: u32,
    clock: Arc<Clock>,
}

impl Patient {
    /// Goes to the first document at `target` or later that has the phrase.
    fn find(&mut self, mut target: DocId) -> DocId {
        while target < TERMINATED {
            self.tries += 1;
            if self.tries.is_multiple_of(CHECK) && self.clock.look() {
                break;
            }
            match self.phrase.seek_danger(target) {
                SeekDangerResult::Found => {
                    self.doc = target;
                    return target;
                }
                SeekDangerResult::SeekLowerBound(next) => target = next.max(target + 1),
            }
        }
        self.doc = TERMINATED;
        TERMINATED
    }
}

impl DocSet for Patient {
    fn advance(&mut self) -> DocId {
        if self.doc == TERMINATED { TERMINATED } else { self.find(self.doc + 1) }
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target { self.doc } else { self.find(target) }
    }

    fn doc(&self) -> DocId {
        self.doc
    }

    fn size_hint(&self) -> u32 {
        self.phrase.size_hint()
    }

    fn cost(&self) -> u64 {
        self.phrase.cost()
    }
}

impl Scorer for Patient {
    fn score(&mut self) -> Score {
        self.phrase.score()
    }
}
