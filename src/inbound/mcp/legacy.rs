//! `tools/call` of clients before 2026-07-28, answered without rmcp: its way costs several times the work, and cannot
//! take up a call whose stream was cut. Whatever is not exactly such a call is left to rmcp, errors included.
//!
//! The stream of an ask begins, once the exchange is on record, with an event that has an id. A client that loses the
//! stream, to a restart too, comes back with `GET` and `Last-Event-ID` and gets the response to the very id it sent.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use hyper::{Response, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::tools::{self, Context, Telling};
use super::super::{Body, error};
use super::stream::{self, Prime};
use crate::core::ids::{AgentName, RequestId};
use crate::engine::{AskReport, Begun, Engine, Going, StoreError};
use crate::wire::results;
use crate::wire::tools::{Call, Misuse, parse};

const ASK: &str = "ask_agent";
/// Answers that come within this need no stream. Longer, and a relay that dies leaves the client nothing to come back with.
const AT_ONCE: Duration = Duration::from_millis(20);
/// The stream begins by then, on record or not: clients and proxies want a byte within two seconds.
const SLOW_DISK: Duration = Duration::from_secs(1);
/// Python's SDK tries twice, so long apart: an outage that ends before twice this is survived, one that is over sooner costs
/// the waiting bot at most this. 15 s is what an image pull and a start may take twice over.
const RETRY_MS: u64 = 15_000;
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const MODERN_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The longest JSON-RPC id that is carried in an event's id.
const MAX_RPC_ID: usize = 200;

/// One `tools/call` as it came.
#[derive(Deserialize)]
pub(super) struct ToolCall<'a> {
    jsonrpc: &'a str,
    #[serde(borrow)]
    id: &'a RawValue,
    method: &'a str,
    params: Params,
}

#[derive(Deserialize)]
struct Params {
    name: String,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
    #[serde(default, rename = "_meta")]
    meta: Option<Map<String, Value>>,
}

/// The call, if it is one that this file answers.
pub(super) fn recognise<'a>(headers: &HeaderMap, body: &'a [u8]) -> Option<ToolCall<'a>> {
    let text = |name| headers.get(name).map_or(Some(""), |v: &hyper::header::HeaderValue| v.to_str().ok());
    let accepts = text(ACCEPT.as_str())?.to_ascii_lowercase();
    let plain = accepts.contains("application/json") && accepts.contains("text/event-stream");
    let json = text(CONTENT_TYPE.as_str())?.split(';').next()?.trim().eq_ignore_ascii_case("application/json");
    let version = text("mcp-protocol-version")?;
    if !plain || !json || !(version.is_empty() || VERSIONS.contains(&version)) || headers.contains_key("mcp-method") {
        return None;
    }
    let call: ToolCall<'_> = serde_json::from_slice(body).ok()?;
    let modern = call.params.meta.as_ref().is_some_and(|meta| meta.contains_key(MODERN_VERSION));
    let id = call.id.get();
    let good_id = id.len() <= MAX_RPC_ID && (id.starts_with('"') || id.parse::<i64>().is_ok());
    (call.jsonrpc == "2.0" && call.method == "tools/call" && good_id && !modern).then_some(call)
}

/// Answers a call: at once if its result is there at once, else by a stream.
pub(super) async fn answer(
    engine: &Arc<Engine>,
    mut context: Context,
    call: ToolCall<'_>,
    headers: &HeaderMap,
    keep_alive: Duration,
) -> Response<Body> {
    let id: Arc<str> = call.id.get().into();
    let Params { name, arguments, meta } = call.params;
    context.traceparent = super::traceparent(meta.as_ref().and_then(|m| m.get("traceparent")?.as_str()), headers);
    let arguments = arguments.unwrap_or_default();
    if name != ASK {
        let engine = engine.clone();
        let called = async move {
            let result = tools::call(&engine, &name, arguments, &context).await;
            Some(document(&id, result))
        };
        return stream::answer(called, keep_alive).await;
    }
    let request = match parse(&name, arguments).map(|call: Call| tools::ask_request(call, &context)) {
        Ok(Some(request)) => request,
        Ok(None) => return error(StatusCode::INTERNAL_SERVER_ERROR, "not an ask"),
        Err(misuse) => {
            engine.metrics().called(ASK, "misuse");
            return stream::full(document(&id, Err(misuse)));
        }
    };
    match engine.begin(&context.caller, request).await {
        Ok(Begun::Done(report)) => stream::full(document(&id, Ok(told(engine, &context, &report).await))),
        Ok(Begun::Going(going)) => wait(engine, context, going, id, keep_alive).await,
        Err(e) => stream::full(document(&id, Ok(trouble(&context.caller, &e)))),
    }
}

/// `GET` with `Last-Event-ID`: the rest of a stream that was cut. Foreign and unknown ids read the same.
pub(super) async fn resume(engine: &Arc<Engine>, context: Context, event_id: &str, keep_alive: Duration) -> Response<Body> {
    let unknown = || error(StatusCode::NOT_FOUND, "there is no such stream to take up");
    let Some((request, id)) = event_id.split_once('.') else { return unknown() };
    let (Some(request), Some(id)) = (RequestId::parse(request), unescape(id)) else { return unknown() };
    match engine.resume(&context.caller, request).await {
        Ok(Some(going)) => wait(engine, context, going, id.into(), keep_alive).await,
        Ok(None) => unknown(),
        Err(_) => error(StatusCode::SERVICE_UNAVAILABLE, "history cannot be read at the moment; come back soon"),
    }
}

async fn wait(engine: &Arc<Engine>, context: Context, mut going: Going, id: Arc<str>, keep_alive: Duration) -> Response<Body> {
    let prime = Prime { id: format!("{}.{}", going.id, escape(&id)), retry_ms: RETRY_MS };
    let engine = engine.clone();
    // Nobody is told to come back for what a crash could still undo.
    if tokio::time::timeout(SLOW_DISK, going.recorded()).await.is_err() {
        let later = async move {
            going.recorded().await;
            (prime, end(engine, context, going, id))
        };
        return stream::primed_later(later, keep_alive);
    }
    let mut end = Box::pin(end(engine, context, going, id));
    match tokio::time::timeout(AT_ONCE, &mut end).await {
        Ok(Some(document)) => stream::full(document),
        Ok(None) => stream::primed(prime, async { None }, keep_alive),
        Err(_) => stream::primed(prime, end, keep_alive),
    }
}

/// The response when the exchange has ended, or the call has waited long enough. `None`: cut without one; the client comes
/// back for it.
async fn end(engine: Arc<Engine>, context: Context, going: Going, id: Arc<str>) -> Option<Bytes> {
    match engine.finish(going).await {
        Ok(AskReport::StillWorking { restarting: true, .. }) => None,
        Ok(report) => Some(document(&id, Ok(told(&engine, &context, &report).await))),
        Err(e) => {
            tracing::error!(error = %e, "an answer could not be read");
            Some(document(&id, Ok(tools::json(&results::unavailable()))))
        }
    }
}

async fn told(engine: &Arc<Engine>, context: &Context, report: &AskReport) -> String {
    Telling { engine, tool: ASK, context }.report(tools::asked(engine, report).await)
}

fn trouble(caller: &AgentName, e: &StoreError) -> String {
    tracing::error!(agent = %caller, error = %e, "an ask met the store's trouble");
    tools::json(&results::unavailable())
}

/// The JSON-RPC response. `id` is the client's own text of it.
fn document(id: &str, result: Result<String, Misuse>) -> Bytes {
    let (text, is_error) = match result {
        Ok(json) => (json, false),
        Err(unknown @ Misuse::UnknownTool(_)) => {
            let message = tools::json(&unknown.to_string());
            return format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":{message}}}}}"#).into();
        }
        Err(misuse) => (misuse.to_string(), true),
    };
    let text = tools::json(&text);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":{text}}}],"isError":{is_error}}}}}"#).into()
}

/// The id of a JSON-RPC request as part of an event's id: hexadecimal, since an event's id is one line of plain text.
fn escape(id: &str) -> String {
    id.bytes().map(|b| format!("{b:02x}")).collect()
}

fn unescape(hex: &str) -> Option<String> {
    if hex.len() > 2 * MAX_RPC_ID || !hex.len().is_multiple_of(2) || !hex.is_ascii() {
        return None;
    }
    let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok()).collect::<Option<Vec<u8>>>()?;
    let id = String::from_utf8(bytes).ok()?;
    // Only what could have been an id: it is put into the response as it is.
    matches!(serde_json::from_str::<Value>(&id), Ok(Value::String(_) | Value::Number(_))).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_id_brings_back_the_clients_own_id() {
        for id in ["7", "-1", "\"a\\u00e9\\\"b\""] {
            assert_eq!(unescape(&escape(id)).as_deref(), Some(id));
        }
        for bad in ["", "7", "zz", &escape("{}"), &escape("1,2"), &escape("null")] {
            assert_eq!(unescape(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_plain_calls_of_older_clients_are_answered_here() {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, "application/json, text/event-stream".parse().unwrap());
        headers.insert(CONTENT_TYPE, "application/json; charset=utf-8".parse().unwrap());
        let call = |body: &str| recognise(&headers, body.as_bytes()).map(|c| c.params.name);
        let plain = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"reply","arguments":{}}}"#;
        assert_eq!(call(plain).as_deref(), Some("reply"));
        for other in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"name":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"x"}}"#,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
            "[]",
            "",
        ] {
            assert_eq!(call(other), None, "{other}");
        }
        headers.insert("mcp-protocol-version", "2026-07-28".parse().unwrap());
        assert!(recognise(&headers, plain.as_bytes()).is_none());
    }

    #[test]
    fn a_response_quotes_whatever_the_result_holds() {
        let text = document("\"x\"", Ok(r#"{"a":"b\n"}"#.into()));
        let value: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!((value["id"].as_str(), value["result"]["content"][0]["text"].as_str()), (Some("x"), Some(r#"{"a":"b\n"}"#)));
    }
}
