//! What the other side is told: spans, their order and size, and the requests around them.

use serde_json::json;

use super::{all_arrived_once, exchange, id_of};
use crate::rig::{Answer, Collector, Relay, attribute, http, soon, text, token, until};

#[tokio::test]
async fn without_a_section_nothing_is_sent() {
    let collector = Collector::start().await;
    let mut relay = Relay::prepare("", &["alice"]);
    let url = collector.url();
    let env = [
        ("LANGFUSE_BASE_URL", &*url),
        ("LANGFUSE_PUBLIC_KEY", "pk-lf-1"),
        ("LANGFUSE_SECRET_KEY", "sk-lf-1"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*url),
    ];
    relay.up_in(&[], &env).await;
    exchange(&relay, "quiet").await;
    relay.stop().await;
    assert_eq!(collector.connections(), 0);
}

#[tokio::test]
async fn each_exchange_arrives_as_one_span_with_what_it_was() {
    let collector = Collector::start().await;
    let relay = Relay::start(&collector.langfuse("release = \"r-7\"\ntags = [\"one\", \"two\"]"), &["alice", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "ask_agent", "arguments": {"to": "bob", "message": "how many?"}, "_meta": {"traceparent": traceparent}}});
    let alice = relay.caller("alice");
    let asking = tokio::spawn(async move { alice.post(body.to_string()).await.unwrap() });
    let wake = bob.wake().await;
    assert_eq!(wake["traceparent"], traceparent);
    let id = text(&wake, "request_id").to_owned();
    bob.send(json!({"type": "heartbeat", "request_id": id, "session_id": "s-1"})).await;
    assert_eq!(bob.answer(&wake, "three").await, json!({"ok": true}));
    asking.await.unwrap();
    let refused = exchange(&relay, "me?").await;
    all_arrived_once(&collector, &[id.clone(), refused.clone()]).await;

    let spans = collector.spans();
    let span = spans.iter().find(|s| id_of(s) == id).unwrap();
    let conversation = text(&wake, "conversation_id");
    for (key, value) in [
        ("session.id", json!(conversation)),
        ("user.id", json!("alice")),
        ("langfuse.trace.tags", json!({"values": [{"stringValue": "one"}, {"stringValue": "two"}]})),
        ("langfuse.observation.level", json!("DEFAULT")),
        ("langfuse.observation.output", json!(r#"{"answer":"three"}"#)),
        ("langfuse.observation.metadata.turn", json!("1")),
        ("langfuse.observation.metadata.heartbeats", json!("1")),
        ("langfuse.observation.metadata.hermes_session_id", json!("s-1")),
        ("langfuse.observation.metadata.caller_trace_id", json!("4bf92f3577b34da6a3ce929d0e0e4736")),
    ] {
        assert_eq!(attribute(span, key), &value, "{key}");
    }
    assert!(attribute(span, "langfuse.observation.metadata.delivery_ms").is_string());
    let bad = spans.iter().find(|s| id_of(s) == refused).unwrap();
    assert_eq!((attribute(bad, "langfuse.observation.level"), &bad["status"]["message"]), (&json!("WARNING"), &json!("self_ask")));
    let request = &collector.requests()[0];
    assert_eq!(request.line, "POST /api/public/otel/v1/traces HTTP/1.1");
    let header = |name: &str| request.headers.get(name).map(String::as_str);
    assert_eq!(header("authorization"), Some("Basic cGstbGYtMTpzay1sZi1zZWNyZXQ="));
    assert_eq!((header("content-type"), header("x-langfuse-ingestion-version")), (Some("application/json"), Some("4")));
    assert_eq!((header("x-langfuse-sdk-name"), header("x-langfuse-sdk-version")), (Some("hermes-bridge"), Some(env!("CARGO_PKG_VERSION"))));
    let resource = [
        ("service.name", "hermes-bridge"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("langfuse.environment", "production"),
        ("langfuse.release", "r-7"),
    ];
    assert_eq!(request.resource, resource.map(|(key, value)| json!({"key": key, "value": {"stringValue": value}})));
    assert!(!relay.said().contains("sk-lf-secret") && !relay.said().contains("how many?"), "{}", relay.said());
}

#[tokio::test]
async fn a_collector_gets_the_genai_span_without_texts() {
    let collector = Collector::start().await;
    let section = format!("[otlp]\nendpoint = \"{}\"\nheaders = {{ x-key = \"k1\" }}", collector.url());
    let relay = Relay::start(&section, &["alice"]).await;
    collector.once(Answer::TakeSaying(r#"{"partialSuccess":{"rejectedSpans":"1"}}"#));
    let id = exchange(&relay, "between us").await;
    let span = until("the span arrives", async || collector.spans().into_iter().next()).await;
    assert_eq!((attribute(&span, "hermes_bridge.request_id"), &span["name"]), (&json!(id), &json!("invoke_agent alice")));
    assert!(!span.to_string().contains("between us"), "{span}");
    until("what was left out is told", async || relay.said().contains("left some exchanges out").then_some(())).await;
    let request = &collector.requests()[0];
    assert_eq!((request.line.as_str(), request.headers["x-key"].as_str()), ("POST /v1/traces HTTP/1.1", "k1"));
}

#[tokio::test]
async fn an_environment_of_ones_own_is_told() {
    let collector = Collector::start().await;
    let relay = Relay::start(&collector.langfuse("environment = \"staging-2\""), &["alice"]).await;
    all_arrived_once(&collector, &[exchange(&relay, "one").await]).await;
    let resource = &collector.requests()[0].resource;
    assert_eq!(resource[2], json!({"key": "langfuse.environment", "value": {"stringValue": "staging-2"}}));
    assert_eq!(resource.len(), 3);
}

#[tokio::test]
async fn long_texts_go_out_in_requests_of_a_megabyte() {
    let mut collector = Collector::start().await;
    collector.close().await;
    let relay = Relay::start(&collector.langfuse(""), &["alice"]).await;
    let mut ids = Vec::new();
    for n in 0..40 {
        // A quote in a text within a text takes four bytes.
        let filling = if n < 20 { "x" } else { "\"" };
        ids.push(exchange(&relay, &filling.repeat(60_000)).await);
    }
    collector.open().await;
    all_arrived_once(&collector, &ids).await;
    assert_eq!(collector.spans().iter().map(id_of).collect::<Vec<_>>(), ids);
    let sizes: Vec<usize> = collector.requests().iter().map(|r| r.bytes).collect();
    assert!(sizes.iter().all(|size| *size <= 1_100_000), "{sizes:?}");
    // As much in each as there is room for, but for the last.
    assert!(sizes[..sizes.len() - 1].iter().all(|size| *size > 750_000), "{sizes:?}");
}

#[tokio::test]
async fn a_callers_trace_comes_as_a_header_or_in_meta_which_wins_whichever_mcp_it_speaks() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    let [header, meta] = ["0af7651916cd43dd8448eb211c80319c", "4bf92f3577b34da6a3ce929d0e0e4736"].map(|id| format!("00-{id}-00f067aa0ba902b7-01"));
    for (n, (modern, given, wanted)) in
        [(false, Some(&meta), &meta), (false, None, &header), (true, Some(&meta), &meta), (true, None, &header)].into_iter().enumerate()
    {
        let mut beside = json!({});
        if let Some(given) = given {
            beside["traceparent"] = json!(given);
        }
        let mut request = http().post(format!("{}/mcp", relay.url())).bearer_auth(token("alice")).header("traceparent", &header);
        if modern {
            beside["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            beside["io.modelcontextprotocol/clientInfo"] = json!({"name": "tests", "version": "1"});
            beside["io.modelcontextprotocol/clientCapabilities"] = json!({});
            let more = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "ask_agent")];
            request = more.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        }
        let arguments = json!({"to": "bob", "message": format!("question {n}")});
        let body =
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask_agent", "arguments": arguments, "_meta": beside}});
        let request = request.header("accept", "application/json, text/event-stream").header("content-type", "application/json");
        let asking = tokio::spawn(async move { request.body(body.to_string()).send().await.unwrap().text().await.unwrap() });
        let wake = bob.wake().await;
        assert_eq!(wake["traceparent"], *wanted, "modern: {modern}, in _meta: {given:?}");
        assert_eq!(bob.answer(&wake, "yes").await, json!({"ok": true}));
        let answer = soon("the answer", asking).await.unwrap();
        // Only the modern one says what kind of result it is.
        assert!(answer.contains("yes") && answer.contains("resultType") == modern, "{answer}");
    }
}
