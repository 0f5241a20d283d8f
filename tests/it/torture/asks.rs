//! How a process asks: over the WebSocket by a numbered call; over MCP under a key, again after each lost session, or twice
//! at once; by a stream that is taken up where it was cut; or without waiting at all. What goes on is fetched later.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::ledger::{Asking, Question};
use super::process::Process;
use crate::rig::{cut_at, tool_result};

/// Asks one question after the other. `asking` says that it is at it.
pub async fn ask_on(process: Arc<Process>, asking: Asking) {
    let mut talk: Option<(String, String)> = None;
    while !process.ledger.winds_down() {
        process.pause(400).await;
        let continued = talk.take().filter(|_| process.below(3) == 0);
        let (to, conversation) = match continued {
            Some((to, conversation)) => (to, Some(conversation)),
            None => (somebody(&process), None),
        };
        let padding = if process.below(50) == 0 { 10_000 } else { process.below(40) };
        let (number, question) = process.ledger.ask(&process.name, &to, conversation, padding as usize);
        if let Some(result) = ask(&process, number, &question).await {
            let result = follow(&process, number, result).await;
            talk = result["conversation_id"].as_str().map(|c| (to, c.to_owned()));
        }
    }
    drop(asking);
}

fn somebody(process: &Process) -> String {
    let names = &process.ledger.names;
    loop {
        let name = &names[process.below(names.len() as u64) as usize];
        if *name != process.name {
            return name.clone();
        }
    }
}

/// The first result, if the asker waits for one.
async fn ask(process: &Arc<Process>, number: u64, question: &Question) -> Option<Value> {
    let mut arguments = json!({"to": question.to, "message": question.message, "conversation_id": question.conversation});
    if process.below(4) == 0 {
        arguments["when_offline"] = json!("queue");
    }
    let way = process.below(100);
    if way < 55 {
        return Some(process.call(&format!("{} asks {number}", process.name), "ask_agent", arguments, Some(number)).await);
    }
    if way < 70 {
        return by_stream(process, number, &arguments).await;
    }
    arguments["request_key"] = json!(format!("key {number}"));
    match way {
        70..90 => Some(by_key(process, number, &arguments).await),
        90..95 => Some(tokio::join!(by_key(process, number, &arguments), by_key(process, number, &arguments)).0),
        _ => {
            let most = Duration::from_millis(process.below(80));
            process.ledger.calls(number);
            if let Ok(Ok(result)) = tokio::time::timeout(most, process.mcp.try_call("ask_agent", &arguments)).await {
                process.ledger.told(number, &result);
            }
            process.ledger.count("askers that left");
            None
        }
    }
}

/// Again under the same key until there is a result.
async fn by_key(process: &Process, number: u64, arguments: &Value) -> Value {
    loop {
        process.ledger.calls(number);
        if let Ok(result) = process.mcp.try_call("ask_agent", arguments).await {
            process.ledger.told(number, &result);
            return result;
        }
        process.pause(200).await;
    }
}

/// Once; a stream that began with an event is taken up again and again. Without one the ask may not have come to the relay.
async fn by_stream(process: &Process, number: u64, arguments: &Value) -> Option<Value> {
    process.ledger.calls(number);
    let stream = process.mcp.try_streaming(arguments).await.unwrap_or_default();
    let Some(id) = cut_at(&stream) else {
        let whole = stream.lines().filter_map(|l| l.strip_prefix("data:")).rfind(|d| d.contains("jsonrpc"))?;
        let result = tool_result(&serde_json::from_str(whole).ok()?);
        process.ledger.told(number, &result);
        return Some(result);
    };
    loop {
        process.pause(400).await;
        match process.mcp.try_resume(id).await {
            Ok((200, response)) => {
                process.ledger.count("streams taken up");
                let result = tool_result(&response);
                process.ledger.told(number, &result);
                return Some(result);
            }
            Ok((503, _)) | Err(_) => {}
            Ok(other) => process.ledger.fault(format!("question {number}: its stream {id} cannot be taken up: {other:?}")),
        }
    }
}

/// Fetches what goes on, mostly until it has ended.
async fn follow(process: &Arc<Process>, number: u64, mut result: Value) -> Value {
    for n in 0..process.below(12) {
        if result["error"] != "still_working" && result["error"] != "queued" {
            break;
        }
        let arguments = json!({"request_id": result["request_id"], "wait_seconds": process.below(3)});
        result = if process.below(2) == 0 {
            let id = format!("{} fetches {number} {n}", process.instance());
            process.call(&id, "get_answer", arguments, Some(number)).await
        } else {
            process.ledger.calls(number);
            match process.mcp.try_call("get_answer", &arguments).await {
                Ok(fetched) => {
                    process.ledger.told(number, &fetched);
                    fetched
                }
                Err(_) => {
                    process.pause(300).await;
                    result
                }
            }
        };
    }
    result
}
