//! What the asked bot sends while and after it works: replies, failures, heartbeats, receipts; and the asker's cancel.
//! Whoever is not party to an exchange learns nothing from any of these, not even that it exists.

use std::sync::Arc;

use super::effect::{Effect, Fact};
use super::exchange::{Awake, Late, Past, Phase, keep_holder};
use super::ids::{AgentName, ConnectionId, Millis, RequestId};
use super::outcome::{Outcome, Refusal, explain};
use super::relay::Relay;

/// What a bot hands in as the end of its turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    Answer(Arc<str>),
    /// The turn ended without an answer; why, in a sentence, or blank.
    Failure(Arc<str>),
}

/// What became of a reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Replied {
    Taken,
    /// The exchange had ended; the answer is kept and handed over.
    TakenLate,
    AlreadyAnswered,
    Empty,
    TooLarge {
        bytes: usize,
        max: usize,
        limit: &'static str,
    },
    /// Not among the open and the recent ones: history decides, through `late`.
    AskHistory,
    /// No such request for this agent.
    Unknown,
}

impl Relay {
    pub fn reply(&mut self, now: Millis, from: &AgentName, id: RequestId, reply: Reply, call: Option<Arc<str>>, out: &mut Vec<Effect>) -> Replied {
        if let Some(bad) = self.check_text(&reply) {
            return bad;
        }
        let Some(open) = self.open.get(&id) else {
            return match self.recent.get(&id).cloned() {
                None => Replied::AskHistory,
                Some(past) => self.late(now, from, past, reply, call, out),
            };
        };
        if open.to != *from {
            return Replied::Unknown;
        }
        match reply {
            Reply::Answer(text) => self.end(now, id, Outcome::Answered, text, call, out),
            Reply::Failure(detail) => {
                let detail = Some(detail.trim()).filter(|detail| !detail.is_empty());
                let text = explain(Outcome::Failed, from, detail, 0);
                self.end(now, id, Outcome::Failed, text.into(), call, out);
            }
        }
        Replied::Taken
    }

    pub(super) fn check_text(&self, reply: &Reply) -> Option<Replied> {
        let (Reply::Answer(text) | Reply::Failure(text)) = reply;
        let (bytes, max) = (text.len(), self.limits.max_answer_bytes);
        if matches!(reply, Reply::Answer(_)) && text.trim().is_empty() {
            return Some(Replied::Empty);
        }
        if bytes > max {
            return Some(Replied::TooLarge { bytes, max, limit: "max_answer_bytes" });
        }
        let framed = self.limits.check_frame(text).err()?;
        Some(Replied::TooLarge { bytes: framed, max: self.limits.max_frame_bytes, limit: "max_frame_bytes" })
    }

    /// A reply to an exchange that ended, `past` being what history has of it.
    pub fn late(&mut self, now: Millis, from: &AgentName, past: Past, reply: Reply, call: Option<Arc<str>>, out: &mut Vec<Effect>) -> Replied {
        // Between the look into history and now the same late reply may have been taken.
        let past = self.recent.get(&past.asked.id).cloned().unwrap_or(past);
        if *past.asked.to != *from.as_str() {
            return Replied::Unknown;
        }
        if let Some(agent) = self.registry.agents.get_mut(from) {
            agent.circuit.alive();
        }
        if call.is_some() && call == past.call {
            return if past.late { Replied::TakenLate } else { Replied::Taken };
        }
        let (Reply::Answer(answer), false) = (reply, past.answered || past.late) else { return Replied::AlreadyAnswered };
        let late = Arc::new(Late { answer, at: now, call: call.clone() });
        let asked = past.asked.clone();
        if !asked.from.is_reserved() {
            out.push(Effect::Record(Fact::Owed { id: asked.id, at: now }));
        }
        out.push(Effect::Record(Fact::Late { id: asked.id, late: late.clone() }));
        self.remember(Past { late: true, call, ..past });
        out.push(Effect::LateAnswer { connection: self.hears_answers(&asked.from), asked, late });
        Replied::TakenLate
    }

    /// The process behind this connection said that it has the question (`received`) or is at work on it (`heartbeat`):
    /// the whole quiet limit begins anew, the question is this connection's from now on, and the process is not to be woken
    /// for it again.
    pub fn heard(&mut self, now: Millis, connection: ConnectionId, id: RequestId, out: &mut Vec<Effect>) -> bool {
        let Some((name, agent)) = self.registry.owner_mut(connection) else { return false };
        let instance = agent.link_mut(connection).and_then(|l| l.hello.instance.clone());
        let Some(open) = self.open.get_mut(&id).filter(|open| open.to == name) else { return false };
        let Phase::Awake(awake) = &mut open.phase else { return false };
        awake.heard = now;
        awake.on = Some(connection);
        if let Some(instance) = instance.filter(|instance| !awake.holders.contains(instance)) {
            keep_holder(&mut awake.holders, instance.clone());
            out.push(Effect::Record(Fact::Received { id, instance, attempt: awake.attempt }));
        }
        self.rearm(id);
        true
    }

    /// Whether this was asked of this agent, as far as the open and the recent ones tell.
    #[must_use]
    pub fn was_asked(&self, name: &AgentName, id: RequestId) -> bool {
        let recent = || self.recent.get(&id).is_some_and(|past| *past.asked.to == *name.as_str());
        self.open.get(&id).map_or_else(recent, |open| open.to == *name)
    }

    /// A sign of work, with the session that the bot works in if it says so.
    pub fn heartbeat(&mut self, now: Millis, connection: ConnectionId, id: RequestId, session: Option<Arc<str>>, out: &mut Vec<Effect>) -> bool {
        let heard = self.heard(now, connection, id, out);
        if let Some(open) = self.open.get_mut(&id).filter(|_| heard) {
            open.work.heartbeats = open.work.heartbeats.saturating_add(1);
            open.work.session = session.or(open.work.session.take());
        }
        heard
    }

    /// Ends an open exchange on behalf of its asker or a person; `false` if it is none.
    pub fn cancel(&mut self, now: Millis, id: RequestId, why: &str, out: &mut Vec<Effect>) -> bool {
        let Some(open) = self.open.get(&id) else { return false };
        let text = explain(Outcome::Cancelled, &open.to, Some(why), 0);
        self.end(now, id, Outcome::Cancelled, text.into(), None, out);
        true
    }

    /// Ends an exchange that could not be recorded where only recorded ones may go on.
    pub fn abandon(&mut self, now: Millis, id: RequestId, out: &mut Vec<Effect>) {
        self.end(now, id, Outcome::StoreUnavailable, Refusal::StoreUnavailable.to_string().into(), None, out);
    }

    /// The connection through which this agent takes answers that its calls did not wait for.
    #[must_use]
    pub fn hears_answers(&self, asker: &AgentName) -> Option<ConnectionId> {
        let link = self.registry.agents.get(asker)?.newest()?;
        link.hello.features.answer.then_some(link.id)
    }

    pub(super) fn understands(&self, agent: &AgentName, connection: ConnectionId, what: impl Fn(&super::registry::Features) -> bool) -> bool {
        let link = self.registry.agents.get(agent).and_then(|a| a.links.iter().find(|l| l.id == connection));
        link.is_some_and(|l| what(&l.hello.features))
    }

    /// The wake of an exchange that is at work on this connection.
    pub(super) fn awake_mut(&mut self, id: RequestId) -> Option<&mut Awake> {
        match &mut self.open.get_mut(&id)?.phase {
            Phase::Awake(awake) => Some(awake),
            _ => None,
        }
    }
}
