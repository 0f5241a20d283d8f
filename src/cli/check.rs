//! `check`: looks at configuration, data directory and time limits, and says of each finding what to do. Changes nothing.

use std::os::unix::fs::PermissionsExt;

use clap::Args;

use super::client::ask_running;
use super::{ConfigArgs, Outcome};
use crate::config::Config;
use crate::store::Store;
use crate::wire::control::{Answer, Command};

/// Hermes gives up a tool call after so long, unless its mcp_servers entry says otherwise.
const HERMES_TOOL_LIMIT_MS: u128 = 300_000;
/// What common proxies allow a silent response; the relay sends a byte every keep_alive_ms.
const PROXY_IDLE_MS: u128 = 60_000;

#[derive(Args)]
#[command(after_help = "Example:
  hermes-bridge check --config /etc/hermes-bridge/bridge.toml

Exit codes: 0 all is well (warnings allowed), 1 something must be mended.")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Default)]
struct Findings {
    bad: usize,
}

impl Findings {
    fn ok(&self, what: &str) {
        println!("ok       {what}");
    }

    fn warn(&self, what: &str) {
        println!("warning  {what}");
    }

    fn bad(&mut self, what: &str) {
        self.bad += 1;
        println!("WRONG    {what}");
    }
}

pub(crate) fn run(args: CheckArgs) -> Outcome {
    let mut findings = Findings::default();
    let config = match args.config.load(None) {
        Ok(config) => config,
        Err(e) => {
            findings.bad(&e.to_string());
            return Ok(1);
        }
    };
    let source = config.path.as_ref().map_or_else(|| "built in".to_owned(), |p| p.display().to_string());
    findings.ok(&format!("configuration ({source}): {} agents, listens on {}", config.agents.len(), config.listen));
    agents(&findings, &config);
    data_directory(&mut findings, &config);
    limits(&findings, &config);
    println!();
    match findings.bad {
        0 => println!("all is well"),
        n => println!("{n} to mend"),
    }
    Ok(u8::from(findings.bad > 0))
}

fn agents(findings: &Findings, config: &Config) {
    if config.agents.is_empty() {
        findings.warn("no [[agents]] in the configuration: add some there, or with `hermes-bridge agent add NAME`");
    }
    if !config.listen.ip().is_loopback() && config.public_url.is_none() && config.allowed_hosts.is_empty() {
        findings.warn(
            "listens beyond this machine, but neither public_url nor allowed_hosts is set: requests that name another host than localhost get 403",
        );
    }
}

fn data_directory(findings: &mut Findings, config: &Config) {
    let shown = config.data_dir.display();
    let Ok(metadata) = config.data_dir.metadata() else {
        return findings.ok(&format!("data directory {shown}: not there yet, the first start makes it"));
    };
    if !metadata.is_dir() {
        return findings.bad(&format!("data directory {shown}: is not a directory; name another with data_dir"));
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        findings.warn(&format!("data directory {shown}: others may read it; chmod 700 (the next start does it)"));
    }
    match ask_running(config, &Command::AgentList) {
        Ok(Some(Answer::Agents(rows))) => {
            let online = rows.iter().filter(|r| r.online).count();
            findings.ok(&format!("data directory {shown}: a relay is running on it; {online} of {} agents online", rows.len()));
        }
        Ok(Some(_)) => findings.warn("a relay is running, but of another version"),
        Err(why) => findings.bad(&why),
        Ok(None) => closed_store(findings, config),
    }
}

fn closed_store(findings: &mut Findings, config: &Config) {
    if !config.data_dir.join("bridge.redb").exists() {
        return findings.ok(&format!("data directory {}: empty, the first start fills it", config.data_dir.display()));
    }
    let counted = Store::open(&config.data_dir).and_then(|store| Ok((store.exchange_count()?, store.open_exchanges()?.len())));
    match counted {
        Ok((all, open)) => {
            findings.ok(&format!("store {}: opens, {all} exchanges, {open} of them open", config.data_dir.join("bridge.redb").display()))
        }
        Err(e) => findings.bad(&e.to_string()),
    }
}

fn limits(findings: &Findings, config: &Config) {
    let keep_alive = config.keep_alive.as_millis();
    let (quiet, wait) = (config.limits.ask_timeout_ms, config.ask_max_wait.as_millis());
    println!();
    println!("how long things may take:");
    println!("  {:>9} ms  silence of the asked bot, then timeout (ask_timeout_ms; each heartbeat starts it anew)", quiet);
    println!("  {:>9} ms  one call of ask_agent, then still_working (ask_max_wait_ms)", wait);
    println!("  {HERMES_TOOL_LIMIT_MS:>9} ms  Hermes' own limit for a tool call (timeout: in its mcp_servers entry, in seconds)");
    println!(
        "  {:>9} ms  silence on a waiting response at most, below what a proxy allows (keep_alive_ms; common proxies: {PROXY_IDLE_MS})",
        keep_alive
    );
    println!("  {:>9} ms  a lost bot is waited for (reconnect_grace_ms)", config.limits.reconnect_grace_ms);
    println!("  {:>9} ms  between pings; a bot silent for two is gone (ping_interval_ms)", config.ping_interval.as_millis());
    if keep_alive >= PROXY_IDLE_MS {
        findings.warn(&format!("keep_alive_ms = {keep_alive} is not below what common proxies allow ({PROXY_IDLE_MS}): they cut waiting calls"));
    }
    if wait >= HERMES_TOOL_LIMIT_MS {
        findings.warn(&format!(
            "ask_max_wait_ms = {wait} is not below Hermes' limit of {HERMES_TOOL_LIMIT_MS}: its bots give up before the relay answers"
        ));
    }
}
