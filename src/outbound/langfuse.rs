//! What Langfuse (3.81 and newer, 4 too) is told of an exchange: one span, trace-wide values on every span, because it
//! keeps no trace record. The input and output have the shapes of the TypeScript relay. An answer that comes after the end
//! is not told: the span says how the exchange ended, and what was exported cannot be corrected.

use std::time::Duration;

use reqwest::Client;
use serde_json::json;
use tokio::sync::Notify;

use super::content::{Content, Piece};
use super::post;
use super::span::Span;
use crate::core::exchange::{Asked, End};
use crate::core::outcome::Outcome;
use crate::core::trace;
use crate::store::Finished;

/// Older ones write hexadecimal ids in hexadecimal again.
const OLDEST: (u64, u64) = (3, 81);
const PATIENCE: Duration = Duration::from_secs(10);
const TRACE_NAME: &str = "hermes-conversation";

/// Says so if the server is too old to understand what it will be sent. Asked at the start, and while it is not there again
/// after something was taken (`there`). A server that does not tell its version is believed.
pub(super) async fn look_at_version(client: &Client, base_url: &str, there: &Notify) {
    let told = loop {
        match client.get(format!("{base_url}/api/public/health")).timeout(PATIENCE).send().await {
            Ok(answer) if !answer.status().is_server_error() => break post::answer(answer).await,
            _ => there.notified().await,
        }
    };
    let told: serde_json::Value = serde_json::from_slice(&told).unwrap_or_default();
    if let Some(version) = told["version"].as_str().filter(|version| is_old(version)) {
        let version: String = version.chars().take(40).collect();
        tracing::error!(to = %base_url, version, "this Langfuse is too old for the export: 3.81 or newer is needed, older ones keep spans under wrong ids");
    }
}

/// Whether it does not understand what it would be sent.
#[must_use]
pub fn is_old(version: &str) -> bool {
    let mut parts = version.trim_start_matches('v').split('.').map_while(|part| part.parse::<u64>().ok());
    let (Some(major), Some(minor)) = (parts.next(), parts.next()) else { return false };
    (major, minor) < OLDEST
}

pub(super) fn span(finished: &Finished, tags: &[String], content: &Content) -> Option<Span> {
    let (asked, end) = (&finished.record.asked, finished.record.end.as_ref()?);
    let conversation = asked.conversation.to_string();
    let mut span = Span::of(asked, end);
    span.name = "ask_agent".to_owned();
    span.put("langfuse.internal.is_app_root", true);
    span.put("session.id", conversation.as_str());
    span.put("user.id", asked.from.as_str());
    span.put("langfuse.trace.name", TRACE_NAME);
    span.put("langfuse.trace.tags", tags);
    span.put("langfuse.trace.metadata.conversation_id", conversation.as_str());
    span.put("langfuse.observation.type", "agent");
    span.put("langfuse.observation.level", level(end.outcome));
    span.put("langfuse.observation.status_message", end.outcome.word());
    let truncated = texts(&mut span, asked, end, content);
    metadata(&mut span, finished, end, truncated);
    span.put("gen_ai.operation.name", "invoke_agent");
    if let Some(to) = content.asked_agent(asked, end) {
        span.put("langfuse.observation.metadata.to", to.as_str());
        span.put("gen_ai.agent.name", to);
    }
    span.put("gen_ai.conversation.id", conversation);
    if end.outcome != Outcome::Answered {
        span.put("error.type", end.outcome.word());
    }
    Some(span)
}

/// Input and output, if they may leave; whether one was cut.
fn texts(span: &mut Span, asked: &Asked, end: &End, content: &Content) -> bool {
    let (Some(message), Some(text)) = (content.of(&asked.message), content.of(&end.text)) else { return false };
    let key = if end.outcome == Outcome::Answered { "answer" } else { "error" };
    let truncated = message.truncated || text.truncated;
    let Piece { text: message, .. } = message;
    span.put(
        "langfuse.observation.input",
        json!({"from": asked.from.as_str(), "to": content.asked_agent(asked, end), "message": message}).to_string(),
    );
    span.put("langfuse.observation.output", json!({ key: text.text }).to_string());
    truncated
}

fn metadata(span: &mut Span, finished: &Finished, end: &End, truncated: bool) {
    let (asked, work) = (&finished.record.asked, &finished.work);
    let answered = end.outcome == Outcome::Answered;
    span.put("langfuse.observation.metadata.request_id", asked.id.to_string());
    span.put("langfuse.observation.metadata.from", asked.from.as_str());
    span.put("langfuse.observation.metadata.status", end.outcome.word());
    span.put("langfuse.observation.metadata.turn", finished.turn);
    if let Some(at) = work.delivered {
        span.put("langfuse.observation.metadata.delivery_ms", at.since(asked.at));
    }
    span.put("langfuse.observation.metadata.heartbeats", u64::from(work.heartbeats));
    span.put("langfuse.observation.metadata.message_bytes", asked.message.len());
    span.put("langfuse.observation.metadata.answer_bytes", if answered { end.text.len() } else { 0 });
    span.put("langfuse.observation.metadata.truncated", truncated);
    if let Some((trace, _)) = asked.traceparent.as_deref().and_then(trace::parts) {
        span.put("langfuse.observation.metadata.caller_trace_id", trace);
    }
    if let Some(session) = &work.session {
        span.put("langfuse.observation.metadata.hermes_session_id", &**session);
    }
}

/// What went wrong while somebody was asked is an error, what was not begun or not wanted any more a warning.
fn level(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Answered => "DEFAULT",
        Outcome::Timeout | Outcome::AgentDisconnected | Outcome::Failed | Outcome::StoreUnavailable => "ERROR",
        _ => "WARNING",
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_versions_before_3_81_are_too_old() {
        for old in ["2.95.11", "3.80.9", "v3.0.0"] {
            assert!(super::is_old(old), "{old}");
        }
        for good in ["3.81.0", "3.225.4", "4.16.0", "v4.0.0-rc.1", "10.0.0", "unknown", ""] {
            assert!(!super::is_old(good), "{good}");
        }
    }
}
