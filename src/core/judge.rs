//! Whether a question begins: the rules in the order in which a refusal is told, where an accepted one stands first, and
//! the chain that it belongs to. Reads the relay and changes nothing.

use std::sync::Arc;

use super::effect::{Effect, Fact, Place};
use super::exchange::{Asked, End, Phase, Trail, Twin, WhenOffline};
use super::ids::{AgentName, ConversationId, Millis, RequestId};
use super::outcome::{LoopRule, Refusal};
use super::policy::Limits;
use super::registry::Agent;
use super::relay::{Relay, Verdict};

/// How long an asker's key means the same question; while that is open, longer.
const KEY_LIFE_MS: u64 = 24 * 60 * 60 * 1000;

/// How much of a name or id that is none is repeated and recorded.
pub(super) const MAX_STRAY: usize = 80;

pub(super) enum Judged {
    Begin(AgentName, Phase),
    Join(RequestId),
}

impl Relay {
    /// The rules, in the order in which a refusal is told. `to` is the agent that the ask names, if it is one.
    pub(super) fn judge(
        &self,
        now: Millis,
        asked: &Asked,
        to: Option<AgentName>,
        place: &Place,
        kept: Option<Arc<Asked>>,
    ) -> Result<Judged, Refusal> {
        let again = to.as_ref().and_then(|to| self.asked_again(now, asked, to, kept));
        if again.is_none() {
            self.quotas.check_pace(now, &asked.from, &self.limits)?;
        }
        let (bytes, max) = (asked.message.len(), self.limits.max_message_bytes);
        if bytes > max {
            return Err(Refusal::TooLarge { what: "message", bytes, max, limit: "max_message_bytes" });
        }
        if let Err(bytes) = self.limits.check_frame(&asked.message) {
            let max = self.limits.max_frame_bytes;
            return Err(Refusal::TooLarge { what: "message as a JSON frame", bytes, max, limit: "max_frame_bytes" });
        }
        let to = to.ok_or_else(|| Refusal::UnknownAgent { to: asked.to.to_string() })?;
        if to == asked.from {
            return Err(Refusal::SelfAsk);
        }
        if let Place::Named { given, .. } = place
            && asked.begins
        {
            return Err(Refusal::UnknownConversation { given: clip(given, MAX_STRAY).to_string() });
        }
        if !self.permissions.allows(&asked.from, &to) {
            return Err(Refusal::NotAllowed { to });
        }
        if let Some(pause) = self.paused.iter().find(|p| p.stops(&asked.from, &to)) {
            return Err(Refusal::Paused { what: pause.name() });
        }
        if let Some(again) = again {
            return again.map(Judged::Join);
        }
        self.loop_guard(&to, asked)?;
        self.loops.check(now, asked, &to, &self.limits)?;
        self.quotas.check_open(asked, &self.limits)?;
        let phase = self.first_phase(now, &to, asked)?;
        Ok(Judged::Begin(to, phase))
    }

    /// The question that this one is, asked before; or its key stands for another.
    fn asked_again(&self, now: Millis, asked: &Asked, to: &AgentName, kept: Option<Arc<Asked>>) -> Option<Result<RequestId, Refusal>> {
        if let Some(first) = self.first_with_key(now, asked, kept) {
            let same = first.message == asked.message && first.to == asked.to;
            return Some(if same { Ok(first.id) } else { Err(Refusal::Conflict { first: first.id }) });
        }
        Twin::of(asked, to).and_then(|twin| self.twins.get(&twin)).copied().map(Ok)
    }

    fn first_with_key(&self, now: Millis, asked: &Asked, kept: Option<Arc<Asked>>) -> Option<Arc<Asked>> {
        let key = asked.key.as_ref()?;
        let first = self.keys.get(&(asked.from.clone(), key.clone())).cloned().or(kept)?;
        (self.open.contains_key(&first.id) || now.since(first.at) < KEY_LIFE_MS).then_some(first)
    }

    fn loop_guard(&self, to: &AgentName, asked: &Asked) -> Result<(), Refusal> {
        let Asked { conversation, trail, .. } = asked;
        let path = || trail.path.iter().cloned().chain([to.clone()]).collect();
        if trail.hops() >= self.limits.max_depth {
            return Err(Refusal::LoopLimit { rule: LoopRule::Depth, max: self.limits.max_depth, path: path() });
        }
        let mut ancestor = trail.parent;
        let mut waiting_hands = 0;
        while let Some(open) = ancestor.and_then(|id| self.open.get(&id)) {
            if open.to == *to && open.asked.conversation == *conversation {
                return Err(Refusal::WouldWaitForItself { conversation: *conversation, path: path() });
            }
            waiting_hands += usize::from(open.to == *to);
            ancestor = open.asked.trail.parent;
        }
        // Every hand of the target waits for the end of this very chain.
        if waiting_hands > 0 && waiting_hands >= self.limits.max_wakes_per_agent {
            return Err(Refusal::LoopLimit { rule: LoopRule::Hands, max: count(self.limits.max_wakes_per_agent), path: path() });
        }
        Ok(())
    }

    /// Where the question goes first: the line, the queue, or nowhere.
    fn first_phase(&self, now: Millis, to: &AgentName, asked: &Asked) -> Result<Phase, Refusal> {
        let Some(agent) = self.registry.agents.get(to) else {
            return Err(Refusal::UnknownAgent { to: to.to_string() });
        };
        self.check_line(agent, to, asked)?;
        let expected = agent.left.is_some_and(|left| !left.clean && now < left.at.plus(self.limits.reconnect_grace_ms));
        match asked.when_offline {
            _ if agent.online() => match agent.circuit.wait(now, &self.limits) {
                None => Ok(Phase::Waiting),
                Some(ms) => {
                    let timeouts = self.limits.max_timeouts_in_a_row;
                    Err(Refusal::Silent { to: to.clone(), timeouts, until: now.plus(ms), retry_in_ms: ms })
                }
            },
            WhenOffline::Queue => Ok(Phase::Queued { expires: now.plus(self.limits.queue_ttl_ms) }),
            WhenOffline::Fail if expected => Ok(Phase::Waiting),
            WhenOffline::Fail => Err(Refusal::AgentOffline { to: to.clone(), since: agent.last_seen }),
        }
    }

    /// Whether the line of the target takes one more. An asker that has nothing in it always gets a place, so that nobody can
    /// keep others out by filling it.
    fn check_line(&self, agent: &Agent, to: &AgentName, asked: &Asked) -> Result<(), Refusal> {
        let Limits { max_waiting_per_agent: places, max_waiting_bytes_per_agent: room, .. } = self.limits;
        let waiting = || agent.waiting.iter().filter_map(|(id, _)| self.open.get(id));
        let bytes: usize = waiting().map(|open| open.asked.message.len()).sum();
        let (limit, max) = match () {
            () if agent.waiting.len() >= places => ("max_waiting_per_agent", places),
            () if bytes + asked.message.len() > room => ("max_waiting_bytes_per_agent", room),
            () => return Ok(()),
        };
        let has_one = waiting().any(|open| open.asked.from == asked.from);
        if has_one { Err(Refusal::LineFull { to: to.clone(), limit, max: max as u64 }) } else { Ok(()) }
    }

    /// The chain that an ask of `from` belongs to: that of the question it is answering in the same conversation, else
    /// the longest among those it is answering.
    pub(super) fn trail_of(&self, id: RequestId, from: &AgentName, conversation: ConversationId) -> Trail {
        let answering = self.registry.agents.get(from).map(|a| a.awake.as_slice()).unwrap_or_default();
        let parents = answering.iter().filter_map(|(id, c)| Some((*c == conversation, self.open.get(id)?)));
        match parents.max_by_key(|(here, open)| (*here, open.asked.trail.hops())) {
            None => Trail { root: id, parent: None, origin: from.clone(), path: [from.clone()].into() },
            Some((_, parent)) => Trail {
                root: parent.asked.trail.root,
                parent: Some(parent.asked.id),
                origin: parent.asked.trail.origin.clone(),
                path: parent.asked.trail.path.iter().cloned().chain([from.clone()]).collect(),
            },
        }
    }
}

/// The beginning of the text, at most so many bytes.
pub(super) fn clip(text: &Arc<str>, bytes: usize) -> Arc<str> {
    if text.len() <= bytes {
        return text.clone();
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text[..end].into()
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

pub(super) fn refuse(now: Millis, asked: Asked, refusal: Refusal, out: &mut Vec<Effect>) -> Verdict {
    let end = End { outcome: refusal.outcome(), text: refusal.to_string().into(), at: now, call: None, by: None };
    out.push(Effect::Record(Fact::Refused(Arc::new(asked), Arc::new(end))));
    Verdict::Refused(refusal)
}
