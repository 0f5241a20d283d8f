//! The commands: one file each. Owns arguments, help and exit codes; the work is done by the other rooms.

mod agent;
mod ask;
mod backup;
mod bench;
mod call;
mod check;
mod client;
mod compact;
mod demo;
mod dice;
mod erase;
mod healthcheck;
mod import;
mod install;
mod listen;
mod progress;
mod reindex;
mod restore;
mod search;
mod serve;
mod ui_token;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand};

use crate::config::{self, Config, ConfigError, Flags};
use crate::engine::Engine;

/// Agents ask each other, wait for the answer, and you can read and search all of it.
#[derive(Parser)]
#[command(name = "hermes-bridge", version, about, args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::ServeArgs,
}

const EXAMPLES: &str = "Examples:
  hermes-bridge                                    start the relay (the same as: hermes-bridge serve)
  hermes-bridge listen --as bob --exec 'wc -w'     be a bot: count the words of each question
  hermes-bridge ask --as alice --to bob 'how many words are these?'
  hermes-bridge agent add carol                    make an agent and print its token once
  hermes-bridge demo                               look at the page: invented bots, nothing kept
  hermes-bridge check                              look whether everything is in order

Exit codes: 0 fine, 1 it failed, 2 wrong arguments; `ask` has its own, see `hermes-bridge ask --help`.";

#[derive(Subcommand)]
enum Command {
    /// Run the relay (the default command)
    Serve(serve::ServeArgs),
    /// Add, list, rotate and revoke agents, on a running relay too
    Agent(agent::AgentArgs),
    /// Make, list and take back the tokens that open the page
    UiToken(ui_token::UiTokenArgs),
    /// Join the Hermes bot of this machine to a relay
    Install(install::InstallArgs),
    /// Ask an agent a question and print its answer
    Ask(ask::AskArgs),
    /// Be a bot: run a command for each question, its output is the answer
    Listen(listen::ListenArgs),
    /// Search what agents asked and answered, as the page does
    Search(search::SearchArgs),
    /// Write out exchanges whole, as CSV, JSON or one JSON a line
    Export(search::ExportArgs),
    /// Build the search index anew, on a running relay too
    Reindex(reindex::ReindexArgs),
    /// Take a verified backup into a new directory, of a running relay too
    Backup(backup::BackupArgs),
    /// Verify a backup, and put it into the data directory of a stopped relay
    Restore(restore::RestoreArgs),
    /// Take a conversation or an agent's exchanges off the record, of a running relay too
    Erase(erase::EraseArgs),
    /// Write the store's file of a stopped relay anew, so that freed room goes back to the disk
    Compact(compact::CompactArgs),
    /// Take over history and configuration of the TypeScript relay
    Import(import::ImportArgs),
    /// Look at the page with six invented bots and a past, in a directory that is thrown away
    Demo(demo::DemoArgs),
    /// Look at configuration, data directory and time limits; says what is wrong and how to mend it
    Check(check::CheckArgs),
    /// Measure: asks a second, latency, memory, beside the same work with no logic and with one sync an ask
    Bench(bench::BenchArgs),
    /// Exit 0 if the relay is ready: for containers and monitors
    Healthcheck(healthcheck::HealthcheckArgs),
}

/// Which configuration a command works with.
#[derive(Args, Clone, Default)]
pub(crate) struct ConfigArgs {
    /// Configuration file [default: $HERMES_BRIDGE_CONFIG, ./bridge.toml, built-in]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory, instead of the configuration's
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl ConfigArgs {
    pub(crate) fn load(&self, listen: Option<String>) -> Result<Config, ConfigError> {
        let flags = Flags { config: self.config.clone(), data_dir: self.data_dir.clone(), listen };
        config::load(&flags, &config::process_env)
    }
}

/// How a command ended: its exit code, or the sentence to fail with.
pub(crate) type Outcome = Result<u8, String>;

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| behind_the_command(error).exit());
    let command = cli.command.unwrap_or(Command::Serve(cli.serve));
    if !matches!(command, Command::Listen(_) | Command::Install(_)) {
        // Whatever a relay keeps is its owner's alone. Commands that run others' programs leave theirs as it is.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    }
    let outcome = match command {
        Command::Serve(args) => serve::run(args),
        Command::Agent(args) => agent::run(args),
        Command::UiToken(args) => ui_token::run(args),
        Command::Install(args) => install::run(args),
        Command::Ask(args) => ask::run(args),
        Command::Listen(args) => listen::run(args),
        Command::Search(args) => search::search(args),
        Command::Export(args) => search::export(args),
        Command::Reindex(args) => reindex::run(args),
        Command::Backup(args) => backup::run(args),
        Command::Restore(args) => restore::run(args),
        Command::Erase(args) => erase::run(args),
        Command::Compact(args) => compact::run(args),
        Command::Import(args) => import::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Check(args) => check::run(args),
        Command::Healthcheck(args) => healthcheck::run(args),
        Command::Bench(args) => many_threads().and_then(|runtime| runtime.block_on(bench::run(args))),
    };
    match outcome {
        Ok(code) => code.into(),
        Err(message) => {
            complain(&message);
            ExitCode::FAILURE
        }
    }
}

/// One line on standard error.
#[allow(clippy::print_stderr)]
pub(crate) fn complain(message: &str) {
    eprintln!("hermes-bridge: {}", harmless(message));
}

/// Without what a terminal would obey: names, refusals and what a command said may come from anybody.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Says where options stand, to who puts them before the command.
fn behind_the_command(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(command)) = error.get(ContextKind::InvalidSubcommand).filter(|_| error.kind() == ErrorKind::ArgumentConflict) {
        let tip = format!("options stand behind the command: hermes-bridge {command} ..");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Closes the store of an engine that has stopped.
pub(crate) async fn close(engine: Arc<Engine>) -> Result<(), String> {
    let well = tokio::task::spawn_blocking(move || engine.close()).await;
    if well.unwrap_or(false) {
        Ok(())
    } else {
        Err("the store's writer was broken off by a fault of this program; what was acknowledged is on disk".to_owned())
    }
}

/// For commands that work on what is there: a mistyped directory is not made into an empty store.
pub(crate) fn must_have_a_store(config: &Config) -> Result<(), String> {
    if config.data_dir.join("bridge.redb").exists() {
        return Ok(());
    }
    Err(format!("there is no store in {}; --config or --data-dir names another", config.data_dir.display()))
}

/// A runtime for commands that talk to a relay; the relay itself has a larger one.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| format!("the runtime does not start: {e}"))
}

/// A runtime with a thread a core.
pub(crate) fn many_threads() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("relay").build().map_err(|e| format!("the runtime does not start: {e}"))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_arguments_are_well_formed() {
        super::Cli::command().debug_assert();
    }

    #[test]
    fn who_puts_options_before_the_command_hears_where_they_stand() {
        let said = |args: &str| super::behind_the_command(super::Cli::try_parse_from(args.split(' ')).err().unwrap()).to_string();
        assert!(said("hermes-bridge --config x check").contains("tip: options stand behind the command: hermes-bridge check .."));
        assert!(!said("hermes-bridge ask --as a --token b --to c x").contains("tip"));
    }
}
