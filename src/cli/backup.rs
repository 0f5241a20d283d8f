//! `backup`: by the relay that runs, or else by itself. Owns nothing but the waiting.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::client::ask_running;
use super::progress::Meter;
use super::{ConfigArgs, Outcome};
use crate::config::Config;
use crate::core::ids::Millis;
use crate::core::outcome::moment;
use crate::store::{self, BackupError, Store};
use crate::wire::control::{Answer, Command};

const LOOK: Duration = Duration::from_millis(100);

#[derive(Args)]
#[command(after_help = "The relay goes on meanwhile. What is in the directory then is one moment's state: the store, a manifest and SHA256SUMS.
The search index is not in it (it is made from the store), neither is bridge.toml.

Examples:
  hermes-bridge backup /mnt/backups/monday
  hermes-bridge restore --verify /mnt/backups/monday

Exit codes: 0 taken and verified, 1 not (nothing is left behind in this directory).")]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// A directory that does not exist yet
    dir: PathBuf,
}

pub(crate) fn run(args: BackupArgs) -> Outcome {
    let config = args.config.load(None).map_err(|e| e.to_string())?;
    // The relay may have been started elsewhere.
    let dir = std::path::absolute(&args.dir).map_err(|e| format!("{}: {e}", args.dir.display()))?;
    // The relay looks too, but perhaps at another directory of this name: then what is here would be taken for its backup.
    if store::is_backup(&dir) {
        return Err(BackupError::Exists(dir).to_string());
    }
    let said = match ask_running(&config, &Command::Backup { dir: dir.clone() })? {
        Some(Answer::Done) => wait(&config).and_then(|said| is_here(&dir).map(|()| said))?,
        Some(Answer::Failed(why)) => return Err(why),
        Some(other) => return Err(format!("the running relay answered {other:?}")),
        None => alone(&config, dir)?,
    };
    println!("{said}");
    Ok(0)
}

/// A service may have a /tmp of its own, a container all its directories.
fn is_here(dir: &Path) -> Result<(), String> {
    if store::is_backup(dir) {
        return Ok(());
    }
    let shown = dir.display();
    Err(format!(
        "the relay took the backup, but it is not in {shown} as seen from here: the relay has a file system of its own (systemd's PrivateTmp=, a container) \
         and wrote it there, or its directory cannot be read by you. Name a directory that both see (of a service: under its StateDirectory, or one of ReadWritePaths=)"
    ))
}

/// Watches the work of the running relay to its end.
pub(super) fn wait(config: &Config) -> Result<String, String> {
    let mut meter = Meter::new();
    loop {
        match ask_running(config, &Command::Progress)? {
            Some(Answer::Progress { outcome: Some(outcome), .. }) => return outcome,
            Some(Answer::Progress { stage, done, of, .. }) => meter.show(&stage, done, of),
            None => return Err("the relay stopped before it was done".to_owned()),
            Some(other) => return Err(format!("the running relay went on to say {other:?}")),
        }
        std::thread::sleep(LOOK);
    }
}

fn alone(config: &Config, dir: PathBuf) -> Result<String, String> {
    super::must_have_a_store(config)?;
    let store = Store::open(&config.data_dir).map_err(|e| e.to_string())?;
    let made = store.backup(&dir, &moment(now()), &mut Meter::new().watch()).map_err(|e| e.to_string())?;
    Ok(format!("{}: {} exchanges, {} bytes, as of {}", dir.display(), made.exchanges, made.bytes, made.taken))
}

/// The wall clock, for a command that has no engine.
pub(super) fn now() -> Millis {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_millis());
    Millis(u64::try_from(now).unwrap_or(u64::MAX))
}
