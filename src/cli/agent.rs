//! `agent add|list|rotate|revoke`: on a running relay through its control socket, else on the store.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::client::{ask_running, carry_out};
use super::{ConfigArgs, Outcome};
use crate::config::Config;
use crate::engine::ROTATION_GRACE_MS;
use crate::wire::control::{AgentRow, Answer, Command};
use crate::wire::install;

#[derive(Args)]
#[command(after_help = "Examples:
  hermes-bridge agent add carol       prints carol's token, once
  hermes-bridge agent add dora --wait prints the line that joins a bot too, and waits for it
  hermes-bridge agent rotate carol    prints a new one; the old one stays valid for 24 hours
  hermes-bridge agent list --json")]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    what: What,
    /// Configuration file [default: $HERMES_BRIDGE_CONFIG, ./bridge.toml, built-in]
    // `ConfigArgs` behind the name of the subcommand too, where scripts write them.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Data directory, instead of the configuration's
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
}

#[derive(Subcommand)]
enum What {
    /// Make an agent and print its token, once
    Add {
        name: String,
        /// Print the line that joins a bot, and wait until the bot is online
        #[arg(long)]
        wait: bool,
    },
    /// Show all agents: where each comes from, whether it is online
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Give an agent a new token; the old one stays valid for a while
    Rotate { name: String },
    /// Remove an agent: its tokens are void and its sockets closed at once
    Revoke { name: String },
}

pub(crate) fn run(args: AgentArgs) -> Outcome {
    let config = ConfigArgs { config: args.config.clone(), data_dir: args.data_dir.clone() };
    let config = config.load(None).map_err(|e| e.to_string())?;
    let (command, json) = match &args.what {
        What::Add { name, .. } => (Command::AgentAdd { name: name.clone() }, false),
        What::Rotate { name } => (Command::AgentRotate { name: name.clone() }, false),
        What::Revoke { name } => (Command::AgentRevoke { name: name.clone() }, false),
        What::List { json } => (Command::AgentList, *json),
    };
    match carry_out(&config, command)? {
        Answer::Failed(why) => return Err(why),
        Answer::Agents(rows) if json => println!("{}", serde_json::to_string_pretty(&rows).map_err(|e| e.to_string())?),
        Answer::Agents(rows) => table(&rows),
        Answer::Token { name, token, url } => {
            show(&args.what, &name, &token, &url);
            if matches!(args.what, What::Add { wait: true, .. }) {
                wait_online(&config, &name, &token, &url)?;
            }
        }
        _ => println!("done"),
    }
    Ok(0)
}

fn show(what: &What, name: &str, token: &str, url: &str) {
    println!("{token}");
    let socket = url.replacen("http", "ws", 1);
    super::complain(&format!("this is {name}'s token, shown only now. Relay: {socket}/bridge/connect (bots), {url}/mcp (MCP clients)"));
    if matches!(what, What::Rotate { .. }) {
        super::complain(&format!(
            "the old token stays valid for {} hours; one written in bridge.toml for as long as it stands there",
            ROTATION_GRACE_MS / 3_600_000
        ));
    }
}

/// Waits until the bot has joined; as long as it takes, or until Ctrl-C.
fn wait_online(config: &Config, name: &str, token: &str, url: &str) -> Result<(), String> {
    super::complain("on the bot's machine (in its container: docker exec -u hermes BOT sh -c '..'):");
    println!("{}", install::join_line(url, token));
    super::complain(&format!("waiting until {name} is online .."));
    loop {
        match ask_running(config, &Command::AgentList)? {
            None => return Err("no relay is running; start it, then the bot can join".to_owned()),
            Some(Answer::Agents(rows)) if rows.iter().any(|r| r.name == name && r.online) => break,
            Some(_) => std::thread::sleep(Duration::from_millis(300)),
        }
    }
    super::complain(&format!("{name} is online"));
    Ok(())
}

fn table(rows: &[AgentRow]) {
    let width = rows.iter().map(|r| r.name.len()).max().unwrap_or(0).max(5);
    println!("{:<width$}  {:<11}  {:<7}  {:<20}  ADAPTER", "AGENT", "FROM", "STATE", "LAST SEEN");
    for row in rows {
        let state = if row.online { "online" } else { "offline" };
        let seen = row.last_seen.as_deref().unwrap_or("never");
        println!("{:<width$}  {:<11}  {state:<7}  {seen:<20}  {}", row.name, row.source, super::harmless(row.adapter.as_deref().unwrap_or("-")));
    }
}
