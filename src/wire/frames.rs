//! Frames of `/bridge/connect`, JSON text both ways. What a bot sends is taken leniently (unknown types and fields are
//! ignored, a missing or wrong one makes the frame unknown); what it is sent begins with the original's fields.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::core::audit::leads_astray;
use crate::core::effect::Wake;
use crate::core::exchange::{Asked, Late};
use crate::core::ids::RequestId;
use crate::core::registry::{Features, Hello};
use crate::core::trace;

/// Longest id, instance or version that is kept of a bot's claims.
const MAX_CLAIM: usize = 200;

/// What a bot says over its socket.
#[derive(Clone, PartialEq, Debug)]
pub enum FromBot {
    /// With the session that the bot works in, if it says so.
    Heartbeat(RequestId, Option<Arc<str>>),
    Received(RequestId),
    Hello(Hello),
    /// A tool call: the bot's id for it, the tool and its arguments; trace context in `_meta` as over MCP.
    Call {
        id: Arc<str>,
        tool: String,
        arguments: Map<String, Value>,
        traceparent: Option<String>,
    },
    /// A call without a usable id or tool: answered, because the bot waits.
    BadCall {
        id: Value,
        why: &'static str,
    },
    Ignored,
}

#[must_use]
pub fn parse(text: &str) -> FromBot {
    let Ok(Value::Object(mut frame)) = serde_json::from_str::<Value>(text) else { return FromBot::Ignored };
    let request = || frame.get("request_id").and_then(Value::as_str).and_then(RequestId::parse);
    match frame.get("type").and_then(Value::as_str) {
        Some("heartbeat") => request().map_or(FromBot::Ignored, |id| FromBot::Heartbeat(id, claim(&frame, "session_id"))),
        Some("received") => request().map_or(FromBot::Ignored, FromBot::Received),
        Some("hello") => FromBot::Hello(hello(&frame)),
        Some("call") => {
            let arguments = frame.remove("arguments");
            call(&frame, arguments)
        }
        _ => FromBot::Ignored,
    }
}

fn claim(frame: &Map<String, Value>, key: &str) -> Option<Arc<str>> {
    let text = frame.get(key).and_then(Value::as_str).filter(|t| t.len() <= MAX_CLAIM)?;
    // It is shown on terminals, which obey some characters.
    let text: String = text.chars().filter(|c| !leads_astray(*c)).collect();
    (!text.is_empty()).then(|| text.into())
}

fn hello(frame: &Map<String, Value>) -> Hello {
    let listed = frame.get("features").and_then(Value::as_array);
    let has = |word| listed.is_some_and(|list| list.iter().any(|f| f.as_str() == Some(word)));
    Hello {
        adapter: claim(frame, "adapter"),
        instance: claim(frame, "instance"),
        features: Features { answer: has("answer"), cancelled: has("cancelled"), restarting: has("restarting") },
    }
}

fn call(frame: &Map<String, Value>, arguments: Option<Value>) -> FromBot {
    let id = frame.get("id").cloned().unwrap_or(Value::Null);
    let bad = |why| FromBot::BadCall { id: id.clone(), why };
    let Some(name) = id.as_str().filter(|t| !t.is_empty() && t.len() <= MAX_CLAIM) else {
        return bad("id: a text of 1 to 200 bytes is expected");
    };
    let traceparent = frame.get("_meta").and_then(|meta| meta.get("traceparent")?.as_str()).and_then(trace::traceparent);
    let Some(tool) = frame.get("tool").and_then(Value::as_str) else {
        return bad("tool: the name of a tool is expected");
    };
    match arguments.unwrap_or(Value::Object(Map::new())) {
        Value::Object(arguments) => FromBot::Call { id: name.into(), tool: tool.to_owned(), arguments, traceparent },
        _ => bad("arguments: an object is expected"),
    }
}

/// A frame for the bot; the original's fields first, exactly.
#[derive(Serialize)]
#[serde(untagged)]
pub enum ToBot<'a> {
    Wake {
        request_id: String,
        conversation_id: String,
        from: &'a str,
        message: &'a str,
        #[serde(rename = "type")]
        kind: &'static str,
        deadline_ms: u64,
        attempt: u32,
        hops: u32,
        origin: &'a str,
        traceparent: Arc<str>,
        /// What the relay's owner says of the asker.
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<&'a str>,
    },
    Result {
        #[serde(rename = "type")]
        kind: &'static str,
        id: &'a Value,
        result: &'a RawValue,
    },
    Answer {
        #[serde(rename = "type")]
        kind: &'static str,
        request_id: String,
        conversation_id: String,
        to: &'a str,
        answer: &'a str,
    },
    Cancelled {
        #[serde(rename = "type")]
        kind: &'static str,
        request_id: String,
    },
    Restarting {
        #[serde(rename = "type")]
        kind: &'static str,
    },
}

impl<'a> ToBot<'a> {
    #[must_use]
    pub fn wake(wake: &'a Wake) -> Self {
        let asked = &wake.asked;
        Self::Wake {
            request_id: asked.id.to_string(),
            conversation_id: asked.conversation.to_string(),
            from: asked.from.as_str(),
            message: &asked.message,
            kind: "wake",
            deadline_ms: wake.deadline_ms,
            attempt: wake.attempt,
            hops: asked.trail.hops(),
            origin: asked.trail.origin.as_str(),
            traceparent: trace::parent_of(asked),
            note: wake.note.as_deref(),
        }
    }

    #[must_use]
    pub fn result(id: &'a Value, result: &'a RawValue) -> Self {
        Self::Result { kind: "result", id, result }
    }

    #[must_use]
    pub fn answer(asked: &'a Asked, late: &'a Late) -> Self {
        let (request_id, conversation_id) = (asked.id.to_string(), asked.conversation.to_string());
        Self::Answer { kind: "answer", request_id, conversation_id, to: &asked.to, answer: &late.answer }
    }

    #[must_use]
    pub fn cancelled(id: RequestId) -> Self {
        Self::Cancelled { kind: "cancelled", request_id: id.to_string() }
    }

    #[must_use]
    pub fn restarting() -> Self {
        Self::Restarting { kind: "restarting" }
    }

    /// The frame's text. Nothing in a frame can fail to serialise.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::exchange::Trail;
    use crate::core::ids::{AgentName, ConversationId, Millis};

    const ID: &str = "01937000-0000-7000-8000-000000000001";

    #[test]
    fn a_wake_begins_with_the_originals_fields() {
        let from = AgentName::parse("alice").unwrap();
        let asked = Asked {
            id: RequestId::parse(ID).unwrap(),
            conversation: ConversationId::parse(ID).unwrap(),
            begins: true,
            from: from.clone(),
            to: "bob".into(),
            message: "hi \"bob\"".into(),
            at: Millis(0),
            when_offline: crate::core::exchange::WhenOffline::Fail,
            trail: Trail { root: RequestId::parse(ID).unwrap(), parent: None, origin: from.clone(), path: [from].into() },
            key: None,
            traceparent: None,
        };
        let wake = Wake { asked: asked.into(), attempt: 1, deadline_ms: 5, note: None };
        let text = ToBot::wake(&wake).text();
        let start = format!(r#"{{"request_id":"{ID}","conversation_id":"{ID}","from":"alice","message":"hi \"bob\"","type":"wake""#);
        assert!(text.starts_with(&start) && !text.contains("note"), "{text}");
        let noted = ToBot::wake(&Wake { note: Some("knows little".into()), ..wake }).text();
        assert!(noted.ends_with(r#","note":"knows little"}"#), "{noted}");
    }

    #[test]
    fn frames_of_bots_are_read_leniently() {
        let id = RequestId::parse(ID).unwrap();
        assert_eq!(parse(&format!(r#"{{"type":"heartbeat","request_id":"{ID}","extra":[1]}}"#)), FromBot::Heartbeat(id, None));
        let named = format!(r#"{{"type":"heartbeat","request_id":"{ID}","session_id":"s1"}}"#);
        assert_eq!(parse(&named), FromBot::Heartbeat(id, Some("s1".into())));
        for ignored in ["", "[]", "{", "null", r#"{"type":"heartbeat"}"#, r#"{"type":"heartbeat","request_id":5}"#, r#"{"type":"dance"}"#] {
            assert_eq!(parse(ignored), FromBot::Ignored, "{ignored}");
        }
        let FromBot::Hello(hello) = parse(r#"{"type":"hello","adapter":7,"instance":"i","features":["answer",3]}"#) else { panic!() };
        assert!(hello.features.answer && !hello.features.cancelled && hello.adapter.is_none() && hello.instance.as_deref() == Some("i"));
    }

    #[test]
    fn what_a_bot_says_of_itself_commands_no_terminal() {
        let said = r#"{"type":"hello","adapter":"\u001b]0;x\u0007evil\n2\u202e\u009b","instance":"\u0000\n"}"#;
        let FromBot::Hello(hello) = parse(said) else { panic!() };
        assert_eq!((hello.adapter.as_deref(), hello.instance), (Some("]0;xevil2"), None));
    }

    #[test]
    fn a_call_that_cannot_be_read_is_answered_under_its_id() {
        assert!(matches!(parse(r#"{"type":"call","id":7,"tool":"reply"}"#), FromBot::BadCall { id: Value::Number(_), .. }));
        assert!(matches!(parse(r#"{"type":"call","id":"a","arguments":{}}"#), FromBot::BadCall { .. }));
        assert!(matches!(parse(r#"{"type":"call","id":"a","tool":"reply","arguments":[]}"#), FromBot::BadCall { .. }));
        assert!(matches!(parse(r#"{"type":"call","id":"a","tool":"list_agents"}"#), FromBot::Call { .. }));
    }

    #[test]
    fn what_nests_without_end_is_ignored() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for frame in [format!(r#"{{"type":"call","id":"a","tool":"x","arguments":{{"a":{deep}}}}}"#), deep] {
            assert_eq!(parse(&frame), FromBot::Ignored);
        }
    }
}
