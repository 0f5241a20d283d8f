//! bridge.toml, environment and flags become one checked `Config`. Owns defaults, the search for the file and every
//! refusal of a bad value, with line and column; never opens the store or a socket.

mod agents;
mod export;
mod file;
mod limits;
mod reload;
mod scrape;
mod secret;
mod ui;
mod upkeep;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use agents::{AgentEntry, Credential};
pub use export::{Capture, Export, Langfuse, Otlp, Start};
pub use limits::DoorLimits;
pub use scrape::Scrape;
pub use secret::{Secret, TokenHash};
pub use ui::{Network, Ui};
pub use upkeep::{Backups, Retention};

use crate::core::policy::{Limits, Permissions};

/// The reference file, also the configuration of a relay that is given none.
pub const REFERENCE: &str = include_str!("../../bridge.toml");

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{place}: {message}")]
    Toml { place: String, message: String },
    #[error("{place}: {key} = {value}: {why}")]
    Value { place: String, key: String, value: String, why: String },
    #[error("the environment variable {name} {why}")]
    Environment { name: String, why: String },
}

/// What the command line says; wins over environment and file.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub config: Option<PathBuf>,
    pub listen: Option<String>,
    pub data_dir: Option<PathBuf>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The file it came from; `None` for the built-in text.
    pub path: Option<PathBuf>,
    pub listen: SocketAddr,
    pub public_url: Option<String>,
    pub allowed_hosts: Vec<String>,
    pub data_dir: PathBuf,
    pub limits: Limits,
    pub ask_max_wait: Duration,
    pub keep_alive: Duration,
    pub ping_interval: Duration,
    pub keep_answers: Duration,
    pub on_store_failure: OnStoreFailure,
    pub log_format: LogFormat,
    pub doors: DoorLimits,
    pub backups: Option<Backups>,
    pub retention: Retention,
    pub ui: Ui,
    /// Whose X-Forwarded-For and X-Forwarded-Proto are believed.
    pub trusted_proxies: Vec<Network>,
    pub scrape: Scrape,
    pub langfuse: Option<Langfuse>,
    pub otlp: Option<Otlp>,
    pub agents: Vec<AgentEntry>,
    pub permissions: Permissions,
    /// The agents' tokens that are known in clear: nothing that goes out may carry one.
    pub clear_tokens: Vec<Secret>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnStoreFailure {
    Relay,
    Refuse,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Text,
    Json,
}

/// The environment, passed in so that tests need not change the process's.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The process's own environment.
#[must_use]
pub fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

/// Finds, reads and checks the configuration.
pub fn load(flags: &Flags, env: Env<'_>) -> Result<Config, ConfigError> {
    let path = find(flags, env);
    let text = match &path {
        Some(path) => std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.clone(), source })?,
        None => REFERENCE.to_owned(),
    };
    let mut config = file::parse(&text, path.as_deref(), env)?;
    if let Some(port) = env("PORT") {
        let why = || format!("is {port:?}, not a port between 0 and 65535");
        let port = port.parse().map_err(|_| ConfigError::Environment { name: "PORT".into(), why: why() })?;
        config.listen.set_port(port);
    }
    if let Some(listen) = &flags.listen {
        config.listen = file::address(listen).map_err(|why| ConfigError::Value {
            place: "command line".into(),
            key: "--listen".into(),
            value: format!("{listen:?}"),
            why,
        })?;
    }
    if let Some(dir) = &flags.data_dir {
        config.put_data_in(dir);
    }
    Ok(config)
}

fn find(flags: &Flags, env: Env<'_>) -> Option<PathBuf> {
    let beside = Path::new("bridge.toml");
    let named = flags.config.clone().or_else(|| env("HERMES_BRIDGE_CONFIG").map(PathBuf::from));
    named.or_else(|| beside.exists().then(|| beside.to_owned()))
}

impl Config {
    /// Everything that is kept goes there, and the backups with it unless they have a place of their own.
    fn put_data_in(&mut self, dir: &Path) {
        if let Some(backups) = self.backups.as_mut().filter(|b| b.dir == self.data_dir.join("backups")) {
            backups.dir = dir.join("backups");
        }
        dir.clone_into(&mut self.data_dir);
    }

    /// The address to reach the relay at, as people and bots would write it.
    #[must_use]
    pub fn base_url(&self, bound: SocketAddr) -> String {
        self.public_url.clone().unwrap_or_else(|| local_url(bound))
    }
}

/// The address at which this machine reaches what is bound there.
#[must_use]
pub fn local_url(bound: SocketAddr) -> String {
    let host = if bound.ip().is_unspecified() { "127.0.0.1".to_owned() } else { bound.ip().to_string() };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    format!("http://{host}:{}", bound.port())
}

#[cfg(test)]
mod tests;
