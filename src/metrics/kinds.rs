//! Counters, histograms and families of them: atomics only, so that counting never waits. A family's label values are
//! `&'static str`: they come from the program's own text, never from what somebody sent.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn one(&self) {
        self.add(1);
    }

    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// For what is a state rather than a count.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Seconds that a question may take.
pub(super) const LONG: [f64; 11] = [0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];
/// Seconds that a disk or a search may take.
pub(super) const SHORT: [f64; 11] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];

pub struct Histogram {
    pub(super) bounds: &'static [f64; 11],
    /// Not cumulative; the last is for what is beyond all bounds.
    buckets: [Counter; 12],
    micros: Counter,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64; 11]) -> Self {
        Self { bounds, buckets: Default::default(), micros: Counter::default() }
    }

    pub fn took(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let at = self.bounds.iter().position(|bound| seconds <= *bound).unwrap_or(self.bounds.len());
        if let Some(bucket) = self.buckets.get(at) {
            bucket.one();
        }
        self.micros.add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// How many up to each bound, all at the end; and the sum in seconds.
    pub(super) fn cumulative(&self) -> ([u64; 12], f64) {
        let (mut sum, mut all) = (0, [0; 12]);
        for (total, bucket) in all.iter_mut().zip(&self.buckets) {
            sum += bucket.get();
            *total = sum;
        }
        (all, self.micros.get() as f64 / 1e6)
    }

    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().map(Counter::get).sum()
    }
}

/// One `T` a label value. A slot is taken at first use and never given back; when all are taken the last one is shared.
pub struct Family<T, const N: usize>([OnceLock<(&'static str, T)>; N]);

impl<T, const N: usize> Default for Family<T, N> {
    fn default() -> Self {
        Self([const { OnceLock::new() }; N])
    }
}

impl<T, const N: usize> Family<T, N> {
    pub(super) fn get_or(&self, label: &'static str, make: impl Fn() -> T) -> Option<&T> {
        let mut last = None;
        for slot in &self.0 {
            let (taken, value) = slot.get_or_init(|| (label, make()));
            if *taken == label {
                return Some(value);
            }
            last = Some(value);
        }
        last
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (&'static str, &T)> {
        self.0.iter().filter_map(OnceLock::get).map(|(label, value)| (*label, value))
    }
}

impl<const N: usize> Family<Counter, N> {
    pub fn one(&self, label: &'static str) {
        self.add(label, 1);
    }

    pub fn add(&self, label: &'static str, n: u64) {
        if let Some(counter) = self.get_or(label, Counter::default) {
            counter.add(n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_each_duration_once_under_its_bound() {
        let histogram = Histogram::new(&LONG);
        for seconds in [0.05, 0.1, 0.2, 700.0] {
            histogram.took(Duration::from_secs_f64(seconds));
        }
        let (buckets, sum) = histogram.cumulative();
        assert_eq!((buckets[0], buckets[1], buckets[10], buckets[11]), (2, 3, 3, 4));
        assert!((sum - 700.35).abs() < 1e-6 && histogram.count() == 4);
    }

    #[test]
    fn a_family_never_grows_past_its_bound() {
        let family: Family<Counter, 2> = Family::default();
        for label in ["a", "b", "a", "c", "d"] {
            family.one(label);
        }
        assert_eq!(family.each().map(|(label, n)| (label, n.get())).collect::<Vec<_>>(), [("a", 2), ("b", 3)]);
    }
}
