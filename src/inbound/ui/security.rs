//! The security log: who did, or tried to do, what. Newest first, a page at a time, by kind; whole as an export.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use maud::{Markup, html};
use warp::http::StatusCode;
use warp::reply::Response;

use super::address::{Address, escaped};
use super::page::{Page, Part};
use super::view::View;
use super::words::Words;
use super::{Ask, api, when};
use crate::core::ids::Seq;
use crate::engine::{Engine, Event, HistoryError, Kind};
use crate::wire::audit::EventJson;

const PAGE: usize = 100;
const MOST: usize = 1_000;

impl Ask {
    fn kind(&self) -> Option<Kind> {
        Kind::parse(self.value("kind"))
    }

    fn before(&self) -> Option<Seq> {
        self.value("before").parse().ok().map(Seq)
    }

    pub(super) async fn security(self) -> Response {
        match self.engine.audit_log(self.before(), self.kind(), PAGE + 1).await {
            Err(e) => self.trouble(&e.into()),
            Ok(events) => {
                let main = log(&self.view, &events, self.kind());
                let address = Address::default();
                let page = Page { title: self.view.words().security, part: Part::Other, address: &address, events: None, kind: "security" };
                self.show(StatusCode::OK, &page, &main)
            }
        }
    }

    pub(super) async fn api_security(self) -> Response {
        let limit = self.value("limit").parse().unwrap_or(PAGE).clamp(1, MOST);
        match self.engine.audit_log(self.before(), self.kind(), limit + 1).await {
            Err(e) => api::unreadable(&e.into()),
            Ok(found) => {
                let shown: Vec<EventJson<'_>> = found.iter().take(limit).map(|(seq, event)| EventJson::new(*seq, event)).collect();
                let next = shown.last().filter(|_| found.len() > limit).map(|e| e.seq);
                api::json(&serde_json::json!({ "events": shown, "next_before": next }))
            }
        }
    }
}

fn log(view: &View, events: &[(Seq, Event)], kind: Option<Kind>) -> Markup {
    let words = view.words();
    let next = events.get(PAGE).and_then(|_| events.get(PAGE - 1)).map(|(seq, _)| seq.0);
    let with = |kind: Option<Kind>| kind.map_or_else(|| "/ui/security".to_owned(), |k| format!("/ui/security?kind={}", escaped(k.word())));
    html! {
        div id="found" class="security" {
            div class="heading" {
                h1 { (words.security) }
                p class="sort" { a href="/ui/export-security.ndjson" { (words.export) } }
            }
            nav class="kinds" aria-label=(words.filters) {
                a href=(with(None)) aria-current=[kind.is_none().then_some("page")] { (words.any) }
                @for one in Kind::ALL { a href=(with(Some(one))) aria-current=[(kind == Some(one)).then_some("page")] { (word(words, one)) } }
            }
            @if events.is_empty() { p class="none" { (words.security_none) } }
            ol class="log" { @for (_, event) in events.iter().take(PAGE) { li { (entry(view, event)) } } }
            @if let Some(next) = next {
                @let glue = if kind.is_some() { "&" } else { "?" };
                nav class="paging" aria-label=(words.older) { a rel="next" href={ (with(kind)) (glue) "before=" (next) } { (words.older) " ↓" } }
            }
        }
    }
}

fn entry(view: &View, event: &Event) -> Markup {
    let words = view.words();
    let bad = event.kind.is_refusal() || event.kind.is_ask();
    html! {
        time datetime=(when::iso(event.at)) title=(when::full(event.at, &view.zone, view.lang)) { (when::short(event.at, &view.zone, view.lang, true)) }
        span class=(if bad { "kind bad" } else { "kind" }) { (word(words, event.kind)) }
        @if !event.who.is_empty() { strong dir="auto" { (event.who) } }
        @if event.times > 1 { span class="n" { "× " (when::number(event.times.into(), view.lang)) } }
        @if !event.address.is_empty() { code { (event.address) } }
        @if !event.what.is_empty() { span class="what" dir="auto" { (event.what) } }
        @if let Some(id) = event.request { a href={ "/ui/x/" (id) } { (words.exchange_one) } }
    }
}

fn word(words: &Words, kind: Kind) -> &'static str {
    match kind {
        Kind::RefusedAgent => words.k_refused_agent,
        Kind::RefusedLogin => words.k_refused_login,
        Kind::RefusedRequest => words.k_refused_request,
        Kind::Login => words.k_login,
        Kind::Logout => words.k_logout,
        Kind::Token => words.k_token,
        Kind::Configuration => words.k_configuration,
        Kind::Erasure => words.k_erasure,
        Kind::Person => words.k_person,
        Kind::Policy => words.k_policy,
        Kind::Loop => words.k_loop,
    }
}

/// All of it, newest first, one JSON a line.
pub(super) fn export(engine: Arc<Engine>) -> impl Stream<Item = Result<Bytes, HistoryError>> + Send + Sync + 'static {
    let pages = futures_util::stream::unfold(Some((engine, None)), |state| async move {
        let (engine, before): (Arc<Engine>, Option<Seq>) = state?;
        let events = match engine.audit_log(before, None, MOST).await {
            Ok(events) => events,
            Err(e) => return Some((Err(e.into()), None)),
        };
        let line = |(seq, event): &(Seq, Event)| serde_json::to_string(&EventJson::new(*seq, event)).unwrap_or_default() + "\n";
        let text: String = events.iter().map(line).collect();
        let last = events.last().filter(|_| events.len() == MOST).map(|(seq, _)| *seq);
        Some((Ok(text.into()), last.map(|seq| (engine, Some(seq)))))
    });
    super::export::SyncStream::new(pages)
}
