//! What is counted: each metric is moved by what it counts, on the real program, and read as Prometheus reads it.

use serde_json::{Value, json};

use crate::rig::{Answer, Bot, Collector, OWNER, Relay, Worker, http, text, token, until};

const SCRAPED: &str = "[metrics]\nlisten = \"127.0.0.1:0\"\n";

/// Where the listener of its own is.
fn listener(relay: &Relay) -> String {
    let said = relay.said();
    said.lines().find_map(|l| l.strip_prefix("metrics at ")).unwrap_or_else(|| panic!("no metrics: {said}")).to_owned()
}

/// Reads like Prometheus does, from the listener of its own.
async fn scrape(relay: &Relay) -> String {
    let response = http().get(listener(relay)).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    response.text().await.unwrap()
}

/// The value of one series, if it is there.
fn value(metrics: &str, series: &str) -> Option<f64> {
    let line = metrics.lines().find_map(|l| l.strip_prefix("hermes_bridge_")?.strip_prefix(series)?.strip_prefix(' '));
    line.map(|v| v.parse().unwrap())
}

async fn reaches(relay: &Relay, series: &str, wanted: f64) {
    let what = format!("{series} reaches {wanted}");
    until(&what, async || value(&scrape(relay).await, series).filter(|v| *v >= wanted)).await;
}

#[tokio::test]
async fn every_metric_is_moved_by_what_it_counts() {
    let collector = Collector::start().await;
    collector.once(Answer::Refuse(503, ""));
    let relay = Relay::start(&format!("ask_timeout_ms = 1000\n{SCRAPED}{}", collector.langfuse("")), &["alice", "bob", "carol"]).await;
    let mut bob = relay.bot("bob").await;
    let alice = relay.caller("alice");
    let asking = alice.asking(json!({"to": "bob", "message": "one"}));
    let wake = bob.wake().await;
    let metrics = scrape(&relay).await;
    let online = |agent: &str| value(&metrics, &format!("agent_online{{agent=\"{agent}\"}}"));
    assert_eq!((online("bob"), online("carol"), online("nobody")), (Some(1.0), Some(0.0), None));
    bob.heartbeat(text(&wake, "request_id")).await;
    bob.answer(&wake, "first").await;
    assert_eq!(asking.await.unwrap()["ok"], true);
    let asking = alice.asking(json!({"to": "bob", "message": "two"}));
    let wake = bob.wake().await;
    reaches(&relay, "exchanges_in_flight{to=\"bob\"}", 1.0).await;
    assert_eq!(text(&asking.await.unwrap(), "error"), "timeout");
    assert_eq!(bob.answer(&wake, "late").await["late"], true);
    alice.call("ask_agent", json!({"to": "carol", "message": "later", "when_offline": "queue"})).await;
    alice.ask("nobody at all", "hello").await;
    assert_eq!(alice.rpc("ask_agent", &json!({"to": "bob"})).await.unwrap()["result"]["isError"], true);
    alice.call("list_agents", json!({})).await;
    assert!(relay.caller_with("wrong").try_call("list_agents", &json!({})).await.is_err());
    assert!(Bot::connect(&relay.url(), "bob", "wrong").await.is_err());
    assert_eq!(relay.get("/ui/api/search?q=one").await.0, 200);
    bob.say_goodbye().await;
    relay.bot("bob").await.settle().await;

    reaches(&relay, "export_spans_total{sink=\"langfuse\",outcome=\"exported\"}", 3.0).await;
    reaches(&relay, "agent_disconnects_total{agent=\"bob\",reason=\"lost\"}", 1.0).await;
    reaches(&relay, "agent_disconnects_total{agent=\"bob\",reason=\"goodbye\"}", 1.0).await;
    let metrics = scrape(&relay).await;
    for (series, wanted) in [
        (concat!("build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}"), 1.0),
        ("agents_configured", 3.0),
        ("agent_online{agent=\"bob\"}", 0.0),
        ("agent_connects_total{agent=\"bob\"}", 2.0),
        ("heartbeats_total{agent=\"bob\"}", 1.0),
        ("deadline_extensions_total{agent=\"bob\"}", 1.0),
        ("exchanges_total{to=\"bob\",status=\"ok\"}", 1.0),
        ("exchanges_total{to=\"bob\",status=\"timeout\"}", 1.0),
        ("exchanges_total{to=\"(none)\",status=\"unknown_agent\"}", 1.0),
        ("exchange_duration_seconds_count{to=\"bob\",status=\"timeout\"}", 1.0),
        ("exchange_duration_seconds_bucket{to=\"bob\",status=\"timeout\",le=\"0.5\"}", 0.0),
        ("exchange_duration_seconds_bucket{to=\"bob\",status=\"timeout\",le=\"+Inf\"}", 1.0),
        ("exchanges_in_flight{to=\"carol\"}", 1.0),
        ("wake_delivery_seconds_count", 2.0),
        ("late_replies_total", 1.0),
        ("mcp_requests_total{tool=\"ask_agent\",outcome=\"ok\"}", 1.0),
        ("mcp_requests_total{tool=\"ask_agent\",outcome=\"timeout\"}", 1.0),
        ("mcp_requests_total{tool=\"ask_agent\",outcome=\"misuse\"}", 1.0),
        ("mcp_requests_total{tool=\"list_agents\",outcome=\"ok\"}", 1.0),
        ("mcp_requests_total{tool=\"reply\",outcome=\"ok\"}", 2.0),
        ("auth_failures_total{endpoint=\"mcp\"}", 1.0),
        ("auth_failures_total{endpoint=\"connect\"}", 1.0),
        ("store_errors_total", 0.0),
        ("search_query_seconds_count", 1.0),
        ("mailbox_depth{agent=\"carol\"}", 1.0),
        ("mailbox_depth{agent=\"bob\"}", 0.0),
        ("export_spans_total{sink=\"langfuse\",outcome=\"rejected\"}", 0.0),
        ("export_requests_total{sink=\"langfuse\",code=\"503\"}", 1.0),
    ] {
        assert_eq!(value(&metrics, series), Some(wanted), "{series}\n{metrics}");
    }
    for series in [
        "store_commit_seconds_count",
        "store_bytes",
        "mailbox_oldest_seconds{agent=\"carol\"}",
        "export_requests_total{sink=\"langfuse\",code=\"200\"}",
        "export_last_success_timestamp_seconds{sink=\"langfuse\"}",
    ] {
        assert!(value(&metrics, series) > Some(0.0), "{series}\n{metrics}");
    }
    for name in ["process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds", "process_start_time_seconds"] {
        assert!(metrics.lines().any(|l| l.strip_prefix(name).is_some_and(|v| v.trim().parse::<f64>().is_ok_and(|v| v > 0.0))), "{name}");
    }
    reaches(&relay, "export_backlog{sink=\"langfuse\"}", 0.0).await;
    until("the index has caught up", async || value(&scrape(&relay).await, "search_index_lag").filter(|lag| *lag < 1.0)).await;
    is_well_formed(&metrics);
    assert!(!metrics.contains("nobody at all"), "{metrics}");
    the_dashboard_shows_what_there_is(&metrics);
}

/// Every metric of the Grafana dashboard, and every label that it sums or selects by.
fn the_dashboard_shows_what_there_is(metrics: &str) {
    let dashboard: Value = serde_json::from_str(include_str!("../../src/metrics/grafana.json")).unwrap();
    let (mut shown, is_name) = (0, |c: char| c.is_ascii_alphanumeric() || c == '_');
    for target in dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
        let expression = text(target, "expr");
        for (at, _) in expression.match_indices("hermes_bridge_").chain(expression.match_indices("process_")) {
            let name = expression[at..].split(|c| !is_name(c)).next().unwrap();
            let series: Vec<&str> = metrics.lines().filter(|line| line.split(['{', ' ']).next() == Some(name)).collect();
            assert!(!series.is_empty(), "{name} of {expression:?} does not exist");
            shown += 1;
            let by = expression.split("by (").nth(1).map_or("", |rest| rest.split(')').next().unwrap());
            for label in by.split(", ").filter(|label| !label.is_empty()) {
                assert!(series.iter().any(|line| line.contains(&format!("{label}=\""))), "{name} has no {label}: {expression}");
            }
        }
    }
    assert!(shown >= 12, "only {shown} metrics on the dashboard");
}

#[tokio::test]
async fn what_is_not_exported_is_counted_by_its_reason_and_what_waits_is_the_backlog() {
    let mut collector = Collector::start().await;
    collector.always(Answer::RefuseIf("poison"));
    let relay = Relay::start(&format!("{SCRAPED}{}", collector.langfuse("sample_rate = 0.0")), &["alice", "bob"]).await;
    let _bob = Worker::start(relay.address.clone(), "bob", |_| "fine".to_owned());
    relay.wait_online("bob", true).await;
    let alice = relay.caller("alice");
    let is = async |series: &str, wanted: f64| {
        let what = format!("{series} is {wanted}");
        until(&what, async || (value(&scrape(&relay).await, series) == Some(wanted)).then_some(())).await;
    };
    let spans = |outcome: &str| format!("export_spans_total{{sink=\"langfuse\",outcome=\"{outcome}\"}}");
    assert_eq!(alice.ask("bob", "answered: left out by the sample").await["ok"], true);
    is(&spans("sampled_out"), 1.0).await;
    alice.ask("alice", "refused: exported whatever the sample").await;
    is(&spans("exported"), 1.0).await;
    alice.ask("alice", "poison").await;
    is(&spans("rejected"), 1.0).await;
    is("export_backlog{sink=\"langfuse\"}", 0.0).await;

    collector.close().await;
    for n in 0..3 {
        alice.ask("alice", &format!("waits {n}")).await;
    }
    // At least: a bot that loses its connection meanwhile is a fact too.
    reaches(&relay, "export_backlog{sink=\"langfuse\"}", 3.0).await;
    let tried = "export_requests_total{sink=\"langfuse\",code=\"none\"}";
    reaches(&relay, tried, 1.0).await;
    let conversation = relay.on_record("waits 0").await["conversation_id"].as_str().unwrap().to_owned();
    assert_eq!(relay.run(&["erase", "--conversation", &conversation, "--yes"]).await.code, 0);
    is(&spans("retention"), 1.0).await;
    // One may be under way that was read before, the next is not.
    let before = value(&scrape(&relay).await, tried).unwrap();
    reaches(&relay, tried, before + 2.0).await;
    collector.open().await;
    is(&spans("exported"), 3.0).await;
    is("export_backlog{sink=\"langfuse\"}", 0.0).await;
    for (outcome, wanted) in [("sampled_out", 1.0), ("rejected", 1.0), ("retention", 1.0)] {
        is(&spans(outcome), wanted).await;
    }
}

#[tokio::test]
async fn spans_that_a_collector_takes_only_in_part_are_counted_as_rejected() {
    let collector = Collector::start().await;
    collector.once(Answer::TakeSaying(r#"{"partialSuccess":{"rejectedSpans":"1","errorMessage":"no room"}}"#));
    let relay = Relay::start(&format!("{SCRAPED}[otlp]\nendpoint = \"{}\"\n", collector.url()), &["alice"]).await;
    relay.caller("alice").ask("alice", "one").await;
    reaches(&relay, "export_spans_total{sink=\"otlp\",outcome=\"rejected\"}", 1.0).await;
    relay.caller("alice").ask("alice", "two").await;
    reaches(&relay, "export_spans_total{sink=\"otlp\",outcome=\"exported\"}", 1.0).await;
    assert_eq!(value(&scrape(&relay).await, "export_spans_total{sink=\"otlp\",outcome=\"rejected\"}"), Some(1.0));
}

/// Each series has its family's help and type before it, once.
fn is_well_formed(metrics: &str) {
    let mut families = std::collections::HashSet::new();
    for line in metrics.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert!(families.insert(rest.split(' ').next().unwrap().to_owned()), "{line}");
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end).filter(|n| families.contains(*n)));
            assert!(families.contains(family.unwrap_or(name)), "{line}");
            assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
        }
    }
}

#[tokio::test]
async fn metrics_are_for_the_owner_and_for_their_own_token() {
    let relay = Relay::start("[metrics]\ntoken = \"read-me-0123\"\n", &["alice"]).await;
    let get = async |token: &str| http().get(format!("{}/metrics", relay.url())).bearer_auth(token).send().await.unwrap();
    assert_eq!(http().get(format!("{}/metrics", relay.url())).send().await.unwrap().status(), 401);
    assert_eq!(get(&token("alice")).await.status(), 401);
    assert_eq!(get(OWNER).await.status(), 200);
    let open = get("read-me-0123").await;
    assert_eq!(open.status(), 200);
    assert_eq!(value(&open.text().await.unwrap(), "auth_failures_total{endpoint=\"metrics\"}"), Some(2.0));
}

#[tokio::test]
async fn the_listener_of_its_own_asks_for_its_token_and_for_a_host_of_ours() {
    let relay = Relay::start("[metrics]\nlisten = \"127.0.0.1:0\"\ntoken = \"read-me-0123\"\n", &["alice"]).await;
    let at = listener(&relay);
    let get = async |token: &str| http().get(&at).bearer_auth(token).send().await.unwrap().status().as_u16();
    assert_eq!(http().get(&at).send().await.unwrap().status(), 401);
    assert_eq!((get("wrong").await, get(OWNER).await, get("read-me-0123").await), (401, 401, 200));
    let of_host = async |host: &str| {
        let request = http().get(&at).bearer_auth("read-me-0123").header("host", host);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!((of_host("rebound.example:9464").await, of_host("localhost:9464").await), (403, 200));
    relay.noted("refused_request", "rebound.example").await;
    let other = http().get(at.replace("/metrics", "/ui")).bearer_auth("read-me-0123").send().await.unwrap();
    assert_eq!(other.status(), 404);
    let posted = http().post(&at).bearer_auth("read-me-0123").send().await.unwrap();
    assert_eq!(posted.status(), 405);
}

#[tokio::test]
async fn metrics_for_the_network_without_a_token_are_no_start() {
    let relay = Relay::prepare("[metrics]\nlisten = \"0.0.0.0:0\"", &["alice"]);
    let ran = relay.run(&["serve"]).await;
    assert!(ran.code == 1 && ran.err.contains("bridge.toml, line 3") && ran.err.contains("need a token"), "{ran:?}");
    assert!(!relay.path("data").exists());
}
