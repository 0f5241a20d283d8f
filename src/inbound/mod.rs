//! WAYS IN. One accept loop, and behind it MCP at /mcp, the bots' WebSocket at /bridge/connect, the page at /ui, and the
//! ordinary routes.
//! Every door authenticates, parses, calls the engine and words the result; none decides anything.

mod alive;
mod auth;
mod body;
pub mod control;
mod gate;
mod hosts;
mod mcp;
mod metered;
pub mod metrics;
mod peer;
mod routes;
mod server;
mod throttle;
mod tools;
mod turned;
mod ui;
mod untaken;
mod websocket;
mod worded;

pub use server::serve;

use std::net::IpAddr;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Response, StatusCode, Uri, header};

use crate::engine::{Engine, Kind};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A JSON error, the same shape on every route.
pub(crate) fn error(status: StatusCode, message: &str) -> Response<Body> {
    let text = serde_json::json!({ "error": message }).to_string();
    let mut response = Response::new(full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// Puts on record that a door did not take something, by which rule. Counted together with what is alike.
fn refused(engine: &Engine, rule: &'static str, who: &str, address: IpAddr, what: &str) {
    engine.audit_counted(Kind::RefusedRequest, rule, who, Some(address.to_canonical()), what);
}

/// After a connection could not be accepted: out of file descriptors, most likely, so nothing gets better by trying at once.
async fn rest_from_accepting() {
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
}

/// A response whose refusal is on record already.
#[derive(Clone)]
struct OnRecord;

/// Puts on record that a request was answered as one that does not fit here: nothing at its address, a wrong method, unreadable.
fn misfit(engine: &Engine, who: &str, address: IpAddr, request: &(Method, Uri), response: &Response<Body>) {
    let rule = match response.status() {
        StatusCode::NOT_FOUND => "no such address",
        StatusCode::METHOD_NOT_ALLOWED => "wrong method",
        StatusCode::BAD_REQUEST | StatusCode::NOT_ACCEPTABLE | StatusCode::UNSUPPORTED_MEDIA_TYPE | StatusCode::UNPROCESSABLE_ENTITY => {
            "unreadable request"
        }
        _ => return,
    };
    if response.extensions().get::<OnRecord>().is_none() {
        let (method, uri) = request;
        refused(engine, rule, who, address, &format!("{} for {method} {}", response.status().as_u16(), uri.path()));
    }
}

/// `allowed`: what the address does take.
pub(crate) fn wrong_method(allowed: &'static str) -> Response<Body> {
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "this address does not take this method");
    response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(allowed));
    response
}

pub(crate) fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}
