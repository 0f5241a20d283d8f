//! The text of bridge.toml: its shape, its defaults, and errors that name file, line, column, key and value.

use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::agents::{RawAgent, RawGroup};
use super::upkeep::RawBackup;
use super::{Config, ConfigError, Env, LogFormat, OnStoreFailure};
use crate::core::policy::Limits;

/// Values may be left out; what is left out has the default of `parse`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    listen: Option<Spanned<String>>,
    public_url: Option<Spanned<String>>,
    allowed_hosts: Option<Vec<String>>,
    data_dir: Option<PathBuf>,
    ask_timeout_ms: Option<Spanned<u64>>,
    ask_max_wait_ms: Option<Spanned<u64>>,
    reconnect_grace_ms: Option<Spanned<u64>>,
    queue_ttl_ms: Option<Spanned<u64>>,
    max_exchange_ms: Option<Spanned<u64>>,
    keep_alive_ms: Option<Spanned<u64>>,
    ping_interval_ms: Option<Spanned<u64>>,
    keep_answers_days: Option<Spanned<u64>>,
    on_store_failure: Option<OnStoreFailure>,
    log_format: Option<LogFormat>,
    #[serde(default)]
    limits: RawLimits,
    #[serde(default)]
    backup: RawBackup,
    #[serde(default)]
    agents: Vec<RawAgent>,
    #[serde(default)]
    groups: Vec<RawGroup>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawLimits {
    max_message_bytes: Option<Spanned<u64>>,
    max_answer_bytes: Option<Spanned<u64>>,
    max_frame_bytes: Option<Spanned<u64>>,
    max_wakes_per_agent: Option<Spanned<u64>>,
    max_waiting_per_agent: Option<Spanned<u64>>,
    max_depth: Option<Spanned<u64>>,
    max_asks_per_root: Option<Spanned<u64>>,
    max_turns_per_conversation: Option<Spanned<u64>>,
    max_asks_per_pair_per_hour: Option<Spanned<u64>>,
    max_connections: Option<Spanned<u64>>,
}

/// The text with its name, for errors that say where.
pub(super) struct Source<'a> {
    text: &'a str,
    name: String,
}

const DAY_MS: u64 = 86_400_000;
const YEAR_MS: u64 = 366 * DAY_MS;
/// As good as no limit.
const MANY: u64 = 1_000_000_000;

pub(super) fn parse(text: &str, path: Option<&Path>, env: Env<'_>) -> Result<Config, ConfigError> {
    let source = Source { text, name: path.map_or_else(|| "built-in bridge.toml".to_owned(), |p| p.display().to_string()) };
    let raw: Raw = toml::from_str(text).map_err(|e| source.toml(&e))?;
    let (agents, permissions) = super::agents::check(&source, &raw.agents, &raw.groups, env)?;
    let limits = limits(&source, &raw)?;
    let listen = match &raw.listen {
        None => SocketAddr::from(([127, 0, 0, 1], 8787)),
        Some(listen) => address(listen.get_ref()).map_err(|why| source.value(listen, "listen", &why))?,
    };
    if let Some(url) = &raw.public_url {
        check_public_url(url.get_ref()).map_err(|why| source.value(url, "public_url", why))?;
    }
    let base = path.and_then(Path::parent).unwrap_or(Path::new(""));
    let data_dir = base.join(raw.data_dir.clone().unwrap_or_else(|| "data".into()));
    let number = |value, key, range, default| source.number(value, key, range, default);
    Ok(Config {
        path: path.map(Path::to_owned),
        listen,
        public_url: raw.public_url.as_ref().map(|u| u.get_ref().trim_end_matches('/').to_owned()),
        allowed_hosts: raw.allowed_hosts.clone().unwrap_or_default(),
        backups: super::upkeep::backups(&source, &raw.backup, base, &data_dir)?,
        data_dir,
        limits,
        ask_max_wait: Duration::from_millis(number(&raw.ask_max_wait_ms, "ask_max_wait_ms", 100..=YEAR_MS, 240_000)?),
        keep_alive: Duration::from_millis(number(&raw.keep_alive_ms, "keep_alive_ms", 100..=60_000, 15_000)?),
        ping_interval: Duration::from_millis(number(&raw.ping_interval_ms, "ping_interval_ms", 100..=600_000, 20_000)?),
        keep_answers: Duration::from_millis(number(&raw.keep_answers_days, "keep_answers_days", 1..=3_650, 7)? * DAY_MS),
        on_store_failure: raw.on_store_failure.unwrap_or(OnStoreFailure::Relay),
        log_format: raw.log_format.unwrap_or(LogFormat::Text),
        max_connections: usize_of(number(&raw.limits.max_connections, "max_connections", 1..=1_000_000, 20_000)?),
        agents,
        permissions,
    })
}

fn limits(source: &Source<'_>, raw: &Raw) -> Result<Limits, ConfigError> {
    let number = |value, key, range, default| source.number(value, key, range, default);
    let l = &raw.limits;
    Ok(Limits {
        ask_timeout_ms: number(&raw.ask_timeout_ms, "ask_timeout_ms", 100..=YEAR_MS, 120_000)?,
        reconnect_grace_ms: number(&raw.reconnect_grace_ms, "reconnect_grace_ms", 0..=DAY_MS, 30_000)?,
        queue_ttl_ms: number(&raw.queue_ttl_ms, "queue_ttl_ms", 1_000..=YEAR_MS, DAY_MS)?,
        max_exchange_ms: number(&raw.max_exchange_ms, "max_exchange_ms", 1_000..=YEAR_MS, DAY_MS)?,
        max_message_bytes: usize_of(number(&l.max_message_bytes, "max_message_bytes", 1..=3_000_000, 262_144)?),
        max_answer_bytes: usize_of(number(&l.max_answer_bytes, "max_answer_bytes", 1..=3_000_000, 262_144)?),
        max_frame_bytes: usize_of(number(&l.max_frame_bytes, "max_frame_bytes", 4_096..=16_000_000, 1_000_000)?),
        max_wakes_per_agent: usize_of(number(&l.max_wakes_per_agent, "max_wakes_per_agent", 1..=100_000, 32)?),
        max_waiting_per_agent: usize_of(number(&l.max_waiting_per_agent, "max_waiting_per_agent", 1..=100_000, 1_000)?),
        max_depth: number(&l.max_depth, "max_depth", 1..=100, 8)? as u32,
        max_asks_per_root: number(&l.max_asks_per_root, "max_asks_per_root", 1..=MANY, 100)? as u32,
        max_turns_per_conversation: number(&l.max_turns_per_conversation, "max_turns_per_conversation", 1..=MANY, 50)? as u32,
        max_asks_per_pair_per_hour: number(&l.max_asks_per_pair_per_hour, "max_asks_per_pair_per_hour", 1..=MANY, 30)? as u32,
    })
}

fn usize_of(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// `host:port`, `[v6]:port` or `:port`.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    let found = full.to_socket_addrs().map_err(|e| format!("an address like 127.0.0.1:8787 is expected ({e})"))?.next();
    found.ok_or_else(|| "this host has no address".to_owned())
}

fn check_public_url(url: &str) -> Result<(), &'static str> {
    let parsed = reqwest::Url::parse(url).map_err(|_| "an address like https://bridge.example.org is expected")?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err("it begins with https:// (or http://) and a host");
    }
    if !parsed.username().is_empty() || parsed.password().is_some() || parsed.query().is_some() || parsed.fragment().is_some() {
        return Err("it has no user, password, query or fragment");
    }
    Ok(())
}

impl Source<'_> {
    fn place(&self, at: usize) -> String {
        let before = &self.text[..self.text.floor_char_boundary(at)];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        format!("{}, line {line}, column {column}", self.name)
    }

    fn toml(&self, error: &toml::de::Error) -> ConfigError {
        let place = error.span().map_or_else(|| self.name.clone(), |span| self.place(span.start));
        ConfigError::Toml { place, message: error.message().to_owned() }
    }

    pub(super) fn at(&self, span: Range<usize>, key: &str, value: &str, why: &str) -> ConfigError {
        ConfigError::Value { place: self.place(span.start), key: key.to_owned(), value: value.to_owned(), why: why.to_owned() }
    }

    pub(super) fn value<T: std::fmt::Debug>(&self, value: &Spanned<T>, key: &str, why: &str) -> ConfigError {
        self.at(value.span(), key, &format!("{:?}", value.get_ref()), why)
    }

    pub(super) fn number(
        &self,
        value: &Option<Spanned<u64>>,
        key: &str,
        range: std::ops::RangeInclusive<u64>,
        default: u64,
    ) -> Result<u64, ConfigError> {
        match value {
            None => Ok(default),
            Some(given) if range.contains(given.get_ref()) => Ok(*given.get_ref()),
            Some(given) => Err(self.value(given, key, &format!("a number from {} to {} is expected", range.start(), range.end()))),
        }
    }
}
