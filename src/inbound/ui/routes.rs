//! The addresses under /ui, by warp, and the headers that all of their answers carry.

use std::sync::Arc;

use bytes::Bytes;
use warp::filters::BoxedFilter;
use warp::http::{HeaderMap, StatusCode, header};
use warp::path::FullPath;
use warp::reply::{Reply, Response};
use warp::{Filter, Rejection};

use super::view::{CLOCK, LANG, THEME, View};
use super::{Ask, api, assets, door, export, live};
use crate::core::ids::{ConversationId, Seq};
use crate::engine::Engine;

/// A form of the page is small.
const MAX_FORM: u64 = 16 * 1024;
/// A comment on an idle event stream, so that a lost connection is noticed; costs a few bytes.
const KEEP_ALIVE: std::time::Duration = std::time::Duration::from_secs(25);

pub(in crate::inbound) fn routes(engine: Arc<Engine>) -> BoxedFilter<(Response,)> {
    let ask = ask(engine);
    let reading = warp::get().or(warp::head()).unify();
    let get = reading.and(ask);
    let pages = warp::path!("ui").and(get.clone()).then(Ask::list).boxed();
    let pages = pages.or(warp::path!("ui" / "c" / String).and(get.clone()).then(|id, ask: Ask| ask.conversation(id))).unify().boxed();
    let pages = pages.or(warp::path!("ui" / "x" / String).and(get.clone()).then(|id, ask: Ask| ask.exchange(id))).unify().boxed();
    let pages = pages.or(warp::path!("ui" / "agents").and(get.clone()).then(Ask::agents)).unify().boxed();
    let api = warp::path!("ui" / "api" / "state").and(get.clone()).then(Ask::api_state).boxed();
    let api = api.or(warp::path!("ui" / "api" / "search").and(get.clone()).then(Ask::api_search)).unify().boxed();
    let api = api.or(warp::path!("ui" / "api" / "agents").and(get.clone()).then(Ask::api_agents)).unify().boxed();
    let api = api.or(warp::path!("ui" / "api" / "exchanges" / String).and(get.clone()).then(|id, ask: Ask| ask.api_exchange(id))).unify().boxed();
    let api =
        api.or(warp::path!("ui" / "api" / "conversations" / String).and(get.clone()).then(|id, ask: Ask| ask.api_conversation(id))).unify().boxed();
    let last = warp::header::optional::<String>("last-event-id");
    let events = warp::path!("ui" / "events").and(get.clone()).and(last).map(events).boxed();
    let exports = warp::path!("ui" / String).and(get.clone()).and_then(exported).boxed();
    let files = warp::path!("ui" / "assets" / String).and(reading).and(warp::header::headers_cloned()).map(file).boxed();
    let body = warp::body::content_length_limit(MAX_FORM).and(warp::body::bytes());
    let settings = warp::path!("ui" / "settings").and(warp::post()).and(body).map(settings).boxed();
    let lost = warp::path("ui").and(get).and(warp::path::full()).and_then(lost).boxed();
    let known = pages.or(api).unify().or(events).unify().or(files).unify().or(settings).unify().or(exports).unify().or(lost).unify();
    known.map(guarded).boxed()
}

/// A page for people; scripts get the JSON of every other route.
async fn lost(ask: Ask, path: FullPath) -> Result<Response, warp::Rejection> {
    if path.as_str().starts_with("/ui/api/") { Err(warp::reject::not_found()) } else { Ok(ask.gone()) }
}

fn guarded(mut response: Response) -> Response {
    door::guard(response.headers_mut());
    response
}

fn ask(engine: Arc<Engine>) -> BoxedFilter<(Ask,)> {
    let query = warp::query::raw().or(warp::any().map(String::new)).unify();
    let read = move |path: FullPath, query: String, headers: HeaderMap| {
        // Whatever stands there is read; nothing in it is an error.
        let url = reqwest::Url::parse(&format!("http://relay/?{query}"));
        let pairs = url.map(|u| u.query_pairs().take(50).map(|(n, v)| (n.into_owned(), v.into_owned())).collect()).unwrap_or_default();
        let here = if query.is_empty() { path.as_str().to_owned() } else { format!("{}?{query}", path.as_str()) };
        Ask { engine: engine.clone(), view: View::read(&headers, engine.now(), here), pairs }
    };
    warp::path::full().and(query).and(warp::header::headers_cloned()).map(read).boxed()
}

fn events(ask: Ask, last: Option<String>) -> Response {
    let seen = last.as_deref().and_then(|l| l.parse().ok()).or_else(|| ask.value("since").parse().ok());
    let conversation = ConversationId::parse(ask.value("conversation"));
    let address = ask.address();
    let listener = live::Listener::new(ask.engine, ask.view, address, conversation, seen.map(Seq));
    let mut response = warp::sse::reply(warp::sse::keep_alive().interval(KEEP_ALIVE).text("").stream(listener.stream())).into_response();
    response.headers_mut().insert("x-accel-buffering", header::HeaderValue::from_static("no"));
    response
}

async fn exported(name: String, ask: Ask) -> Result<Response, Rejection> {
    let format = name.strip_prefix("export.").and_then(export::Format::parse).ok_or_else(warp::reject::not_found)?;
    let (search, engine) = (ask.search(), ask.engine);
    let mut response = warp::reply::stream(export::stream(engine, search, format)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(format.content_type()));
    if let Ok(value) = header::HeaderValue::from_str(&format!("attachment; filename=\"hermes-bridge.{}\"", name.trim_start_matches("export."))) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    Ok(response)
}

fn file(name: String, headers: HeaderMap) -> Response {
    assets::serve(&name, &headers).unwrap_or_else(api::missing)
}

/// Keeps what was chosen as cookies and goes back to where it was chosen.
fn settings(body: Bytes) -> Response {
    let form = String::from_utf8_lossy(&body);
    let url = reqwest::Url::parse(&format!("http://relay/?{form}"));
    let pairs: Vec<(String, String)> =
        url.map(|u| u.query_pairs().take(20).map(|(n, v)| (n.into_owned(), v.into_owned())).collect()).unwrap_or_default();
    // Only a page of ours, never another host.
    let back =
        pairs.iter().find(|(n, _)| n == "back").map(|(_, v)| v.as_str()).filter(|v| door::is_page(v.split(['?', '#']).next().unwrap_or_default()));
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    let to = header::HeaderValue::from_str(back.unwrap_or("/ui")).unwrap_or(header::HeaderValue::from_static("/ui"));
    headers.insert(header::LOCATION, to);
    for (name, value) in
        pairs.iter().filter(|(n, v)| [LANG, THEME, CLOCK].contains(&n.as_str()) && v.bytes().all(|b| b.is_ascii_alphanumeric()) && v.len() < 20)
    {
        if let Ok(cookie) = header::HeaderValue::from_str(&format!("{name}={value}; Path=/ui; Max-Age=31536000; SameSite=Strict")) {
            headers.append(header::SET_COOKIE, cookie);
        }
    }
    response
}
