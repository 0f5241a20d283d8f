//! The machine: which exchanges are open, whose turn it is, when silence has lasted too long. Every input takes `now`
//! and pushes effects; a late or needless `tick` does no harm. Whether a question
//! begins is in `judge`, replies are in `replies`, comings and goings in `presence`.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::audit::Kind;
use super::effect::{Ask, Effect, Fact, Place};
use super::exchange::{Asked, Awake, End, Open, Past, Phase, Twin, WhenOffline, Work};
use super::ids::{AgentName, Millis, RequestId};
use super::judge::{Judged, MAX_STRAY, clip, refuse};
use super::loops::Loops;
use super::outcome::{Outcome, Refusal, explain, never_reached, took_too_long};
use super::person::Pause;
use super::policy::{Limits, Permissions};
use super::quota::Quotas;
use super::registry::{Left, Registry};

/// Ended exchanges remembered so that a reply meets the truth before history has it; older ones are looked up there.
/// Bounded in number and in bytes of questions; both larger than what the store's queue can hold unwritten.
const RECENT: usize = 16_384;
const RECENT_BYTES: usize = 64 << 20;
/// How much is recorded of each question that a rule refuses.
const MAX_FLOODED: usize = 1_024;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relay {
    pub(super) limits: Limits,
    pub(super) permissions: Permissions,
    pub(super) paused: Vec<Pause>,
    pub(super) registry: Registry,
    pub(super) open: HashMap<RequestId, Open>,
    pub(super) deadlines: BTreeSet<(Millis, RequestId)>,
    /// Open exchanges by what identifies the same question asked again.
    pub(super) twins: HashMap<Twin, RequestId>,
    /// Exchanges by the asker's key: the open and the recent ones.
    pub(super) keys: HashMap<(AgentName, Arc<str>), Arc<Asked>>,
    pub(super) recent: HashMap<RequestId, Past>,
    pub(super) recent_order: VecDeque<RequestId>,
    pub(super) recent_bytes: usize,
    pub(super) loops: Loops,
    pub(super) quotas: Quotas,
}

/// What became of an ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Begun.
    Accepted,
    /// Kept for an absent agent; `position` counts from 1.
    Queued {
        position: usize,
        expires: Millis,
    },
    /// The same question is being answered or was answered already.
    Joined(RequestId),
    Refused(Refusal),
}

/// An open exchange as history had it when the relay started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    pub asked: Arc<Asked>,
    /// When it was put into the queue, and until when.
    pub queued: Option<(Millis, Millis)>,
    /// All processes that had received the question, and the last attempt of which that is known.
    pub holders: Vec<Arc<str>>,
    pub attempt: u32,
}

impl Relay {
    #[must_use]
    pub fn new(limits: Limits, permissions: Permissions) -> Self {
        Self {
            limits,
            permissions,
            paused: Vec::new(),
            registry: Registry::default(),
            open: HashMap::new(),
            deadlines: BTreeSet::new(),
            twins: HashMap::new(),
            keys: HashMap::new(),
            recent: HashMap::new(),
            recent_order: VecDeque::new(),
            recent_bytes: 0,
            loops: Loops::default(),
            quotas: Quotas::default(),
        }
    }

    /// The agents that exist from now on. Connections and open exchanges of those that stay are untouched; an agent
    /// that is gone is asked nothing more and keeps its open exchanges until they end.
    pub fn set_agents(&mut self, names: &[AgentName], permissions: Permissions) {
        self.permissions = permissions;
        let agents = &mut self.registry.agents;
        agents.values_mut().for_each(|agent| agent.listed = false);
        for name in names {
            agents.entry(name.clone()).or_default().listed = true;
        }
        agents.retain(|_, agent| agent.listed || agent.online() || agent.load() > 0);
    }

    /// When an agent was last connected, from history. `expected`: it was connected when the relay ended, so it is
    /// waited for as if its connection had been lost now.
    pub fn recall(&mut self, now: Millis, name: &AgentName, last_seen: Millis, expected: bool) {
        if let Some(agent) = self.registry.agents.get_mut(name) {
            agent.last_seen = Some(last_seen);
            if expected {
                agent.left = Some(Left { at: now, clean: false });
            }
        }
    }

    /// Takes up the open exchanges of an earlier run, in the order of the log. Their clocks begin anew: the outage is not
    /// the bots' silence. Whatever may have been sent already waits for the bot to say which process it is: what was
    /// received, and of the rest what the line's own rule would have sent first. Nothing is in the queue any more whose target
    /// was seen since (so `recall` comes before), and nothing overtakes an earlier question of its conversation.
    pub fn restore(&mut self, now: Millis, restored: Vec<Restored>) {
        let hands = self.limits.max_wakes_per_agent;
        let (held, rest): (Vec<_>, Vec<_>) = restored.into_iter().partition(|one| !one.holders.is_empty());
        for one in held.into_iter().chain(rest) {
            let Some(to) = AgentName::parse(&one.asked.to) else { continue };
            let agent = self.registry.agents.entry(to.clone()).or_default();
            let (id, conversation) = (one.asked.id, one.asked.conversation);
            let seen_since = |at: Millis| agent.last_seen.is_some_and(|seen| seen > at);
            let behind = agent.has_of(conversation);
            let phase = match one.queued {
                _ if !one.holders.is_empty() => Phase::Awake(Awake { on: None, attempt: one.attempt, heard: now, holders: one.holders }),
                Some((at, expires)) if !seen_since(at) => Phase::Queued { expires },
                _ if behind || agent.awake.len() >= hands => Phase::Waiting,
                _ => Phase::Awake(Awake { on: None, attempt: 0, heard: now, holders: Vec::new() }),
            };
            match phase {
                Phase::Awake(_) => agent.awake.push((id, conversation)),
                _ => agent.waiting.push_back((id, conversation)),
            }
            if !matches!(phase, Phase::Queued { .. }) {
                agent.left.get_or_insert(Left { at: now, clean: false });
            }
            if let Some(key) = &one.asked.key {
                self.keys.insert((one.asked.from.clone(), key.clone()), one.asked.clone());
            }
            self.loops.held(&one.asked);
            self.quotas.held(&one.asked);
            self.admit(now, one.asked, to, phase);
            // Whoever waited comes back and waits again, or hears of it by itself.
            self.excuse(id);
        }
    }

    /// The asker's call returns without the end: an answer is owed to it when it comes. `false` if it has ended.
    pub fn excuse(&mut self, id: RequestId) -> bool {
        self.open.get_mut(&id).map(|open| open.excused = true).is_some()
    }

    /// A person lets bots go on that a loop limit has stopped, or takes part itself: what could stop this question counts anew.
    pub fn clear_loop(&mut self, asked: &Asked) {
        self.loops.clear(asked);
    }

    #[must_use]
    pub fn knows(&self, name: &AgentName) -> bool {
        self.registry.agents.get(name).is_some_and(|agent| agent.listed)
    }

    #[must_use]
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    #[must_use]
    pub fn open(&self, id: RequestId) -> Option<&Open> {
        self.open.get(&id)
    }

    /// The earliest moment at which `tick` has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Judges a question and begins it, or says why not. What is refused is recorded too.
    pub fn ask(&mut self, now: Millis, ask: Ask, out: &mut Vec<Effect>) -> Verdict {
        let to = AgentName::parse(&ask.to).filter(|to| self.knows(to));
        let theirs = ask.conversation.between(&ask.from, &ask.to);
        let conversation = theirs.unwrap_or_else(|| ask.conversation.fresh());
        let trail = self.trail_of(ask.id, &ask.from, conversation);
        let mut asked = Asked {
            id: ask.id,
            conversation,
            begins: theirs.is_none() || matches!(ask.conversation, Place::New(_)),
            from: ask.from,
            to: to.as_ref().map_or_else(|| clip(&ask.to, MAX_STRAY), |to| to.as_str().into()),
            message: ask.message,
            at: now,
            when_offline: ask.when_offline,
            trail,
            key: ask.key,
            traceparent: ask.traceparent,
        };
        if asked.from.is_reserved() {
            // With a person in it it is no loop of bots.
            self.loops.clear(&asked);
        }
        let (to, phase) = match self.judge(now, &asked, to, &ask.conversation, ask.kept) {
            Ok(Judged::Begin(to, phase)) => (to, phase),
            Ok(Judged::Join(id)) => return Verdict::Joined(id),
            Err(refusal) => {
                self.count_refused(now, &asked.from, &refusal);
                // A refused ask does not use up its key, and what a rule refuses, again and again perhaps, is not kept whole.
                asked.key = None;
                let keep = if Kind::of_refusal(refusal.outcome()).is_some() { MAX_FLOODED } else { self.limits.max_message_bytes };
                asked.message = clip(&asked.message, keep.min(self.limits.max_message_bytes));
                return refuse(now, asked, refusal, out);
            }
        };
        self.quotas.judged(now, &asked.from, &self.limits);
        self.quotas.held(&asked);
        let asked = Arc::new(asked);
        out.push(Effect::Record(Fact::Asked(asked.clone())));
        let agent = self.registry.agents.entry(to.clone()).or_default();
        let more = agent.has_of(conversation);
        agent.waiting.push_back((asked.id, conversation));
        agent.circuit.begun(asked.id, &self.limits);
        let verdict = match phase {
            Phase::Queued { expires } => {
                out.push(Effect::Record(Fact::Queued { id: asked.id, at: now, expires }));
                Verdict::Queued { position: agent.waiting.len(), expires }
            }
            _ => Verdict::Accepted,
        };
        if let Some(key) = &asked.key {
            self.keys.insert((asked.from.clone(), key.clone()), asked.clone());
        }
        self.loops.begun(now, &asked, &to, more, &self.limits);
        self.admit(now, asked, to.clone(), phase);
        self.advance(now, &to, out);
        verdict
    }

    /// Every refusal uses up the asker's pace, except that of the pace itself.
    fn count_refused(&mut self, now: Millis, from: &AgentName, refusal: &Refusal) {
        if !matches!(refusal, Refusal::RateLimited { limit: "asks_per_minute", .. }) {
            self.quotas.judged(now, from, &self.limits);
        }
    }

    fn admit(&mut self, now: Millis, asked: Arc<Asked>, to: AgentName, phase: Phase) {
        let id = asked.id;
        if let Some(twin) = Twin::of(&asked, &to) {
            self.twins.insert(twin, id);
        }
        self.open.insert(id, Open { asked, to, phase, begun: now, due: Millis(u64::MAX), work: Work::default(), excused: false });
        self.rearm(id);
    }

    /// Puts the exchange under the moment at which its present phase has lasted too long.
    pub(super) fn rearm(&mut self, id: RequestId) {
        let Some(open) = self.open.get(&id) else { return };
        let grace = self.limits.reconnect_grace_ms;
        let phase_end = match &open.phase {
            Phase::Queued { expires } => *expires,
            Phase::Awake(Awake { on: Some(_), heard, .. }) => heard.plus(self.limits.ask_timeout_ms),
            Phase::Awake(Awake { on: None, heard, .. }) => heard.plus(grace),
            Phase::Waiting => match self.registry.agents.get(&open.to) {
                Some(agent) if agent.online() => Millis(u64::MAX),
                Some(agent) => agent.left.map_or(open.asked.at, |left| left.at).plus(grace),
                None => open.asked.at,
            },
        };
        let due = match open.phase {
            Phase::Queued { .. } => phase_end,
            _ => phase_end.min(open.begun.plus(self.limits.max_exchange_ms)),
        };
        if let Some(open) = self.open.get_mut(&id) {
            self.deadlines.remove(&(open.due, id));
            open.due = due;
            self.deadlines.insert((due, id));
        }
    }

    /// Ends what has lasted too long; what was never sent and may be kept goes to the queue.
    pub fn tick(&mut self, now: Millis, out: &mut Vec<Effect>) {
        while let Some((due, id)) = self.deadlines.first().copied()
            && due <= now
        {
            let Some(open) = self.open.get_mut(&id) else {
                self.deadlines.remove(&(due, id));
                continue;
            };
            let away = self.registry.agents.get(&open.to).is_none_or(|agent| !agent.online());
            if open.phase == Phase::Waiting && away && open.asked.when_offline == WhenOffline::Queue {
                let expires = now.plus(self.limits.queue_ttl_ms);
                open.phase = Phase::Queued { expires };
                out.push(Effect::Record(Fact::Queued { id, at: now, expires }));
                self.rearm(id);
                continue;
            }
            let Some(open) = self.open.get(&id) else { continue };
            let (outcome, text) = self.overdue(open, away);
            self.end(now, id, outcome, text.into(), None, out);
        }
    }

    /// How an exchange ends whose deadline has passed.
    fn overdue(&self, open: &Open, away: bool) -> (Outcome, String) {
        let Limits { ask_timeout_ms, max_exchange_ms, .. } = self.limits;
        let explained = |outcome| (outcome, explain(outcome, &open.to, None, ask_timeout_ms));
        match &open.phase {
            Phase::Queued { .. } => explained(Outcome::Expired),
            Phase::Waiting if away => explained(Outcome::AgentOffline),
            Phase::Waiting => (Outcome::Timeout, never_reached(&open.to)),
            Phase::Awake(Awake { on: None, .. }) => explained(Outcome::AgentDisconnected),
            Phase::Awake(awake) if awake.heard.plus(ask_timeout_ms) > open.due => (Outcome::Timeout, took_too_long(&open.to, max_exchange_ms)),
            Phase::Awake(_) => explained(Outcome::Timeout),
        }
    }

    pub(super) fn end(&mut self, now: Millis, id: RequestId, outcome: Outcome, text: Arc<str>, call: Option<Arc<str>>, out: &mut Vec<Effect>) {
        self.end_with(id, End { outcome, text, at: now, call, by: None }, out);
    }

    /// The only way out of `open`.
    pub(super) fn end_with(&mut self, id: RequestId, end: End, out: &mut Vec<Effect>) {
        let Some(open) = self.open.remove(&id) else { return };
        let (now, outcome, call) = (end.at, end.outcome, end.call.clone());
        self.deadlines.remove(&(open.due, id));
        if let Some(twin) = Twin::of(&open.asked, &open.to) {
            self.twins.remove(&twin);
        }
        if let Some(agent) = self.registry.agents.get_mut(&open.to) {
            agent.forget(id);
            match outcome {
                // A person's answer is no sign of the bot.
                Outcome::Answered | Outcome::Failed if end.by.is_none() => agent.circuit.alive(),
                _ => agent.circuit.ended(now, id, outcome, &self.limits),
            }
        }
        self.loops.ended(&open.asked);
        self.quotas.ended(&open.asked);
        let end = Arc::new(end);
        let owed = open.excused && outcome == Outcome::Answered && !open.asked.from.is_reserved();
        if owed {
            out.push(Effect::Record(Fact::Owed { id, at: now }));
        }
        out.push(Effect::Record(Fact::Ended { id, end: end.clone(), work: open.work }));
        if let Phase::Awake(Awake { on: Some(connection), .. }) = open.phase
            && (outcome == Outcome::Cancelled || end.by.is_some())
            && self.understands(&open.to, connection, |f| f.cancelled)
        {
            out.push(Effect::Cancel { connection, id });
        }
        let asked = open.asked;
        self.remember(Past { asked: asked.clone(), answered: outcome == Outcome::Answered, late: false, call });
        out.push(Effect::Finish { asked, end, owed });
        self.advance(now, &open.to, out);
    }

    /// What the owner had erased is not known any more.
    pub fn forget(&mut self, ids: &[RequestId]) {
        let before = self.recent.len();
        for id in ids {
            let Some(Past { asked, .. }) = self.recent.remove(id) else { continue };
            self.recent_bytes -= asked.message.len();
            self.forget_key(&asked);
        }
        if self.recent.len() < before {
            let recent = &self.recent;
            self.recent_order.retain(|id| recent.contains_key(id));
        }
    }

    fn forget_key(&mut self, asked: &Asked) {
        if let Some(key) = &asked.key
            && let Entry::Occupied(entry) = self.keys.entry((asked.from.clone(), key.clone()))
            && entry.get().id == asked.id
        {
            entry.remove();
        }
    }

    pub(super) fn remember(&mut self, past: Past) {
        let (id, bytes) = (past.asked.id, past.asked.message.len());
        if self.recent.insert(id, past).is_none() {
            self.recent_order.push_back(id);
            self.recent_bytes += bytes;
        }
        while self.recent_order.len() > RECENT || self.recent_bytes > RECENT_BYTES {
            let Some(Past { asked, .. }) = self.recent_order.pop_front().and_then(|id| self.recent.remove(&id)) else { return };
            self.recent_bytes -= asked.message.len();
            self.forget_key(&asked);
        }
    }
}
