//! How well each agent answers: outcomes and how long an answer takes. Owns the buckets of durations, a tenth wide; never
//! counts over time (that is `facets`).

use std::collections::HashMap;

use tantivy::columnar::Column;
use tantivy::{DocId, Searcher, SegmentReader};

use super::codes::{ByName, Codes, code};
use super::facets::MAX_AGENTS;
use super::plan::Plan;
use super::schema::column;
use super::walk::{Sink, Values, Want, values, walk};
use crate::core::outcome::Outcome;

/// How one agent has answered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AgentFigures {
    pub name: String,
    /// Questions put to it.
    pub asked: u64,
    /// Status words with their counts; `late` counts beside the outcome.
    pub statuses: Vec<(&'static str, u64)>,
    /// Half of its answers in time came within this, give or take a tenth; `None` without any.
    pub p50_ms: Option<u64>,
    pub p95_ms: Option<u64>,
}

/// Durations up to 2^40 ms in buckets of an eighth of an octave.
const BUCKETS: usize = 8 * 40;

#[derive(Clone, Default)]
struct Sheet {
    codes: Codes,
    /// Empty until the first answer.
    durations: Vec<u32>,
}

fn bucket(ms: u64) -> usize {
    ((ms.max(1) as f64).log2() * 8.0) as usize
}

impl Sheet {
    fn time(&mut self, ms: u64) {
        self.durations.resize(BUCKETS, 0);
        if let Some(n) = self.durations.get_mut(bucket(ms).min(BUCKETS - 1)) {
            *n += 1;
        }
    }

    fn join(&mut self, other: &Self) {
        self.codes.join(&other.codes);
        if !other.durations.is_empty() {
            self.durations.resize(BUCKETS, 0);
            self.durations.iter_mut().zip(&other.durations).for_each(|(a, b)| *a += b);
        }
    }

    /// The middle of the bucket in which that share of the durations is reached.
    fn percentile(&self, share: f64) -> Option<u64> {
        let all: u64 = self.durations.iter().map(|n| u64::from(*n)).sum();
        let wanted = ((all as f64 * share).ceil() as u64).max(1);
        let mut sum = 0;
        let reached = self.durations.iter().position(|n| {
            sum += u64::from(*n);
            sum >= wanted
        })?;
        Some(((reached as f64 + 0.5) / 8.0).exp2().round() as u64)
    }
}

struct Here {
    to: ByName<Sheet>,
    status: Values,
    duration: Column<u64>,
}

struct Tally {
    sheets: HashMap<String, Sheet>,
    here: Option<Here>,
    status: Vec<u64>,
    durations: Vec<Option<u64>>,
}

impl Tally {
    fn leave(&mut self) {
        if let Some(here) = self.here.take() {
            here.to.into_names(&mut self.sheets, |sheet| sheet.codes.sum() > 0, Sheet::join);
        }
    }
}

impl Sink for Tally {
    fn enter(&mut self, _: u32, segment: &SegmentReader, _: u64, _: u64) -> tantivy::Result<Want> {
        self.leave();
        let duration = segment.fast_fields().column_opt::<u64>(column::DURATION)?;
        let duration = duration.unwrap_or_else(|| Column::build_empty_column(segment.max_doc()));
        self.here = Some(Here { to: ByName::of(segment, column::TO)?, status: values(segment, column::STATUS_CODE)?, duration });
        Ok(Want::Documents)
    }

    fn hits(&mut self, docs: &[DocId], _: &[u64], _: &[f32]) {
        let Some(here) = &mut self.here else { return };
        self.status.resize(docs.len(), 0);
        here.status.get_vals(docs, &mut self.status);
        self.durations.clear();
        self.durations.resize(docs.len(), None);
        here.duration.first_vals(docs, &mut self.durations);
        let (status, durations, ok) = (&self.status, &self.durations, code(Outcome::Answered));
        here.to.count(docs, |at, sheet| {
            let code = status.get(at).copied().unwrap_or_default();
            sheet.codes.add(code);
            if let Some(ms) = durations.get(at).copied().flatten().filter(|_| code == ok) {
                sheet.time(ms);
            }
        });
    }

    fn count(&mut self, _: u64) {}
}

/// The busiest first. `false` when the deadline came first: all counts are too low.
pub(super) fn figures(searcher: &Searcher, plan: &Plan) -> tantivy::Result<(Vec<AgentFigures>, bool)> {
    let mut tally = Tally { sheets: HashMap::new(), here: None, status: Vec::new(), durations: Vec::new() };
    let whole = walk(searcher, plan, &mut tally)?;
    tally.leave();
    let mut agents: Vec<_> = tally
        .sheets
        .into_iter()
        .map(|(name, sheet)| AgentFigures {
            name,
            asked: sheet.codes.sum(),
            statuses: sheet.codes.words(),
            p50_ms: sheet.percentile(0.5),
            p95_ms: sheet.percentile(0.95),
        })
        .collect();
    agents.sort_unstable_by(|a, b| b.asked.cmp(&a.asked).then_with(|| a.name.cmp(&b.name)));
    agents.truncate(MAX_AGENTS);
    Ok((agents, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_within_a_tenth() {
        let mut sheet = Sheet::default();
        assert_eq!(sheet.percentile(0.5), None);
        (1..=10_000).for_each(|ms| sheet.time(ms));
        let near = |got: Option<u64>, want: f64| assert!((got.unwrap() as f64 / want - 1.0).abs() < 0.1, "{got:?} {want}");
        near(sheet.percentile(0.5), 5_000.0);
        near(sheet.percentile(0.95), 9_500.0);
        sheet.time(u64::MAX);
        sheet.time(0);
    }
}
