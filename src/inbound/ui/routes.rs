//! The addresses under /ui, by warp, and the headers that all of their answers carry.

use std::sync::Arc;

use bytes::Bytes;
use warp::filters::BoxedFilter;
use warp::http::{HeaderMap, header};
use warp::path::FullPath;
use warp::reply::{Reply, Response};
use warp::{Filter, Rejection};

use super::door::Guest;
use super::form::{Form, Refused, pairs};
use super::view::{CLOCK, LANG, THEME, View};
use super::{Ask, act, api, assets, door, export, live, login, security};
use crate::core::ids::{ConversationId, Seq};
use crate::engine::Engine;
use crate::inbound::alive::KEEP_ALIVE;
use crate::inbound::gate::Gate;
use crate::inbound::peer::Peer;

pub(in crate::inbound) fn routes(engine: Arc<Engine>, gate: Arc<Gate>) -> BoxedFilter<(Response,)> {
    let ask = ask(engine);
    let reading = warp::get().or(warp::head()).unify();
    let get = reading.and(ask.clone());
    let pages = warp::path!("ui").and(get.clone()).then(Ask::list).boxed();
    let pages = pages.or(warp::path!("ui" / "c" / String).and(get.clone()).then(|id, ask: Ask| ask.conversation(id))).unify().boxed();
    let pages = pages.or(warp::path!("ui" / "x" / String).and(get.clone()).then(|id, ask: Ask| ask.exchange(id))).unify().boxed();
    let pages = pages.or(warp::path!("ui" / "agents").and(get.clone()).then(Ask::agents)).unify().boxed();
    let api = warp::path!("ui" / "api" / "state").and(get.clone()).then(Ask::api_state).boxed();
    let pages = pages.or(warp::path!("ui" / "ask").and(get.clone()).then(Ask::asking)).unify().boxed();
    let pages = pages.or(warp::path!("ui" / "security").and(get.clone()).then(Ask::security)).unify().boxed();
    let api = api.or(warp::path!("ui" / "api" / "security").and(get.clone()).then(Ask::api_security)).unify().boxed();
    let api = api.or(warp::path!("ui" / "api" / "me").and(get.clone()).map(Ask::api_me)).unify().boxed();
    let api = api.or(warp::path!("ui" / "api" / "search").and(get.clone()).then(Ask::api_search)).unify().boxed();
    let api = api.or(warp::path!("ui" / "api" / "agents").and(get.clone()).then(Ask::api_agents)).unify().boxed();
    let api = api.or(warp::path!("ui" / "api" / "exchanges" / String).and(get.clone()).then(|id, ask: Ask| ask.api_exchange(id))).unify().boxed();
    let api =
        api.or(warp::path!("ui" / "api" / "conversations" / String).and(get.clone()).then(|id, ask: Ask| ask.api_conversation(id))).unify().boxed();
    let last = warp::header::optional::<String>("last-event-id");
    let events = warp::path!("ui" / "events").and(get.clone()).and(last).map(events).boxed();
    let exports = warp::path!("ui" / String).and(get.clone()).and_then(exported).boxed();
    let files = warp::path!("ui" / "assets" / String).and(reading).and(warp::header::headers_cloned()).map(file).boxed();
    let forms = forms(ask, gate);
    let lost = warp::path("ui").and(get).and(warp::path::full()).and_then(lost).boxed();
    let known = pages.or(api).unify().or(events).unify().or(files).unify().or(forms).unify().or(exports).unify().or(lost).unify();
    known.map(guarded).boxed()
}

/// Everything that is sent with POST. What is not the login's is read by `Form::read`, which asks for the form's token.
fn forms(ask: BoxedFilter<(Ask,)>, gate: Arc<Gate>) -> BoxedFilter<(Response,)> {
    let sent = warp::post().and(ask.clone()).and(warp::body::bytes());
    let form = sent.clone().map(|ask, body: Bytes| Form::read(ask, &body)).boxed();
    let headers = warp::header::headers_cloned();
    let shown = warp::path!("ui" / "login").and(warp::get().or(warp::head()).unify()).and(ask).map(Ask::login_page).boxed();
    let login = warp::path!("ui" / "login")
        .and(sent)
        .and(headers)
        .then(move |ask, body: Bytes, headers| login::log_in(Form::of_stranger(ask, &body), headers, gate.clone()));
    let logout = warp::path!("ui" / "logout").and(form.clone()).and(headers).then(|form: Result<Form, Refused>, headers| async move {
        match form {
            Ok(form) => login::log_out(form, headers).await,
            Err(refusal) => *refusal,
        }
    });
    let act = warp::path!("ui" / "act" / String).and(form.clone()).then(act::act).boxed();
    let settings = warp::path!("ui" / "settings").and(form).map(|form: Result<Form, Refused>| form.map_or_else(|refusal| *refusal, |f| settings(&f)));
    shown.or(act).unify().or(login).unify().or(logout).unify().or(settings).unify().boxed()
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
    let read = move |path: FullPath, query: String, headers: HeaderMap, guest: Option<Guest>, peer: Peer| {
        let here = if query.is_empty() { path.as_str().to_owned() } else { format!("{}?{query}", path.as_str()) };
        let view = View { guest, open: engine.config().ui.open, ..View::read(&headers, engine.now(), here) };
        Ask { engine: engine.clone(), view, pairs: pairs(&query), peer }
    };
    warp::path::full().and(query).and(warp::header::headers_cloned()).and(warp::ext::optional()).and(warp::ext::get()).map(read).boxed()
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
    if name == "export-security.ndjson" {
        return Ok(download(
            warp::reply::stream(security::export(ask.engine)).into_response(),
            export::Format::Lines,
            "hermes-bridge-security.ndjson",
        ));
    }
    let format = name.strip_prefix("export.").and_then(export::Format::parse).ok_or_else(warp::reject::not_found)?;
    let (search, engine) = (ask.search(), ask.engine);
    let name = format!("hermes-bridge.{}", name.trim_start_matches("export."));
    Ok(download(warp::reply::stream(export::stream(engine, search, format)).into_response(), format, &name))
}

fn download(mut response: Response, format: export::Format, name: &str) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(format.content_type()));
    if let Ok(value) = header::HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

fn file(name: String, headers: HeaderMap) -> Response {
    assets::serve(&name, &headers).unwrap_or_else(api::missing)
}

/// Keeps what was chosen as cookies and goes back to where it was chosen.
fn settings(form: &Form) -> Response {
    let mut response = form.back();
    let chosen = form.fields().filter(|(n, v)| [LANG, THEME, CLOCK].contains(n) && v.bytes().all(|b| b.is_ascii_alphanumeric()) && v.len() < 20);
    for (name, value) in chosen {
        if let Ok(cookie) = header::HeaderValue::from_str(&format!("{name}={value}; Path=/ui; Max-Age=31536000; SameSite=Strict")) {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
    }
    response
}
