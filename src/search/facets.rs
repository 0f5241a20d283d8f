//! Counts over the hits of a query: by status, by agent, over time. Owns the choice of the chart's step; never ranks hits
//! (that is `top`).

use std::collections::{BTreeMap, HashMap};

use tantivy::{DocId, Searcher, SegmentReader};

use super::codes::{ByName, Codes, code};
use super::plan::Plan;
use super::schema::{LATE_BIT, column};
use super::walk::{Sink, Values, Want, values, walk};
use crate::core::outcome::Outcome;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
/// A chart has at most so many bars; the step grows until it does.
const MAX_BARS: i64 = 120;
const STEPS: [i64; 6] = [HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY, 364 * DAY];
/// Only so many agents are named: refused asks may name anything.
pub(super) const MAX_AGENTS: usize = 200;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facets {
    pub total: u64,
    /// Status words with their counts, in the order of the outcomes; `late` counts beside the outcome. None with 0.
    pub statuses: Vec<(&'static str, u64)>,
    /// Agents that asked or were asked, the busiest first.
    pub agents: Vec<(String, u64)>,
    /// Oldest first; times without hits have no bar.
    pub bars: Vec<Bar>,
    /// The width of a bar: an hour, six, a day, 7, 28 or 364 days.
    pub step_ms: u64,
    /// The deadline came first: all counts are too low.
    pub partial: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bar {
    /// Its first millisecond.
    pub from_ms: u64,
    /// In time or late.
    pub answered: u64,
    pub others: u64,
}

struct Here {
    from: ByName<u64>,
    to: ByName<u64>,
    status: Values,
}

struct Tally {
    offset: i64,
    codes: Codes,
    agents: HashMap<String, u64>,
    /// Answered and others, by hours since 1970.
    hours: HashMap<i64, (u64, u64)>,
    here: Option<Here>,
    status: Vec<u64>,
}

impl Tally {
    /// Puts names to the numbers of the segment that ended.
    fn leave(&mut self) {
        if let Some(Here { from, to, .. }) = self.here.take() {
            for names in [from, to] {
                names.into_names(&mut self.agents, |n| *n > 0, |sum, n| *sum += n);
            }
        }
    }
}

impl Sink for Tally {
    fn enter(&mut self, _: u32, segment: &SegmentReader, _: u64, _: u64) -> tantivy::Result<Want> {
        self.leave();
        let (from, to) = (ByName::of(segment, column::FROM)?, ByName::of(segment, column::TO)?);
        self.here = Some(Here { from, to, status: values(segment, column::STATUS_CODE)? });
        Ok(Want::Documents)
    }

    fn hits(&mut self, docs: &[DocId], started: &[u64], _: &[f32]) {
        let Some(here) = &mut self.here else { return };
        self.status.resize(docs.len(), 0);
        here.status.get_vals(docs, &mut self.status);
        let ok = code(Outcome::Answered);
        let mut run = (i64::MIN, (0, 0));
        for (code, at) in self.status.iter().zip(started) {
            self.codes.add(*code);
            let hour = i64::try_from(*at).unwrap_or(i64::MAX).saturating_add(self.offset).div_euclid(HOUR);
            if hour != run.0 {
                add(&mut self.hours, run);
                run = (hour, (0, 0));
            }
            let answered = *code == ok || code & LATE_BIT != 0;
            *(if answered { &mut run.1.0 } else { &mut run.1.1 }) += 1;
        }
        add(&mut self.hours, run);
        here.from.count(docs, |_, n| *n += 1);
        let oneself = code(Outcome::SelfAsk);
        let status = &self.status;
        here.to.count(docs, |at, n| *n += u64::from(status.get(at) != Some(&oneself)));
    }

    fn count(&mut self, _: u64) {}
}

/// Neighbours in a block are mostly of the same hour, so they are added together.
fn add(hours: &mut HashMap<i64, (u64, u64)>, (hour, (answered, others)): (i64, (u64, u64))) {
    if answered + others > 0 {
        let sum = hours.entry(hour).or_default();
        sum.0 += answered;
        sum.1 += others;
    }
}

pub(super) fn facets(searcher: &Searcher, plan: &Plan, offset: i64) -> tantivy::Result<Facets> {
    let mut tally = Tally { offset, codes: Codes::default(), agents: HashMap::new(), hours: HashMap::new(), here: None, status: Vec::new() };
    let whole = walk(searcher, plan, &mut tally)?;
    tally.leave();
    let (bars, step_ms) = bars(&tally.hours, offset);
    let mut agents: Vec<_> = tally.agents.into_iter().collect();
    agents.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    agents.truncate(MAX_AGENTS);
    Ok(Facets { total: tally.codes.sum(), statuses: tally.codes.words(), agents, bars, step_ms, partial: !whole })
}

fn bars(hours: &HashMap<i64, (u64, u64)>, offset: i64) -> (Vec<Bar>, u64) {
    let (first, last) = (hours.keys().min().copied().unwrap_or(0), hours.keys().max().copied().unwrap_or(0));
    let fits = |step: &i64| last * HOUR / step - first * HOUR / step < MAX_BARS;
    let step = STEPS.into_iter().find(fits).unwrap_or(364 * DAY);
    let mut by_step: BTreeMap<i64, Bar> = BTreeMap::new();
    for (hour, (answered, others)) in hours {
        let from = (hour * HOUR).div_euclid(step) * step;
        let bar = by_step.entry(from).or_default();
        bar.from_ms = u64::try_from(from - offset).unwrap_or_default();
        bar.answered += answered;
        bar.others += others;
    }
    (by_step.into_values().collect(), step as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_grows_until_the_bars_are_few() {
        let hours = |n: i64, each: i64| (0..n).map(|h| (500_000 + h * each, (1, 1))).collect::<HashMap<_, _>>();
        assert_eq!(bars(&HashMap::new(), 0), (vec![], HOUR as u64));
        assert_eq!(bars(&hours(100, 1), 0).1, HOUR as u64);
        assert_eq!(bars(&hours(200, 1), 0).1, 6 * HOUR as u64);
        assert_eq!(bars(&hours(100, 24), 0).1, DAY as u64);
        let (bars, step) = bars(&hours(5_000, 24), 0);
        assert_eq!(step, 364 * DAY as u64);
        assert_eq!(bars.iter().map(|b| b.answered).sum::<u64>(), 5_000);
    }

    #[test]
    fn a_day_begins_at_the_readers_midnight() {
        let offset = 2 * HOUR;
        let hours = (1_000..1_200).map(|d| ((d * DAY + 20 * HOUR + offset).div_euclid(HOUR), (1, 0))).collect();
        let (bars, step) = bars(&hours, offset);
        assert_eq!(step, 7 * DAY as u64);
        assert!(bars.iter().all(|bar| (bar.from_ms as i64 + offset) % DAY == 0));
    }
}
