//! How commands reach a relay: by its control socket on the same machine, or by address and token from anywhere.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use clap::Args;

use super::ConfigArgs;
use crate::config::{Config, local_url};
use crate::engine::Engine;
use crate::inbound::control;
use crate::store::Store;
use crate::wire::control::{Answer, Command};

/// Whom to be, and where the relay is.
#[derive(Args)]
pub(crate) struct Identity {
    /// Be this agent of the relay that runs on this machine with this configuration; needs no token
    #[arg(long = "as", value_name = "NAME", conflicts_with = "token")]
    name: Option<String>,
    /// Address of the relay, like https://bridge.example.org
    #[arg(long, value_name = "URL", env = "HERMES_BRIDGE_RELAY_URL")]
    url: Option<String>,
    /// Token of the agent to be
    #[arg(long, value_name = "TOKEN", env = "HERMES_BRIDGE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// A relay and a token for it. The address has no path and no trailing slash.
pub(crate) struct Relay {
    pub url: String,
    pub token: String,
}

impl Identity {
    pub(crate) fn resolve(&self) -> Result<Relay, String> {
        if let Some(name) = &self.name {
            let config = self.config.load(None).map_err(|e| e.to_string())?;
            let lent = ask_running(&config, &Command::Lend { name: name.clone() })?;
            return match lent {
                Some(Answer::Token { token, url, .. }) => Ok(Relay { url: base(self.url.as_deref().unwrap_or(&url)), token }),
                Some(Answer::Failed(why)) => Err(why),
                Some(_) => Err("the relay answered something else; is it of another version?".to_owned()),
                None => Err(format!("no relay runs with the data directory {}: start one with `hermes-bridge`", config.data_dir.display())),
            };
        }
        let Some(token) = self.token.clone() else {
            return Err("whom to be? Give --as NAME (on the relay's own machine), or --token (or $HERMES_BRIDGE_TOKEN) and --url".to_owned());
        };
        let url = match &self.url {
            Some(url) => base(url),
            None => {
                let config = self.config.load(None).map_err(|e| e.to_string())?;
                running_at(&config)?.unwrap_or_else(|| config.base_url(config.listen))
            }
        };
        Ok(Relay { url, token })
    }
}

/// The relay's address from any address of it: `wss://host/bridge/connect`, `https://host/mcp` and `https://host` are the same relay.
fn base(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    let url = url.strip_suffix("/bridge/connect").or_else(|| url.strip_suffix("/mcp")).unwrap_or(url);
    match url.split_once("://") {
        Some(("ws", rest)) => format!("http://{rest}"),
        Some(("wss", rest)) => format!("https://{rest}"),
        Some(_) => url.to_owned(),
        None => format!("http://{url}"),
    }
}

/// An HTTP client for that address. Plain http needs no certificates, and must work in an image that has none.
pub(crate) fn http(url: &str) -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder().connect_timeout(Duration::from_secs(10));
    if url.starts_with("http://") { builder.no_proxy().tls_certs_only(std::iter::empty()) } else { builder }
}

/// Has a running relay carry out a command; `None` if none runs with this data directory.
pub(crate) fn ask_running(config: &Config, command: &Command) -> Result<Option<Answer>, String> {
    let Ok((path, _directory)) = control::path(&config.data_dir) else { return Ok(None) };
    let Ok(mut stream) = UnixStream::connect(path) else { return Ok(None) };
    let failed = |e: std::io::Error| format!("the running relay does not answer on its control socket: {e}");
    stream.set_read_timeout(Some(Duration::from_secs(15))).map_err(failed)?;
    let line = serde_json::to_string(command).map_err(|e| e.to_string())?;
    stream.write_all(format!("{line}\n").as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(failed)?;
    serde_json::from_str(&answer).map(Some).map_err(|e| format!("the running relay answered something else ({e}); is it of another version?"))
}

/// Where a relay that runs with this data directory listens: not always where the configuration says, for a flag, a port 0
/// or an edited file is stronger.
pub(crate) fn running_at(config: &Config) -> Result<Option<String>, String> {
    match ask_running(config, &Command::About)? {
        Some(Answer::About { listen, .. }) => Ok(listen.parse().ok().map(local_url)),
        _ => Ok(None),
    }
}

/// Carries out a command on the relay that runs, or else on its store.
pub(crate) fn carry_out(config: &Config, command: Command) -> Result<Answer, String> {
    if let Some(answer) = ask_running(config, &command)? {
        return Ok(answer);
    }
    let store = Store::open(&config.data_dir).map_err(|e| e.to_string())?;
    super::runtime()?.block_on(async {
        let engine = Engine::start(config.clone(), store).map_err(|e| e.to_string())?;
        let answer = control::obey(&engine, command, config.listen).await;
        engine.stop().await;
        super::close(engine).await.map(|()| answer)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_address_of_a_relay_leads_to_its_base() {
        for url in ["wss://b.example/bridge/connect", "https://b.example/mcp", "https://b.example/", "https://b.example"] {
            assert_eq!(super::base(url), "https://b.example");
        }
        assert_eq!(super::base("127.0.0.1:8787"), "http://127.0.0.1:8787");
        assert_eq!(super::base("ws://h:1/bridge/connect/"), "http://h:1");
    }
}
