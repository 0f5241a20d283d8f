//! How often something may happen: so many in a period, and as many at once. One number each, so that a table of them
//! stays small; and the rule by which such a table, whose keys others choose, keeps within its bound.

use super::ids::Millis;

/// So many in a period of milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    pub max: u32,
    pub per_ms: u64,
}

impl Rate {
    #[must_use]
    pub fn per_second(max: u32) -> Self {
        Self { max, per_ms: 1_000 }
    }

    #[must_use]
    pub fn per_minute(max: u32) -> Self {
        Self { max, per_ms: 60_000 }
    }

    #[must_use]
    pub fn per_hour(max: u32) -> Self {
        Self { max, per_ms: 3_600_000 }
    }

    /// Microseconds that one takes; 0 for more than a million a second, which is no limit.
    fn each_us(self) -> u64 {
        self.per_ms.saturating_mul(1_000) / u64::from(self.max.max(1))
    }
}

/// A bucket that fills evenly. The default is a full one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pace {
    /// The moment, in microseconds, at which the bucket is full again.
    full_us: u64,
}

impl Pace {
    /// Milliseconds until one more may happen; 0 for now.
    #[must_use]
    pub fn wait(&self, now: Millis, rate: Rate) -> u64 {
        let now_us = now.0.saturating_mul(1_000);
        let after = self.full_us.max(now_us).saturating_add(rate.each_us());
        after.saturating_sub(now_us.saturating_add(rate.per_ms.saturating_mul(1_000))).div_ceil(1_000)
    }

    /// One happens.
    pub fn take(&mut self, now: Millis, rate: Rate) {
        self.full_us = self.full_us.max(now.0.saturating_mul(1_000)).saturating_add(rate.each_us());
    }

    /// One happens, or how many milliseconds it has to wait.
    pub fn try_take(&mut self, now: Millis, rate: Rate) -> Result<(), u64> {
        match self.wait(now, rate) {
            0 => {
                self.take(now, rate);
                Ok(())
            }
            ms => Err(ms),
        }
    }

    /// From when on it says nothing any more: a new one would be the same.
    #[must_use]
    pub fn until(&self) -> Millis {
        Millis(self.full_us.div_ceil(1_000))
    }
}

/// Whether a table that has `cap` entries must shed some: those that are good for nothing from `Some(moment)` on. What is
/// over goes first, then of the rest the half that is over soonest, so that shedding is rare.
#[must_use]
pub fn crowded(len: usize, cap: usize, now: Millis, untils: impl Iterator<Item = Millis>) -> Option<Millis> {
    if len < cap {
        return None;
    }
    let mut left: Vec<Millis> = untils.filter(|until| *until > now).collect();
    let excess = left.len().saturating_sub(cap / 2);
    match excess {
        0 => Some(now),
        n => Some(*left.select_nth_unstable(n - 1).1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pace: &mut Pace, at: u64, rate: Rate, tries: u32) -> u32 {
        (0..tries).map(|_| u32::from(pace.try_take(Millis(at), rate).is_ok())).sum()
    }

    #[test]
    fn as_many_at_once_as_in_the_period_then_evenly() {
        let (mut pace, rate) = (Pace::default(), Rate::per_minute(3));
        assert_eq!(taken(&mut pace, 5_000, rate, 10), 3);
        assert_eq!(pace.try_take(Millis(5_000), rate), Err(20_000));
        assert_eq!(pace.try_take(Millis(24_999), rate), Err(1));
        assert_eq!(taken(&mut pace, 25_000, rate, 10), 1);
        assert_eq!(taken(&mut pace, 999_000, rate, 10), 3);
    }

    #[test]
    fn what_is_refused_uses_nothing_up() {
        let (mut pace, rate) = (Pace::default(), Rate::per_second(1));
        taken(&mut pace, 0, rate, 1_000);
        assert_eq!(taken(&mut pace, 1_000, rate, 5), 1);
    }

    #[test]
    fn a_rate_beyond_counting_is_none() {
        let mut pace = Pace::default();
        assert_eq!(taken(&mut pace, 1, Rate::per_second(u32::MAX), 10_000), 10_000);
    }

    #[test]
    fn no_moment_overflows() {
        let mut pace = Pace::default();
        taken(&mut pace, u64::MAX, Rate { max: 1, per_ms: u64::MAX }, 3);
        assert_eq!(pace.until(), Millis(u64::MAX.div_ceil(1_000)));
    }

    #[test]
    fn a_crowded_table_sheds_what_is_over_and_else_the_half_that_is_over_soonest() {
        let untils = |list: &'static [u64]| list.iter().map(|u| Millis(*u));
        assert_eq!(crowded(3, 4, Millis(5), untils(&[1, 2, 3])), None);
        assert_eq!(crowded(4, 4, Millis(5), untils(&[1, 2, 9, 8])), Some(Millis(5)));
        assert_eq!(crowded(4, 4, Millis(5), untils(&[9, 6, 8, 7])), Some(Millis(7)));
    }
}
