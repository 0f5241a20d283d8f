//! `restore`: verifies a backup and puts it where no relay runs. Owns nothing but the words.

use std::path::PathBuf;

use clap::Args;

use super::client::ask_running;
use super::progress::Meter;
use super::{ConfigArgs, Outcome};
use crate::core::outcome::moment;
use crate::store;
use crate::wire::control::Command;

#[derive(Args)]
#[command(after_help = "Examples:
  hermes-bridge restore --verify /mnt/backups/monday   only look whether it is whole
  hermes-bridge restore /mnt/backups/monday            into the empty data directory of the configuration
  hermes-bridge restore --force /mnt/backups/monday    move the store that is there aside first

The backup itself is never changed. The search index is made anew at the next start.

Exit codes: 0 done, 1 not (nothing was changed).")]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Only look whether the backup is whole; changes nothing
    #[arg(long)]
    verify: bool,
    /// Move a store that is in the data directory into before-restore-<time> there, instead of refusing
    #[arg(long, conflicts_with = "verify")]
    force: bool,
    /// The directory of the backup
    dir: PathBuf,
}

pub(crate) fn run(args: RestoreArgs) -> Outcome {
    let mut meter = Meter::new();
    let mut watch = meter.watch();
    if args.verify {
        let made = store::verify(&args.dir, &mut watch).map_err(|e| e.to_string())?;
        println!("{} is whole: {} exchanges, as of {}, made by {}", args.dir.display(), made.exchanges, made.taken, made.version);
        return Ok(0);
    }
    let config = args.config.load(None).map_err(|e| e.to_string())?;
    let data_dir = &config.data_dir;
    if ask_running(&config, &Command::AgentList)?.is_some() {
        return Err(format!("a relay is running on {}: stop it first. Nothing was changed", data_dir.display()));
    }
    let aside = format!("before-restore-{}", moment(super::backup::now()).replace(':', "-"));
    let put = store::restore(&args.dir, data_dir, args.force.then_some(aside.as_str()), &mut watch).map_err(|e| e.to_string())?;
    println!("{}: {} exchanges, as of {}", data_dir.display(), put.exchanges, put.taken);
    let aside = data_dir.join(aside);
    if aside.exists() {
        println!("what was there is in {}", aside.display());
    }
    Ok(0)
}
