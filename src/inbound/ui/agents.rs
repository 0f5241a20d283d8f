//! The agents' page: who is there, how many questions each got, how fast and with what outcome it answered.

use maud::{Markup, html};

use super::act;
use super::item::{face, sign, tone};
use super::rail::dot;
use super::view::View;
use super::when;
use super::words::fill;
use crate::core::person::Pause;
use crate::core::presence::Present;
use crate::engine::AgentFigures;

/// Spans that figures can be had for: parameter and milliseconds, 0 for all.
pub(super) const SPANS: [(&str, u64); 4] = [("24h", 86_400_000), ("7d", 7 * 86_400_000), ("30d", 30 * 86_400_000), ("all", 0)];

/// The span of a parameter; a week where it says nothing.
pub(super) fn span(text: &str) -> (&'static str, u64) {
    SPANS.into_iter().find(|(name, _)| *name == text).unwrap_or(("7d", 7 * 86_400_000))
}

pub(super) fn agents(view: &View, present: &[Present], figures: &[AgentFigures], pauses: &[Pause], since: &str, seq: u64) -> Markup {
    let words = view.words();
    let online = present.iter().filter(|p| p.online).count();
    html! {
        div id="found" class="agents-page" data-seq=(seq) data-live="agents" {
            div class="heading" {
                h1 { (words.agents) }
                p class="count" { strong { (online) } " / " (present.len()) " " (words.online) }
                p class="sort" {
                    span class="sr" { (words.figures) }
                    @for ((name, _), label) in SPANS.iter().zip([words.day1, words.day7, words.day30, words.ever]) {
                        a href={"/ui/agents?since=" (name)} aria-current=[(*name == since).then_some("true")] { (label) }
                    }
                }
            }
            ul class="cards" { @for one in present { li { (card(view, one, figures.iter().find(|f| f.name == one.name.as_str()), pauses)) } } }
            (act::pairs(view, present, pauses))
        }
    }
}

fn card(view: &View, one: &Present, figures: Option<&AgentFigures>, pauses: &[Pause]) -> Markup {
    let words = view.words();
    let href = format!("/ui?agent={}", super::address::escaped(one.name.as_str()));
    html! {
        section class="card" {
            header {
                (face(one.name.as_str()))
                div {
                    h2 { a href=(href) { (one.name) } }
                    p class="seen" {
                        span class=(dot(one.online)) aria-hidden="true" {}
                        (if one.online { words.online } else { words.offline })
                        @if let Some(at) = one.last_seen.filter(|_| !one.online) {
                            " · " time datetime=(when::iso(at)) title=(when::full(at, &view.zone, view.lang)) data-t=(at.0) { span class="ago" { (when::ago(at, view.now, view.lang)) } }
                        }
                        @if !one.online && one.last_seen.is_none() { " · " (words.never_seen) }
                        @if let Some(adapter) = &one.adapter { " · " (adapter) }
                    }
                }
                @if one.waiting > 0 { span class="open" { (fill(words.open_asks, &[("n", &one.waiting.to_string())])) } }
            }
            @match figures {
                None => p class="none" { (words.no_figures) },
                Some(figures) => (numbers(view, figures)),
            }
            (act::agent(view, &one.name, pauses))
        }
    }
}

fn numbers(view: &View, figures: &AgentFigures) -> Markup {
    let words = view.words();
    let time = |ms: Option<u64>| ms.map_or_else(|| "–".to_owned(), |ms| when::span(ms, view.lang));
    // Late answers count beside the outcome, so they have no share of the whole.
    let shares: Vec<_> = figures.statuses.iter().filter(|(status, _)| *status != "late").collect();
    let all = shares.iter().map(|(_, n)| n).sum::<u64>().max(1);
    let percent = |n: u64| n as f64 * 100.0 / all as f64;
    let offsets = shares.iter().scan(0.0, |at, (_, n)| {
        let from = *at;
        *at += percent(*n);
        Some(from)
    });
    html! {
        dl class="figures" {
            div { dt { (words.questions) } dd { (when::number(figures.asked, view.lang)) } }
            div { dt { (words.half) } dd { (time(figures.p50_ms)) } }
            div { dt { (words.most) } dd { (time(figures.p95_ms)) } }
        }
        svg class="shares" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true" {
            @for ((status, n), at) in shares.iter().zip(offsets) {
                rect class=(tone(status)) x=(format!("{at:.2}")) y="0" width=(format!("{:.2}", (percent(*n) - 0.4).max(0.4))) height="4" {}
            }
        }
        ul class="legend" aria-label=(words.outcomes) {
            @for (status, n) in &figures.statuses {
                li { a href={"/ui?q=" (super::address::escaped(&format!("to:{}", figures.name))) "&status=" (status)} {
                    span class={"sign " (tone(status))} aria-hidden="true" { (sign(status)) } " " (words.status(status)) " " span class="n" { (format!("{:.0} %", percent(*n))) }
                } }
            }
        }
    }
}
