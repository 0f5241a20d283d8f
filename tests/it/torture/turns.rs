//! How a process answers: mostly soon, sometimes after a while with heartbeats, too late, twice, or never.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::ledger::answer_of;
use super::process::Process;
use crate::rig::text;

pub async fn turn(process: Arc<Process>, wake: Value) {
    let (request, message) = (text(&wake, "request_id"), text(&wake, "message"));
    let answer = answer_of(&process.name, message);
    match process.below(100) {
        0..70 => process.pause(150).await,
        70..85 => {
            for _ in 0..1 + process.below(8) {
                process.pause(500).await;
                process.say(&json!({"type": "heartbeat", "request_id": request}));
            }
        }
        // Past the quiet limit.
        85..92 => tokio::time::sleep(Duration::from_millis(500 + process.below(1500))).await,
        92..95 => return process.ledger.count("never answered"),
        95..97 => {
            let failure = json!({"request_id": request, "error": "interrupted", "detail": "by dice"});
            process.call(&format!("{} fails {request}", process.instance()), "reply", failure, None).await;
            return;
        }
        _ => {}
    }
    let arguments = json!({"request_id": request, "answer": answer});
    if process.below(6) == 0 {
        return by_mcp(&process, request, &arguments).await;
    }
    let result = process.call(&format!("{} answers {request}", process.instance()), "reply", arguments, None).await;
    process.ledger.replied(process.instance(), request, &result);
    if process.below(10) == 0 {
        let other = json!({"request_id": request, "answer": "a second answer"});
        let result = process.call(&format!("{} changes {request}", process.instance()), "reply", other, None).await;
        if result["error"] != "already_answered" {
            process.ledger.fault(format!("{request}: a second answer was taken: {result}"));
        }
    }
}

/// Again until there is a result. Then it may be one of an earlier try.
async fn by_mcp(process: &Process, request: &str, arguments: &Value) {
    loop {
        match process.mcp.try_call("reply", arguments).await {
            Ok(result) => return process.ledger.replied(process.instance(), request, &result),
            Err(_) => process.pause(200).await,
        }
    }
}
