//! The side of the list: who is there, and what became of the exchanges. Each entry is a link that sets its filter or takes
//! it away.

use maud::{Markup, html};

use super::address::Address;
use super::item::{face, sign, tone};
use super::view::View;
use super::when;
use super::words::fill;
use crate::core::presence::Present;
use crate::engine::Facets;

/// Beside the list there is room for so many agents; over it, for two rows.
const WIDE: usize = 10;
const NARROW: usize = 4;

/// Those who are there first, then those who were seen last.
pub(super) fn sorted(mut present: Vec<Present>) -> Vec<Present> {
    present.sort_by(|a, b| (b.online, b.last_seen).cmp(&(a.online, a.last_seen)).then_with(|| a.name.cmp(&b.name)));
    let online = present.iter().filter(|p| p.online).count();
    present[..online].sort_by(|a, b| a.name.cmp(&b.name));
    present
}

pub(super) fn agents(view: &View, address: &Address, present: &[Present]) -> Markup {
    let words = view.words();
    let rest = |from: usize| present.len().saturating_sub(from);
    html! {
        section id="agents" class="panel agents" aria-labelledby="agents-title" {
            h2 id="agents-title" { a href="/ui/agents" { (words.agents) } }
            ul {
                @for (at, one) in present.iter().take(WIDE).enumerate() { li class=[(at >= NARROW).then_some("wide")] { (entry(view, address, one)) } }
            }
            @if rest(NARROW) > 0 {
                details class=[(rest(WIDE) == 0).then_some("narrow")] data-k="agents" {
                    summary {
                        span class="narrow" { "+" (rest(NARROW)) }
                        @if rest(WIDE) > 0 { span class="wide" { "+" (rest(WIDE)) } }
                        span class="sr" { " " (words.agents) }
                    }
                    ul {
                        @for (at, one) in present.iter().enumerate().skip(NARROW) { li class=[(at < WIDE).then_some("narrow")] { (entry(view, address, one)) } }
                    }
                }
            }
        }
    }
}

fn entry(view: &View, address: &Address, one: &Present) -> Markup {
    let words = view.words();
    let name = one.name.as_str();
    let chosen = address.agent.eq_ignore_ascii_case(name);
    let href = address.with(|a| a.agent = if chosen { String::new() } else { name.to_owned() });
    let seen = match (one.online, one.last_seen) {
        (true, _) => words.online.to_owned(),
        (false, None) => words.never_seen.to_owned(),
        (false, Some(at)) => format!("{} · {}", words.offline, when::ago(at, view.now, view.lang)),
    };
    html! {
        a class="agent" href=(href) aria-current=[chosen.then_some("true")] {
            (face(name))
            span class="about" {
                span class="name" { (name) }
                span class="seen" {
                    span class=(dot(one.online)) aria-hidden="true" {}
                    (seen)
                    @if one.waiting > 0 { span class="open" { (fill(words.open_asks, &[("n", &one.waiting.to_string())])) } }
                }
            }
        }
    }
}

pub(super) fn dot(online: bool) -> &'static str {
    if online { "dot on" } else { "dot" }
}

pub(super) fn outcomes(view: &View, address: &Address, facets: &Facets) -> Markup {
    let words = view.words();
    html! {
        @if !facets.statuses.is_empty() {
            section class="panel outcomes" aria-labelledby="outcomes-title" {
                h2 id="outcomes-title" { (words.status) }
                ul {
                    @for (status, count) in &facets.statuses {
                        @let chosen = address.status == *status;
                        li {
                            a href=(address.with(|a| a.status = if chosen { String::new() } else { (*status).to_owned() })) aria-current=[chosen.then_some("true")] {
                                span class={"sign " (tone(status))} aria-hidden="true" { (sign(status)) }
                                span { (words.status(status)) }
                                span class="n" { (when::number(*count, view.lang)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
