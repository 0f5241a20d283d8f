//! `ask`: asks over /mcp as any MCP client would, waits, prints the answer. Its exit code says how it ended.

use std::io::{IsTerminal, Read};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use super::Outcome;
use super::client::{Identity, Relay};

/// The relay sends a comment every 15 s; silence for so long means that it is gone.
const SILENCE: Duration = Duration::from_secs(60);
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
    let relay = args.identity.resolve()?;
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
    let result = super::runtime()?.block_on(wait_for(&relay, arguments, Duration::from_secs(args.wait)))?;
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
async fn wait_for(relay: &Relay, arguments: Value, patience: Duration) -> Result<Value, String> {
    let client = super::client::http(&relay.url).read_timeout(SILENCE).build().map_err(|e| e.to_string())?;
    let until = Instant::now() + patience;
    let mut result = call(&client, relay, "ask_agent", arguments).await?;
    while result["error"] == "still_working" && Instant::now() < until {
        super::complain(&format!("still working .. (request {})", result["request_id"].as_str().unwrap_or_default()));
        if result["limit"].is_string() {
            // It has ended, but its agent has too many results to take: there is nothing to wait for.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let left = until.saturating_duration_since(Instant::now()).as_secs().clamp(1, ROUND_SECONDS);
        let arguments = json!({"request_id": result["request_id"], "wait_seconds": left});
        result = call(&client, relay, "get_answer", arguments).await?;
    }
    Ok(result)
}

/// One tool call as JSON-RPC; the answer is an event stream or a document.
async fn call(client: &reqwest::Client, relay: &Relay, tool: &str, arguments: Value) -> Result<Value, String> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
    let request = client.post(format!("{}/mcp", relay.url)).bearer_auth(&relay.token).header("accept", "application/json, text/event-stream");
    let lost =
        |e: reqwest::Error| format!("{} does not answer: {}. Is the relay running? The answer, if there is one, is kept", relay.url, cause(&e));
    let mut response = request.json(&body).send().await.map_err(lost)?;
    let status = response.status();
    let mut text = String::new();
    while let Some(chunk) = response.chunk().await.map_err(lost)? {
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    if !status.is_success() {
        let said: Value = serde_json::from_str(&text).unwrap_or_default();
        return Err(format!("{} says {status}: {}", relay.url, said["error"].as_str().unwrap_or("no reason given")));
    }
    let document = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).rfind(|d| !d.is_empty()).unwrap_or(text.trim());
    let answer: Value = serde_json::from_str(document).map_err(|e| format!("{} answered what is no JSON: {e}", relay.url))?;
    if let Some(error) = answer["error"]["message"].as_str() {
        return Err(error.to_owned());
    }
    let content = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    if answer["result"]["isError"] == true {
        return Err(content.to_owned());
    }
    serde_json::from_str(content).map_err(|e| format!("{} answered what is no result: {e}", relay.url))
}

/// The innermost reason, without the address.
fn cause(error: &reqwest::Error) -> String {
    let mut source: &dyn std::error::Error = error;
    while let Some(inner) = source.source() {
        source = inner;
    }
    source.to_string()
}
