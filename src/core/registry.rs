//! Who exists, who is connected and through which sockets, and each agent's line of questions. Owns the order of the
//! line and the choice of the next; what happens to the exchanges is `relay`'s.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::circuit::Circuit;
use super::ids::{AgentName, ConnectionId, ConversationId, Millis, RequestId};

/// What a bot's process said of itself in `hello`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hello {
    pub adapter: Option<Arc<str>>,
    /// Random per process: tells a reconnect from a restart.
    pub instance: Option<Arc<str>>,
    pub features: Features,
}

/// Frames beyond the original's that a bot understands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    pub answer: bool,
    pub cancelled: bool,
    pub restarting: bool,
}

/// One socket of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    pub id: ConnectionId,
    pub since: Millis,
    /// Said hello, sent another frame first, or let the waiting time for that pass.
    pub introduced: bool,
    pub hello: Hello,
}

/// How an agent went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Left {
    pub at: Millis,
    /// It said goodbye (a close frame), so new questions need not wait for its return.
    pub clean: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Agent {
    /// It exists; else it only stays until its open exchanges have ended and its sockets are gone.
    pub listed: bool,
    /// Oldest first; the last one gets the wakes.
    pub links: Vec<Link>,
    pub left: Option<Left>,
    pub last_seen: Option<Millis>,
    pub circuit: Circuit,
    /// Questions not sent yet, oldest first. Bounded by `max_waiting_per_agent`.
    pub waiting: VecDeque<(RequestId, ConversationId)>,
    /// Questions being answered. Bounded by `max_wakes_per_agent`.
    pub awake: Vec<(RequestId, ConversationId)>,
}

impl Agent {
    #[must_use]
    pub fn online(&self) -> bool {
        !self.links.is_empty()
    }

    #[must_use]
    pub fn newest(&self) -> Option<&Link> {
        self.links.last()
    }

    pub fn link_mut(&mut self, id: ConnectionId) -> Option<&mut Link> {
        self.links.iter_mut().find(|l| l.id == id)
    }

    /// Takes the first question in line whose conversation is not being answered, if there is a hand free for it.
    pub fn take_next(&mut self, hands: usize) -> Option<RequestId> {
        if self.awake.len() >= hands {
            return None;
        }
        let first = self.waiting.iter().position(|(_, c)| !self.at_work_in(*c))?;
        let next = self.waiting.remove(first)?;
        self.awake.push(next);
        Some(next.0)
    }

    #[must_use]
    pub fn at_work_in(&self, conversation: ConversationId) -> bool {
        self.awake.iter().any(|(_, c)| *c == conversation)
    }

    /// A question of this conversation is before it, sent or not.
    #[must_use]
    pub fn has_of(&self, conversation: ConversationId) -> bool {
        self.awake.iter().chain(&self.waiting).any(|(_, c)| *c == conversation)
    }

    pub fn forget(&mut self, id: RequestId) {
        self.awake.retain(|(r, _)| *r != id);
        if let Some(at) = self.waiting.iter().position(|(r, _)| *r == id) {
            self.waiting.remove(at);
        }
    }

    /// How many questions it has before it, sent or not.
    #[must_use]
    pub fn load(&self) -> usize {
        self.waiting.len() + self.awake.len()
    }
}

/// All agents by name, and which agent a connection belongs to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Registry {
    pub agents: BTreeMap<AgentName, Agent>,
    pub owners: HashMap<ConnectionId, AgentName>,
}

impl Registry {
    pub fn owner_mut(&mut self, connection: ConnectionId) -> Option<(AgentName, &mut Agent)> {
        let name = self.owners.get(&connection)?.clone();
        let agent = self.agents.get_mut(&name)?;
        Some((name, agent))
    }
}
