//! Moments and spans as people write them in a search: days, RFC 3339, `2d`, `5s`. Owns their reading; the clock and the
//! zone are the caller's.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::core::ids::Millis;

/// The moment of searching and the zone of who searches: what `2d` counts from and where a day begins.
#[derive(Clone, Debug)]
pub struct Now {
    pub at: Millis,
    pub zone: TimeZone,
}

impl Now {
    #[must_use]
    pub fn utc(at: Millis) -> Self {
        Self { at, zone: TimeZone::UTC }
    }

    /// How far the zone is ahead of UTC at the moment.
    pub(super) fn offset_ms(&self) -> i64 {
        let at = i64::try_from(self.at.0).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        at.map_or(0, |at| i64::from(self.zone.to_offset(at).seconds()) * 1_000)
    }
}

/// A day (its beginning in `now`'s zone), a day with a time, RFC 3339, or a span before `now`. `None` if it is neither.
pub(super) fn moment(text: &str, now: &Now) -> Option<u64> {
    if let Some(ms) = span(text).filter(|_| text.ends_with(|c: char| c.is_ascii_alphabetic())) {
        return Some(now.at.0.saturating_sub(ms));
    }
    let at = if let Ok(at) = text.parse::<Timestamp>() {
        at
    } else {
        // A day alone is its midnight.
        now.zone.to_timestamp(text.parse::<DateTime>().ok()?).ok()?
    };
    u64::try_from(at.as_millisecond()).ok()
}

/// `400ms`, `5s`, `2.5m`, `3h`, `2d`, `1w` in milliseconds; a bare number is seconds.
pub(super) fn span(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "ms" => 1.0,
        "" | "s" => 1e3,
        "m" | "min" => 60e3,
        "h" => 3_600e3,
        "d" => 86_400e3,
        "w" => 7.0 * 86_400e3,
        _ => return None,
    };
    let ms = number.parse::<f64>().ok()? * factor;
    (ms.is_finite() && ms < 1e15).then_some(ms as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<String> {
        // A fixed rule, so that the test needs no time zone files.
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let now = Now { at: Millis(1_796_036_400_000), zone };
        let ms = moment(text, &now)?;
        Some(Timestamp::from_millisecond(ms as i64).unwrap().to_string())
    }

    #[test]
    fn a_day_begins_where_the_reader_is() {
        assert_eq!(at("2026-11-30").as_deref(), Some("2026-11-29T23:00:00Z"));
        assert_eq!(at("2026-07-01").as_deref(), Some("2026-06-30T22:00:00Z"));
        assert_eq!(at("2026-11-30T10:30").as_deref(), Some("2026-11-30T09:30:00Z"));
    }

    #[test]
    fn a_moment_is_absolute_or_so_long_ago() {
        assert_eq!(at("2026-11-30T10:30:00Z").as_deref(), Some("2026-11-30T10:30:00Z"));
        assert_eq!(at("2d").as_deref(), Some("2026-11-28T11:00:00Z"));
        assert_eq!(at("3h").as_deref(), Some("2026-11-30T08:00:00Z"));
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for bad in ["", "foo", "2026-13-01", "d", "-2d", "2x", "2026", "9".repeat(300).as_str(), "٣d", "1e9d", "..s"] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }

    #[test]
    fn spans_have_units() {
        assert_eq!([span("400ms"), span("5s"), span("5"), span("2.5m"), span("1w")], [400, 5_000, 5_000, 150_000, 604_800_000].map(Some));
    }
}
