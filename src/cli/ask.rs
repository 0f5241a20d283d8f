//! `ask`: asks, waits however often the relay is restarted meanwhile, prints the answer. Its exit code says how it ended.

use std::io::{IsTerminal, Read};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use super::Outcome;
use super::call::Caller;
use super::client::Identity;

/// One get_answer waits so long, then is asked again.
const ROUND_SECONDS: u64 = 60;

#[derive(Args)]
#[command(after_help = "Examples:
  hermes-bridge ask --as alice --to bob 'What is the state of invoice F-2291?'
  hermes-bridge ask --as alice --to bob --conversation 0193...  'And the one before?'
  git diff | hermes-bridge ask --as alice --to reviewer -
  hermes-bridge ask --url https://bridge.example.org --token $TOKEN --to bob --json 'ping'

Exit codes: 0 answered; 1 the relay could not be reached or refused the call; 2 wrong arguments;
3 no answer yet (still working, or queued); 4 asked, but it ended without an answer (timeout, disconnected, failed, ..);
5 not asked (offline, unknown, not allowed, a limit).")]
pub(crate) struct AskArgs {
    #[command(flatten)]
    identity: Identity,
    /// The agent to ask
    #[arg(long, value_name = "NAME")]
    to: String,
    /// The question; - or nothing reads it from standard input
    message: Option<String>,
    /// Continue this conversation
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,
    /// Leave the question for an agent that is away
    #[arg(long)]
    queue: bool,
    /// Ask under this key: the same key again is the same question
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Give up waiting after so many seconds; the answer is kept
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    wait: u64,
    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: AskArgs) -> Outcome {
    let message = question(args.message.as_deref())?;
    let mut arguments = json!({"to": args.to, "message": message});
    for (key, value) in [("conversation_id", &args.conversation), ("request_key", &args.key)] {
        if let Some(value) = value {
            arguments[key] = json!(value);
        }
    }
    if args.queue {
        arguments["when_offline"] = json!("queue");
    }
    let result = super::runtime()?.block_on(wait_for(&args.identity, arguments, Duration::from_secs(args.wait)))?;
    let text = |key| result[key].as_str().unwrap_or_default();
    match (args.json, result["ok"] == true) {
        (true, _) => println!("{result}"),
        // A program gets the answer as it is.
        (false, true) if std::io::stdout().is_terminal() => println!("{}", super::harmless(text("answer"))),
        (false, true) => println!("{}", text("answer")),
        (false, false) => super::complain(&format!("{}: {} (request {})", text("error"), text("message"), text("request_id"))),
    }
    if !args.json && result["ok"] == true && std::io::stderr().is_terminal() {
        super::complain(&format!("to go on: --conversation {}", text("conversation_id")));
    }
    Ok(exit_code(&result))
}

fn question(given: Option<&str>) -> Result<String, String> {
    match given {
        Some(text) if text != "-" => Ok(text.to_owned()),
        _ => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|e| format!("the question cannot be read from standard input: {e}"))?;
            Ok(text.trim_end().to_owned())
        }
    }
}

fn exit_code(result: &Value) -> u8 {
    match result["error"].as_str() {
        _ if result["ok"] == true => 0,
        Some("still_working" | "queued") => 3,
        Some("timeout" | "agent_disconnected" | "failed" | "cancelled" | "expired") => 4,
        _ => 5,
    }
}

/// Asks, and goes on fetching while the relay says that the work goes on.
async fn wait_for(identity: &Identity, arguments: Value, patience: Duration) -> Result<Value, String> {
    let until = Instant::now() + patience;
    let mut caller = Caller::new(identity, until);
    let mut result = caller.call("ask_agent", &arguments).await?;
    while result["error"] == "still_working" && Instant::now() < until {
        super::complain(&format!("still working .. (request {})", result["request_id"].as_str().unwrap_or_default()));
        if result["limit"].is_string() {
            // It has ended, but its agent has too many results to take: there is nothing to wait for.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let left = until.saturating_duration_since(Instant::now()).as_secs().clamp(1, ROUND_SECONDS);
        let arguments = json!({"request_id": result["request_id"], "wait_seconds": left});
        result = caller.call("get_answer", &arguments).await?;
    }
    Ok(result)
}
