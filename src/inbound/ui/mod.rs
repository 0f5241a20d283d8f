//! THE PAGE. Everything under /ui: list and search, threads, agents, live stream, export, and the JSON API behind them.
//! Owns which address shows what; renders what the engine found and decides nothing about it.
//!
//! `page` is the frame, `list`, `thread` and `agents` are what stands in it, `item` is one exchange wherever it is shown;
//! `live` and `export` stream; `door` says who may look, `login` lets in, `form` is what people send.

mod act;
mod address;
mod agents;
mod api;
mod assets;
mod chart;
pub(super) mod door;
mod export;
mod form;
mod item;
mod list;
mod live;
mod login;
mod page;
mod rail;
mod routes;
mod security;
mod text;
mod thread;
mod view;
mod when;
mod words;

use std::sync::Arc;

use maud::{Markup, html};
use warp::http::{StatusCode, header};
use warp::reply::{Reply, Response};

use crate::config::OnStoreFailure;
use crate::core::ids::{ConversationId, Millis, RequestId};
use crate::engine::{Engine, HistoryError, Search, Visitor};
use crate::inbound::peer::Peer;
use crate::wire::history::{self, ExchangeJson};
use address::Address;
use page::{Page, Part};
use view::View;

pub(super) use routes::routes;

/// As many exchanges as the original's page had.
const STATE_EXCHANGES: usize = 200;
/// What the API gives of a conversation at once.
const API_THREAD: usize = 1_000;

/// A request for something under /ui, as far as all of them are alike.
#[derive(Clone)]
pub(super) struct Ask {
    engine: Arc<Engine>,
    view: View,
    pairs: Vec<(String, String)>,
    peer: Peer,
}

impl Ask {
    fn address(&self) -> Address {
        Address::read(&self.pairs)
    }

    fn value(&self, name: &str) -> &str {
        self.pairs.iter().rev().find(|(n, _)| n == name).map_or("", |(_, v)| v)
    }

    fn search(&self) -> Search {
        Search { zone: self.view.zone.clone(), ..search_of(&self.address()) }
    }

    /// The document, or what the script swaps of it.
    fn show(&self, status: StatusCode, page: &Page<'_>, main: &Markup) -> Response {
        let body = if self.view.fragment { main.clone() } else { page::frame(&self.view, page, main) };
        let mut response = warp::reply::html(body.into_string()).into_response();
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("private, no-cache"));
        headers.insert(header::VARY, header::HeaderValue::from_static("x-fragment, cookie, accept-language"));
        response
    }

    async fn list(self) -> Response {
        let address = self.address();
        let seq = self.engine.last_seq().0;
        let findings = match self.engine.search(Search { counts: true, ..self.search() }).await {
            Ok(findings) => findings,
            Err(e) => return self.trouble(&e),
        };
        let present = rail::sorted(self.engine.present(None));
        let around = list::Around { present: &present, indexing: self.engine.indexing(), trouble: self.disk_trouble(), seq };
        let main = list::found(&self.view, &address, &findings, &around);
        let events = Address { before: String::new(), best: false, ..address.clone() }.query();
        let title = if address.q.is_empty() { self.view.words().conversations } else { &address.q };
        let page = Page { title, part: Part::List, address: &address, events: Some(format!("/ui/events{events}")), kind: "list" };
        self.show(StatusCode::OK, &page, &main)
    }

    async fn conversation(self, id: String) -> Response {
        let Some(id) = ConversationId::parse(&id) else { return self.gone() };
        let after = RequestId::parse(self.value("after"));
        self.thread(id, after, None).await
    }

    async fn exchange(self, id: String) -> Response {
        let Some(id) = RequestId::parse(&id) else { return self.gone() };
        match self.engine.exchange(id).await {
            Ok(Some(record)) => self.thread(record.asked.conversation, None, Some(id)).await,
            Ok(None) => self.gone(),
            Err(e) => self.trouble(&e.into()),
        }
    }

    async fn thread(self, id: ConversationId, after: Option<RequestId>, framed: Option<RequestId>) -> Response {
        let seq = self.engine.last_seq().0;
        let count = thread::PAGE + 1;
        let mut begun_before = after.is_some();
        let mut read = self.engine.thread(id, after, count).await;
        // In a long thread the one that is meant begins the page.
        if let (Ok(records), Some(framed)) = (&read, framed)
            && !records.iter().take(thread::PAGE).any(|r| r.asked.id == framed)
        {
            begun_before = true;
            read = self.engine.thread(id, Some(RequestId::from_u128(framed.as_u128().saturating_sub(1))), count).await;
        }
        let mut records = match read {
            Ok(records) if records.is_empty() && after.is_none() => return self.gone(),
            Ok(records) => records,
            Err(e) => return self.trouble(&e.into()),
        };
        let more = records.len() > thread::PAGE;
        records.truncate(thread::PAGE);
        let main = thread::thread(&self.view, &thread::Thread { records: &records, framed, begun_before, more, seq });
        let title = thread::title(&records);
        let address = Address::default();
        let page =
            Page { title: &title, part: Part::Other, address: &address, events: Some(format!("/ui/events?conversation={id}")), kind: "thread" };
        self.show(StatusCode::OK, &page, &main)
    }

    async fn agents(self) -> Response {
        let seq = self.engine.last_seq().0;
        let (name, since) = self.since();
        let figures = match self.engine.figures(since).await {
            Ok(figures) => figures,
            Err(e) => return self.trouble(&e),
        };
        let present = rail::sorted(self.engine.present(None));
        let main = agents::agents(&self.view, &present, &figures, &self.engine.paused(), name, seq);
        let address = Address::default();
        let page = Page { title: self.view.words().agents, part: Part::Agents, address: &address, events: Some("/ui/events".into()), kind: "agents" };
        self.show(StatusCode::OK, &page, &main)
    }

    fn since(&self) -> (&'static str, Millis) {
        let (name, span) = agents::span(self.value("since"));
        (name, if span == 0 { Millis(0) } else { Millis(self.view.now.0.saturating_sub(span)) })
    }

    fn gone(&self) -> Response {
        let words = self.view.words();
        let body = html! { p { (words.gone_why) } p { a href="/ui" { "← " (words.all_conversations) } } };
        self.say(StatusCode::NOT_FOUND, words.gone, &body)
    }

    fn trouble(&self, error: &HistoryError) -> Response {
        tracing::error!(%error, "history cannot be read");
        let words = self.view.words();
        self.say(StatusCode::SERVICE_UNAVAILABLE, words.trouble, &html! { (self.disk_trouble()) p { (words.trouble_why) } })
    }

    /// That nothing is recorded at the moment, why, and what becomes of questions meanwhile.
    fn disk_trouble(&self) -> Markup {
        let words = self.view.words();
        let meanwhile = match self.engine.config().on_store_failure {
            OnStoreFailure::Relay => words.disk_relay,
            OnStoreFailure::Refuse => words.disk_refuse,
        };
        html! {
            @if let Some(why) = self.engine.unrecorded() {
                p class="banner bad" role="alert" { (words.disk_refuses) " " (meanwhile) " " code dir="ltr" { (why) } }
            }
        }
    }

    fn say(&self, status: StatusCode, title: &str, body: &Markup) -> Response {
        let address = self.address();
        let page = Page { title, part: Part::Other, address: &address, events: None, kind: "notice" };
        self.show(status, &page, &html! { div id="found" { (page::notice(title, body)) } })
    }

    /// What is not obeyed; on record by the rule that was broken.
    fn refused(&self, rule: &'static str, why: &str) -> Response {
        let who = self.view.guest.as_ref().map(|guest| guest.visitor.to_string()).unwrap_or_default();
        super::refused(&self.engine, rule, &who, self.peer.address, &format!("{rule}: {}", self.view.here));
        self.say(
            StatusCode::FORBIDDEN,
            self.view.words().not_done,
            &html! { p { (why) } p { a href="/ui" { "← " (self.view.words().all_conversations) } } },
        )
    }

    /// Who asks.
    fn api_me(self) -> Response {
        let (role, name) = match self.view.guest.as_ref().map(|g| &g.visitor) {
            Some(Visitor::Viewer(name)) => ("viewer", Some(name.to_string())),
            _ => ("owner", None),
        };
        api::json(&serde_json::json!({ "role": role, "name": name, "open": self.engine.config().ui.open }))
    }

    async fn api_state(self) -> Response {
        match self.engine.newest(None, STATE_EXCHANGES).await {
            Ok(newest) => api::json(&history::state(&self.engine.present(None), &newest)),
            Err(e) => api::unreadable(&e.into()),
        }
    }

    async fn api_search(self) -> Response {
        let limit = self.value("limit").parse().unwrap_or(Search::default().limit);
        match self.engine.search(Search { limit, ..self.search() }).await {
            Ok(found) => api::found(&found),
            Err(e) => api::unreadable(&e),
        }
    }

    async fn api_exchange(self, id: String) -> Response {
        let Some(id) = RequestId::parse(&id) else { return api::missing() };
        match self.engine.exchange(id).await {
            Ok(Some(record)) => api::json(&ExchangeJson::from(&record)),
            Ok(None) => api::missing(),
            Err(e) => api::unreadable(&e.into()),
        }
    }

    async fn api_conversation(self, id: String) -> Response {
        let Some(id) = ConversationId::parse(&id) else { return api::missing() };
        let after = RequestId::parse(self.value("after"));
        match self.engine.thread(id, after, API_THREAD + 1).await {
            Ok(records) if records.is_empty() && after.is_none() => api::missing(),
            Ok(records) => {
                let exchanges: Vec<_> = records.iter().take(API_THREAD).map(ExchangeJson::from).collect();
                let next = exchanges.last().filter(|_| records.len() > API_THREAD).map(|e| e.request_id.clone());
                api::json(&serde_json::json!({ "conversation_id": id.to_string(), "exchanges": exchanges, "next_after": next }))
            }
            Err(e) => api::unreadable(&e.into()),
        }
    }

    async fn api_agents(self) -> Response {
        // A program that names no span means everything.
        let (name, since) = if self.value("since").is_empty() { ("all", Millis(0)) } else { self.since() };
        match self.engine.figures(since).await {
            Ok(figures) => api::agents(&self.engine.present(None), &figures, name),
            Err(e) => api::unreadable(&e),
        }
    }
}

/// The search that an address means.
fn search_of(address: &Address) -> Search {
    let Address { q, status, agent, from, to, before, best } = address.clone();
    Search { text: q, status, agent, from, to, before, best, ..Search::default() }
}
