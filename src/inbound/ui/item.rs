//! One exchange as it stands in a list, in its thread and in a live event: the one renderer of it.

use maud::{Markup, html};

use super::text;
use super::view::View;
use super::when;
use super::words::fill;
use crate::core::exchange::Record;
use crate::core::outcome::Outcome;
use crate::engine::Highlighter;

/// Where it is shown.
pub(super) struct Place<'a> {
    pub marks: &'a Highlighter,
    /// In its thread: answers are open, questions whole.
    pub open: bool,
    /// It is the one that the address names.
    pub framed: bool,
}

/// The characters of an answer's line.
const LINE: usize = 140;

/// The exchange in the section of its day.
pub(super) fn article(view: &View, record: &Record, place: &Place<'_>) -> Markup {
    let (asked, words) = (&record.asked, view.words());
    let id = asked.id.to_string();
    let day = when::date(asked.at, &view.zone);
    let mut class = format!("x is-{}", record.status());
    if place.framed {
        class.push_str(" framed");
    }
    html! {
        article id={"x-" (id)} class=(class) data-id=(id) data-day=(day) tabindex="-1" aria-labelledby={"h-" (id)} {
            header class="x-head" {
                h3 id={"h-" (id)} class="who" {
                    (agent(view, asked.from.as_str()))
                    span class="arrow" { span class="sr" { " " (words.asked) " " } span aria-hidden="true" { "→" } }
                    (agent(view, &asked.to))
                }
                (badge(view, record.status()))
                @if record.late.is_some() { (badge(view, "late")) }
                a class="when" href={"/ui/x/" (id)} {
                    time datetime=(when::iso(asked.at)) title=(when::full(asked.at, &view.zone, view.lang)) data-t=(asked.at.0) {
                        span class="clock" { (when::clock(asked.at, &view.zone)) }
                        " " span class="ago" { (when::ago(asked.at, view.now, view.lang)) }
                    }
                }
            }
            div class="turn" {
                (face(asked.from.as_str()))
                div class="said" { (question(view, record, place)) }
            }
            (end(view, record, place))
            (foot(view, record, place))
        }
    }
}

fn agent(view: &View, name: &str) -> Markup {
    let href = format!("/ui?agent={}", super::address::escaped(name));
    html! { a class="name" href=(href) dir="auto" title={(view.words().agent) ": " (name)} { (name) } }
}

/// Initials on a colour that stays with the name.
pub(super) fn face(name: &str) -> Markup {
    let hash = name.bytes().fold(7_u32, |h, b| h.wrapping_mul(31).wrapping_add(u32::from(b)));
    let mut words = name.split(['-', '_', '.', ' ']).filter(|w| !w.is_empty());
    let first = words.next().unwrap_or("?");
    let second = words.next().filter(|w| !["bot", "agent"].contains(w));
    let initials: String = match second {
        Some(second) => first.chars().take(1).chain(second.chars().take(1)).collect(),
        None => first.chars().take(2).collect(),
    };
    html! { span class={"face f" (hash % 8)} aria-hidden="true" { (initials) } }
}

/// A word and a sign: never a colour alone.
pub(super) fn badge(view: &View, status: &str) -> Markup {
    html! { span class={"badge " (tone(status))} data-k=(if status == "late" { "late" } else { "status" }) { span aria-hidden="true" { (sign(status)) } " " (view.words().status(status)) } }
}

pub(super) fn sign(status: &str) -> &'static str {
    match status {
        "ok" => "✓",
        "pending" => "…",
        "late" => "↩",
        "agent_offline" | "expired" => "○",
        "timeout" => "◷",
        "cancelled" => "–",
        _ => "✕",
    }
}

/// Which of five tones a status has.
pub(super) fn tone(status: &str) -> &'static str {
    match status {
        "ok" => "good",
        "pending" => "busy",
        "late" => "note",
        "agent_offline" | "expired" | "cancelled" | "self_ask" | "unknown_agent" | "unknown_conversation" | "not_allowed" => "quiet",
        _ => "bad",
    }
}

fn question(view: &View, record: &Record, place: &Place<'_>) -> Markup {
    let message = &record.asked.message;
    let text = if place.framed { message } else { text::shown(message) };
    let marks = place.marks.marks(text);
    let head = text::clamped(text).filter(|_| !place.open);
    html! {
        @match head {
            None => div class="text" { (text::whole(text, &marks)) (clip_note(view, record, text, message)) },
            Some(head) => div class="text clip" {
                div class="head" { (text::whole(head, &marks)) }
                details data-k="q" {
                    summary { span class="more" { (view.words().show_all) } span class="less" { (view.words().show_less) } }
                    div class="rest" { (text::whole(text, &marks)) (clip_note(view, record, text, message)) }
                }
            },
        }
    }
}

/// Said where a page stops showing a text.
fn clip_note(view: &View, record: &Record, shown: &str, all: &str) -> Markup {
    let note = (shown.len() < all.len()).then(|| fill(view.words().clipped, &[("n", &(all.len() / 1_000).to_string())]));
    html! { @if let Some(note) = note { p class="clipped" { a href={"/ui/x/" (record.asked.id)} { (note) } } } }
}

/// How it ended, or that it has not.
fn end(view: &View, record: &Record, place: &Place<'_>) -> Markup {
    let words = view.words();
    let (to, at) = (&*record.asked.to, record.asked.at);
    html! {
        @match &record.end {
            None => div class="turn" data-k="end" {
                (face(to))
                p class="said pending" { span class="dots" aria-hidden="true" {} (words.waiting) " · " span class="since" data-t=(at.0) { (when::ago(at, view.now, view.lang)) } }
            },
            Some(end) if end.outcome == Outcome::Answered => (answer(view, record, &end.text, words.answer, place)),
            Some(end) => div class="turn" data-k="end" {
                (face(to))
                p class="said reason" dir="auto" { (text::shown(&end.text)) @if end.text.is_empty() { (words.status(end.outcome.word())) } }
            },
        }
        @if let Some(by) = record.end.as_ref().and_then(|e| e.by.as_ref()) { p class="by" data-k="by" { (fill(words.a_by, &[("who", by)])) } }
        @if let Some(late) = &record.late { (answer(view, record, &late.answer, words.late_answer, place)) }
    }
}

fn answer(view: &View, record: &Record, all: &str, label: &str, place: &Place<'_>) -> Markup {
    let text = if place.framed { all } else { text::shown(all) };
    let marks = place.marks.marks(text);
    let piece = place.marks.snippet(text, LINE);
    html! {
        div class="turn" data-k={"end-" (label)} {
            (face(&record.asked.to))
            details class="said answer" data-k={"a-" (label)} open[place.open || !marks.is_empty()] {
                summary {
                    span class="label" { (label) }
                    span class="line" dir="auto" { (text::line(text, piece.range, &piece.marks)) }
                }
                div class="text" { (text::whole(text, &marks)) (clip_note(view, record, text, all)) }
            }
        }
    }
}

fn foot(view: &View, record: &Record, place: &Place<'_>) -> Markup {
    let (words, asked) = (view.words(), &record.asked);
    let behalf = (asked.trail.hops() > 0).then(|| fill(words.led_by, &[("name", asked.trail.origin.as_str())]));
    html! {
        footer class="x-foot" {
            @if let Some(end) = record.end.as_ref().filter(|_| !record.refused) {
                span class="took" data-k="took" title=(words.took) { span class="sr" { (words.took) " " } (when::span(end.at.since(asked.at), view.lang)) }
            }
            @if let Some(behalf) = behalf { span class="behalf" data-k="behalf" { (behalf) } }
            span class="acts" data-k="acts" {
                span class="copy js" data-k="copy" {
                    span aria-hidden="true" { (words.copy) }
                    button type="button" data-copy="link" data-k="link" aria-label=(words.copy_link) { (words.c_link) }
                    button type="button" data-copy="message" data-k="message" aria-label=(words.copy_question) { (words.c_question) }
                    @if record.answer().is_some() { button type="button" data-copy="answer" data-k="answer" aria-label=(words.copy_answer) { (words.c_answer) } }
                    button type="button" data-copy="id" data-k="id" aria-label=(words.copy_id) title=(asked.id) { (words.c_id) }
                }
                @if !place.open { a data-act="thread" data-k="thread" href={"/ui/c/" (asked.conversation) "#x-" (asked.id)} { (words.thread) } }
            }
        }
    }
}
