//! What is asked and answered: the JSON of questions, replies and frames, the same for every server.
//!
//! Each answer is a function of the question's nonce, of the bot that gave it and of the asker it was told,
//! so that `check` sees an answer that reached the wrong asker. Never sends anything; never times anything.

use super::check::Outcome;
use bytes::Bytes;
use serde::Deserialize;
use std::borrow::Cow;

/// One question: its text is the nonce in hex, a space, and padding up to `size` bytes.
pub(super) fn ask_body(id: u64, to: &str, nonce: u64, size: usize) -> Bytes {
    let mut body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"ask_agent","arguments":{{"to":"{to}","message":"{nonce:016x} "#
    )
    .into_bytes();
    pad(&mut body, 17, size);
    body.extend_from_slice(br#""}}}"#);
    Bytes::from(body)
}

/// The call of a tool that takes no arguments.
pub(super) fn list_body(id: u64) -> Bytes {
    Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"list_agents","arguments":{{}}}}}}"#))
}

/// A bot's reply over HTTP.
pub(super) fn reply_body(id: u64, request_id: &str, answer: &str) -> Bytes {
    Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"reply","arguments":{{"request_id":"{request_id}","answer":"{answer}"}}}}}}"#
    ))
}

/// A bot's reply as a frame of its own WebSocket. A relay remembers `id` and answers it once, in later rounds too.
pub(super) fn reply_frame(id: &str, request_id: &str, answer: &str) -> String {
    format!(r#"{{"type":"call","id":"{id}","tool":"reply","arguments":{{"request_id":"{request_id}","answer":"{answer}"}}}}"#)
}

/// The first frame of a bot.
pub(super) fn hello_frame(instance: &str) -> String {
    format!(r#"{{"type":"hello","adapter":"bench","instance":"{instance}","features":[]}}"#)
}

/// What `bot` answers to `from`'s question; as long as the question. `None`: no question of this bench.
pub(super) fn answer_to(message: &str, bot: &str, from: &str) -> Option<String> {
    let nonce = message.get(..16)?;
    let nonce = u64::from_str_radix(nonce, 16).ok()?;
    let mut answer = answer_head(nonce, bot, from).into_bytes();
    let head = answer.len();
    pad(&mut answer, head, message.len());
    String::from_utf8(answer).ok()
}

/// How the answer to `nonce` begins.
pub(super) fn answer_head(nonce: u64, bot: &str, from: &str) -> String {
    format!("{:016x} {bot} {from} ", mix(nonce))
}

fn pad(text: &mut Vec<u8>, so_far: usize, size: usize) {
    text.resize(text.len() + size.saturating_sub(so_far), b'.');
}

/// The finalizer of splitmix64: a one-to-one scramble.
pub(super) fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A frame from the relay to a bot; fields that this bench needs, empty where absent.
#[derive(Deserialize)]
pub(super) struct Frame<'a> {
    #[serde(borrow, default, rename = "type")]
    pub kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub request_id: Cow<'a, str>,
    #[serde(borrow, default)]
    pub from: Cow<'a, str>,
    #[serde(borrow, default)]
    pub message: Cow<'a, str>,
    #[serde(borrow, default)]
    pub result: Option<Outcome<'a>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_and_its_answer_have_the_size_that_was_asked_for() {
        for size in [64, 200, 16_384] {
            let body: serde_json::Value = serde_json::from_slice(&ask_body(1, "b", 9, size)).unwrap();
            let message = body["params"]["arguments"]["message"].as_str().unwrap();
            assert_eq!(message.len(), size);
            let answer = answer_to(message, "b", "a").unwrap();
            assert_eq!(answer.len(), size);
            assert!(answer.starts_with(&answer_head(9, "b", "a")));
        }
    }

    #[test]
    fn a_wake_of_the_original_relay_and_one_of_ours_are_both_understood() {
        let old = r#"{"request_id":"r","conversation_id":"c","from":"a","message":"say \"x\""}"#;
        let frame: Frame<'_> = serde_json::from_str(old).unwrap();
        assert_eq!((&*frame.kind, &*frame.request_id, &*frame.message), ("", "r", "say \"x\""));
        let new = r#"{"request_id":"r","from":"a","message":"m","type":"wake","attempt":1,"x":{}}"#;
        let frame: Frame<'_> = serde_json::from_str(new).unwrap();
        assert_eq!((&*frame.kind, &*frame.from), ("wake", "a"));
    }
}
