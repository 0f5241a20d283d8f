//! Who is calling: `Authorization: Bearer <token>`, checked before anything of the body is read. A token in the URL is
//! ignored: URLs are logged everywhere.

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};

use super::Body;
use crate::core::ids::AgentName;
use crate::engine::Engine;

/// The longest token worth hashing.
const MAX_TOKEN: usize = 1_024;

pub(super) fn agent(engine: &Engine, headers: &HeaderMap) -> Option<AgentName> {
    engine.authenticate(bearer(headers)?)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= MAX_TOKEN).then_some(token)
}

pub(super) fn unauthorized() -> Response<Body> {
    let mut response = super::error(StatusCode::UNAUTHORIZED, "a valid agent token is needed: send Authorization: Bearer <token>");
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}
