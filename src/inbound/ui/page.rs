//! The frame that every page stands in: head, search box, settings, keys. Owns what the script reads from the body.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::address::Address;
use super::assets;
use super::form::TOKEN;
use super::view::{CLOCK, LANG, THEME, THEMES, View};
use super::words::Lang;
use crate::engine::Visitor;

const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='8' fill='%230b6e66'/%3E%3Cpath d='M5 22c2-9 20-9 22 0M5 22h22M11 16.5V22m5-6.9V22m5-5.5V22' stroke='%23fff' stroke-width='2.4' fill='none' stroke-linecap='round'/%3E%3C/svg%3E";
const MARK: &str = "<svg viewBox='0 0 32 32' aria-hidden='true'><rect width='32' height='32' rx='8'/><path d='M5 22c2-9 20-9 22 0M5 22h22M11 16.5V22m5-6.9V22m5-5.5V22'/></svg>";
const GLASS: &str = "<svg viewBox='0 0 20 20' aria-hidden='true'><circle cx='8.5' cy='8.5' r='5.5'/><path d='m13 13 4.5 4.5'/></svg>";
const GEAR: &str = "<svg viewBox='0 0 20 20' aria-hidden='true'><path d='M3 6h8m4 0h2M3 14h2m4 0h8'/><circle cx='13' cy='6' r='2'/><circle cx='7' cy='14' r='2'/></svg>";

/// Which entry of the navigation a page belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    List,
    Agents,
    Other,
}

pub(super) struct Page<'a> {
    pub title: &'a str,
    pub part: Part,
    pub address: &'a Address,
    /// What is heard live here: the address of the event stream; `None` for pages that do not change.
    pub events: Option<String>,
    /// What live updates do: `list`, `thread` or `agents`.
    pub kind: &'static str,
}

/// The whole document around `main`.
pub(super) fn frame(view: &View, page: &Page<'_>, main: &Markup) -> Markup {
    let words = view.words();
    html! {
        (DOCTYPE)
        html lang=(view.lang.code()) data-theme=(view.theme) {
            (head(view, page.title, assets::js()))
            body data-kind=(page.kind) data-events=[page.events.as_deref()] data-words=(script_words(view)) data-clock=(if view.utc { "utc" } else { "local" }) data-offset=(super::when::offset_minutes(view.now, &view.zone)) {
                a class="skip" href="#main" { (words.skip) }
                header class="top" {
                    @if view.open { p class="open-to-all" { (words.open_to_all) } }
                    div class="bar" {
                        a class="brand" href="/ui" aria-label="hermes-bridge" { (PreEscaped(MARK)) span { "hermes-bridge" } }
                        (search(view, page))
                        nav aria-label="hermes-bridge" {
                            a href="/ui" aria-current=[(page.part == Part::List).then_some("page")] { (words.conversations) }
                            a href="/ui/agents" aria-current=[(page.part == Part::Agents).then_some("page")] { (words.agents) }
                        }
                        @if page.events.is_some() {
                            button type="button" id="live" class="js" aria-pressed="false" data-state="connecting" { span class="dot" aria-hidden="true" {} span { (words.connecting) } }
                        }
                        (settings(view))
                    }
                }
                main id="main" tabindex="-1" { (main) }
                p id="say" class="sr" role="status" aria-live="polite" {}
                (keys(view))
            }
        }
    }
}

fn head(view: &View, title: &str, script: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content=(match view.theme { "light" => "light", "dark" => "dark", _ => "light dark" });
            title { (title) " · hermes-bridge" }
            link rel="icon" href=(ICON);
            link rel="stylesheet" href=(assets::css());
            script type="module" src=(script) {}
        }
    }
}

/// The document of the login: nothing of the relay is in it.
pub(super) fn bare(view: &View, title: &str, main: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang=(view.lang.code()) data-theme=(view.theme) {
            (head(view, title, assets::login_js()))
            body class="bare" {
                header class="top" { div class="bar" { span class="brand" { (PreEscaped(MARK)) span { "hermes-bridge" } } } }
                main id="main" { (main) }
            }
        }
    }
}

/// What proves that a form is from a page of ours.
pub(super) fn form_token(view: &View) -> Markup {
    html! { input type="hidden" name=(TOKEN) value=(view.guest.as_ref().map_or("", |g| &g.form_token)); }
}

fn search(view: &View, page: &Page<'_>) -> Markup {
    let (words, a) = (view.words(), page.address);
    html! {
        search {
            form id="search" action="/ui" method="get" {
                label class="sr" for="q" { (words.search_hint) }
                span class="box" {
                    (PreEscaped(GLASS))
                    input id="q" name="q" type="search" value=(a.q) placeholder=(words.search_hint) autocomplete="off" autocapitalize="off" spellcheck="false" enterkeyhint="search" maxlength="1000";
                    kbd aria-hidden="true" class="js" { "/" }
                }
                @for (name, value) in [("status", &a.status), ("agent", &a.agent), ("from", &a.from), ("to", &a.to)] {
                    @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
                }
                @if a.best { input type="hidden" name="sort" value="best"; }
                button type="submit" class="nojs" { (words.search) }
            }
        }
    }
}

fn settings(view: &View) -> Markup {
    let words = view.words();
    let choice = |name: &str, value: &str, label: &str, lang: Option<&str>, chosen: bool| {
        html! { button type="submit" name=(name) value=(value) lang=[lang] aria-pressed=(if chosen { "true" } else { "false" }) { (label) } }
    };
    html! {
        details class="menu" id="settings" {
            summary aria-label=(words.settings) title=(words.settings) { (PreEscaped(GEAR)) }
            div class="drop" {
                form action="/ui/settings" method="post" {
                    (form_token(view))
                    input type="hidden" name="back" value=(view.here);
                    fieldset { legend { (words.language) } div class="pick" {
                        @for lang in Lang::ALL { (choice(LANG, lang.code(), lang.name(), Some(lang.code()), lang == view.lang)) }
                    } }
                    fieldset { legend { (words.theme) } div class="pick" {
                        @for (theme, label) in THEMES.into_iter().zip([words.system, words.light, words.dark]) { (choice(THEME, theme, label, None, theme == view.theme)) }
                    } }
                    fieldset { legend { (words.times) } div class="pick" {
                        (choice(CLOCK, "local", words.local, None, !view.utc))
                        (choice(CLOCK, "utc", "UTC", None, view.utc))
                    } }
                    button type="button" class="js plain" id="show-keys" { (words.keys) " " kbd { "?" } }
                }
                p { a href="/ui/security" { (words.security) } }
                @if view.guest.as_ref().is_some_and(|g| g.session) {
                    form action="/ui/logout" method="post" {
                        (form_token(view))
                        button type="submit" class="plain" { (words.log_out) (who(view)) }
                    }
                }
            }
        }
    }
}

/// A viewer's name; the owner has none.
fn who(view: &View) -> String {
    match view.guest.as_ref().map(|g| &g.visitor) {
        Some(Visitor::Viewer(name)) => format!(" ({name})"),
        _ => String::new(),
    }
}

fn keys(view: &View) -> Markup {
    let w = view.words();
    let rows: [(&[&str], &str); 8] = [
        (&["/"], w.key_search),
        (&["j", "k"], w.key_move),
        (&["o"], w.key_answer),
        (&["t"], w.key_thread),
        (&["y"], w.key_copy),
        (&["."], w.key_pause),
        (&["?"], w.key_help),
        (&["Esc"], w.key_leave),
    ];
    html! {
        dialog id="keys" aria-labelledby="keys-title" {
            h2 id="keys-title" { (w.keys) }
            dl {
                @for (names, what) in rows {
                    div { dt { @for name in names { kbd { (name) } " " } } dd { (what) } }
                }
            }
            label class="check" { input type="checkbox" id="keys-on" checked; (w.key_switch) }
            form method="dialog" { button { (w.close) } }
        }
    }
}

/// The words that the script says, as JSON in an attribute.
fn script_words(view: &View) -> String {
    let w = view.words();
    let words = serde_json::json!({
        "live": w.live, "paused": w.paused, "connecting": w.connecting, "lost": w.lost, "pause": w.pause, "resume": w.resume,
        "one": w.new_one, "many": w.new_many, "copied": w.copied, "title": w.conversations,
        "now": w.just_now, "s": w.ago_s, "m": w.ago_m, "h": w.ago_h, "d": w.ago_d,
    });
    words.to_string()
}

/// A page that says one thing.
pub(super) fn notice(title: &str, body: &Markup) -> Markup {
    html! { div class="notice" { h1 { (title) } (body) } }
}
