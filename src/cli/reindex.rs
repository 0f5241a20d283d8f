//! `reindex`: has the search index built anew from the log, by the relay that runs or else by itself, and says how far it
//! is. Nothing but the index is touched; asks go on meanwhile.

use std::io::Write;
use std::time::Duration;

use clap::Args;

use super::{ConfigArgs, Outcome, client};
use crate::config::Config;
use crate::engine::Engine;
use crate::store::Store;
use crate::wire::control::{Answer, Command};

const LOOK: Duration = Duration::from_millis(250);

#[derive(Args)]
pub(crate) struct ReindexArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) fn run(args: ReindexArgs) -> Outcome {
    let config = args.config.load(None).map_err(|e| e.to_string())?;
    match client::ask_running(&config, &Command::Reindex)? {
        None => super::many_threads()?.block_on(alone(config)),
        Some(Answer::Done) => loop {
            match client::ask_running(&config, &Command::Indexing)? {
                Some(Answer::Indexing { done, of, ready }) => {
                    say(done, of, ready);
                    if ready {
                        return Ok(0);
                    }
                    std::thread::sleep(LOOK);
                }
                other => return Err(format!("the running relay went on to say {other:?}")),
            }
        },
        Some(Answer::Failed(why)) => Err(why),
        Some(other) => Err(format!("the running relay answered {other:?}")),
    }
}

/// No relay runs: its store is ours for the moment.
async fn alone(config: Config) -> Outcome {
    let store = Store::open(&config.data_dir).map_err(|e| e.to_string())?;
    let engine = Engine::start(config, store).map_err(|e| e.to_string())?;
    engine.reindex();
    while let Some((done, of)) = engine.indexing() {
        say(done, of, false);
        tokio::time::sleep(LOOK).await;
    }
    let (done, of) = (engine.indexed().0, engine.last_seq().0);
    say(done, of, true);
    engine.stop().await;
    super::close(engine).await?;
    Ok(0)
}

fn say(done: u64, of: u64, ready: bool) {
    let percent = (done * 100).checked_div(of).unwrap_or(100);
    print!("\rindexing: {percent} % ({done} of {of}){}", if ready { ", done\n" } else { "" });
    // Nobody may be looking.
    let _ = std::io::stdout().flush();
}
