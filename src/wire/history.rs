//! History as JSON: the shape of the original's `/ui/api/state`, with what it lacks added to it.

use serde::Serialize;

use crate::core::exchange::Record;
use crate::core::outcome::Outcome;
use crate::core::presence::Present;

/// One exchange; times in milliseconds since 1970.
#[derive(Serialize, Debug, Clone, PartialEq, Eq)]
pub struct ExchangeJson {
    pub conversation_id: String,
    pub request_id: String,
    pub from: String,
    pub to: String,
    pub message: String,
    /// `pending`, `ok` or an outcome's word.
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
    /// The sentence that the asker was told with the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    pub started_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<bool>,
    /// The person who ended it in the bot's place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub hops: u32,
    pub origin: String,
}

impl From<&Record> for ExchangeJson {
    fn from(record: &Record) -> Self {
        let asked = &record.asked;
        let failed = record.end.as_ref().filter(|end| end.outcome != Outcome::Answered);
        Self {
            conversation_id: asked.conversation.to_string(),
            request_id: asked.id.to_string(),
            from: asked.from.to_string(),
            to: asked.to.to_string(),
            message: asked.message.to_string(),
            status: record.status(),
            answer: record.answer().map(|a| a.to_string()),
            error: failed.map(|end| end.outcome.word()),
            detail: failed.map(|end| end.text.to_string()),
            started_at: asked.at.0,
            ended_at: record.end.as_ref().map(|end| end.at.0),
            late: record.late.as_ref().map(|_| true),
            by: record.end.as_ref().and_then(|end| end.by.as_ref()).map(|by| by.to_string()),
            hops: asked.trail.hops(),
            origin: asked.trail.origin.to_string(),
        }
    }
}

#[derive(Serialize, Debug)]
pub struct StateJson {
    pub agents: Vec<AgentState>,
    /// Oldest first.
    pub exchanges: Vec<ExchangeJson>,
}

#[derive(Serialize, Debug)]
pub struct AgentState {
    pub name: String,
    pub online: bool,
}

/// The page's state as the original had it; `newest` is newest first.
#[must_use]
pub fn state(present: &[Present], newest: &[Record]) -> StateJson {
    StateJson {
        agents: present.iter().map(|p| AgentState { name: p.name.to_string(), online: p.online }).collect(),
        exchanges: newest.iter().rev().map(ExchangeJson::from).collect(),
    }
}
