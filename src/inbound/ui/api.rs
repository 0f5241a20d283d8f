//! The JSON API behind the page: the same answers, for programs. Owns its shapes that are not `wire::history`'s.

use serde::Serialize;
use warp::http::StatusCode;
use warp::reply::{Reply, Response};

use crate::core::presence::Present;
use crate::engine::{AgentFigures, Findings, HistoryError};
use crate::wire::history::ExchangeJson;

#[derive(Serialize)]
struct Found {
    exchanges: Vec<ExchangeJson>,
    /// All that was found, on whatever page.
    total: u64,
    /// To be given as `before` for the next page.
    next_before: Option<String>,
    took_ms: f64,
    /// Nothing had these words; these have words that differ in a letter.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    typo: bool,
    /// There may be more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    partial: bool,
}

#[derive(Serialize)]
struct AgentJson {
    name: String,
    online: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seen: Option<u64>,
    open: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    adapter: Option<String>,
    /// Questions put to it.
    asked: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95_ms: Option<u64>,
    statuses: serde_json::Map<String, serde_json::Value>,
}

pub(super) fn found(found: &Findings) -> Response {
    json(&Found {
        exchanges: found.records.iter().map(ExchangeJson::from).collect(),
        total: found.total,
        next_before: found.next.clone(),
        took_ms: (found.took.as_secs_f64() * 1e4).round() / 10.0,
        typo: found.typo,
        partial: found.partial,
    })
}

pub(super) fn agents(present: &[Present], figures: &[AgentFigures], since: &str) -> Response {
    let agents: Vec<AgentJson> = present
        .iter()
        .map(|one| {
            let of = figures.iter().find(|f| f.name == one.name.as_str());
            AgentJson {
                name: one.name.to_string(),
                online: one.online,
                last_seen: one.last_seen.map(|at| at.0),
                open: one.waiting,
                adapter: one.adapter.as_ref().map(|a| a.to_string()),
                asked: of.map_or(0, |f| f.asked),
                p50_ms: of.and_then(|f| f.p50_ms),
                p95_ms: of.and_then(|f| f.p95_ms),
                statuses: of.map(|f| f.statuses.iter().map(|(word, n)| ((*word).to_owned(), (*n).into())).collect()).unwrap_or_default(),
            }
        })
        .collect();
    json(&serde_json::json!({ "agents": agents, "since": since }))
}

pub(super) fn json(value: &impl Serialize) -> Response {
    warp::reply::json(value).into_response()
}

pub(super) fn missing() -> Response {
    failure(StatusCode::NOT_FOUND, "this relay's history has nothing under this id")
}

pub(super) fn unreadable(error: &HistoryError) -> Response {
    tracing::error!(%error, "history cannot be read");
    failure(StatusCode::SERVICE_UNAVAILABLE, "history cannot be read at the moment; see /ready")
}

fn failure(status: StatusCode, message: &str) -> Response {
    warp::reply::with_status(warp::reply::json(&serde_json::json!({ "error": message })), status).into_response()
}
