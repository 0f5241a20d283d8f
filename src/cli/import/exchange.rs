//! A row of the TypeScript relay's table as an exchange of ours. Owns how its ids, names, words and times become ours:
//! an id keeps its row's moment, so that the order of ids stays the order of time, and the same row has the same id always.

use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::rows::Row;
use crate::core::effect::Fact;
use crate::core::exchange::{Asked, End, Trail, WhenOffline, Work};
use crate::core::ids::{AgentName, ConversationId, MAX_NAME, Millis, RequestId};
use crate::core::outcome::Outcome;

/// What is kept of a name that is none.
const MAX_STRAY: usize = 80;

#[derive(Debug)]
pub(super) struct Imported {
    pub id: RequestId,
    pub conversation: ConversationId,
    from: AgentName,
    to: Arc<str>,
    pub message: Arc<str>,
    outcome: Outcome,
    pub text: Arc<str>,
    asked: Millis,
    ended: Millis,
}

impl Imported {
    pub(super) fn of(row: &Row) -> Result<Self, String> {
        let text = |keys: &[&str]| keys.iter().find_map(|key| row.get(*key)).and_then(Value::as_str);
        let need = |keys: &[&str]| text(keys).filter(|t| !t.is_empty()).ok_or_else(|| format!("{} is missing", keys[0]));
        let asked = moment(row.get("started_at").unwrap_or(&Value::Null)).ok_or_else(|| wrong("started_at", row))?;
        let ended = match row.get("ended_at") {
            None | Some(Value::Null) => asked,
            Some(at) => moment(at).ok_or_else(|| wrong("ended_at", row))?.max(asked),
        };
        let from = agent_name(need(&["from_agent", "from"])?).ok_or_else(|| wrong("from_agent", row))?;
        let to = need(&["to_agent", "to"])?;
        let to = agent_name(to).map_or_else(|| to.chars().take(MAX_STRAY).collect::<String>().into(), |name| name.as_str().into());
        let conversation = need(&["conversation_id"])?;
        let status = need(&["status"])?;
        let (outcome, end) = match status {
            "pending" => (Outcome::Failed, Some("It had not ended when history was taken over from the TypeScript relay.")),
            word => (Outcome::parse(word).ok_or_else(|| wrong("status", row))?, None),
        };
        let said = if outcome == Outcome::Answered { text(&["answer"]) } else { text(&["error"]).filter(|e| *e != status) };
        Ok(Self {
            id: request_id(need(&["request_id"])?, asked),
            conversation: ConversationId::parse(conversation).unwrap_or_else(|| ConversationId::from_u128(uuid(8, hash(conversation)))),
            from,
            to,
            message: text(&["message"]).unwrap_or_default().into(),
            outcome,
            text: end.or(said).unwrap_or_default().into(),
            asked,
            ended,
        })
    }

    /// As it is recorded. What was never begun there is a refusal here.
    pub(super) fn facts(self, begins: bool) -> Vec<Fact> {
        let asked = Arc::new(Asked {
            id: self.id,
            conversation: self.conversation,
            begins,
            trail: Trail { root: self.id, parent: None, origin: self.from.clone(), path: [self.from.clone()].into() },
            from: self.from,
            to: self.to,
            message: self.message,
            at: self.asked,
            when_offline: WhenOffline::Fail,
            key: None,
            traceparent: None,
        });
        let end = Arc::new(End { outcome: self.outcome, text: self.text, at: self.ended, call: None, by: None });
        match self.outcome {
            Outcome::UnknownAgent | Outcome::UnknownConversation | Outcome::AgentOffline => vec![Fact::Refused(asked, end)],
            _ => vec![Fact::Asked(asked), Fact::Ended { id: self.id, end, work: Work::default() }],
        }
    }
}

fn wrong(key: &str, row: &Row) -> String {
    let value = row.get(key).map_or_else(|| "missing".to_owned(), Value::to_string);
    let shown: String = value.chars().take(60).collect();
    let remedy = match key {
        "started_at" | "ended_at" => "a moment like 2026-05-01 12:34:56.789+00 or milliseconds since 1970 is expected",
        "status" => "ok, pending or an outcome's word is expected",
        _ => "it cannot be an agent's name",
    };
    format!("{key} = {shown}: {remedy}")
}

/// The name under which an agent of the TypeScript relay goes on: ours are 1 to 64 of `a-z 0-9 . _ -`.
pub(super) fn agent_name(text: &str) -> Option<AgentName> {
    let plain: String = text.trim().chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' }).collect();
    let named = plain.trim_start_matches(['-', '.', '_']);
    AgentName::parse(&named[..named.len().min(MAX_NAME)])
}

fn moment(value: &Value) -> Option<Millis> {
    if let Some(ms) = value.as_u64() {
        return Some(Millis(ms)).filter(|ms| ms.0 < 1 << 47);
    }
    let text = value.as_str()?.trim();
    if let Ok(ms) = text.parse::<u64>() {
        return Some(Millis(ms)).filter(|ms| ms.0 < 1 << 47);
    }
    // Postgres says +00 and +05:30, and means UTC where it says nothing.
    let at: jiff::Timestamp = text.parse().or_else(|_| format!("{text}Z").parse()).ok()?;
    u64::try_from(at.as_millisecond()).ok().map(Millis)
}

fn hash(text: &str) -> u128 {
    let digest = Sha256::digest(format!("hermes-bridge import {text}"));
    digest.iter().take(16).fold(0, |n, byte| n << 8 | u128::from(*byte))
}

/// The bits with version and variant of a UUID put in.
fn uuid(version: u128, bits: u128) -> u128 {
    bits & !(0xf << 76 | 0b11 << 62) | version << 76 | 0b10 << 62
}

/// Always the same for the same row.
fn request_id(theirs: &str, at: Millis) -> RequestId {
    let random = hash(theirs) & ((1 << 80) - 1);
    RequestId::from_u128(uuid(7, u128::from(at.0) << 80 | random))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(started: &str, status: &str) -> Row {
        let row = serde_json::json!({
            "request_id": "r-1", "conversation_id": "0b9d4f0e-6a0e-4c3a-9a63-3b1f0e5a7c11", "from_agent": "Équipe Alpha", "to_agent": "Bob",
            "message": "q", "status": status, "answer": "a", "error": status, "started_at": started, "ended_at": null
        });
        row.as_object().unwrap().clone()
    }

    #[test]
    fn moments_are_read_as_postgres_and_javascript_write_them() {
        for text in
            ["2026-05-01 12:34:56.789+00", "2026-05-01T12:34:56.789Z", "2026-05-01 18:04:56.789+05:30", "2026-05-01 12:34:56.789", "1777638896789"]
        {
            assert_eq!(moment(&Value::from(text)), Some(Millis(1_777_638_896_789)), "{text}");
        }
        assert_eq!(moment(&Value::from(1_777_638_896_789_u64)), Some(Millis(1_777_638_896_789)));
        for text in ["", "yesterday", "-5", "99999999999999999999"] {
            assert_eq!(moment(&Value::from(text)), None, "{text}");
        }
    }

    #[test]
    fn ids_keep_the_order_of_time_and_are_the_same_each_time() {
        let early = Imported::of(&row("2026-05-01 12:34:56.789+00", "ok")).unwrap();
        let again = Imported::of(&row("2026-05-01 12:34:56.789+00", "ok")).unwrap();
        let later = Imported::of(&row("2026-05-01 12:34:56.790+00", "ok")).unwrap();
        assert!(early.id == again.id && early.id < later.id);
        assert_eq!((early.id.0.get_version_num(), early.id.as_u128() >> 80), (7, 1_777_638_896_789));
        // Bots that still hold a conversation go on with it.
        assert_eq!(early.conversation.to_string(), "0b9d4f0e-6a0e-4c3a-9a63-3b1f0e5a7c11");
        assert_eq!((early.from.as_str(), &*early.to), ("quipe-alpha", "bob"));
    }

    #[test]
    fn every_status_of_the_table_has_its_outcome() {
        let at = "2026-05-01 12:34:56+00";
        for (status, outcome, facts) in [
            ("ok", Outcome::Answered, 2),
            ("timeout", Outcome::Timeout, 2),
            ("agent_disconnected", Outcome::AgentDisconnected, 2),
            ("agent_offline", Outcome::AgentOffline, 1),
            ("unknown_agent", Outcome::UnknownAgent, 1),
            ("unknown_conversation", Outcome::UnknownConversation, 1),
            ("pending", Outcome::Failed, 2),
        ] {
            let imported = Imported::of(&row(at, status)).unwrap();
            assert_eq!(imported.outcome, outcome);
            assert_eq!(&*imported.text == "a", status == "ok");
            assert_eq!(imported.facts(true).len(), facts, "{status}");
        }
        assert!(Imported::of(&row(at, "odd")).unwrap_err().contains("status = \"odd\""));
        assert!(Imported::of(&row("soon", "ok")).unwrap_err().contains("started_at = \"soon\""));
    }
}
