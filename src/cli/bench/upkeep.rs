//! What keeps a relay for years, while it answers 200 asks a second: a backup, put back elsewhere and held against the
//! original fact by fact; and nine tenths of the history removed by `[retention]`, then the file written anew by `compact`.
//!
//! Runs the real commands on a relay of its own with a history of `past`. Owns what equal means here: the same facts at the
//! same positions of the log, up to the one that the backup's manifest names.

use super::history::{filled, until_indexed};
use super::proc::Memory;
use super::progress;
use super::scratch::Scratch;
use super::server::{Kind, Launcher, Server, data_dir};
use super::steady::{self, CALLERS, Steady};
use crate::cli::client::ask_running;
use crate::config::{self, Config, Flags};
use crate::core::ids::Seq;
use crate::store::Store;
use crate::wire::control::{Answer, Command};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nothing but asks, for comparison.
const QUIET: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(200);
/// Retention that has removed nothing for so long has removed all it will.
const STILL: Duration = Duration::from_secs(10);
/// Of the log at once.
const ROWS: usize = 10_000;

#[derive(Serialize)]
pub(super) struct Upkeep {
    pub exchanges: u64,
    pub store_mb: f64,
    pub asks_per_second: u32,
    pub quiet: Steady,
    pub backup: Backup,
    pub retention: Retention,
}

#[derive(Serialize)]
pub(super) struct Backup {
    pub seconds: f64,
    pub mb: f64,
    pub asks: Steady,
    pub memory: Memory,
    /// Positions of the log up to which the restored store and the original are equal, and the hash of what stands there.
    pub equal_up_to: u64,
    pub exchanges: u64,
    pub sha256: String,
}

#[derive(Serialize)]
pub(super) struct Retention {
    pub seconds: f64,
    pub removed: u64,
    pub asks: Steady,
    pub memory: Memory,
    pub mb_before: f64,
    pub mb_after: f64,
    pub compact_seconds: f64,
    pub mb_compacted: f64,
}

pub(super) async fn measure(launcher: &Launcher, exchanges: u64) -> Result<Upkeep, String> {
    let (files, _) = filled(launcher, exchanges).await?;
    let place = Place { launcher, config: files.path().join("bridge.toml"), data: data_dir(files.path()), files };
    let server = place.start("").await?;
    until_indexed(&server, exchanges).await?;
    progress("nothing but asks");
    let pause = async {
        tokio::time::sleep(QUIET).await;
        Ok(())
    };
    let (_, quiet) = steady::during(&server.endpoint, pause).await?;
    let store_mb = place.file_mb();
    let backup = place.back_up(server).await?;
    let retention = place.remove(exchanges).await?;
    Ok(Upkeep { exchanges, store_mb, asks_per_second: steady::RATE, quiet, backup, retention })
}

/// One relay's files, and the commands on them.
struct Place<'a> {
    launcher: &'a Launcher,
    files: Arc<Scratch>,
    config: PathBuf,
    data: PathBuf,
}

impl Place<'_> {
    /// Over the files, with new agents and more behind the configuration.
    async fn start(&self, more: &str) -> Result<Server, String> {
        let Launcher { relay, floor, parent, extra } = self.launcher;
        let launcher = Launcher { relay: relay.clone(), floor: floor.clone(), parent: parent.clone(), extra: format!("{extra}\n{more}") };
        let _ = std::fs::remove_file(&self.config);
        launcher.start_over(self.files.clone(), Kind::Relay, CALLERS, CALLERS).await
    }

    fn file_mb(&self) -> f64 {
        mb(&self.data.join("bridge.redb"))
    }

    /// A command of the real program; how long it took.
    async fn run(&self, arguments: &[&str], data: &Path) -> Result<Duration, String> {
        let begun = Instant::now();
        let mut command = tokio::process::Command::new(&self.launcher.relay);
        command.args(arguments).arg("--config").arg(&self.config).arg("--data-dir").arg(data);
        let ran = command.kill_on_drop(true).output().await.map_err(|e| format!("{arguments:?}: {e}"))?;
        match ran.status.success() {
            true => Ok(begun.elapsed()),
            false => Err(format!("{arguments:?} ended with {}: {}", ran.status, String::from_utf8_lossy(&ran.stderr).trim())),
        }
    }

    async fn back_up(&self, server: Server) -> Result<Backup, String> {
        progress("a backup while asks go on");
        let (kept, restored) = (self.files.path().join("kept"), self.files.path().join("restored"));
        let dir = kept.to_str().ok_or("a directory whose name is no text")?;
        let (took, asks) = steady::during(&server.endpoint, self.run(&["backup", dir], &self.data)).await?;
        let memory = Memory::of(server.endpoint.pid);
        server.stop().await;
        progress("the backup put back elsewhere, and held against the original");
        self.run(&["restore", dir], &restored).await?;
        let (upto, exchanges, sha256) = digest(&restored, Seq(u64::MAX))?;
        let (_, _, original) = digest(&self.data, upto)?;
        if original != sha256 {
            return Err(format!("the restored store is not what the original was at position {}: {sha256}, {original}", upto.0));
        }
        let size = mb(&kept.join("bridge.redb"));
        for gone in [kept, restored] {
            std::fs::remove_dir_all(&gone).map_err(|e| format!("{}: {e}", gone.display()))?;
        }
        Ok(Backup { seconds: took.as_secs_f64(), mb: size, asks, memory, equal_up_to: upto.0, exchanges, sha256 })
    }

    async fn remove(&self, exchanges: u64) -> Result<Retention, String> {
        let mb_before = self.file_mb();
        let used = Store::open(&self.data).and_then(|store| store.used_bytes()).map_err(|e| e.to_string())?;
        let retention = format!("[retention]\nmax_bytes = {}\n", (used / 10).max(1_000_000));
        progress("nine tenths removed by [retention] while asks go on");
        let server = self.start(&retention).await?;
        let flags = Flags { config: Some(self.config.clone()), data_dir: Some(self.data.clone()), listen: None };
        let config = config::load(&flags, &|_| None).map_err(|e| e.to_string())?;
        let ((removed, took), asks) = steady::during(&server.endpoint, until_removed(&config, exchanges)).await?;
        let memory = Memory::of(server.endpoint.pid);
        server.stop().await;
        let mb_after = self.file_mb();
        progress("compact");
        let compact = self.run(&["compact"], &self.data).await?;
        let (seconds, compact_seconds) = (took.as_secs_f64(), compact.as_secs_f64());
        Ok(Retention { seconds, removed, asks, memory, mb_before, mb_after, compact_seconds, mb_compacted: self.file_mb() })
    }
}

/// How many the relay says it has removed, once that is nine tenths of the history or it removes no more, and how long it took.
/// The asks fill up what is removed: a slow machine would never be done with the rest.
async fn until_removed(config: &Config, exchanges: u64) -> Result<(u64, Duration), String> {
    let begun = Instant::now();
    let (mut removed, mut last) = (0, Instant::now());
    loop {
        let asked = config.clone();
        let told = tokio::task::spawn_blocking(move || ask_running(&asked, &Command::Erasures)).await;
        let Some(Answer::Erasures(rows)) = told.map_err(|e| format!("asking the relay: {e}"))?? else {
            return Err("the relay does not say what it has removed".to_owned());
        };
        let now = rows.iter().map(|row| row.exchanges).sum();
        if now > removed {
            (removed, last) = (now, Instant::now());
        }
        if removed * 10 >= exchanges * 9 {
            return Ok((removed, begun.elapsed()));
        } else if last.elapsed() > STILL && removed > exchanges / 2 {
            return Ok((removed, last - begun));
        } else if last.elapsed() > 60 * STILL {
            return Err(format!("only {removed} of {exchanges} exchanges were removed"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The last position of the log up to `upto`, the exchanges begun there, and the hash of all facts.
fn digest(data: &Path, upto: Seq) -> Result<(Seq, u64, String), String> {
    let store = Store::open(data).map_err(|e| e.to_string())?;
    let (mut hash, mut exchanges, mut last) = (Sha256::new(), 0, Seq(0));
    loop {
        let (rows, end) = store.log(last, ROWS).map_err(|e| e.to_string())?;
        let done = end >= upto || rows.is_empty();
        for (seq, fact) in rows.iter().filter(|(seq, _)| *seq <= upto) {
            hash.update(format!("{} {fact:?}\n", seq.0));
            exchanges += u64::from(matches!(fact, crate::core::effect::Fact::Asked(_) | crate::core::effect::Fact::Refused(..)));
            last = *seq;
        }
        if done {
            break;
        }
    }
    Ok((last, exchanges, hash.finalize().iter().map(|b| format!("{b:02x}")).collect()))
}

fn mb(file: &Path) -> f64 {
    super::proc::size(file) as f64 / 1e6
}
