//! `import`: what the TypeScript relay left behind: its history (the Postgres table as CSV or JSON lines, or its page's
//! state) into the store of a stopped relay, its config.yaml into a new bridge.toml. Owns the order: everything is read
//! and checked first, then written in pieces; the same file again adds nothing.

mod configuration;
mod exchange;
mod rows;
mod yaml;

use std::collections::HashSet;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;

use super::client::ask_running;
use super::progress::Meter;
use super::{ConfigArgs, Outcome};
use crate::core::effect::Fact;
use crate::core::ids::RequestId;
use crate::store::{Store, Written};
use crate::wire::control::Command;

/// Exchanges and bytes written at once.
const PIECE: usize = 200;
const PIECE_BYTES: usize = 2 << 20;
/// Mistakes that are shown; the rest is counted.
const SHOWN: usize = 20;

#[derive(Args)]
#[command(after_help = "History, from the database of the TypeScript relay, oldest first:
  psql -c \"\\copy (SELECT * FROM hermes_bridge_exchanges ORDER BY started_at) TO history.csv CSV HEADER\"
  psql -At -c \"SELECT row_to_json(e) FROM hermes_bridge_exchanges e ORDER BY started_at\" > history.jsonl
or, where it had no database, the latest 200 from its page: curl URL/ui/api/state > state.json

Examples:
  hermes-bridge import config.yaml                 writes bridge.toml beside you; never over one that is there
  hermes-bridge import --dry-run history.csv       only reads and checks
  hermes-bridge import history.csv                 into the data directory of the configuration, of a stopped relay

With a mistake in a file nothing is written, unless --skip-bad leaves those lines out. Broken off, run it again: what is
there already is passed over. The next start of the relay makes it searchable.

Exit codes: 0 done, 1 not.")]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// .csv, .jsonl (or .ndjson, .json), and .yaml (or .yml) for the configuration
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where the configuration goes
    #[arg(long, value_name = "FILE", default_value = "bridge.toml")]
    out: PathBuf,
    /// Only read and check
    #[arg(long)]
    dry_run: bool,
    /// Leave out what cannot be read, and import the rest
    #[arg(long)]
    skip_bad: bool,
}

pub(crate) fn run(args: ImportArgs) -> Outcome {
    let ends_in = |path: &Path, endings: &[&str]| {
        let ending = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        endings.contains(&ending.as_str())
    };
    let (configurations, histories): (Vec<_>, Vec<_>) = args.files.iter().partition(|f| ends_in(f, &["yaml", "yml"]));
    for path in &histories {
        if !ends_in(path, &["csv", "jsonl", "ndjson", "json"]) {
            return Err(format!("{}: what is it? Name it .csv, .jsonl or .yaml", path.display()));
        }
    }
    for path in configurations {
        configuration::import(path, &args.out, args.dry_run)?;
    }
    if histories.is_empty() {
        return Ok(0);
    }
    check(&histories, args.skip_bad)?;
    if args.dry_run {
        println!("nothing was written");
        return Ok(0);
    }
    let config = args.config.load(None).map_err(|e| e.to_string())?;
    if ask_running(&config, &Command::AgentList)?.is_some() {
        return Err(format!("a relay is running on {}: stop it first. Nothing was written", config.data_dir.display()));
    }
    let store = Store::open(&config.data_dir).map_err(|e| e.to_string())?;
    for path in histories {
        let (added, known) = write(&store, path)?;
        println!("{}: {added} exchanges imported, {known} were there already", path.display());
    }
    Ok(0)
}

/// Reads everything once; an error if a line is wrong.
fn check(paths: &[&PathBuf], skip_bad: bool) -> Result<(), String> {
    let mut wrong = 0;
    let mut meter = Meter::new();
    for path in paths {
        let mut good = 0_u64;
        each(path, "checking", &mut meter, |line, read| {
            match read {
                Ok(_) => good += 1,
                Err(why) => {
                    wrong += 1;
                    if wrong <= SHOWN {
                        super::complain(&format!("{}:{line}: {why}", path.display()));
                    }
                }
            }
            Ok(())
        })?;
        println!("{}: {good} exchanges can be read", path.display());
    }
    match wrong {
        0 => Ok(()),
        n if skip_bad => {
            super::complain(&format!("{n} lines are left out"));
            Ok(())
        }
        n => Err(format!("{n} lines cannot be read; nothing was written. Mend them, or leave them out with --skip-bad")),
    }
}

/// Hands every line of a file on, as an exchange or as what is wrong with it.
fn each(
    path: &Path,
    stage: &str,
    meter: &mut Meter,
    mut hand: impl FnMut(usize, Result<exchange::Imported, String>) -> Result<(), String>,
) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let file = File::open(path).map_err(failed)?;
    let of = file.metadata().map_err(failed)?.len();
    let csv = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"));
    let mut rows = rows::Rows::new(BufReader::with_capacity(1 << 20, file), csv);
    while let Some((line, row)) = rows.next().map_err(failed)? {
        meter.show(stage, rows.bytes(), of);
        hand(line, row.and_then(|row| exchange::Imported::of(&row)))?;
    }
    Ok(())
}

/// How many were added, and how many were there.
fn write(store: &Store, path: &Path) -> Result<(u64, u64), String> {
    let runtime = super::runtime()?;
    let mut meter = Meter::new();
    let mut conversations = HashSet::new();
    let mut piece = Piece::default();
    let (mut added, mut known) = (0, 0);
    each(path, "importing", &mut meter, |_, read| {
        let Ok(imported) = read else { return Ok(()) };
        let id = imported.id;
        if piece.ids.contains(&id) || store.record(id).map_err(|e| e.to_string())?.is_some() {
            known += 1;
            return Ok(());
        }
        added += 1;
        let begins = conversations.insert(imported.conversation);
        piece.bytes += imported.message.len() + imported.text.len();
        piece.ids.insert(id);
        piece.facts.extend(imported.facts(begins));
        if piece.ids.len() >= PIECE || piece.bytes >= PIECE_BYTES {
            std::mem::take(&mut piece).record(store, &runtime)?;
        }
        Ok(())
    })?;
    piece.record(store, &runtime)?;
    Ok((added, known))
}

#[derive(Default)]
struct Piece {
    ids: HashSet<RequestId>,
    facts: Vec<Fact>,
    bytes: usize,
}

impl Piece {
    fn record(self, store: &Store, runtime: &tokio::runtime::Runtime) -> Result<(), String> {
        let permit = runtime.block_on(store.reserve()).map_err(|e| e.to_string())?;
        let (told, done) = std::sync::mpsc::sync_channel(1);
        store.submit(permit, self.facts, move |written| _ = told.send(written));
        match done.recv() {
            Ok(Written::Durable) => Ok(()),
            _ => Err("the disk refuses to take it; make room and run the same command again, it goes on where it stopped".to_owned()),
        }
    }
}
