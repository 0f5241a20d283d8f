//! The list: what was found, day by day, with its counts, filters and ways on. Owns the element that the script swaps and
//! what is said when there is nothing to show.

use maud::{Markup, html};

use super::address::Address;
use super::item::{Place, article};
use super::view::View;
use super::when;
use super::words::fill;
use super::{chart, rail};
use crate::core::exchange::Record;
use crate::core::presence::Present;
use crate::engine::{Findings, Highlighter, OPERATORS};

const STATUSES: [&str; 9] = ["ok", "pending", "timeout", "agent_offline", "agent_disconnected", "failed", "cancelled", "expired", "late"];

/// What the list stands on beside the search.
pub(super) struct Around<'a> {
    pub present: &'a [Present],
    /// Positions of the log that the index has, and that there are, while it is being built.
    pub indexing: Option<(u64, u64)>,
    /// What is wrong with the disk.
    pub trouble: Markup,
    /// The position of the log that live updates go on from.
    pub seq: u64,
}

/// The element that a search swaps.
pub(super) fn found(view: &View, address: &Address, findings: &Findings, around: &Around<'_>) -> Markup {
    let say = format!("{} {}", when::number(findings.total, view.lang), noun(view, findings.total));
    html! {
        div id="found" class="list" data-seq=(around.seq) data-say=(say) data-live=(if address.best || !address.before.is_empty() { "still" } else { "top" }) {
            aside class="rail" {
                (rail::agents(view, address, around.present))
                @if let Some(counts) = &findings.counts { (rail::outcomes(view, address, counts)) }
            }
            div class="results" {
                (banners(view, around))
                @if findings.whole && findings.total == 0 {
                    (first_run(view))
                } @else {
                    (heading(view, address, findings, around.present))
                    (chips(view, address, findings))
                    @if let Some(counts) = &findings.counts { (chart::chart(view, address, counts)) }
                    button type="button" id="pill" hidden {}
                    @if findings.records.is_empty() { (nothing(view)) } @else { div id="list" { (days(view, &findings.records, &findings.marks)) } }
                    (paging(view, address, findings))
                }
            }
        }
    }
}

fn noun(view: &View, n: u64) -> &'static str {
    view.lang.plural(n, view.words().exchange_one, view.words().exchange_many)
}

fn banners(view: &View, around: &Around<'_>) -> Markup {
    let words = view.words();
    let done = around.indexing.map(|(done, of)| (done * 100).checked_div(of).unwrap_or(0).min(99).to_string());
    html! {
        (around.trouble)
        @if let Some(done) = done.filter(|_| around.indexing.is_some_and(|(_, of)| of > 0)) { p class="banner" { (fill(words.indexing, &[("n", &done)])) } }
    }
}

fn heading(view: &View, address: &Address, findings: &Findings, present: &[Present]) -> Markup {
    let words = view.words();
    let ms = findings.took.as_millis().max(1).to_string();
    let export = Address { before: String::new(), ..address.clone() }.query();
    html! {
        div class="heading" {
            h1 { (words.conversations) }
            p class="count" {
                strong id="total" data-n=(findings.total) { (when::number(findings.total, view.lang)) } " " (noun(view, findings.total))
                " " span class="ms" { (fill(words.in_ms, &[("n", &ms)])) }
            }
            @if !address.q.is_empty() && findings.total > 1 {
                p class="sort" {
                    a href=(address.with(|a| a.best = false)) aria-current=[(!address.best).then_some("true")] { (words.newest) }
                    a href=(address.with(|a| a.best = true)) aria-current=[address.best.then_some("true")] { (words.best) }
                }
            }
            (filters(view, address, present))
            @if findings.total > 0 {
                p class="export" {
                    span { (words.export) " " }
                    @for kind in ["csv", "json", "ndjson"] { a href={"/ui/export." (kind) (export)} download { (kind.to_uppercase()) } }
                }
            }
        }
        @if findings.typo { p class="banner" { (words.typo) } }
        @if findings.partial { p class="banner" { (words.partial) } }
    }
}

fn filters(view: &View, address: &Address, present: &[Present]) -> Markup {
    let words = view.words();
    // What a date field would not take is shown as it is.
    let kind = |value: &str| match value.parse::<jiff::civil::DateTime>() {
        _ if value.is_empty() || value.parse::<jiff::civil::Date>().is_ok_and(|d| d.to_string() == value) => "date",
        Ok(_) if value.len() == "2026-11-30T12:00".len() => "datetime-local",
        _ => "text",
    };
    html! {
        details class="filters" data-k="filters" {
            summary { (words.filters) }
            form action="/ui" method="get" {
                input type="hidden" name="q" value=(address.q);
                label { (words.status)
                    select name="status" {
                        option value="" { (words.any) }
                        @for status in STATUSES { option value=(status) selected[address.status == status] { (words.status(status)) } }
                        @if !address.status.is_empty() && !STATUSES.contains(&address.status.as_str()) { option selected value=(address.status) { (words.status(&address.status)) } }
                    }
                }
                label { (words.agent)
                    select name="agent" {
                        option value="" { (words.any) }
                        @for one in present { option value=(one.name) selected[address.agent == one.name.as_str()] { (one.name) } }
                        @if !address.agent.is_empty() && !present.iter().any(|p| p.name.as_str() == address.agent) { option selected value=(address.agent) { (address.agent) } }
                    }
                }
                label { (words.from_day) input name="from" type=(kind(&address.from)) value=(address.from); }
                label { (words.to_day) input name="to" type=(kind(&address.to)) value=(address.to); }
                button type="submit" { (words.apply) }
            }
            p class="syntax" { (words.syntax) ": " code { (words.syntax_phrase) } @for operator in OPERATORS { " " code { (operator) ":" } } }
        }
    }
}

fn chips(view: &View, address: &Address, findings: &Findings) -> Markup {
    let words = view.words();
    let mut all: Vec<(String, String)> = findings.chips.iter().map(|c| (c.label.clone(), address.with(|a| a.q = c.without.clone()))).collect();
    if !address.agent.is_empty() {
        all.push((address.agent.clone(), address.with(|a| a.agent.clear())));
    }
    if !address.status.is_empty() {
        all.push((words.status(&address.status).to_owned(), address.with(|a| a.status.clear())));
    }
    if !address.from.is_empty() || !address.to.is_empty() {
        let label = if address.from == address.to { address.from.clone() } else { format!("{} – {}", address.from, address.to) };
        all.push((label.replace('T', " "), address.with(|a| (a.from, a.to) = Default::default())));
    }
    html! {
        @if !all.is_empty() {
            ul class="chips" {
                @for (label, without) in &all {
                    li { a href=(without) aria-label=(fill(words.remove, &[("what", label)])) { span dir="auto" { (label) } span aria-hidden="true" { "×" } } }
                }
                @if all.len() > 1 || !address.q.is_empty() { li { a class="plain" href="/ui" { (words.clear) } } }
            }
        }
    }
}

/// The exchanges under the headings of their days.
fn days(view: &View, records: &[Record], marks: &Highlighter) -> Markup {
    let place = Place { marks, open: false, framed: false };
    let date = |r: &Record| when::date(r.asked.at, &view.zone);
    html! { @for run in records.chunk_by(|a, b| date(a) == date(b)) { (day(view, run, &place)) } }
}

/// One day, or the part of it that is shown.
pub(super) fn day(view: &View, run: &[Record], place: &Place<'_>) -> Markup {
    html! {
        @if let Some(first) = run.first() {
            section class="day" data-day=(when::date(first.asked.at, &view.zone)) {
                h2 { time datetime=(when::date(first.asked.at, &view.zone)) { (when::day(first.asked.at, view.now, &view.zone, view.lang)) } }
                @for record in run { (article(view, record, place)) }
            }
        }
    }
}

fn paging(view: &View, address: &Address, findings: &Findings) -> Markup {
    let words = view.words();
    html! {
        @if findings.next.is_some() || !address.before.is_empty() {
            nav class="paging" aria-label=(words.older) {
                @if !address.before.is_empty() { a href=(address.with(|_| ())) { "↑ " (words.back_newest) } }
                @if let Some(next) = &findings.next { a rel="next" href=(address.with(|a| a.before.clone_from(next))) { (words.older) " ↓" } }
            }
        }
    }
}

fn nothing(view: &View) -> Markup {
    let words = view.words();
    html! { div class="empty" { h2 { (words.nothing) } p { (words.nothing_why) } p { a href="/ui" { (words.clear) } } } div id="list" {} }
}

/// The lines that connect a bot.
fn first_run(view: &View) -> Markup {
    let (words, host) = (view.words(), &view.host);
    html! {
        div class="empty first" {
            h1 { (words.first) }
            p { (words.first_why) }
            h2 { (words.first_token) }
            pre tabindex="0" { code { "hermes-bridge agent add my-bot" } }
            h2 { (words.first_bot) }
            pre tabindex="0" { code { "HERMES_BRIDGE_RELAY_URL=ws://" (host) "/bridge/connect\nHERMES_BRIDGE_TOKEN=hbt_…" } }
            h2 { (words.first_mcp) }
            pre tabindex="0" { code { "http://" (host) "/mcp\nAuthorization: Bearer hbt_…" } }
            h2 { (words.first_try) }
            pre tabindex="0" { code { "hermes-bridge listen --as bob --exec 'wc -w'\nhermes-bridge ask --as alice --to bob 'how many words are these?'" } }
        }
        button type="button" id="pill" hidden {}
        div id="list" {}
    }
}
