//! The chain of time limits from the asked bot to the asking client, and where one is longer than the next allows; and
//! whether the machine's clock can be right.

use jiff::Timestamp;
use serde::Serialize;

use super::Findings;
use crate::config::Config;

/// Hermes gives up a tool call after so long, unless its mcp_servers entry says otherwise.
const HERMES_TOOL_LIMIT_MS: u64 = 300_000;
/// What common proxies allow a silent response.
const PROXY_IDLE_MS: u64 = 60_000;
/// No relay of this version ran before.
const NOT_BEFORE: i64 = 1_790_000_000;

#[derive(Serialize)]
pub(super) struct Limit {
    key: &'static str,
    pub ms: u64,
    pub what: String,
}

fn ms(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// In the order in which they should grow from bot to client, then what keeps the connections.
pub(super) fn chain(config: &Config) -> Vec<Limit> {
    let limit = |key, ms, what: &str| Limit { key, ms, what: what.to_owned() };
    vec![
        limit(
            "ask_timeout_ms",
            config.limits.ask_timeout_ms,
            "silence of the asked bot, then timeout (ask_timeout_ms; each heartbeat starts it anew)",
        ),
        limit("ask_max_wait_ms", ms(config.ask_max_wait), "one call of ask_agent, then still_working (ask_max_wait_ms)"),
        limit("hermes", HERMES_TOOL_LIMIT_MS, "Hermes' own limit for a tool call (timeout: in its mcp_servers entry, in seconds)"),
        limit("max_exchange_ms", config.limits.max_exchange_ms, "no exchange stays open longer (max_exchange_ms)"),
        limit("keep_alive_ms", ms(config.keep_alive), "silence on a waiting response at most (keep_alive_ms)"),
        limit("proxy", PROXY_IDLE_MS, "what common proxies allow a silent response (nginx: proxy_read_timeout)"),
        limit("ping_interval_ms", ms(config.ping_interval), "between pings; a bot silent for two is gone (ping_interval_ms)"),
        limit("reconnect_grace_ms", config.limits.reconnect_grace_ms, "a lost bot is waited for (reconnect_grace_ms)"),
    ]
}

pub(super) fn check(findings: &mut Findings, config: &Config) {
    let (keep_alive, wait) = (ms(config.keep_alive), ms(config.ask_max_wait));
    let before = findings.0.len();
    if keep_alive >= PROXY_IDLE_MS {
        findings.warn(
            "limits",
            format!("keep_alive_ms = {keep_alive} is not below what common proxies allow ({PROXY_IDLE_MS}): they cut waiting calls"),
            "lower keep_alive_ms, or raise the proxy's read timeout above it",
        );
    }
    if wait >= HERMES_TOOL_LIMIT_MS {
        findings.warn(
            "limits",
            format!("ask_max_wait_ms = {wait} is not below Hermes' limit of {HERMES_TOOL_LIMIT_MS}: its bots give up before the relay answers"),
            "lower ask_max_wait_ms, or raise `timeout` in the bots' mcp_servers entry",
        );
    }
    if config.limits.ask_timeout_ms >= config.limits.max_exchange_ms {
        let (quiet, longest) = (config.limits.ask_timeout_ms, config.limits.max_exchange_ms);
        findings.warn(
            "limits",
            format!("ask_timeout_ms = {quiet} is not below max_exchange_ms = {longest}: exchanges end before a silence is told"),
            "lower ask_timeout_ms or raise max_exchange_ms",
        );
    }
    let (kept, answers) = (config.retention.days, ms(config.keep_answers) / 86_400_000);
    if let Some(days) = kept.filter(|days| *days < answers) {
        findings.warn(
            "limits",
            format!("[retention] days = {days} is less than keep_answers_days = {answers}: get_answer then finds nothing of what was removed"),
            "raise days or lower keep_answers_days",
        );
    }
    if findings.0.len() == before {
        findings.ok("limits", "time limits: each is below the next");
    }
    clock(findings);
}

fn clock(findings: &mut Findings) {
    let now = Timestamp::now();
    if now.as_second() < NOT_BEFORE {
        findings.bad("clock", format!("the machine's clock says {now:.0}"), "set it (timedatectl set-ntp true): ids and history are ordered by it");
    } else {
        findings.ok("clock", format!("clock: {now:.0}"));
    }
}
