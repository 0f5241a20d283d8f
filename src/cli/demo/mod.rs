//! `demo`: a relay in a directory that is thrown away, with six invented bots that have a past and go on talking. For
//! looking at the page; it shares nothing with a relay in use.

mod lines;
mod past;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Outcome, ui_token};
use crate::cli::dice::Dice;
use crate::config::{self, Flags, Secret};
use crate::engine::{AskRequest, Connection, Engine, ToBot};
use crate::inbound;
use crate::store::Store;
use lines::{BOTS, SCRIPTS};
use past::name;

/// The last of the bots is away, so that the page has one to show as offline.
const PRESENT: usize = BOTS.len() - 1;

#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: String,
    /// So many exchanges in the past
    #[arg(long, value_name = "N", default_value_t = 400)]
    exchanges: usize,
    /// A new question about every so many seconds; 0 for none
    #[arg(long, value_name = "SECONDS", default_value_t = 12)]
    every: u64,
}

pub(crate) fn run(args: DemoArgs) -> Outcome {
    super::many_threads()?.block_on(demo(args))
}

async fn demo(args: DemoArgs) -> Outcome {
    let directory = Throwaway::new()?;
    let tokens = write_config(&directory.0)?;
    let flags = Flags { config: Some(directory.0.join("bridge.toml")), listen: Some(args.listen.clone()), data_dir: None };
    let mut config = config::load(&flags, &|_| None).map_err(|e| e.to_string())?;
    // Nothing in it is anybody's; beyond this machine its owner may say more than a stranger all the same.
    config.ui.open = config.listen.ip().is_loopback();
    let listener = TcpListener::bind(config.listen).await.map_err(|e| format!("cannot listen on {}: {e}", config.listen))?;
    let bound = listener.local_addr().map_err(|e| e.to_string())?;
    let store = Store::open(&config.data_dir).map_err(|e| e.to_string())?;
    let now = jiff::Timestamp::now().as_millisecond();
    past::write(&store, crate::core::ids::Millis(u64::try_from(now).unwrap_or(0)), args.exchanges).await?;
    let url = config.base_url(bound);
    let engine = Engine::start(config, store).map_err(|e| e.to_string())?;
    let stop = CancellationToken::new();
    for bot in &BOTS[..PRESENT] {
        tokio::spawn(answer(engine.clone(), bot, stop.clone()));
    }
    if args.every > 0 {
        tokio::spawn(talk(engine.clone(), args.every, stop.clone()));
    }
    println!("A relay with six invented bots; nothing of it stays after Ctrl-C.");
    println!("listening on {url}");
    match engine.mint_owner_token().await.map_err(|e| e.to_string())? {
        Some(token) => println!("open {}", ui_token::link(&url, token.reveal())),
        None => println!("open {url}/ui"),
    }
    if let Some((bot, token)) = tokens.first() {
        println!("To ask something yourself, as {bot}:");
        println!("  hermes-bridge ask --url {url} --token {} --to sre-bot 'what failed last night?'", token.reveal());
    }
    let until = stop.clone();
    tokio::spawn(async move {
        stop_signal().await;
        until.cancel();
    });
    inbound::serve(listener, engine.clone(), stop).await;
    super::close(engine).await?;
    Ok(0)
}

/// SIGTERM or Ctrl-C.
async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else { return };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

fn write_config(directory: &Path) -> Result<Vec<(&'static str, Secret)>, String> {
    // They talk by a script, for as long as somebody looks: two of them ask each other more often than bots in a loop may.
    let mut text = "data_dir = \"data\"\n[limits]\nmax_asks_per_pair_per_hour = 100000\n".to_owned();
    let mut tokens = Vec::new();
    for bot in BOTS {
        let token = Secret::mint().map_err(|e| format!("no random bytes: {e}"))?;
        text.push_str(&format!("[[agents]]\nname = \"{bot}\"\ntoken = \"{}\"\n", token.reveal()));
        tokens.push((bot, token));
    }
    std::fs::write(directory.join("bridge.toml"), text).map_err(|e| format!("{}: {e}", directory.display()))?;
    Ok(tokens)
}

/// One bot: takes its time, then says what its script says, or repeats what it was asked.
async fn answer(engine: Arc<Engine>, bot: &'static str, stop: CancellationToken) {
    let Ok(Some(mut connection)) = engine.connect(&name(bot)).await else { return };
    // A bot of the demo has no process that could come back.
    let _ = connection.introduce(None).await;
    let mut dice = Dice::new(bot.bytes().map(u64::from).sum());
    loop {
        let told = tokio::select! {
            told = next(&mut connection) => told,
            () = stop.cancelled() => return connection.said_goodbye(),
        };
        let Some(told) = told else { return };
        let ToBot::Wake(wake) = told else { continue };
        let (engine, me, roll, pause) = (engine.clone(), name(bot), dice.below(12), 800 + dice.below(3_500));
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let reply = match roll {
                0 if script_of(&wake.asked.message).is_some() => crate::core::replies::Reply::Failure("the model returned nothing".into()),
                _ => crate::core::replies::Reply::Answer(said(&wake.asked.message).into()),
            };
            let _ = engine.reply(&me, wake.asked.id, reply, None).await;
        });
    }
}

async fn next(connection: &mut Connection) -> Option<ToBot> {
    connection.queue.recv().await
}

/// The answer that belongs to a question, with the number that the question has in the place of `{n}`.
fn script_of(question: &str) -> Option<String> {
    SCRIPTS.iter().flat_map(|s| s.turns).find_map(|(asked, answer)| {
        let (before, after) = asked.split_once("{n}").unwrap_or((asked, ""));
        let number = question.strip_prefix(before)?.strip_suffix(after)?;
        (number.len() <= 2).then(|| answer.replace("{n}", number))
    })
}

fn said(question: &str) -> String {
    script_of(question).unwrap_or_else(|| format!("Noted: {question}"))
}

/// Somebody who is there asks somebody, for ever.
async fn talk(engine: Arc<Engine>, every: u64, stop: CancellationToken) {
    let mut dice = Dice::new(u64::from(std::process::id()) << 20 | 77);
    loop {
        let pause = Duration::from_millis(every * 500 + dice.below(every * 1_000));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
        let Some(script) = dice.pick(SCRIPTS).filter(|s| BOTS[..PRESENT].contains(&s.from)) else { continue };
        let number = (10 + dice.below(90)).to_string();
        let engine = engine.clone();
        tokio::spawn(async move {
            let mut conversation = None;
            for (question, _) in script.turns {
                let request =
                    AskRequest { to: script.to.into(), message: question.replacen("{n}", &number, 1), conversation, ..AskRequest::default() };
                let Ok(crate::engine::AskReport::Ended(ended)) = engine.ask(&name(script.from), request).await else { return };
                conversation = Some(ended.asked.conversation.to_string());
                tokio::time::sleep(Duration::from_secs(4)).await;
            }
        });
    }
}

/// A directory that is gone when the demo is.
struct Throwaway(PathBuf);

impl Throwaway {
    fn new() -> Result<Self, String> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|e| format!("no random bytes: {e}"))?;
        let path = std::env::temp_dir().join(format!("hermes-bridge-demo-{:016x}", u64::from_le_bytes(random)));
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Throwaway {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demo_that_runs_for_days_is_no_loop() {
        let directory = Throwaway::new().unwrap();
        write_config(&directory.0).unwrap();
        let config = config::load(&Flags { config: Some(directory.0.join("bridge.toml")), ..Flags::default() }, &|_| None).unwrap();
        let turns = SCRIPTS.iter().map(|s| s.turns.len()).max().unwrap_or_default();
        // Every second a script, each time of the same two.
        assert!(config.limits.max_asks_per_pair_per_hour as usize > 3_600 * turns);
        assert!(config.limits.max_turns_per_conversation as usize > turns);
    }

    #[test]
    fn a_question_of_a_script_gets_its_answer_and_any_other_is_repeated() {
        assert!(said("Which version is running in ap-south right now?").starts_with("4."));
        assert!(said("¿Sigue fallando la impresora de etiquetas del muelle 17?").starts_with("No, desde"));
        assert_eq!(said("hello"), "Noted: hello");
    }
}
