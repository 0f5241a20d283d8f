//! `reindex`: has the search index built anew from the log, by the relay that runs or else by itself, and says how far it
//! is. Nothing but the index is touched; asks go on meanwhile.

use std::time::Duration;

use clap::Args;

use super::progress::Meter;
use super::{ConfigArgs, Outcome, client};
use crate::config::Config;
use crate::engine::Engine;
use crate::store::Store;
use crate::wire::control::{Answer, Command};

const LOOK: Duration = Duration::from_millis(100);
const STAGE: &str = "indexing, rows of the log";

#[derive(Args)]
#[command(after_help = "The index is made from the store and may be made anew at any time; what was said is not touched.
A running relay answers meanwhile, and searches what is indexed already.

Example:
  hermes-bridge reindex --config /etc/hermes-bridge/bridge.toml

Exit codes: 0 done, 1 not.")]
pub(crate) struct ReindexArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) fn run(args: ReindexArgs) -> Outcome {
    let config = args.config.load(None).map_err(|e| e.to_string())?;
    let rows = match client::ask_running(&config, &Command::Reindex)? {
        None => super::many_threads()?.block_on(alone(&config))?,
        Some(Answer::Done) => wait(&config)?,
        Some(Answer::Failed(why)) => return Err(why),
        Some(other) => return Err(format!("the running relay answered {other:?}")),
    };
    println!("the index is complete: it has followed the log up to {rows}");
    Ok(0)
}

/// Watches the running relay to the end; says up to which row of the log the index is complete.
fn wait(config: &Config) -> Result<u64, String> {
    let mut meter = Meter::new();
    loop {
        match client::ask_running(config, &Command::Indexing)? {
            Some(Answer::Indexing { of, ready: true, .. }) => return Ok(of),
            Some(Answer::Indexing { done, of, .. }) => meter.show(STAGE, done, of),
            None => return Err("the relay stopped before it was done; it goes on with it at its next start".to_owned()),
            Some(other) => return Err(format!("the running relay went on to say {other:?}")),
        }
        std::thread::sleep(LOOK);
    }
}

/// No relay runs: its store is ours for the moment.
async fn alone(config: &Config) -> Result<u64, String> {
    super::must_have_a_store(config)?;
    let store = Store::open(&config.data_dir).map_err(|e| e.to_string())?;
    let engine = Engine::start(config.clone(), store).map_err(|e| e.to_string())?;
    engine.reindex();
    let mut meter = Meter::new();
    while let Some((done, of)) = engine.indexing() {
        meter.show(STAGE, done, of);
        tokio::time::sleep(LOOK).await;
    }
    let rows = engine.last_seq().0;
    engine.stop().await;
    super::close(engine).await?;
    Ok(rows)
}
