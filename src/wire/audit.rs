//! An entry of the security log, as the page's API and its export give it.

use serde::Serialize;

use crate::core::audit::Event;
use crate::core::ids::Seq;

#[derive(Serialize)]
pub struct EventJson<'a> {
    /// Its position in the relay's log; to be given as `before`.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub at: u64,
    pub kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub who: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub address: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub what: &'a str,
    pub times: u32,
    /// The exchange that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl<'a> EventJson<'a> {
    #[must_use]
    pub fn new(seq: Seq, event: &'a Event) -> Self {
        let Event { at, kind, who, address, what, times, request } = event;
        Self { seq: seq.0, at: at.0, kind: kind.word(), who, address, what, times: *times, request_id: request.map(|r| r.to_string()) }
    }
}
