//! Who is calling: `Authorization: Bearer <token>`, or for the page a session's cookie; checked before anything of the body is
//! read. A token in the URL is ignored: URLs are logged everywhere.

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};

use super::peer::Peer;
use super::throttle::Throttle;
use super::{Body, gate};
use crate::config::TokenHash;
use crate::engine::{Engine, Kind, Pass, Visitor};

/// The longest token worth hashing.
const MAX_TOKEN: usize = 1_024;

/// The agent whose token this request brings; one that brings none is noted.
pub(super) fn agent(engine: &Engine, peer: Peer, path: &'static str, headers: &HeaderMap) -> Option<Pass> {
    let token = bearer(headers);
    let found = token.and_then(|token| engine.authenticate(token));
    if found.is_none() {
        engine.audit_counted(Kind::RefusedAgent, path, "", Some(peer.address), &format!("{path}: {}", offered(token)));
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

/// By what somebody may read what was said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    Token,
    Session,
    /// The page is open to all.
    Nothing,
}

/// Why somebody may not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoEntry {
    Stranger,
    /// So many wrong tokens came from there that none is looked at for so many seconds.
    Later(u64),
}

/// Whoever may read what was said: by a token, else by a session, else because the page is open to all.
pub(super) fn visitor(engine: &Engine, tries: &Throttle, peer: Peer, headers: &HeaderMap) -> Result<(Visitor, By), NoEntry> {
    let open = engine.config().ui.open;
    let mut why = NoEntry::Stranger;
    if let Some(token) = bearer(headers) {
        match look(engine, tries, peer, token, |token| engine.visitor(token)) {
            Ok(visitor) => return Ok((visitor, By::Token)),
            Err(no) => why = no,
        }
    }
    let by_session = session(headers).and_then(|cookie| engine.visitor_of(cookie)).map(|visitor| (visitor, By::Session));
    by_session.or(open.then_some((Visitor::Owner, By::Nothing))).ok_or(why)
}

/// What a token opens, if one from there is looked at; a wrong one is counted and put on record, unless all is open anyway.
pub(super) fn look<T>(engine: &Engine, tries: &Throttle, peer: Peer, token: &str, open_by: impl Fn(&str) -> Option<T>) -> Result<T, NoEntry> {
    let (now, guarded) = (engine.now(), !engine.config().ui.open);
    let note = |rule, what: &str| engine.audit_counted(Kind::RefusedLogin, rule, "", Some(peer.address), what);
    if let Err(seconds) = tries.may_try(now, peer.address).or_else(|seconds| if guarded { Err(seconds) } else { Ok(()) }) {
        note("wrong tokens of one address", "too many wrong tokens: none is looked at for a while");
        return Err(NoEntry::Later(seconds));
    }
    open_by(token).ok_or_else(|| {
        if guarded {
            tries.wrong(now, peer.address);
            note("token", &offered(Some(token)));
        }
        NoEntry::Stranger
    })
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

pub(super) fn later(seconds: u64) -> Response<Body> {
    gate::come_back(&format!("too many wrong tokens came from this address; come back in {seconds} seconds"), seconds)
}

/// Puts on record that nothing was offered where a token is needed; a wrong one stands there already.
pub(super) fn note_stranger(engine: &Engine, peer: Peer, path: &str, headers: &HeaderMap) {
    if bearer(headers).is_none() {
        engine.audit_counted(Kind::RefusedLogin, "no token", "", Some(peer.address), &format!("{path}: {}", offered(None)));
    }
}

fn no_entry(message: &str) -> Response<Body> {
    let mut response = super::error(StatusCode::UNAUTHORIZED, message);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}
