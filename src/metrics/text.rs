//! Prometheus' text format (version 0.0.4), every family with its help. Owns the metrics' names.

use std::fmt::Write;
use std::sync::PoisonError;

use super::kinds::Histogram;
use super::{Agent, Metrics, Now, process};

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `to` of what was asked of nobody.
const NOBODY: &str = "(none)";

struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP hermes_bridge_{name} {help}\n# TYPE hermes_bridge_{name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(self.0, "hermes_bridge_{name}{labels} {value}");
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        self.value(name, "", value);
    }

    fn histogram(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        let (buckets, sum) = histogram.cumulative();
        let comma = if labels.is_empty() { "" } else { "," };
        for (bound, count) in histogram.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]).zip(buckets) {
            self.value(&format!("{name}_bucket"), &format!("{labels}{comma}le=\"{bound}\""), count);
        }
        self.value(&format!("{name}_sum"), labels, sum);
        self.value(&format!("{name}_count"), labels, buckets[11]);
    }

    fn lone_histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.family(name, "histogram", help);
        self.histogram(name, "", histogram);
    }
}

impl Metrics {
    /// Everything, with what is true at the moment.
    #[must_use]
    pub fn text(&self, now: &Now) -> String {
        let mut t = Text(String::with_capacity(16 * 1024));
        t.family("build_info", "gauge", "The program's version.");
        t.value("build_info", concat!("version=\"", env!("CARGO_PKG_VERSION"), "\""), 1);
        self.agents(&mut t, now);
        self.exchanges(&mut t, now);
        self.doors(&mut t);
        self.disk(&mut t, now);
        self.exports(&mut t, now);
        for (name, kind, help, value) in process::figures() {
            let _ = writeln!(t.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
        t.0
    }

    fn agents(&self, t: &mut Text, now: &Now) {
        t.single("agents_configured", "gauge", "Agents that exist.", now.agents.len());
        t.family("agent_online", "gauge", "1 while the agent is connected.");
        for agent in &now.agents {
            t.value("agent_online", &format!("agent=\"{}\"", agent.name), u8::from(agent.online));
        }
        let agents = self.agents.read().unwrap_or_else(PoisonError::into_inner);
        let mut count = |name: &str, help: &str, of: fn(&Agent) -> u64| {
            t.family(name, "counter", help);
            agents.iter().for_each(|(agent, a)| t.value(name, &format!("agent=\"{agent}\""), of(a)));
        };
        count("agent_connects_total", "Sockets opened.", |a| a.connects.get());
        count("heartbeats_total", "Heartbeats received.", |a| a.heartbeats.get());
        count("deadline_extensions_total", "Signs of work that began the quiet limit of an exchange anew.", |a| a.extensions.get());
        t.family("agent_disconnects_total", "counter", "Sockets closed: with a goodbye, or lost.");
        for (agent, a) in agents.iter() {
            for (reason, n) in [("goodbye", a.left_cleanly.get()), ("lost", a.lost.get())] {
                t.value("agent_disconnects_total", &format!("agent=\"{agent}\",reason=\"{reason}\""), n);
            }
        }
        t.family("mailbox_depth", "gauge", "Questions that wait for an agent that is away.");
        now.agents.iter().for_each(|a| t.value("mailbox_depth", &format!("agent=\"{}\"", a.name), a.mailbox));
        t.family("mailbox_oldest_seconds", "gauge", "How long the oldest question has waited for an agent that is away.");
        now.agents.iter().for_each(|a| t.value("mailbox_oldest_seconds", &format!("agent=\"{}\"", a.name), a.oldest.as_secs_f64()));
    }

    fn exchanges(&self, t: &mut Text, now: &Now) {
        let agents = self.agents.read().unwrap_or_else(PoisonError::into_inner);
        let all = || agents.iter().map(|(name, a)| (name.as_str(), a)).chain([(NOBODY, &self.nobody)]);
        let ends = || all().flat_map(|(to, a)| a.ended.get().into_iter().flat_map(|e| e.each()).map(move |(status, h)| (to, status, h)));
        t.family("exchanges_total", "counter", "Exchanges that ended, refused ones too.");
        ends().for_each(|(to, status, h)| t.value("exchanges_total", &format!("to=\"{to}\",status=\"{status}\""), h.count()));
        t.family("exchange_duration_seconds", "histogram", "From ask to end.");
        ends().for_each(|(to, status, h)| t.histogram("exchange_duration_seconds", &format!("to=\"{to}\",status=\"{status}\""), h));
        t.family("exchanges_in_flight", "gauge", "Exchanges that have not ended.");
        now.agents.iter().for_each(|a| t.value("exchanges_in_flight", &format!("to=\"{}\"", a.name), a.in_flight));
        t.lone_histogram("wake_delivery_seconds", "From ask to the first wake.", &self.wake_delivery);
        t.single("late_replies_total", "counter", "Answers that came after the end.", self.late_replies.get());
    }

    fn doors(&self, t: &mut Text) {
        t.family("mcp_requests_total", "counter", "Tool calls, over MCP and WebSocket, by outcome word, ok or misuse.");
        for (tool, outcomes) in self.calls.each() {
            outcomes.each().for_each(|(outcome, n)| t.value("mcp_requests_total", &format!("tool=\"{tool}\",outcome=\"{outcome}\""), n.get()));
        }
        t.family("auth_failures_total", "counter", "Requests without a valid token.");
        self.auth_failures.each().for_each(|(endpoint, n)| t.value("auth_failures_total", &format!("endpoint=\"{endpoint}\""), n.get()));
    }

    fn disk(&self, t: &mut Text, now: &Now) {
        t.lone_histogram("store_commit_seconds", "From the first byte of a batch to its being on disk and readable.", &self.store_commit);
        t.single("store_errors_total", "counter", "Times that the disk refused.", self.store_errors.get());
        t.single("store_bytes", "gauge", "Size of store and journal.", now.store_bytes);
        t.lone_histogram("search_query_seconds", "Searches of page, API and command line.", &self.search_query);
        t.single("search_index_lag", "gauge", "Facts of the log that the search index has not read yet.", now.last_seq.saturating_sub(now.indexed));
    }

    fn exports(&self, t: &mut Text, now: &Now) {
        t.family(
            "export_spans_total",
            "counter",
            "Spans: exported, rejected by the other side, sampled_out, or gone from history before (retention).",
        );
        for (sink, export) in self.exports.each() {
            export.spans.each().for_each(|(outcome, n)| t.value("export_spans_total", &format!("sink=\"{sink}\",outcome=\"{outcome}\""), n.get()));
        }
        t.family("export_requests_total", "counter", "Requests by HTTP status; code none where nobody answered.");
        for (sink, export) in self.exports.each() {
            for (code, n) in export.requests.iter().enumerate().filter(|(_, n)| n.get() > 0) {
                let code = if code == 0 { "none".to_owned() } else { code.to_string() };
                t.value("export_requests_total", &format!("sink=\"{sink}\",code=\"{code}\""), n.get());
            }
        }
        t.family("export_backlog", "gauge", "Facts of the log that were not exported yet.");
        self.exports.each().for_each(|(sink, e)| t.value("export_backlog", &format!("sink=\"{sink}\""), now.last_seq.saturating_sub(e.cursor.get())));
        t.family("export_last_success_timestamp_seconds", "gauge", "When the last request was accepted; 0 for never.");
        self.exports.each().for_each(|(sink, e)| t.value("export_last_success_timestamp_seconds", &format!("sink=\"{sink}\""), e.last_success.get()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_index_and_an_export_have_still_to_read_is_what_lies_between_them_and_the_end_of_the_log() {
        let metrics = Metrics::default();
        metrics.export("otlp", |export| export.cursor.set(4));
        let text = metrics.text(&Now { last_seq: 10, indexed: 7, ..Now::default() });
        for line in ["hermes_bridge_search_index_lag 3", "hermes_bridge_export_backlog{sink=\"otlp\"} 6"] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }
}
