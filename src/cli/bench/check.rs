//! Reads what a relay returned and holds it against what the script says: the right answer to the right call, or why not.
//!
//! Never sends anything. A refusal is a failure here, because a relay that refuses is fast.

use super::script::answer_head;
use serde::Deserialize;
use std::borrow::Cow;

/// A tool's result object.
#[derive(Deserialize)]
pub(super) struct Outcome<'a> {
    #[serde(default)]
    ok: bool,
    #[serde(borrow, default)]
    answer: Cow<'a, str>,
    #[serde(borrow, default)]
    error: Cow<'a, str>,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Response<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    result: Option<ToolResult<'a>>,
}

#[derive(Deserialize)]
struct ToolResult<'a> {
    #[serde(borrow, default)]
    content: Vec<Block<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default)]
    text: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Listed<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// Why a call did not do what the bench asked of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The target is not there (yet).
    Offline,
    /// Any other thing, in one sentence.
    Other(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Offline => f.write_str("the relay said that the target is offline"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl Outcome<'_> {
    pub(super) fn accepted(&self) -> Result<(), Failure> {
        match (self.ok, &*self.error) {
            (true, _) => Ok(()),
            (false, "agent_offline") => Err(Failure::Offline),
            (false, error) => Err(Failure::Other(format!("the relay said {error:?}: {}", self.message))),
        }
    }
}

/// The text block of the JSON-RPC response to call `id`.
pub(super) fn result_text(id: u64, payload: &[u8]) -> Result<Cow<'_, str>, Failure> {
    let strange = |what: &str| {
        let start = String::from_utf8_lossy(&payload[..payload.len().min(300)]).into_owned();
        Failure::Other(format!("{what}: {start}"))
    };
    let response: Response<'_> = serde_json::from_slice(payload).map_err(|e| strange(&format!("not JSON-RPC ({e})")))?;
    if response.id != Some(id) {
        return Err(strange(&format!("a response to another call than {id}")));
    }
    let result = response.result.ok_or_else(|| strange("a JSON-RPC error"))?;
    let block = result.content.into_iter().next().ok_or_else(|| strange("a result without text"))?;
    Ok(block.text)
}

/// The answer to call `id` must be the one that `bot` gives to `from` for `nonce`.
pub(super) fn check_answer(id: u64, payload: &[u8], nonce: u64, bot: &str, from: &str, size: usize) -> Result<(), Failure> {
    let text = result_text(id, payload)?;
    let outcome = parse_outcome(&text)?;
    outcome.accepted()?;
    let head = answer_head(nonce, bot, from);
    if outcome.answer.starts_with(&head) && outcome.answer.len() == size.max(head.len()).max(17) {
        return Ok(());
    }
    let got: String = outcome.answer.chars().take(80).collect();
    Err(Failure::Other(format!("MIX-UP: {from} should hear {head:?} from {bot}, heard {got:?}")))
}

/// The list that answers call `id` must name the caller. Parsed at first, later only searched: the caller
/// should cost less than the list.
pub(super) fn check_list(id: u64, payload: &[u8], name: &str) -> Result<(), Failure> {
    let whole = std::str::from_utf8(payload).unwrap_or_default();
    if id > 1 && whole.contains(name) && whole.contains(&format!("\"id\":{id}")) {
        return Ok(());
    }
    let text = result_text(id, payload)?;
    let list: Vec<Listed<'_>> = serde_json::from_str(&text).map_err(|e| Failure::Other(format!("not a list of agents ({e})")))?;
    let named = list.iter().any(|agent| agent.name == name);
    if named { Ok(()) } else { Err(Failure::Other(format!("a list without {name}"))) }
}

/// A reply must have been accepted.
pub(super) fn check_reply(id: u64, payload: &[u8]) -> Result<(), Failure> {
    parse_outcome(&result_text(id, payload)?)?.accepted()
}

fn parse_outcome(text: &str) -> Result<Outcome<'_>, Failure> {
    serde_json::from_str(text).map_err(|e| Failure::Other(format!("a tool result that is no outcome ({e})")))
}

#[cfg(test)]
mod tests {
    use super::super::script::answer_to;
    use super::*;

    fn response(id: u64, outcome: &serde_json::Value) -> Vec<u8> {
        let content = serde_json::json!([{"type": "text", "text": outcome.to_string()}]);
        serde_json::json!({"jsonrpc": "2.0", "id": id, "result": {"content": content}}).to_string().into_bytes()
    }

    #[test]
    fn an_answer_meant_for_another_question_bot_or_asker_is_a_mix_up() {
        let answer = answer_to("0000000000000009 ..", "bot-1", "asker-1").unwrap();
        let payload = response(5, &serde_json::json!({"ok": true, "answer": answer}));
        let size = answer.len();
        assert!(check_answer(5, &payload, 9, "bot-1", "asker-1", size).is_ok());
        assert!(check_answer(5, &payload, 8, "bot-1", "asker-1", size).is_err());
        assert!(check_answer(5, &payload, 9, "bot-2", "asker-1", size).is_err());
        assert!(check_answer(5, &payload, 9, "bot-1", "asker-2", size).is_err());
        assert!(check_answer(5, &payload, 9, "bot-1", "asker-1", size + 1).is_err());
        assert!(check_answer(6, &payload, 9, "bot-1", "asker-1", size).is_err());
    }

    #[test]
    fn a_list_must_answer_this_call_and_name_the_caller() {
        for id in [1, 7] {
            let payload = response(id, &serde_json::json!([{"name": "a", "online": true}]));
            assert_eq!(check_list(id, &payload, "a"), Ok(()));
            assert!(check_list(id, &payload, "b").is_err());
            assert!(check_list(id + 1, &payload, "a").is_err());
        }
        assert!(check_list(1, &response(1, &serde_json::json!({"ok": false})), "a").is_err());
    }

    #[test]
    fn a_refusal_is_told_from_a_bot_that_is_not_there_yet() {
        let offline = response(1, &serde_json::json!({"ok": false, "error": "agent_offline"}));
        assert_eq!(check_reply(1, &offline), Err(Failure::Offline));
        let limited = response(1, &serde_json::json!({"ok": false, "error": "rate_limited", "message": "m"}));
        assert!(matches!(check_reply(1, &limited), Err(Failure::Other(e)) if e.contains("rate_limited")));
    }
}
