//! `check`: the doctor. Looks at configuration, port, data directory, index, clock, addresses, time limits, backups and
//! bots, and says of each finding what to do. Changes nothing of what it looks at.

mod bots;
mod data;
mod exports;
mod network;
mod times;

use clap::Args;
use serde::Serialize;

use super::client::ask_running;
use super::{ConfigArgs, Outcome};
use crate::config::Config;
use crate::wire::control::{AgentRow, Answer, Command, ExportRow};

#[derive(Args)]
#[command(after_help = "Examples:
  hermes-bridge check --config /etc/hermes-bridge/bridge.toml
  hermes-bridge check --deep     of a stopped relay: read every page of the store too (seconds a GB)
  hermes-bridge check --json     for monitors

Exit codes: 0 all is well (warnings allowed), 1 something must be mended.")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Read the whole store, of a stopped relay
    #[arg(long)]
    deep: bool,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
enum Level {
    Ok,
    Warning,
    Wrong,
}

#[derive(Serialize)]
struct Finding {
    level: Level,
    topic: &'static str,
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, topic: &'static str, what: impl Into<String>) {
        self.0.push(Finding { level: Level::Ok, topic, what: what.into(), remedy: None });
    }

    fn warn(&mut self, topic: &'static str, what: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Finding { level: Level::Warning, topic, what: what.into(), remedy: Some(remedy.into()) });
    }

    fn bad(&mut self, topic: &'static str, what: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Finding { level: Level::Wrong, topic, what: what.into(), remedy: Some(remedy.into()) });
    }
}

/// What the running relay says of itself.
struct Running {
    version: String,
    listen: String,
    agents: Vec<AgentRow>,
    exports: Vec<ExportRow>,
}

pub(crate) fn run(args: CheckArgs) -> Outcome {
    let mut findings = Findings::default();
    let config = match args.config.load(None) {
        Ok(config) => Some(config),
        Err(e) => {
            findings.bad("configuration", e.to_string(), "mend this line; bridge.toml of the release shows every key");
            None
        }
    };
    if let Some(config) = &config {
        let source = config.path.as_ref().map_or_else(|| "built in".to_owned(), |p| p.display().to_string());
        findings.ok("configuration", format!("configuration ({source}): {} agents, listens on {}", config.agents.len(), config.listen));
        let running = running(&mut findings, config);
        if config.agents.is_empty() && running.as_ref().is_none_or(|r| r.agents.is_empty()) {
            findings.warn("agents", "no [[agents]] in the configuration", "add some there, or with `hermes-bridge agent add NAME`");
        }
        network::check(&mut findings, config, running.as_ref());
        let look = data::check(&mut findings, config, running.as_ref(), args.deep);
        times::check(&mut findings, config);
        exports::check(&mut findings, config);
        exports::standing(&mut findings, running.as_ref().map_or(&[], |r| &r.exports));
        match (&running, &look) {
            (Some(running), _) => bots::online(&mut findings, running),
            (None, Some(look)) => bots::last_seen(&mut findings, config, look),
            (None, None) => {}
        }
    }
    let wrong = findings.0.iter().filter(|f| f.level == Level::Wrong).count();
    if args.json {
        let limits = config.as_ref().map(times::chain).unwrap_or_default();
        println!("{:#}", serde_json::json!({"ok": wrong == 0, "findings": findings.0, "limits": limits}));
    } else {
        print(&findings, config.as_ref(), wrong);
    }
    Ok(u8::from(wrong > 0))
}

fn print(findings: &Findings, config: Option<&Config>, wrong: usize) {
    for finding in &findings.0 {
        let level = match finding.level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Wrong => "WRONG",
        };
        println!("{level:<7}  {}", crate::cli::harmless(&finding.what));
        if let Some(remedy) = &finding.remedy {
            println!("         -> {remedy}");
        }
    }
    if let Some(config) = config {
        println!("\nhow long things may take:");
        for limit in times::chain(config) {
            println!("  {:>9} ms  {}", limit.ms, limit.what);
        }
    }
    println!();
    match wrong {
        0 => println!("all is well"),
        n => println!("{n} to mend"),
    }
}

/// Asks the relay that runs with this data directory, if one does.
fn running(findings: &mut Findings, config: &Config) -> Option<Running> {
    let topic = "relay";
    let agents = match ask_running(config, &Command::AgentList) {
        Ok(Some(Answer::Agents(agents))) => agents,
        Ok(None) => return None,
        Ok(Some(other)) => {
            findings.warn(topic, format!("a relay is running, but answers {other:?}"), "restart it: it is of another version");
            return None;
        }
        Err(why) => {
            findings.bad(topic, why, "look at its log, and restart it");
            return None;
        }
    };
    match ask_running(config, &Command::About) {
        Ok(Some(Answer::About { version, listen, troubles, exports })) => {
            let ours = env!("CARGO_PKG_VERSION");
            if version != ours {
                findings.warn(
                    topic,
                    format!("the running relay is version {version}, this program {ours}"),
                    "restart it to bring it to this version",
                );
            }
            for trouble in &troubles {
                findings.bad(topic, format!("the running relay says: {trouble}"), "look at its log; /ready says the same until it is over");
            }
            Some(Running { version, listen, agents, exports })
        }
        _ => {
            let (version, listen) = ("another".to_owned(), config.listen.to_string());
            findings.warn(topic, "the running relay is of another version", "restart it to bring it to this version");
            Some(Running { version, listen, agents, exports: Vec::new() })
        }
    }
}
