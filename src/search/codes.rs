//! Counting over columns: status codes, and names that are numbers within a segment. Owns the way from a segment's numbers
//! back to words; shared by `facets` and `figures`, which decide what is counted.

use std::collections::HashMap;

use tantivy::columnar::StrColumn;
use tantivy::{DocId, SegmentReader};

use super::schema::{LATE, LATE_BIT, STATUS_WORDS};
use super::walk::Values;
use crate::core::outcome::Outcome;

/// Counts by code of status, and how many of them had a late answer.
#[derive(Clone, Default)]
pub(super) struct Codes {
    outcomes: [u64; 32],
    late: u64,
}

impl Codes {
    pub(super) fn add(&mut self, code: u64) {
        if let Some(n) = self.outcomes.get_mut((code & !LATE_BIT) as usize) {
            *n += 1;
        }
        self.late += u64::from(code & LATE_BIT != 0);
    }

    pub(super) fn join(&mut self, other: &Self) {
        self.outcomes.iter_mut().zip(other.outcomes).for_each(|(a, b)| *a += b);
        self.late += other.late;
    }

    pub(super) fn sum(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// In the order of the outcomes, `late` last, none with 0.
    pub(super) fn words(&self) -> Vec<(&'static str, u64)> {
        let outcomes = STATUS_WORDS.iter().copied().zip(self.outcomes).filter(|(_, n)| *n > 0);
        outcomes.chain((self.late > 0).then_some((LATE, self.late))).collect()
    }
}

/// The code of a status word.
pub(super) fn code(outcome: Outcome) -> u64 {
    STATUS_WORDS.iter().position(|word| *word == outcome.word()).unwrap_or_default() as u64
}

/// The names in one column of one segment, with a count of type `T` by number.
pub(super) struct ByName<T> {
    column: Option<(StrColumn, Values)>,
    numbers: Vec<u64>,
    counts: Vec<T>,
}

impl<T: Clone + Default> ByName<T> {
    pub(super) fn of(segment: &SegmentReader, name: &str) -> tantivy::Result<Self> {
        let column = segment.fast_fields().str(name)?;
        let column = column.map(|c| (c.clone(), c.ords().clone().first_or_default_col(u64::MAX)));
        Ok(Self { column, numbers: Vec::new(), counts: Vec::new() })
    }

    /// Calls `each` with the place in the block and the count of the name there.
    pub(super) fn count(&mut self, docs: &[DocId], mut each: impl FnMut(usize, &mut T)) {
        let Some((column, values)) = &self.column else { return };
        if self.counts.is_empty() {
            self.counts.resize(column.num_terms(), T::default());
        }
        self.numbers.resize(docs.len(), 0);
        values.get_vals(docs, &mut self.numbers);
        for (at, number) in self.numbers.iter().enumerate() {
            if let Some(count) = usize::try_from(*number).ok().and_then(|n| self.counts.get_mut(n)) {
                each(at, count);
            }
        }
    }

    /// Adds what was counted under the names themselves.
    pub(super) fn into_names(self, all: &mut HashMap<String, T>, counted: impl Fn(&T) -> bool, mut join: impl FnMut(&mut T, &T)) {
        let Some((column, _)) = &self.column else { return };
        let mut name = String::new();
        for (number, count) in self.counts.iter().enumerate().filter(|(_, n)| counted(n)) {
            name.clear();
            if column.ord_to_str(number as u64, &mut name).is_ok_and(|known| known) {
                match all.get_mut(&name) {
                    Some(sum) => join(sum, count),
                    None => join(all.entry(name.clone()).or_default(), count),
                }
            }
        }
    }
}
