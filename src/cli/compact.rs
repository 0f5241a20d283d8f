//! `compact`: the store's file of a stopped relay written anew. Owns nothing but the words.

use clap::Args;

use super::client::ask_running;
use super::progress::Meter;
use super::{ConfigArgs, Outcome};
use crate::store;
use crate::wire::control::Command;

#[derive(Args)]
#[command(after_help = "The relay uses freed room again by itself; this gives it back to the disk. It needs room for a second file meanwhile.

Example:
  hermes-bridge compact --config /etc/hermes-bridge/bridge.toml

Exit codes: 0 done, 1 not (nothing was changed).")]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) fn run(args: CompactArgs) -> Outcome {
    let config = args.config.load(None).map_err(|e| e.to_string())?;
    let dir = &config.data_dir;
    if ask_running(&config, &Command::AgentList)?.is_some() {
        return Err(format!("a relay is running on {}: stop it first", dir.display()));
    }
    super::must_have_a_store(&config)?;
    let (before, after) = store::rewrite(dir, &mut Meter::new().watch()).map_err(|e| e.to_string())?;
    println!("{}: {before} bytes before, {after} now", dir.join("bridge.redb").display());
    Ok(0)
}
