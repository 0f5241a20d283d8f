//! OTLP/JSON: spans, attributes and the request around them, as opentelemetry-proto has them. Ids are lower-case
//! hexadecimal, times decimal strings of nanoseconds, integers strings.

use serde::Serialize;

use crate::core::exchange::{Asked, End};
use crate::core::ids::Millis;
use crate::core::trace;

const NAME: &str = env!("CARGO_PKG_NAME");
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// SPAN_KIND_CLIENT.
const CLIENT: u8 = 3;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    trace_id: String,
    span_id: String,
    pub name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    pub attributes: Vec<Attribute>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    status: Status,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    trace_id: String,
    span_id: String,
}

#[derive(Serialize)]
struct Status {
    code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
}

#[derive(Serialize)]
pub struct Attribute {
    key: &'static str,
    value: Value,
}

#[derive(Serialize)]
pub enum Value {
    #[serde(rename = "stringValue")]
    Text(String),
    #[serde(rename = "boolValue")]
    Bool(bool),
    #[serde(rename = "intValue")]
    Int(String),
    #[serde(rename = "arrayValue")]
    Array { values: Vec<Value> },
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self::Bool(yes)
    }
}

impl From<u64> for Value {
    fn from(n: u64) -> Self {
        Self::Int(n.to_string())
    }
}

impl From<usize> for Value {
    fn from(n: usize) -> Self {
        Self::Int(n.to_string())
    }
}

impl From<&[String]> for Value {
    fn from(all: &[String]) -> Self {
        Self::Array { values: all.iter().map(|one| one.as_str().into()).collect() }
    }
}

impl Span {
    /// The span of an exchange, without a name and attributes.
    #[must_use]
    pub fn of(asked: &Asked, end: &End) -> Self {
        let link = asked.traceparent.as_deref().and_then(trace::parts);
        let good = end.outcome == crate::core::outcome::Outcome::Answered;
        Self {
            trace_id: trace::trace_id(asked.conversation),
            span_id: trace::span_id(asked.id),
            name: String::new(),
            kind: CLIENT,
            start_time_unix_nano: nanos(asked.at),
            end_time_unix_nano: nanos(end.at.max(asked.at)),
            attributes: Vec::with_capacity(32),
            links: link.map(|(trace, span)| Link { trace_id: trace.to_owned(), span_id: span.to_owned() }).into_iter().collect(),
            status: if good { Status { code: 1, message: None } } else { Status { code: 2, message: Some(end.outcome.word()) } },
        }
    }

    pub fn put(&mut self, key: &'static str, value: impl Into<Value>) {
        self.attributes.push(Attribute { key, value: value.into() });
    }

    #[must_use]
    pub fn trace_id(&self) -> &str {
        &self.trace_id
    }

    /// Nothing in a span can fail to serialise.
    #[must_use]
    pub fn encoded(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

fn nanos(at: Millis) -> String {
    (u128::from(at.0) * 1_000_000).to_string()
}

/// What stands before the spans and after them in every request.
pub struct Envelope {
    head: String,
}

const TAIL: &str = "]}]}]}";

impl Envelope {
    /// `more`: of the resource, beside name and version of the service.
    #[must_use]
    pub fn new(more: Vec<(&'static str, String)>) -> Self {
        let mut attributes = vec![("service.name", NAME.to_owned()), ("service.version", VERSION.to_owned())];
        attributes.extend(more);
        let attributes: Vec<_> = attributes.into_iter().map(|(key, value)| Attribute { key, value: value.into() }).collect();
        let attributes = serde_json::to_string(&attributes).unwrap_or_default();
        let scope = format!(r#"{{"name":"{NAME}","version":"{VERSION}"}}"#);
        Self { head: format!(r#"{{"resourceSpans":[{{"resource":{{"attributes":{attributes}}},"scopeSpans":[{{"scope":{scope},"spans":["#) }
    }

    /// One request with these spans.
    pub fn around<'a>(&self, spans: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<u8> {
        let size: usize = spans.clone().map(|s| s.len() + 1).sum();
        let mut body = Vec::with_capacity(self.head.len() + size + TAIL.len());
        body.extend_from_slice(self.head.as_bytes());
        for (n, span) in spans.enumerate() {
            if n > 0 {
                body.push(b',');
            }
            body.extend_from_slice(span);
        }
        body.extend_from_slice(TAIL.as_bytes());
        body
    }
}
