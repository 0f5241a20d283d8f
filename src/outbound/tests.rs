//! What an exchange looks like to the other side.

use std::sync::Arc;

use serde_json::{Value, json};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::content::Content;
use super::span::Envelope;
use super::{Exports, PAST_TOKENS, genai, langfuse};
use crate::config::{Config, Secret};
use crate::core::exchange::{Asked, End, Record, Trail, WhenOffline, Work};
use crate::core::ids::{AgentName, ConversationId, Millis, RequestId, Seq};
use crate::core::outcome::Outcome;
use crate::store::Finished;

const CONVERSATION: &str = "3f1c0d5e-8a4b-4c2d-9e6f-0123456789ab";

pub(super) fn config(more: &str) -> Config {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("b.toml");
    let text = format!("[langfuse]\npublic_key = \"pk-lf-1\"\nsecret_key = \"sk-lf-1\"\n{more}\n[otlp]\nendpoint = \"http://c\"\n{more}\n");
    std::fs::write(&path, text).unwrap();
    crate::config::load(&crate::config::Flags { config: Some(path), ..Default::default() }, &|_| None).unwrap()
}

pub(super) fn finished(outcome: Outcome) -> Finished {
    let from = AgentName::parse("alice").unwrap();
    let id = RequestId::parse("01937000-0000-7000-8000-000000000001").unwrap();
    let asked = Asked {
        id,
        conversation: ConversationId::parse(CONVERSATION).unwrap(),
        begins: true,
        from: from.clone(),
        to: "bob".into(),
        message: "how \"many\"?".into(),
        at: Millis(1_796_050_926_970),
        when_offline: WhenOffline::Fail,
        trail: Trail { root: id, parent: None, origin: from.clone(), path: [from].into() },
        key: None,
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
    };
    let end = End { outcome, text: "three".into(), at: Millis(1_796_050_927_011), call: None, by: None };
    let work = Work { delivered: Some(Millis(1_796_050_926_975)), heartbeats: 2, session: Some("s-1".into()) };
    let record = Record { asked: asked.into(), end: Some(Arc::new(end)), late: None, refused: false };
    Finished { seq: Seq(7), record, work, turn: 3 }
}

/// A whole request, read back, and its one span with the attributes as a plain object.
fn told(outcome: Outcome, more: &str, langfuse: bool) -> (Value, serde_json::Map<String, Value>) {
    told_of(&finished(outcome), more, langfuse)
}

fn told_of(finished: &Finished, more: &str, langfuse: bool) -> (Value, serde_json::Map<String, Value>) {
    let config = config(more);
    let tokens = tokio::sync::watch::Sender::new(Vec::new()).subscribe();
    let span = if langfuse {
        let section = config.langfuse.as_ref().unwrap();
        langfuse::span(finished, &section.tags, &Content::new(&section.export, tokens))
    } else {
        genai::span(finished, &Content::new(&config.otlp.as_ref().unwrap().export, tokens))
    };
    let span = span.unwrap().encoded();
    let body = Envelope::new(vec![("langfuse.environment", "production".to_owned())]).around([span.as_slice()].into_iter());
    let body: Value = serde_json::from_slice(&body).unwrap();
    let span = body["resourceSpans"][0]["scopeSpans"][0]["spans"][0].clone();
    let flat = |a: &Value| (a["key"].as_str().unwrap().to_owned(), a["value"].as_object().unwrap().values().next().unwrap().clone());
    let attributes = span["attributes"].as_array().unwrap().iter().map(flat).collect();
    (body, attributes)
}

#[test]
fn langfuse_is_told_one_whole_span() {
    let (body, attributes) = told(Outcome::Answered, "", true);
    let resource = body["resourceSpans"][0]["resource"]["attributes"].as_array().unwrap();
    assert_eq!(resource[0], json!({"key": "service.name", "value": {"stringValue": "hermes-bridge"}}));
    assert_eq!(resource[2], json!({"key": "langfuse.environment", "value": {"stringValue": "production"}}));
    let scope = &body["resourceSpans"][0]["scopeSpans"][0];
    assert_eq!(scope["scope"]["name"], "hermes-bridge");
    let mut span = scope["spans"][0].clone();
    span.as_object_mut().unwrap().remove("attributes");
    assert_eq!(
        span,
        json!({
            "traceId": "50e1c33daf11247024b3a9c3103f9790",
            "spanId": crate::core::trace::span_id(RequestId::parse("01937000-0000-7000-8000-000000000001").unwrap()),
            "name": "ask_agent",
            "kind": 3,
            "startTimeUnixNano": "1796050926970000000",
            "endTimeUnixNano": "1796050927011000000",
            "links": [{"traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00f067aa0ba902b7"}],
            "status": {"code": 1},
        })
    );
    let wanted = json!({
        "langfuse.internal.is_app_root": true,
        "session.id": CONVERSATION,
        "user.id": "alice",
        "langfuse.trace.name": "hermes-conversation",
        "langfuse.trace.tags": {"values": [{"stringValue": "hermes-bridge"}]},
        "langfuse.trace.metadata.conversation_id": CONVERSATION,
        "langfuse.observation.type": "agent",
        "langfuse.observation.level": "DEFAULT",
        "langfuse.observation.status_message": "ok",
        "langfuse.observation.input": r#"{"from":"alice","to":"bob","message":"how \"many\"?"}"#,
        "langfuse.observation.output": r#"{"answer":"three"}"#,
        "langfuse.observation.metadata.request_id": "01937000-0000-7000-8000-000000000001",
        "langfuse.observation.metadata.from": "alice",
        "langfuse.observation.metadata.to": "bob",
        "langfuse.observation.metadata.status": "ok",
        "langfuse.observation.metadata.turn": "3",
        "langfuse.observation.metadata.delivery_ms": "5",
        "langfuse.observation.metadata.heartbeats": "2",
        "langfuse.observation.metadata.message_bytes": "11",
        "langfuse.observation.metadata.answer_bytes": "5",
        "langfuse.observation.metadata.truncated": false,
        "langfuse.observation.metadata.caller_trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "langfuse.observation.metadata.hermes_session_id": "s-1",
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "bob",
        "gen_ai.conversation.id": CONVERSATION,
    });
    let (mut told, mut wanted) = (Value::Object(attributes), wanted);
    for both in [&mut told, &mut wanted] {
        // The order of keys in a text of JSON does not matter.
        let input = both["langfuse.observation.input"].as_str().unwrap();
        both["langfuse.observation.input"] = serde_json::from_str(input).unwrap();
    }
    assert_eq!(told, wanted);
}

#[test]
fn what_ended_badly_says_so_at_its_level() {
    for (outcome, level) in [
        (Outcome::Timeout, "ERROR"),
        (Outcome::AgentDisconnected, "ERROR"),
        (Outcome::Failed, "ERROR"),
        (Outcome::AgentOffline, "WARNING"),
        (Outcome::UnknownAgent, "WARNING"),
        (Outcome::SelfAsk, "WARNING"),
    ] {
        let (body, attributes) = told(outcome, "", true);
        let span = &body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(span["status"], json!({"code": 2, "message": outcome.word()}));
        assert_eq!((&attributes["langfuse.observation.level"], &attributes["error.type"]), (&json!(level), &json!(outcome.word())));
        assert_eq!(attributes["langfuse.observation.output"], r#"{"error":"three"}"#);
        assert_eq!(attributes["langfuse.observation.metadata.answer_bytes"], "0");
    }
}

#[test]
fn metadata_alone_has_sizes_and_no_text() {
    for langfuse in [true, false] {
        let (body, attributes) = told(Outcome::Answered, "capture = \"metadata\"", langfuse);
        assert!(!body.to_string().contains("three") && !body.to_string().contains("many"), "{body}");
        assert!(attributes.values().any(|v| v == "11"));
    }
}

#[test]
fn a_cut_text_says_so_and_keeps_its_size() {
    let (_, attributes) = told(Outcome::Answered, "redact = [\"many\"]\nmax_field_bytes = 100", true);
    assert_eq!(attributes["langfuse.observation.metadata.truncated"], false);
    assert!(attributes["langfuse.observation.input"].as_str().unwrap().contains("[redacted]"));
    for (question, answer) in [(150, 5), (5, 150)] {
        let mut finished = finished(Outcome::Answered);
        Arc::make_mut(&mut finished.record.asked).message = "q".repeat(question).into();
        Arc::make_mut(finished.record.end.as_mut().unwrap()).text = "a".repeat(answer).into();
        let (_, attributes) = told_of(&finished, "max_field_bytes = 100", true);
        let text = |key: &str| attributes[key].as_str().unwrap();
        assert_eq!(attributes["langfuse.observation.metadata.truncated"], true);
        assert_eq!(text("langfuse.observation.input").matches('q').count(), question.min(100));
        assert_eq!(text("langfuse.observation.output"), format!(r#"{{"answer":"{}"}}"#, "a".repeat(answer.min(100))));
        let sizes: [usize; 2] = ["message_bytes", "answer_bytes"].map(|key| text(&format!("langfuse.observation.metadata.{key}")).parse().unwrap());
        assert_eq!(sizes, [question, answer]);
        let (_, attributes) = told_of(&finished, "capture = \"full\"\nmax_field_bytes = 100", false);
        assert_eq!(attributes["hermes_bridge.truncated"], true);
    }
}

#[test]
fn what_is_no_agents_name_is_a_text_like_others() {
    let named = |to: &str, outcome, more: &str, langfuse| {
        let mut finished = finished(outcome);
        Arc::make_mut(&mut finished.record.asked).to = to.into();
        told_of(&finished, more, langfuse).0.to_string()
    };
    for langfuse in [true, false] {
        for (to, outcome) in [("whatever a model writes", Outcome::TooLarge), ("plain-word", Outcome::UnknownAgent)] {
            assert!(!named(to, outcome, "capture = \"metadata\"", langfuse).contains(to), "{to}");
            let hiding = format!("capture = \"full\"\nredact = [\"{to}\"]");
            let hidden = named(to, outcome, &hiding, langfuse);
            assert!(!hidden.contains(to) && hidden.contains("[redacted]"), "{hidden}");
            assert!(named(to, outcome, "capture = \"full\"", langfuse).contains(to));
        }
        assert!(named("plain-word", Outcome::Timeout, "capture = \"metadata\"", langfuse).contains("plain-word"));
    }
}

#[test]
fn a_collector_is_told_by_the_genai_conventions_with_texts_only_on_wish() {
    let (body, attributes) = told(Outcome::Answered, "", false);
    assert_eq!(body["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"], "invoke_agent bob");
    assert_eq!((&attributes["gen_ai.operation.name"], &attributes["gen_ai.provider.name"]), (&json!("invoke_agent"), &json!("hermes")));
    assert!(!attributes.contains_key("gen_ai.input.messages") && !attributes.keys().any(|k| k.starts_with("langfuse")));
    let (_, attributes) = told(Outcome::Timeout, "capture = \"full\"", false);
    let input: Value = serde_json::from_str(attributes["gen_ai.input.messages"].as_str().unwrap()).unwrap();
    assert_eq!(input, json!([{"role": "user", "parts": [{"type": "text", "content": "how \"many\"?"}]}]));
    assert_eq!(attributes["error.type"], "timeout");
}

#[test]
fn tokens_that_were_somebodys_stay_hidden_up_to_a_bound_and_none_leaves_its_end() {
    let secrets = |names: &[String]| names.iter().map(|n| Secret::new(n.clone())).collect::<Vec<_>>();
    let old = |n: usize| format!("tok-number-{n:06}");
    let tokens = watch::Sender::new(secrets(&[old(0)]));
    let exports = Exports { tasks: TaskTracker::new(), stop: CancellationToken::new(), cursors: Vec::new(), tokens };
    let content = Content::new(&config("capture = \"full\"").otlp.unwrap().export, exports.tokens.subscribe());
    let renewed = format!("{}-renewed", old(0));
    exports.hide(secrets(std::slice::from_ref(&renewed)));
    let left = content.of(&format!("{} became {renewed}", old(0))).unwrap().text;
    assert_eq!(left, "[redacted] became [redacted]", "also where the one begins with the other");
    let hidden = || exports.tokens.borrow().iter().map(|s| s.reveal().to_owned()).collect::<Vec<_>>();
    assert_eq!(hidden(), [old(0), renewed]);
    for n in 1..=PAST_TOKENS + 5 {
        exports.hide(secrets(&[old(n)]));
        exports.hide(secrets(&[old(n)]));
    }
    assert_eq!(hidden().len(), PAST_TOKENS + 1);
    assert_eq!(hidden().last(), Some(&old(PAST_TOKENS + 5)));
    assert!(!hidden().contains(&old(1)) && hidden().contains(&old(PAST_TOKENS)));
}
