//! The limits that the relay holds agents to, and who may ask whom. Owns the numbers; the configuration fills them in.

use std::collections::{HashMap, HashSet};

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
    /// Questions that one agent answers at the same time.
    pub max_wakes_per_agent: usize,
    /// Questions that wait for one agent.
    pub max_waiting_per_agent: usize,
    /// Agents in a chain of questions that led to each other.
    pub max_depth: u32,
}

/// Who may ask whom. An agent without a rule may ask everybody.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Permissions {
    pub may_ask: HashMap<AgentName, HashSet<AgentName>>,
}

impl Permissions {
    #[must_use]
    pub fn allows(&self, from: &AgentName, to: &AgentName) -> bool {
        self.may_ask.get(from).is_none_or(|allowed| allowed.contains(to))
    }
}
