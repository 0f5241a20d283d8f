//! What any OpenTelemetry collector is told of an exchange, after the GenAI semantic conventions. They are all in
//! development still, so their names stand here and nowhere else.

use serde_json::json;

use super::content::Content;
use super::span::Span;
use crate::core::ids::AgentName;
use crate::core::outcome::Outcome;
use crate::store::Finished;

pub(super) fn span(finished: &Finished, content: &Content) -> Option<Span> {
    let (asked, end) = (&finished.record.asked, finished.record.end.as_ref()?);
    let mut span = Span::of(asked, end);
    // Names of spans are few: what is no agent's name stays out of them.
    let named = AgentName::parse(&asked.to).filter(|_| end.outcome != Outcome::UnknownAgent);
    span.name = named.map_or_else(|| "invoke_agent".to_owned(), |to| format!("invoke_agent {to}"));
    span.put("gen_ai.operation.name", "invoke_agent");
    span.put("gen_ai.provider.name", "hermes");
    if let Some(to) = content.asked_agent(asked, end) {
        span.put("gen_ai.agent.name", to);
    }
    span.put("gen_ai.conversation.id", asked.conversation.to_string());
    if end.outcome != Outcome::Answered {
        span.put("error.type", end.outcome.word());
    }
    span.put("hermes_bridge.request_id", asked.id.to_string());
    span.put("hermes_bridge.from", asked.from.as_str());
    span.put("hermes_bridge.status", end.outcome.word());
    span.put("hermes_bridge.message_bytes", asked.message.len());
    span.put("hermes_bridge.text_bytes", end.text.len());
    span.put("hermes_bridge.heartbeats", u64::from(finished.work.heartbeats));
    if let Some(session) = &finished.work.session {
        span.put("hermes_bridge.hermes_session_id", &**session);
    }
    if let (Some(message), Some(text)) = (content.of(&asked.message), content.of(&end.text)) {
        let part = |text: String| json!([{"type": "text", "content": text}]);
        span.put("hermes_bridge.truncated", message.truncated || text.truncated);
        span.put("gen_ai.input.messages", json!([{"role": "user", "parts": part(message.text)}]).to_string());
        let reason = if end.outcome == Outcome::Answered { "stop" } else { "error" };
        span.put("gen_ai.output.messages", json!([{"role": "assistant", "parts": part(text.text), "finish_reason": reason}]).to_string());
    }
    Some(span)
}
