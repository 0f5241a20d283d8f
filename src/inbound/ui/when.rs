//! Moments and spans as the page writes them: relative, absolute, days, durations. Owns their wording in the reader's
//! language and zone; the clock is the caller's.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime};

use super::words::{Lang, fill};
use crate::core::ids::Millis;

pub(super) fn zoned(at: Millis, zone: &TimeZone) -> ZonedDateTime {
    let ms = i64::try_from(at.0).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX).to_zoned_datetime(zone.clone())
}

/// How far the zone is ahead of UTC.
pub(super) fn offset_minutes(at: Millis, zone: &TimeZone) -> i32 {
    zoned(at, zone).offset().seconds() / 60
}

/// For `datetime` attributes and exports.
pub(super) fn iso(at: Millis) -> String {
    zoned(at, &TimeZone::UTC).timestamp().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// `2026-11-30`, in the reader's zone.
pub(super) fn date(at: Millis, zone: &TimeZone) -> String {
    zoned(at, zone).date().to_string()
}

pub(super) fn clock(at: Millis, zone: &TimeZone) -> String {
    zoned(at, zone).strftime("%H:%M").to_string()
}

/// The whole of it, for titles.
pub(super) fn full(at: Millis, zone: &TimeZone, lang: Lang) -> String {
    let z = zoned(at, zone);
    format!("{} {}", named_day(&z, lang.words().day, lang), z.strftime("%H:%M:%S %Z"))
}

/// Today, yesterday or the day's name.
pub(super) fn day(at: Millis, now: Millis, zone: &TimeZone, lang: Lang) -> String {
    let (z, today) = (zoned(at, zone), zoned(now, zone).date());
    if z.date() == today {
        lang.words().today.to_owned()
    } else if z.date().tomorrow().is_ok_and(|d| d == today) {
        lang.words().yesterday.to_owned()
    } else {
        named_day(&z, lang.words().day, lang)
    }
}

/// A day and, if `hours`, the time, as short as it can be.
pub(super) fn short(at: Millis, zone: &TimeZone, lang: Lang, hours: bool) -> String {
    let z = zoned(at, zone);
    let day = named_day(&z, lang.words().day_short, lang);
    if hours { format!("{day} {}", z.strftime("%H:%M")) } else { day }
}

fn named_day(z: &ZonedDateTime, shape: &str, lang: Lang) -> String {
    let words = lang.words();
    let pick = |list: &'static str, at: i8| list.split(' ').nth(usize::try_from(at - 1).unwrap_or(0)).unwrap_or_default();
    let weekday = pick(words.weekdays, z.weekday().to_monday_one_offset());
    let (day, year) = (z.day().to_string(), z.year().to_string());
    fill(shape, &[("weekday", weekday), ("day", &day), ("month", pick(words.months, z.month())), ("year", &year)])
}

pub(super) fn ago(at: Millis, now: Millis, lang: Lang) -> String {
    let (words, s) = (lang.words(), now.since(at) / 1000);
    let (shape, n) = match s {
        0..5 => return words.just_now.to_owned(),
        5..60 => (words.ago_s, s),
        60..3_600 => (words.ago_m, s / 60),
        3_600..86_400 => (words.ago_h, s / 3_600),
        _ => (words.ago_d, s / 86_400),
    };
    fill(shape, &[("n", &n.to_string())])
}

/// `400 ms`, `2.6 s`, `2 min`, `3 h`.
pub(super) fn span(ms: u64, lang: Lang) -> String {
    let comma = |text: String| if matches!(lang, Lang::Fr | Lang::Es) { text.replace('.', ",") } else { text };
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..10_000 => comma(format!("{:.1} s", ms as f64 / 1e3)),
        10_000..60_000 => format!("{} s", (ms + 500) / 1_000),
        60_000..600_000 if ms % 60_000 >= 1_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        60_000..3_600_000 => format!("{} min", ms / 60_000),
        3_600_000..172_800_000 => comma(format!("{:.1} h", ms as f64 / 3.6e6)).replace(".0 ", " ").replace(",0 ", " "),
        _ => format!("{} d", ms / 86_400_000),
    }
}

/// With the language's separator between thousands.
pub(super) fn number(n: u64, lang: Lang) -> String {
    let digits = n.to_string();
    let separator = match lang {
        Lang::En | Lang::Zh => ",",
        Lang::Fr | Lang::Es => "\u{202f}",
    };
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push_str(separator);
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_as_short_as_they_can_be() {
        let said = [0, 400, 2_600, 12_400, 120_000, 125_000, 1_200_000, 7_200_000].map(|ms| span(ms, Lang::En));
        assert_eq!(said, ["0 ms", "400 ms", "2.6 s", "12 s", "2 min", "2 min 5 s", "20 min", "2 h"]);
        assert_eq!(span(2_600, Lang::Fr), "2,6 s");
    }

    #[test]
    fn days_are_the_readers() {
        let at = Millis(1_796_036_400_000);
        assert_eq!(day(at, at, &TimeZone::UTC, Lang::Fr), "Aujourd’hui");
        assert_eq!(day(at, at.plus(86_400_000), &TimeZone::UTC, Lang::En), "Yesterday");
        assert_eq!(day(at, at.plus(9 * 86_400_000), &TimeZone::UTC, Lang::En), "Monday, 30 Nov 2026");
        assert_eq!(day(at, at.plus(9 * 86_400_000), &TimeZone::UTC, Lang::Zh), "2026年11月30日 星期一");
        assert_eq!(ago(at, at.plus(9 * 60_000), Lang::Es), "hace 9 min");
    }

    #[test]
    fn thousands_are_parted() {
        assert_eq!([1, 999, 1_000, 1_234_567].map(|n| number(n, Lang::En)), ["1", "999", "1,000", "1,234,567"]);
    }
}
