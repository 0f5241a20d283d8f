//! The limits that the relay holds agents to, and who may ask whom. Owns the numbers; the configuration fills them in.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::ids::AgentName;

/// Milliseconds, bytes and counts. Every field is a key of bridge.toml with the same name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// An exchange ends as `timeout` when nothing was heard from the target for so long.
    pub ask_timeout_ms: u64,
    /// How long a lost agent is waited for.
    pub reconnect_grace_ms: u64,
    /// How long a question left for an absent agent is kept.
    pub queue_ttl_ms: u64,
    /// No exchange stays open longer, whatever is heard.
    pub max_exchange_ms: u64,
    pub max_message_bytes: usize,
    pub max_answer_bytes: usize,
    /// The largest frame that bots take; Python's client closes the connection at 1 MiB.
    pub max_frame_bytes: usize,
    /// Questions that one agent answers at the same time.
    pub max_wakes_per_agent: usize,
    /// Questions that wait for one agent; one more of an asker that has none among them.
    pub max_waiting_per_agent: usize,
    pub max_waiting_bytes_per_agent: usize,
    /// What one agent asks: how fast, how much at a time.
    pub asks_per_minute: u32,
    pub max_open_asks_per_agent: usize,
    pub max_open_bytes_per_agent: usize,
    /// After so many questions in a row that end in silence an agent is asked nothing for `silent_rest_ms`.
    pub max_timeouts_in_a_row: u32,
    pub silent_rest_ms: u64,
    /// Agents in a chain of questions that led to each other.
    pub max_depth: u32,
    /// Questions that one question leads to.
    pub max_asks_per_root: u32,
    /// Questions in one conversation, one after the other, without a person.
    pub max_turns_per_conversation: u32,
    /// Questions of one agent to another while as many come back, directly or through others.
    pub max_asks_per_pair_per_hour: u32,
}

/// Who may ask whom, and what is said of whom. An agent without a rule may ask everybody.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Permissions {
    pub may_ask: HashMap<AgentName, HashSet<AgentName>>,
    /// The first that fits counts.
    pub notes: Vec<Note>,
}

/// What the owner tells the asked one of the asker. `None` is everybody.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    pub from: Option<HashSet<AgentName>>,
    pub to: Option<HashSet<AgentName>>,
    pub text: Arc<str>,
}

impl Permissions {
    #[must_use]
    pub fn allows(&self, from: &AgentName, to: &AgentName) -> bool {
        self.may_ask.get(from).is_none_or(|allowed| allowed.contains(to))
    }

    #[must_use]
    pub fn note(&self, from: &AgentName, to: &AgentName) -> Option<Arc<str>> {
        let fits = |names: &Option<HashSet<AgentName>>, name| names.as_ref().is_none_or(|names| names.contains(name));
        self.notes.iter().find(|note| fits(&note.from, from) && fits(&note.to, to)).map(|note| note.text.clone())
    }
}

/// The bytes that a text takes inside a JSON string.
#[must_use]
pub fn json_len(text: &str) -> usize {
    let extra = |b: u8| match b {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        0..0x20 => 5,
        _ => 0,
    };
    text.len() + text.bytes().map(extra).sum::<usize>()
}

/// What a frame has around its text: ids, names, the chain's origin, the owner's note.
const FRAME_OVERHEAD: usize = 1_024;
/// The longest note, as JSON.
pub const MAX_NOTE: usize = 400;

impl Limits {
    /// Whether a text fits into one frame, and if not, how large it would be there.
    pub(super) fn check_frame(&self, text: &str) -> Result<(), usize> {
        let bytes = json_len(text) + FRAME_OVERHEAD;
        if bytes > self.max_frame_bytes { Err(bytes) } else { Ok(()) }
    }
}
