//! One conversation, oldest first, answers open; an exchange named in the address is framed and shown whole.

use maud::{Markup, html};

use super::item::{Place, article, face};
use super::view::View;
use super::when;
use super::words::fill;
use crate::core::exchange::Record;
use crate::core::ids::RequestId;
use crate::engine::Highlighter;

/// So many exchanges of a thread are shown at once.
pub(super) const PAGE: usize = 100;

pub(super) struct Thread<'a> {
    pub records: &'a [Record],
    pub framed: Option<RequestId>,
    /// The first of them is not the first of the conversation.
    pub begun_before: bool,
    pub more: bool,
    pub seq: u64,
}

pub(super) fn title(records: &[Record]) -> String {
    records.first().map_or_else(String::new, |r| format!("{} ⇄ {}", r.asked.from, r.asked.to))
}

pub(super) fn thread(view: &View, thread: &Thread<'_>) -> Markup {
    let words = view.words();
    let Some(first) = thread.records.first() else { return html! {} };
    let marks = Highlighter::default();
    let conversation = first.asked.conversation;
    let n = thread.records.len() as u64;
    let date = |r: &Record| when::date(r.asked.at, &view.zone);
    let after = thread.records.last().filter(|_| thread.more).map(|r| r.asked.id);
    html! {
        div id="found" class="thread" data-seq=(thread.seq) data-live=(if thread.more { "still" } else { "end" }) {
            p class="back" { a href="/ui" { "← " (words.all_conversations) } }
            div class="heading" {
                h1 { (face(first.asked.from.as_str())) span dir="auto" { (first.asked.from) } span class="arrow" aria-hidden="true" { "⇄" } span class="sr" { ", " } (face(&first.asked.to)) span dir="auto" { (first.asked.to) } }
                p class="count" {
                    @if !thread.more && !thread.begun_before { strong id="total" data-n=(n) { (when::number(n, view.lang)) } " " (view.lang.plural(n, words.exchange_one, words.exchange_many)) " · " }
                    (words.began) " " time datetime=(when::iso(first.asked.at)) title=(when::full(first.asked.at, &view.zone, view.lang)) { (when::short(first.asked.at, &view.zone, view.lang, true)) }
                    " · " code class="id" title=(conversation) { (conversation.to_string().chars().take(8).collect::<String>()) }
                }
            }
            @if thread.begun_before { p { a href={"/ui/c/" (conversation)} { "↑ " (fill(words.began, &[])) } } }
            button type="button" id="pill" hidden {}
            div id="list" {
                @for run in thread.records.chunk_by(|a, b| date(a) == date(b)) {
                    section class="day" data-day=(run.first().map(date).unwrap_or_default()) {
                        @if let Some(first) = run.first() { h2 { time datetime=(date(first)) { (when::day(first.asked.at, view.now, &view.zone, view.lang)) } } }
                        @for record in run { (article(view, record, &Place { marks: &marks, open: true, framed: thread.framed == Some(record.asked.id) })) }
                    }
                }
            }
            (super::act::step_in(view, thread.records))
            @if let Some(after) = after { nav class="paging" aria-label=(words.later) { a href={"/ui/c/" (conversation) "?after=" (after)} { (words.later) " ↓" } } }
        }
    }
}
