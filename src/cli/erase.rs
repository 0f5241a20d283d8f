//! `erase`: takes what was said in a conversation, or by and to an agent, off the record. On the relay that runs, or else
//! on its store. Owns the words and the asking back.

use std::time::Duration;

use clap::Args;

use super::client::ask_running;
use super::progress::Meter;
use super::{ConfigArgs, Outcome, backup};
use crate::config::Config;
use crate::engine::Engine;
use crate::inbound::control;
use crate::store::{self, Store};
use crate::wire::control::{Answer, Command};

const LOOK: Duration = Duration::from_millis(50);

#[derive(Args)]
#[command(after_help = "Without --yes it only counts. What is open stays until it has ended. That it was erased, when and how much, stays on
record: in the security log without id and name, in --list with them, so that it can be done again to a backup that is put back.

Search, page and exports have nothing of it at once. The bytes are gone from the files at once if the relay is stopped, and
else at its next start, which writes the file anew (about 20 s a GB). Backups taken before still have it.

Examples:
  hermes-bridge erase --conversation 0193a1b2-.. --dry-run
  hermes-bridge erase --agent carol --yes
  hermes-bridge erase --list

Exit codes: 0 done (or counted), 1 not.")]
pub(crate) struct EraseArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Everything in this conversation
    #[arg(long, value_name = "ID", required_unless_present_any = ["agent", "list"], conflicts_with_all = ["agent", "list"])]
    conversation: Option<String>,
    /// Everything that this agent asked or was asked
    #[arg(long, value_name = "NAME", conflicts_with = "list")]
    agent: Option<String>,
    /// Only count (what happens without --yes)
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do it
    #[arg(long, conflicts_with = "list")]
    yes: bool,
    /// Show what was erased before
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(args: EraseArgs) -> Outcome {
    let config = args.config.load(None).map_err(|e| e.to_string())?;
    let dry_run = !args.yes;
    let command = match args.list {
        true => Command::Erasures,
        false => Command::Erase { conversation: args.conversation, agent: args.agent, dry_run },
    };
    let said = match ask_running(&config, &command)? {
        Some(Answer::Done) => {
            let said = backup::wait(&config)?;
            if !dry_run {
                super::complain("its bytes leave the store's file when the relay starts the next time");
            }
            said
        }
        Some(Answer::Erasures(rows)) => return list(&rows),
        Some(Answer::Failed(why)) => return Err(why),
        Some(other) => return Err(format!("the running relay answered {other:?}")),
        None => match super::many_threads()?.block_on(alone(&config, command))? {
            Answer::Erasures(rows) => return list(&rows),
            Answer::Failed(why) => return Err(why),
            Answer::Progress { outcome: Some(outcome), .. } => {
                let said = outcome?;
                if !dry_run {
                    store::rewrite(&config.data_dir, &mut Meter::new().watch())
                        .map_err(|e| format!("{said}, but the file could not be written anew: {e}"))?;
                }
                said
            }
            other => return Err(format!("it ended as {other:?}")),
        },
    };
    println!("{said}");
    if dry_run {
        super::complain("nothing was changed; --yes erases it");
    }
    Ok(0)
}

fn list(rows: &[crate::wire::control::ErasureRow]) -> Outcome {
    for row in rows {
        println!("{}  {:>8}  {}", row.at, row.exchanges, super::harmless(&row.what));
    }
    Ok(0)
}

/// No relay runs: its store is ours for the moment. The index follows at once if it is there.
async fn alone(config: &Config, command: Command) -> Result<Answer, String> {
    super::must_have_a_store(config)?;
    let store = Store::open(&config.data_dir).map_err(|e| e.to_string())?;
    let engine = Engine::start(config.clone(), store).map_err(|e| e.to_string())?;
    let mut meter = Meter::new();
    let mut answer = control::obey(&engine, command, config.listen).await;
    while matches!(answer, Answer::Done | Answer::Progress { outcome: None, .. }) {
        if let Answer::Progress { stage, done, of, .. } = &answer {
            meter.show(stage, *done, *of);
        }
        tokio::time::sleep(LOOK).await;
        answer = control::obey(&engine, Command::Progress, config.listen).await;
    }
    engine.stop().await;
    super::close(engine).await?;
    Ok(answer)
}
