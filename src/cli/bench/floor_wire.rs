//! The floor's bytes: as many, of the same shape, as a relay's for the same call.
//!
//! Copies texts without unescaping or escaping them: the bench's own texts need neither. Owns no state.

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::header::{self, HeaderValue};
use serde::Deserialize;
use std::borrow::Cow;

/// What else a relay's wake carries, so that the floor's is as long.
const WAKE_REST: &str = r#""deadline_ms":1700000000000,"attempt":1,"hops":0,"origin":"asker-0001","traceparent":"00-00000000000000000000000000000001-0000000000000001-01""#;

#[derive(Deserialize)]
pub(super) struct Call<'a> {
    pub id: u64,
    #[serde(borrow)]
    pub params: Params<'a>,
}

#[derive(Deserialize)]
pub(super) struct Params<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow)]
    pub arguments: Arguments<'a>,
}

#[derive(Deserialize)]
pub(super) struct Frame<'a> {
    #[serde(borrow, default)]
    pub id: Cow<'a, str>,
    #[serde(borrow, default)]
    pub arguments: Option<Arguments<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Arguments<'a> {
    #[serde(borrow, default)]
    pub to: Cow<'a, str>,
    #[serde(borrow, default)]
    pub message: Cow<'a, str>,
    #[serde(borrow, default)]
    pub request_id: Cow<'a, str>,
    #[serde(borrow, default)]
    pub answer: Cow<'a, str>,
}

pub(super) fn wake(request: u64, from: &str, message: &str) -> String {
    format!(
        "{{\"request_id\":\"{request:036}\",\"conversation_id\":\"{request:036}\",\"from\":\"{from}\",\"message\":\"{message}\",\"type\":\"wake\",{WAKE_REST}}}"
    )
}

pub(super) fn answered(request: u64, answer: &str) -> String {
    format!("{{\"ok\":true,\"conversation_id\":\"{request:036}\",\"request_id\":\"{request:036}\",\"answer\":\"{answer}\"}}")
}

/// One event with the JSON-RPC response to call `id`; `text` is quoted already.
pub(super) fn event(id: u64, text: &str) -> Response<Full<Bytes>> {
    let event =
        format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":{text}}}],\"isError\":false}}}}\n\n");
    let mut response = Response::new(Full::from(event));
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// The list that every caller gets: written once, for the floor only carries.
pub(super) fn list<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let one = |name| format!("{{\"name\":\"{name}\",\"online\":true,\"last_seen\":1700000000000,\"waiting\":0}}");
    quoted(format!("[{}]", names.map(one).collect::<Vec<_>>().join(",")))
}

pub(super) fn quoted(text: String) -> String {
    serde_json::Value::String(text).to_string()
}
