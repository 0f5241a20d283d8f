//! Exchanges over time as inline SVG, each bar a link that sets the range, and the same as a table. Owns the geometry;
//! the counts are the search's.

use jiff::ZonedDateTime;
use maud::{Markup, html};

use super::address::Address;
use super::view::View;
use super::when;
use crate::core::ids::Millis;
use crate::engine::{Bar, Facets};

const HEIGHT: u64 = 56;
const WIDTH: u64 = 10;
const DAY: u64 = 86_400_000;

pub(super) fn chart(view: &View, address: &Address, facets: &Facets) -> Markup {
    let (Some(first), Some(last)) = (facets.bars.first(), facets.bars.last()) else { return html! {} };
    let step = facets.step_ms.max(1);
    let slot = |bar: &Bar| bar.from_ms.saturating_sub(first.from_ms) / step;
    let slots = (slot(last) + 1).max(24);
    let top = facets.bars.iter().map(|b| b.answered + b.others).max().unwrap_or(1).max(1);
    let words = view.words();
    let shift = slots - (slot(last) + 1);
    html! {
        figure class="chart" {
            figcaption {
                span { (words.chart) }
                span class="key" { i class="k-good" {} (words.answered) i class="k-bad" {} (words.unanswered) }
            }
            svg viewBox={"0 0 " (slots * WIDTH) " " (HEIGHT)} preserveAspectRatio="none" aria-hidden="true" {
                @for bar in &facets.bars { (column(view, address, bar, step, (slot(bar) + shift) * WIDTH, top)) }
            }
            div class="ends" aria-hidden="true" {
                span { (when::short(Millis(first.from_ms.saturating_sub(shift * step)), &view.zone, view.lang, step < DAY)) }
                span { (when::short(Millis(last.from_ms), &view.zone, view.lang, step < DAY)) }
            }
            details {
                summary { (words.as_table) }
                div class="scroll" tabindex="0" role="region" aria-label=(words.as_table) {
                    table {
                        thead { tr { th scope="col" { (words.time) } th scope="col" class="n" { (words.answered) } th scope="col" class="n" { (words.unanswered) } } }
                        tbody {
                            @for bar in facets.bars.iter().rev() {
                                tr {
                                    th scope="row" { a href=(range(view, address, bar, step)) { (when::short(Millis(bar.from_ms), &view.zone, view.lang, step < DAY)) } }
                                    td class="n" { (bar.answered) }
                                    td class="n" { (bar.others) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn column(view: &View, address: &Address, bar: &Bar, step: u64, x: u64, top: u64) -> Markup {
    // What is there is seen, however little.
    let high = |n: u64| if n == 0 { 0 } else { (n * (HEIGHT - 2) / top).max(2) };
    let (good, bad) = (high(bar.answered), high(bar.others));
    let good = good.min(HEIGHT - bad);
    let words = view.words();
    let title = format!(
        "{}: {} {}, {} {}",
        when::short(Millis(bar.from_ms), &view.zone, view.lang, step < DAY),
        bar.answered,
        words.answered,
        bar.others,
        words.unanswered
    );
    html! {
        a href=(range(view, address, bar, step)) tabindex="-1" {
            title { (title) }
            rect class="hit" x=(x) y="0" width=(WIDTH) height=(HEIGHT) {}
            rect class="good" x=(x + 1) y=(HEIGHT - good) width=(WIDTH - 2) height=(good) {}
            rect class="bad" x=(x + 1) y=(HEIGHT - good - bad) width=(WIDTH - 2) height=(bad) {}
        }
    }
}

/// The list of what the bar counts.
fn range(view: &View, address: &Address, bar: &Bar, step: u64) -> String {
    let begin = when::zoned(Millis(bar.from_ms), &view.zone);
    let end = when::zoned(Millis(bar.from_ms + step), &view.zone);
    let moment = |z: &ZonedDateTime| z.strftime("%Y-%m-%dT%H:%M").to_string();
    let (from, to) = if step < DAY {
        (moment(&begin), moment(&end))
    } else {
        let last = end.date().yesterday().map_or_else(|_| begin.date(), |d| d.max(begin.date()));
        (begin.date().to_string(), last.to_string())
    };
    address.with(|a| (a.from, a.to) = (from, to))
}
