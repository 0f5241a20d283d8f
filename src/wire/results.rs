//! What the tools return, as JSON: one object a result (an array for `list_agents`), the same at both doors. Owns the
//! field names and their order; the sentences come from the core.

use serde::Serialize;

use crate::core::exchange::{Asked, End, Late};
use crate::core::ids::{ConversationId, Millis, RequestId};
use crate::core::outcome::{Outcome, Refusal, moment};
use crate::core::policy::json_len;
use crate::core::presence::Present;
use crate::core::replies::Replied;

/// A result in the making; empty fields are left out.
#[derive(Serialize, Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    pub ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The answer came after the exchange had ended, as `outcome` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<&'static str>,
    /// Place in the line of a queued question, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_request_id: Option<String>,
    /// Answers to earlier questions of the conversation that came after their end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub late_answers: Vec<LateAnswer>,
    /// Only ever `false`: this outcome could not be recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<bool>,
}

/// Words of `error` that are no outcome.
pub const UNKNOWN_REQUEST: &str = "unknown_request";
pub const STILL_WORKING: &str = "still_working";

/// `answer`, or why it is not here.
#[derive(Serialize, Debug, Clone, PartialEq, Eq)]
pub struct LateAnswer {
    pub request_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Late answers in one result: so many, whole while they have so many bytes together. The window in which they are looked
/// for bounds what is left out, and get_answer has them all.
const MAX_LATE: usize = 8;
const MAX_LATE_BYTES: usize = 32 * 1024;

impl Report {
    /// Beside the result: late answers to earlier questions, oldest first.
    #[must_use]
    pub fn with_late<'a>(mut self, late: impl Iterator<Item = (RequestId, &'a Late)>) -> Self {
        let mut room = MAX_LATE_BYTES;
        for (id, late) in late.take(MAX_LATE) {
            let left = room.checked_sub(late.answer.len());
            room = left.unwrap_or(room);
            let message = || format!("It came late and has {} bytes: call get_answer with this request_id.", late.answer.len());
            self.late_answers.push(LateAnswer {
                request_id: id.to_string(),
                answer: left.map(|_| late.answer.to_string()),
                message: left.is_none().then(message),
            });
        }
        self
    }

    /// Bytes of the parts that can be long, as JSON.
    #[must_use]
    pub fn weight(&self) -> usize {
        let late = self.late_answers.iter().map(|late| &late.answer);
        late.chain([&self.answer, &self.message]).flatten().map(|text| json_len(text)).sum()
    }

    /// The same, told without what is too much to hand over now. An asker treats it like one whose answer is not there yet.
    #[must_use]
    pub fn fetched_later(self, limit: &'static str, max: usize) -> Self {
        let message = format!(
            "It has ended, but {limit} would be more than {max}. Do not ask again: it is kept. Take your other results, then call get_answer with this request_id."
        );
        let Self { request_id, conversation_id, mut late_answers, .. } = self;
        for late in &mut late_answers {
            late.answer = None;
            late.message = Some("It came late: call get_answer with this request_id.".to_owned());
        }
        Self { request_id, conversation_id, late_answers, limit: Some(limit), ..Self::failure(STILL_WORKING, message) }
    }

    fn failure(error: &'static str, message: String) -> Self {
        Self { error: Some(error), message: Some(message), ..Self::default() }
    }

    fn of(mut self, id: RequestId, conversation: ConversationId) -> Self {
        self.request_id = Some(id.to_string());
        self.conversation_id = Some(conversation.to_string());
        self
    }

    fn unrecorded(mut self, recorded: bool) -> Self {
        self.recorded = (!recorded).then_some(false);
        self
    }
}

/// An exchange that ended.
#[must_use]
pub fn ended(asked: &Asked, end: &End, late: Option<&Late>, recorded: bool) -> Report {
    let report = match (late, end.outcome) {
        (Some(late), _) => {
            let answer = Some(late.answer.to_string());
            Report { ok: true, answer, late: Some(true), outcome: Some(end.outcome.word()), ..Report::default() }
        }
        (None, Outcome::Answered) => Report { ok: true, answer: Some(end.text.to_string()), ..Report::default() },
        (None, outcome) => Report::failure(outcome.word(), end.text.to_string()),
    };
    report.of(asked.id, asked.conversation).unrecorded(recorded)
}

#[must_use]
pub fn refused(id: RequestId, refusal: &Refusal, recorded: bool) -> Report {
    let mut report = Report::failure(refusal.outcome().word(), refusal.to_string()).unrecorded(recorded);
    report.request_id = Some(id.to_string());
    match refusal {
        Refusal::AgentOffline { since, .. } => report.last_seen = since.map(moment),
        Refusal::RateLimited { limit, retry_in_ms, .. } => {
            report.limit = Some(limit);
            report.retry_after_ms = Some(*retry_in_ms);
        }
        Refusal::LoopLimit { rule, .. } => report.limit = Some(rule.key()),
        Refusal::TooLarge { limit, .. } => report.limit = Some(limit),
        Refusal::LineFull { limit, .. } => report.limit = Some(limit),
        Refusal::Silent { retry_in_ms, .. } => {
            report.limit = Some("max_timeouts_in_a_row");
            report.retry_after_ms = Some(*retry_in_ms);
        }
        Refusal::Conflict { first } => report.first_request_id = Some(first.to_string()),
        _ => {}
    }
    report
}

/// A call that the door did not take: the bot sends more than it may.
#[must_use]
pub fn too_fast(limit: &'static str, max: u64, retry_in_ms: u64) -> Report {
    let refusal = Refusal::RateLimited { limit, max, retry_in_ms };
    let report = Report::failure(refusal.outcome().word(), refusal.to_string());
    Report { limit: Some(limit), retry_after_ms: Some(retry_in_ms), ..report }
}

#[must_use]
pub fn still_working(id: RequestId, conversation: ConversationId, to: &str) -> Report {
    let message = format!(
        "{to} is still working on it. Do not ask again: the answer is kept. Call get_answer with this request_id (it can wait for you with wait_seconds), or go on with something else and fetch it later."
    );
    Report::failure(STILL_WORKING, message).of(id, conversation)
}

#[must_use]
pub fn queued(id: RequestId, conversation: ConversationId, to: &str, position: Option<usize>, expires: Millis) -> Report {
    let message = format!(
        "{to} is not connected; the question is kept until {} and delivered when it returns. Do not ask again: call get_answer with this request_id later.",
        moment(expires)
    );
    let report = Report { position, expires_at: Some(moment(expires)), ..Report::failure("queued", message) };
    report.of(id, conversation)
}

/// The answer to an id that is none of the caller's, whether it exists or not.
#[must_use]
pub fn unknown_request() -> Report {
    let message = "There is no such request of yours. Use the request_id exactly as you were given it.";
    Report::failure(UNKNOWN_REQUEST, message.to_owned())
}

#[must_use]
pub fn replied(replied: &Replied, recorded: bool) -> Report {
    let taken = Report { ok: true, ..Report::default() }.unrecorded(recorded);
    match replied {
        Replied::Taken => taken,
        Replied::TakenLate => Report { late: Some(true), ..taken },
        Replied::AlreadyAnswered => Report::failure("already_answered", "This request was answered before; the first answer stands.".to_owned()),
        Replied::Empty => Report::failure("empty_answer", "An answer has at least one visible character. Reply with text.".to_owned()),
        Replied::TooLarge { bytes, max, limit } => {
            let message = format!("The answer has {bytes} bytes; {limit} = {max}. Reply with a shorter one.");
            Report { limit: Some(limit), ..Report::failure("too_large", message) }
        }
        Replied::Unknown | Replied::AskHistory => unknown_request(),
    }
}

/// Misuse of a tool, where there is no JSON-RPC error to say it with.
#[must_use]
pub fn misuse(message: String) -> Report {
    Report::failure("invalid_arguments", message)
}

/// The relay's own trouble: its store cannot be read or written.
#[must_use]
pub fn unavailable() -> Report {
    Report::failure(Outcome::StoreUnavailable.word(), Refusal::StoreUnavailable.to_string())
}

/// One line of `list_agents`; the original's fields first.
#[derive(Serialize, Debug, Clone, PartialEq, Eq)]
pub struct AgentLine {
    pub name: String,
    pub online: bool,
    pub last_seen: Option<String>,
    /// Questions it has before it.
    pub waiting: usize,
}

#[must_use]
pub fn agents(present: &[Present]) -> Vec<AgentLine> {
    let line = |p: &Present| AgentLine { name: p.name.to_string(), online: p.online, last_seen: p.last_seen.map(moment), waiting: p.waiting };
    present.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fetched_later_is_small_and_still_tells_of_late_answers() {
        let long = Some("\u{1}".repeat(10_000));
        let late = LateAnswer { request_id: "l".into(), answer: long.clone(), message: None };
        let report = Report { ok: true, request_id: Some("r".into()), answer: long, late_answers: vec![late], ..Report::default() };
        assert!(report.weight() >= 2 * 6 * 10_000, "as it travels: {}", report.weight());
        let left = report.fetched_later("a limit", 7);
        assert!(!left.ok && left.error == Some(STILL_WORKING) && left.request_id.as_deref() == Some("r") && left.limit == Some("a limit"));
        assert!(left.weight() < 500, "{left:?}");
        let note = &left.late_answers[0];
        assert!(note.request_id == "l" && note.message.as_deref().unwrap().contains("get_answer"));
    }
}
