//! Who looks, and how: language, theme, zone, from cookies and headers. Owns the cookies' names and their reading; a value
//! that means nothing is as good as none.

use jiff::tz::{Offset, TimeZone};
use warp::http::HeaderMap;
use warp::http::header::{ACCEPT_LANGUAGE, COOKIE, HOST};

use super::door::Guest;
use super::words::{Lang, Words};
use crate::core::ids::Millis;

pub(super) const LANG: &str = "hb_lang";
pub(super) const THEME: &str = "hb_theme";
/// `local` or `utc`.
pub(super) const CLOCK: &str = "hb_clock";
/// Set by the script: `Europe/Paris~60`, the zone and its minutes ahead of UTC for machines without zone files.
const ZONE: &str = "hb_zone";
pub(super) const THEMES: [&str; 3] = ["system", "light", "dark"];
/// Sent by the script, which swaps one element instead of loading the page.
pub(super) const FRAGMENT: &str = "x-fragment";

#[derive(Clone, Debug)]
pub(super) struct View {
    pub lang: Lang,
    pub theme: &'static str,
    pub zone: TimeZone,
    pub utc: bool,
    pub now: Millis,
    pub fragment: bool,
    pub host: String,
    /// Path and query of this page, to come back to.
    pub here: String,
    /// `None` at the login.
    pub guest: Option<Guest>,
    /// There is no login.
    pub open: bool,
}

impl View {
    pub(super) fn read(headers: &HeaderMap, now: Millis, here: String) -> Self {
        let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let cookie = |name: &str| {
            let pairs = header(COOKIE.as_str()).split(';').filter_map(|pair| pair.trim().split_once('='));
            pairs.filter(|(n, _)| *n == name).map(|(_, v)| v).next_back().unwrap_or_default()
        };
        let lang = Lang::parse(cookie(LANG)).or_else(|| Lang::accepted(header(ACCEPT_LANGUAGE.as_str()))).unwrap_or(Lang::En);
        let utc = cookie(CLOCK) == "utc";
        let zone = if utc { TimeZone::UTC } else { zone(cookie(ZONE)).unwrap_or_else(TimeZone::system) };
        let theme = THEMES.into_iter().find(|t| *t == cookie(THEME)).unwrap_or("system");
        let host: String = header(HOST.as_str()).chars().filter(|c| c.is_ascii_alphanumeric() || ".:-[]".contains(*c)).take(100).collect();
        Self { lang, theme, zone, utc, now, fragment: headers.contains_key(FRAGMENT), host, here, guest: None, open: false }
    }

    pub(super) fn words(&self) -> &'static Words {
        self.lang.words()
    }
}

fn zone(text: &str) -> Option<TimeZone> {
    let text = text.replace("%2F", "/");
    let (name, minutes) = text.split_once('~')?;
    let plain = name.len() < 60 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"/_+-".contains(&b));
    let named = if plain { TimeZone::get(name).ok() } else { None };
    named.or_else(|| Some(Offset::from_seconds(minutes.parse::<i32>().ok()?.checked_mul(60)?).ok()?.to_time_zone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(cookie: &str) -> View {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, cookie.parse().unwrap());
        headers.insert(ACCEPT_LANGUAGE, "es,en;q=0.5".parse().unwrap());
        View::read(&headers, Millis(0), "/ui".into())
    }

    #[test]
    fn cookies_win_over_what_the_browser_says() {
        assert_eq!(view("x=1").lang, Lang::Es);
        assert_eq!(view("x=1; hb_lang=zh; hb_theme=dark").lang, Lang::Zh);
        assert_eq!(view("hb_theme=dark").theme, "dark");
        assert_eq!(view("hb_theme=\"><script>").theme, "system");
    }

    #[test]
    fn a_zone_is_found_by_name_or_by_its_offset() {
        let hour = |cookie: &str| super::super::when::clock(Millis(0), &view(cookie).zone);
        assert_eq!(hour("hb_zone=Nowhere/Land~90"), "01:30");
        assert_eq!(hour("hb_zone=Nowhere/Land~90; hb_clock=utc"), "00:00");
        view("hb_zone=~99999999999");
        view("hb_zone=../../etc/passwd~x");
    }
}
