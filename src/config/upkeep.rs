//! `[backup]` and `[retention]` of bridge.toml: what the relay does by itself to be run for years.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::ConfigError;
use super::file::Source;
use crate::core::outcome::Outcome;

/// Backups by the clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backups {
    pub every: Duration,
    pub keep: usize,
    pub dir: PathBuf,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBackup {
    every: Option<Spanned<Span>>,
    keep: Option<Spanned<u64>>,
    dir: Option<PathBuf>,
}

/// Milliseconds like every other time, or a text with a unit.
#[derive(Deserialize, Debug)]
#[serde(untagged)]
enum Span {
    Millis(u64),
    Text(String),
}

const SECOND_MS: u64 = 1_000;
const DAY_MS: u64 = 86_400_000;
const DAYS: std::ops::RangeInclusive<u64> = 1..=36_500;

impl Span {
    fn ms(&self) -> Option<u64> {
        let text = match self {
            Self::Millis(ms) => return Some(*ms),
            Self::Text(text) => text.trim(),
        };
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
        let unit = match unit.trim() {
            "s" => SECOND_MS,
            "m" | "min" => 60 * SECOND_MS,
            "h" => 3_600 * SECOND_MS,
            "d" => DAY_MS,
            "w" => 7 * DAY_MS,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(unit)
    }
}

/// `None` without `every`: no backup is taken by the clock.
pub(super) fn backups(source: &Source<'_>, raw: &RawBackup, base: &Path, data_dir: &Path) -> Result<Option<Backups>, ConfigError> {
    let keep = usize::try_from(source.number(&raw.keep, "keep", 1..=10_000, 7)?).unwrap_or(usize::MAX);
    let Some(every) = &raw.every else { return Ok(None) };
    let ms = every.get_ref().ms().filter(|ms| (SECOND_MS..=366 * DAY_MS).contains(ms));
    let ms = ms.ok_or_else(|| source.value(every, "every", "a time like \"24h\" (s, m, h, d, w) or milliseconds, from 1 s to 366 d, is expected"))?;
    let dir = raw.dir.as_ref().map_or_else(|| data_dir.join("backups"), |dir| base.join(dir));
    Ok(Some(Backups { every: Duration::from_millis(ms), keep, dir }))
}

/// Refusals by the doors in the security log: a flood of them fills no disk.
const MAX_REFUSALS: u64 = 100_000;
/// Bytes that a long one takes, about.
const REFUSAL_BYTES: u64 = 640;
const SECURITY_DAYS: u64 = 365;

/// How much history is kept; `None` in a field: no bound.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Retention {
    pub days: Option<u64>,
    /// Instead of `days`, for what ended so.
    pub status_days: BTreeMap<Outcome, u64>,
    pub max_bytes: Option<u64>,
    /// Of the security log's entries.
    pub security_days: Option<u64>,
}

impl Retention {
    /// How many refusals of the doors the security log keeps: strangers never take more than a tenth of what is bounded.
    #[must_use]
    pub fn refusals(&self) -> usize {
        let share = self.max_bytes.map_or(MAX_REFUSALS, |max| max / 10 / REFUSAL_BYTES);
        usize::try_from(share.min(MAX_REFUSALS)).unwrap_or(usize::MAX)
    }

    /// How long which exchanges are kept, in days; what ended as none of these is kept for ever.
    #[must_use]
    pub fn ages(&self) -> BTreeMap<u64, Vec<Outcome>> {
        let mut ages = BTreeMap::<u64, Vec<Outcome>>::new();
        for outcome in Outcome::ALL {
            if let Some(days) = self.status_days.get(&outcome).copied().or(self.days) {
                ages.entry(days).or_default().push(outcome);
            }
        }
        ages
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRetention {
    days: Option<Spanned<u64>>,
    status_days: Option<BTreeMap<String, Spanned<u64>>>,
    max_bytes: Option<Spanned<u64>>,
    security_days: Option<Spanned<u64>>,
}

pub(super) fn retention(source: &Source<'_>, raw: RawRetention) -> Result<Retention, ConfigError> {
    let days = raw.days.is_some().then(|| source.number(&raw.days, "days", DAYS, 0)).transpose()?;
    let mut status_days = BTreeMap::new();
    for (word, given) in raw.status_days.unwrap_or_default() {
        let Some(outcome) = Outcome::parse(&word) else {
            let words = Outcome::ALL.map(Outcome::word).join(", ");
            return Err(source.at(given.span(), "status_days", &word, &format!("no exchange ends so; one of {words} is expected")));
        };
        status_days.insert(outcome, source.number(&Some(given), &format!("status_days.{word}"), DAYS, 0)?);
    }
    let max_bytes = raw.max_bytes.is_some().then(|| source.number(&raw.max_bytes, "max_bytes", 1_000_000..=1 << 50, 0)).transpose()?;
    let security = source.number(&raw.security_days, "security_days", 0..=*DAYS.end(), SECURITY_DAYS)?;
    Ok(Retention { days, status_days, max_bytes, security_days: (security > 0).then_some(security) })
}
