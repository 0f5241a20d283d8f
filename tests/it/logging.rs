//! The log: one line an exchange at info, with ids, sizes and durations, never a text; as text or JSON; and what RUST_LOG
//! makes of it. Other libraries are quiet unless they are named.

use std::fs;

use serde_json::{Value, json};

use crate::rig::{Relay, text};

/// A relay that logs by this `RUST_LOG`; one question answered, one refused.
async fn after_two_asks(keys: &str, rust_log: &str) -> (Relay, Value) {
    let mut relay = Relay::prepare(keys, &["alice", "bob"]);
    relay.up_in(&[], &[("RUST_LOG", rust_log)]).await;
    let mut bob = relay.bot("bob").await;
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "a secret question"}));
    let wake = bob.wake().await;
    bob.answer(&wake, "a secret answer").await;
    assert_eq!(asking.await.unwrap()["ok"], true);
    assert_eq!(text(&relay.caller("alice").ask("alice", "a secret refused").await, "error"), "self_ask");
    bob.say_goodbye().await;
    relay.wait_online("bob", false).await;
    (relay, wake)
}

/// All that it logged, once it has stopped.
async fn logged(relay: &mut Relay) -> Vec<String> {
    assert_eq!(relay.stop().await.0, Some(0));
    let log = fs::read_to_string(relay.path("err-1")).unwrap();
    assert!(!log.contains("secret") && !log.contains("tok-"), "{log}");
    log.lines().map(str::to_owned).collect()
}

fn with<'a>(lines: &'a [String], what: &str) -> Vec<&'a String> {
    lines.iter().filter(|line| line.contains(what)).collect()
}

#[tokio::test]
async fn as_json_there_is_one_line_an_exchange_with_ids_sizes_and_durations() {
    let (mut relay, wake) = after_two_asks("log_format = \"json\"", "").await;
    let lines: Vec<Value> =
        logged(&mut relay).await.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect();
    let ended: Vec<&Value> = lines.iter().filter(|line| line["message"] == "exchange ended").collect();
    assert_eq!(ended.len(), 1, "{lines:?}");
    let line = ended[0];
    assert_eq!((&line["level"], &line["from"], &line["to"], &line["status"]), (&json!("INFO"), &json!("alice"), &json!("bob"), &json!("ok")));
    assert_eq!((&line["conversation_id"], &line["request_id"]), (&wake["conversation_id"], &wake["request_id"]));
    assert_eq!((&line["message_bytes"], &line["answer_bytes"]), (&json!(17), &json!(15)));
    assert!(line["duration_ms"].is_u64() && line["timestamp"].is_string());
    // Without a trace of the caller's, the wake carries the one that log and export name.
    assert_eq!(wake["traceparent"], format!("00-{}-{}-01", text(line, "trace_id"), text(line, "span_id")));
}

#[tokio::test]
async fn as_text_the_same_line_is_there_and_no_other_library_talks() {
    let (mut relay, wake) = after_two_asks("", "").await;
    let lines = logged(&mut relay).await;
    let ended = with(&lines, "exchange ended");
    assert_eq!(ended.len(), 1, "{lines:#?}");
    for part in [
        " INFO ",
        text(&wake, "request_id"),
        text(&wake, "conversation_id"),
        "from=alice",
        "to=bob",
        "message_bytes=17",
        "answer_bytes=15",
        "duration_ms=",
    ] {
        assert!(ended[0].contains(part), "{part}: {}", ended[0]);
    }
    // What rmcp and tantivy say of a session and a commit. Targets are not shown, so their words must do.
    for chatter in ["rmcp", "tantivy", "Service initialized", "service finished", "input stream", "committing", "Committed", "garbage", "merge"] {
        assert!(with(&lines, chatter).is_empty(), "{chatter}: {lines:#?}");
    }
    // What a rule refused has its line in the security log; nothing else is shown.
    assert!(with(&lines, "refused").is_empty() && with(&lines, "DEBUG").is_empty(), "{lines:#?}");
}

#[tokio::test]
async fn an_ask_that_could_not_be_delivered_is_an_exchange_that_ended_at_once() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    let alice = relay.caller("alice");
    assert_eq!(text(&alice.ask("bob", "a secret").await, "error"), "agent_offline");
    assert_eq!(text(&alice.ask("nobody\nINFO forged", "a secret").await, "error"), "unknown_agent");
    let lines = logged(&mut relay).await;
    let ended = with(&lines, "exchange ended");
    assert_eq!(ended.len(), 2, "{lines:#?}");
    for (line, parts) in ended.iter().zip([["to=bob", "status=\"agent_offline\""], ["to=nobody\u{fffd}INFO forged", "status=\"unknown_agent\""]]) {
        let all = parts.iter().chain(&[" INFO ", "request_id=", "conversation_id=", "from=alice", "message_bytes=8", "duration_ms=0"]);
        all.for_each(|part| assert!(line.contains(part), "{part}: {line}"));
    }
}

#[tokio::test]
async fn rust_log_silences_and_adds_by_part() {
    let (mut relay, _) = after_two_asks("", "warn").await;
    assert_eq!(logged(&mut relay).await, Vec::<String>::new());
    let (mut relay, _) = after_two_asks("", "hermes_bridge::engine=debug").await;
    let lines = logged(&mut relay).await;
    assert_eq!(with(&lines, "exchange ended").len(), 1, "what is logged by default stays: {lines:#?}");
    let refused = with(&lines, "refused");
    assert!(refused.len() == 1 && refused[0].contains("DEBUG") && refused[0].contains("from=alice status=\"self_ask\""), "{lines:#?}");
    // Asked for by name, a library does talk: it is the filter that keeps it quiet.
    let (mut relay, _) = after_two_asks("", "tantivy=debug").await;
    assert!(!with(&logged(&mut relay).await, "DEBUG").is_empty());
    let (mut relay, _) = after_two_asks("", "hermes_bridge=loud").await;
    let lines = logged(&mut relay).await;
    assert!(with(&lines, "RUST_LOG is not understood").len() == 1 && with(&lines, "exchange ended").len() == 1, "{lines:#?}");
}
