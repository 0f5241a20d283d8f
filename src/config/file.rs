//! The text of bridge.toml: its shape, its defaults, and errors that name file, line, column, key and value.

use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::agents::{RawAgent, RawGroup, RawTrust};
use super::export::{self, RawLangfuse, RawOtlp};
use super::limits::RawLimits;
use super::scrape::{self, RawMetrics};
use super::ui::{self, RawUi};
use super::upkeep::{RawBackup, RawRetention};
use super::{Config, ConfigError, Env, LogFormat, OnStoreFailure};

/// Values may be left out; what is left out has the default of `parse`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    listen: Option<Spanned<String>>,
    public_url: Option<Spanned<String>>,
    allowed_hosts: Option<Vec<String>>,
    data_dir: Option<PathBuf>,
    pub(super) ask_timeout_ms: Option<Spanned<u64>>,
    ask_max_wait_ms: Option<Spanned<u64>>,
    pub(super) reconnect_grace_ms: Option<Spanned<u64>>,
    pub(super) queue_ttl_ms: Option<Spanned<u64>>,
    pub(super) max_exchange_ms: Option<Spanned<u64>>,
    keep_alive_ms: Option<Spanned<u64>>,
    ping_interval_ms: Option<Spanned<u64>>,
    keep_answers_days: Option<Spanned<u64>>,
    on_store_failure: Option<OnStoreFailure>,
    log_format: Option<LogFormat>,
    #[serde(default)]
    pub(super) limits: RawLimits,
    trusted_proxies: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    ui: RawUi,
    #[serde(default)]
    metrics: RawMetrics,
    langfuse: Option<Spanned<RawLangfuse>>,
    otlp: Option<Spanned<RawOtlp>>,
    #[serde(default)]
    backup: RawBackup,
    #[serde(default)]
    retention: RawRetention,
    #[serde(default)]
    agents: Vec<RawAgent>,
    #[serde(default)]
    groups: Vec<RawGroup>,
    #[serde(default)]
    trust: Vec<RawTrust>,
}

/// The text with its name, for errors that say where.
pub(super) struct Source<'a> {
    text: &'a str,
    name: String,
}

pub(super) const DAY_MS: u64 = 86_400_000;
pub(super) const YEAR_MS: u64 = 366 * DAY_MS;

pub(super) fn parse(text: &str, path: Option<&Path>, env: Env<'_>) -> Result<Config, ConfigError> {
    let source = Source { text, name: path.map_or_else(|| "built-in bridge.toml".to_owned(), |p| p.display().to_string()) };
    let raw: Raw = toml::from_str(text).map_err(|e| source.toml(&e))?;
    let limits = super::limits::of_rules(&source, &raw)?;
    let doors = super::limits::of_doors(&source, &raw.limits)?;
    let (agents, permissions, clear_tokens) = super::agents::check(&source, &raw.agents, &raw.groups, &raw.trust, env)?;
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
        retention: super::upkeep::retention(&source, raw.retention)?,
        data_dir,
        limits,
        ask_max_wait: Duration::from_millis(number(&raw.ask_max_wait_ms, "ask_max_wait_ms", 100..=YEAR_MS, 240_000)?),
        keep_alive: Duration::from_millis(number(&raw.keep_alive_ms, "keep_alive_ms", 100..=60_000, 15_000)?),
        ping_interval: Duration::from_millis(number(&raw.ping_interval_ms, "ping_interval_ms", 100..=600_000, 20_000)?),
        keep_answers: Duration::from_millis(number(&raw.keep_answers_days, "keep_answers_days", 1..=3_650, 7)? * DAY_MS),
        on_store_failure: raw.on_store_failure.unwrap_or(OnStoreFailure::Relay),
        log_format: raw.log_format.unwrap_or(LogFormat::Text),
        doors,
        ui: ui::check(&source, &raw.ui, env)?,
        trusted_proxies: ui::proxies(&source, raw.trusted_proxies.as_deref())?,
        scrape: scrape::check(&source, &raw.metrics, env)?,
        langfuse: raw.langfuse.map(|raw| export::langfuse(&source, raw, base, env)).transpose()?,
        otlp: raw.otlp.map(|raw| export::otlp(&source, raw, base, env)).transpose()?,
        agents,
        permissions,
        clear_tokens,
    })
}

pub(super) fn usize_of(n: u64) -> usize {
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

/// What is wrong without the value that is: it may be a secret. The place says where it stands.
fn without_value(message: &str) -> String {
    let Some((what @ ("invalid type" | "invalid value"), rest)) = message.split_once(": ") else { return message.to_owned() };
    let (found, expected) = rest.rsplit_once(", expected ").unwrap_or((rest, "another"));
    let kind = found.split(['`', '"']).next().unwrap_or_default().trim();
    format!("{what}: {kind}, expected {expected}")
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
        ConfigError::Toml { place, message: without_value(error.message()) }
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
