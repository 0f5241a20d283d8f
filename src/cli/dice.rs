//! Variety without randomness: the same seed is always the same story. For the demo's past and the benchmark's.

use uuid::{Builder, Uuid};

use crate::core::ids::Millis;

/// xorshift.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// Below `n`; small numbers often, large ones seldom, as words are used.
    pub(super) fn seldom(&mut self, n: u64) -> u64 {
        let share = self.next() as f64 / (1_u64 << 53) as f64;
        ((n as f64).powf(share) - 1.0) as u64
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(usize::try_from(self.below(from.len() as u64)).unwrap_or(0))
    }

    pub(super) fn uuid(&mut self, at: Millis) -> Uuid {
        let mut random = [0; 10];
        random.iter_mut().for_each(|b| *b = self.below(256) as u8);
        Builder::from_unix_timestamp_millis(at.0, &random).into_uuid()
    }
}
