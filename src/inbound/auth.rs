//! Who is calling: `Authorization: Bearer <token>`, or for the page a session's cookie; checked before anything of the body is
//! read. A token in the URL is ignored: URLs are logged everywhere.

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};

use super::Body;
use super::peer::Peer;
use crate::config::TokenHash;
use crate::core::ids::AgentName;
use crate::engine::{Engine, Kind, Visitor};

/// The longest token worth hashing.
const MAX_TOKEN: usize = 1_024;

/// The agent whose token this request brings; one that brings none is noted.
pub(super) fn agent(engine: &Engine, peer: Peer, path: &str, headers: &HeaderMap) -> Option<AgentName> {
    let token = bearer(headers);
    let found = token.and_then(|token| engine.authenticate(token));
    if found.is_none() {
        engine.audit_refused(Kind::RefusedAgent, "", peer.address, &format!("{path}: {}", offered(token)));
    }
    found
}

/// What was offered, so that its owner can tell which of many wrong tokens it was and nobody else learns anything.
pub(super) fn offered(token: Option<&str>) -> String {
    match token {
        None => "no token".to_owned(),
        Some(token) => format!("wrong token (sha256 {}..)", &TokenHash::of(token).to_hex()[..8]),
    }
}

pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= MAX_TOKEN).then_some(token)
}

/// Whoever may read what was said: by a token, else by a session, else because the page is open to all.
pub(super) fn visitor(engine: &Engine, peer: Peer, headers: &HeaderMap) -> Option<Visitor> {
    let open = engine.config().ui.open;
    let by_token = bearer(headers).and_then(|token| {
        let found = engine.visitor(token);
        if found.is_none() && !open {
            engine.audit_refused(Kind::RefusedLogin, "", peer.address, &offered(Some(token)));
        }
        found
    });
    let by_session = || session(headers).and_then(|cookie| engine.visitor_of(cookie));
    by_token.or_else(by_session).or_else(|| open.then_some(Visitor::Owner))
}

/// What the session's cookie holds.
pub(super) fn session(headers: &HeaderMap) -> Option<&str> {
    let name = session_cookie(headers);
    let cookies = headers.get_all(COOKIE).iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(';'));
    let mut pairs = cookies.filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(n, _)| *n == name).map(|(_, value)| value).filter(|value| value.len() <= MAX_TOKEN)
}

/// Cookies know hosts but no ports: with its port in the name, each relay of a machine has a session of its own.
pub(super) fn session_cookie(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    if !port.is_empty() && port.len() < 6 && port.bytes().all(|b| b.is_ascii_digit()) {
        format!("hb_session_{port}")
    } else {
        "hb_session".to_owned()
    }
}

pub(super) fn unauthorized() -> Response<Body> {
    no_entry("a valid agent token is needed: send Authorization: Bearer <token>")
}

/// For what the page shows, asked for by a program.
pub(super) fn not_a_visitor() -> Response<Body> {
    no_entry("this is for the relay's owner: log in at /ui/login, or send Authorization: Bearer <owner token>")
}

pub(super) fn not_for_metrics() -> Response<Body> {
    no_entry("metrics are for the owner: send Authorization: Bearer <owner token>, or the token of [metrics] in bridge.toml")
}

fn no_entry(message: &str) -> Response<Body> {
    let mut response = super::error(StatusCode::UNAUTHORIZED, message);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}
