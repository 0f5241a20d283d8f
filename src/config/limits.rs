//! The `[limits]` of bridge.toml: those that the rules hold (`core::policy::Limits`) and those of the doors.

use std::ops::RangeInclusive;

use serde::Deserialize;
use toml::Spanned;

use super::ConfigError;
use super::file::{DAY_MS, Raw, Source, YEAR_MS, usize_of};
use crate::core::policy::Limits;

type Number = Option<Spanned<u64>>;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimits {
    max_message_bytes: Number,
    max_answer_bytes: Number,
    max_frame_bytes: Number,
    max_wakes_per_agent: Number,
    max_waiting_per_agent: Number,
    max_waiting_bytes_per_agent: Number,
    asks_per_minute: Number,
    max_open_asks_per_agent: Number,
    max_open_bytes_per_agent: Number,
    max_timeouts_in_a_row: Number,
    silent_rest_ms: Number,
    max_depth: Number,
    max_asks_per_root: Number,
    max_turns_per_conversation: Number,
    max_asks_per_pair_per_hour: Number,
    max_connections: Number,
    max_connections_per_agent: Number,
    max_connections_per_address: Number,
    max_calls_per_agent: Number,
    requests_per_second: Number,
    requests_per_second_per_address: Number,
    searches_per_second: Number,
}

/// What the doors hold callers to, before the rules are asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DoorLimits {
    pub max_connections: usize,
    /// Sockets at /bridge/connect.
    pub max_connections_per_agent: usize,
    pub max_connections_per_address: usize,
    /// Requests to /mcp of one agent that are under way; those of a socket have a bound of their own.
    pub max_calls_per_agent: usize,
    /// HTTP requests and WebSocket frames of one agent.
    pub requests_per_second: u32,
    pub requests_per_second_per_address: u32,
    pub searches_per_second: u32,
}

/// As good as no limit.
const MANY: u64 = 1_000_000_000;
const ANY: RangeInclusive<u64> = 1..=MANY;

fn u32_of(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

pub(super) fn of_rules(source: &Source<'_>, raw: &Raw) -> Result<Limits, ConfigError> {
    let number = |value, key, range, default| source.number(value, key, range, default);
    let count = |value, key, default| source.number(value, key, ANY, default).map(u32_of);
    let size = |value, key, range, default| source.number(value, key, range, default).map(usize_of);
    let l = &raw.limits;
    Ok(Limits {
        ask_timeout_ms: number(&raw.ask_timeout_ms, "ask_timeout_ms", 100..=YEAR_MS, 120_000)?,
        reconnect_grace_ms: number(&raw.reconnect_grace_ms, "reconnect_grace_ms", 0..=DAY_MS, 30_000)?,
        queue_ttl_ms: number(&raw.queue_ttl_ms, "queue_ttl_ms", 1_000..=YEAR_MS, DAY_MS)?,
        max_exchange_ms: number(&raw.max_exchange_ms, "max_exchange_ms", 1_000..=YEAR_MS, DAY_MS)?,
        max_message_bytes: size(&l.max_message_bytes, "max_message_bytes", 1..=3_000_000, 262_144)?,
        max_answer_bytes: size(&l.max_answer_bytes, "max_answer_bytes", 1..=3_000_000, 262_144)?,
        max_frame_bytes: size(&l.max_frame_bytes, "max_frame_bytes", 4_096..=16_000_000, 1_000_000)?,
        max_wakes_per_agent: size(&l.max_wakes_per_agent, "max_wakes_per_agent", 1..=100_000, 32)?,
        max_waiting_per_agent: size(&l.max_waiting_per_agent, "max_waiting_per_agent", 1..=100_000, 1_000)?,
        max_waiting_bytes_per_agent: size(&l.max_waiting_bytes_per_agent, "max_waiting_bytes_per_agent", ANY, 64 << 20)?,
        asks_per_minute: count(&l.asks_per_minute, "asks_per_minute", ASKS_PER_MINUTE)?,
        max_open_asks_per_agent: size(&l.max_open_asks_per_agent, "max_open_asks_per_agent", ANY, 4_000)?,
        max_open_bytes_per_agent: size(&l.max_open_bytes_per_agent, "max_open_bytes_per_agent", ANY, 64 << 20)?,
        max_timeouts_in_a_row: count(&l.max_timeouts_in_a_row, "max_timeouts_in_a_row", 5)?,
        silent_rest_ms: number(&l.silent_rest_ms, "silent_rest_ms", 100..=DAY_MS, 60_000)?,
        max_depth: number(&l.max_depth, "max_depth", 1..=100, 8).map(u32_of)?,
        max_asks_per_root: count(&l.max_asks_per_root, "max_asks_per_root", 100)?,
        max_turns_per_conversation: count(&l.max_turns_per_conversation, "max_turns_per_conversation", 50)?,
        max_asks_per_pair_per_hour: count(&l.max_asks_per_pair_per_hour, "max_asks_per_pair_per_hour", 30)?,
    })
}

const ASKS_PER_MINUTE: u64 = 6_000;

/// Who lets bots ask more lets them send more: an ask is a few frames of each side.
pub(super) fn of_doors(source: &Source<'_>, l: &RawLimits) -> Result<DoorLimits, ConfigError> {
    let count = |value, key, default| source.number(value, key, ANY, default);
    let asks = l.asks_per_minute.as_ref().map_or(ASKS_PER_MINUTE, |asks| *asks.get_ref());
    let requests = count(&l.requests_per_second, "requests_per_second", (asks / 6).clamp(1_000, MANY))?;
    Ok(DoorLimits {
        max_connections: usize_of(source.number(&l.max_connections, "max_connections", 1..=1_000_000, 20_000)?),
        max_connections_per_agent: usize_of(count(&l.max_connections_per_agent, "max_connections_per_agent", 64)?),
        max_connections_per_address: usize_of(count(&l.max_connections_per_address, "max_connections_per_address", 10_000)?),
        max_calls_per_agent: usize_of(count(&l.max_calls_per_agent, "max_calls_per_agent", 1_024)?),
        requests_per_second: u32_of(requests),
        requests_per_second_per_address: u32_of(count(
            &l.requests_per_second_per_address,
            "requests_per_second_per_address",
            requests.saturating_mul(10).min(MANY),
        )?),
        searches_per_second: u32_of(count(&l.searches_per_second, "searches_per_second", 500)?),
    })
}
