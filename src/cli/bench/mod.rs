//! `bench`: what a relay does on this machine, beside the least that any relay could do on it.
//!
//! Owns the flags and the ways out; the parts are `plan` (what runs in which order), `server` (children), `floor`
//! (the echo they are compared with), `client`, `bot` and `load` (the callers), `script` and `check` (what
//! is said), `commits` (the store alone), `history`, `past`, `upkeep` and `steady` (a relay with much on record), `trust` (what
//! ids, tokens and limits cost and tell) and `report` and `table` (what is printed).
//! Never judges its figures: the exit code says whether it ran.

mod bot;
mod check;
mod client;
mod commits;
mod floor;
mod floor_log;
mod floor_wire;
mod given;
mod history;
mod idle;
mod load;
mod past;
mod plan;
mod proc;
mod report;
mod scratch;
mod script;
mod server;
mod sse;
mod stats;
mod steady;
mod table;
mod trust;
mod upkeep;

use bot::ReplyBy;
use clap::{Args, ValueEnum};
use std::io::Write as _;
use std::path::PathBuf;

const EXAMPLES: &str = "\
The floor is an echo with no logic for the same bytes; the durable floor adds one fdatasync, shared by all that wait,
before each answer. Both run as processes beside the relay, in turn with it, so that their ratio means something on
any machine, however busy. Everything listens on loopback and is gone afterwards.

Examples:
  hermes-bridge bench                          a minute and a half: asks, list_agents, idle bots, start, commits
  hermes-bridge bench --quick                  the same in under 20 seconds
  hermes-bridge bench --only asks --askers 16,64,256 --message-bytes 16384
  hermes-bridge bench --only commits           how long the disk takes: p50 and p99, 1, 16, 64 and 256 at once
  hermes-bridge bench --only idle --idle-bots 10000
  hermes-bridge bench --only history --exchanges 1000000 --dir /var/lib
                                               start, index and searches with a long history: ten minutes and 6 GB
  hermes-bridge bench --only upkeep --exchanges 400000 --dir /var/lib
                                               backup and retention of a store of a GB during 200 asks a second: it needs 4 GB
  hermes-bridge bench --dir /var/lib --json    on the disk that will hold the data, for a machine to read
  hermes-bridge bench --url http://127.0.0.1:8787 --tokens tokens.txt
                                               a relay that runs already; its history keeps the questions";

/// Measure asks a second, latency, CPU and memory, beside an echo with and without a disk
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// Askers at once, one level each
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1,16,64", value_parser = count(4096))]
    askers: Vec<u32>,

    /// Bots that answer, at every level [default: as many as askers]
    #[arg(long, value_name = "N", value_parser = count(4096))]
    bots: Option<u32>,

    /// Length of each question and of each answer
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(64..=262_144))]
    message_bytes: u32,

    /// How bots answer
    #[arg(long, value_enum, default_value = "http")]
    reply: ReplyBy,

    /// Seconds that each server is measured in each round [default: 1]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,

    /// Rounds; figures are their medians [default: 5]
    #[arg(long, value_name = "N", value_parser = count(100))]
    rounds: Option<u32>,

    /// Bots that only stay connected
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count(60_000))]
    idle_bots: u32,

    /// With --only history or upkeep: exchanges of about a kilobyte in the history
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = count(100_000_000))]
    exchanges: u32,

    /// Short rounds: under 20 seconds for everything
    #[arg(long)]
    quick: bool,

    /// Only these parts
    #[arg(long, value_enum, value_name = "PART,..", value_delimiter = ',')]
    only: Vec<Part>,

    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,

    /// Measure the relay at this address instead of one started for it
    #[arg(long, value_name = "URL", requires = "tokens")]
    url: Option<String>,

    /// With --url: its agents, one "name token" a line; the first half asks, the second half answers
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,

    /// With --url: the relay's process, for its CPU and memory
    #[arg(long, value_name = "PID", requires = "url")]
    pid: Option<u32>,

    /// Put the servers' files below this directory [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Leave the relay out: what this machine could do
    #[arg(long, conflicts_with = "url")]
    floor_only: bool,

    /// Another binary to start as the relay
    #[arg(long, value_name = "FILE", hide = true)]
    relay_bin: Option<PathBuf>,

    /// Configuration that the started relay gets behind its agents
    #[arg(long, value_name = "TOML", hide = true)]
    config_extra: Option<String>,

    /// Be the floor
    #[arg(long, hide = true, requires = "tokens")]
    floor_server: bool,

    /// With --floor-server: be durable, in this file
    #[arg(long, value_name = "FILE", hide = true)]
    floor_log: Option<PathBuf>,
}

/// A part of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// Questions, answered
    Asks,
    /// list_agents over 16 connections
    List,
    /// Bots that only stay connected
    Idle,
    /// One fact from the store's queue until it is durable, 1 to 256 at once, beside one append and fdatasync
    Commits,
    /// From start to ready, and memory at rest
    Start,
    /// A long history: start, building the index, searches (only when it is named)
    History,
    /// A long history backed up, put back, cut by retention and compacted while it answers (only when it is named)
    Upkeep,
    /// Foreign ids beside unknown ones, wrong tokens, and what the limits cost (only when it is named)
    Trust,
}

fn count(most: i64) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=most)
}

/// Runs the whole benchmark and prints its report. The error is for people: one sentence.
pub async fn run(args: BenchArgs) -> Result<u8, String> {
    if args.floor_server {
        let tokens = args.tokens.ok_or("--floor-server needs --tokens")?;
        let text = std::fs::read_to_string(&tokens).map_err(|e| format!("{}: {e}", tokens.display()))?;
        floor::serve(&text, args.floor_log.as_deref()).await?;
        return Ok(0);
    }
    let json = args.json;
    let report = tokio::select! {
        report = plan::run(args) => report?,
        signal = interrupted() => return Err(format!("stopped by {signal}; nothing is left running")),
    };
    let text = if json { report.json()? } else { report.table() };
    writeln!(std::io::stdout(), "{text}").map_err(|e| format!("standard output: {e}"))?;
    Ok(0)
}

/// Dropping what runs is what ends the children.
async fn interrupted() -> &'static str {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            return tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = tokio::signal::ctrl_c() => "SIGINT",
            };
        }
    }
    let _ = tokio::signal::ctrl_c().await;
    "SIGINT"
}

/// A line for whoever waits.
fn progress(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}"); // nobody needs it who closed it
}
