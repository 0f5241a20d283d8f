//! The machine: which exchanges are open, whose turn it is, when silence has lasted too long. Every input takes `now`
//! and pushes effects; a late or needless `tick` does no harm. Replies are in `replies`, comings and goings in `presence`.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::effect::{Ask, Effect, Fact, Place, WhenOffline};
use super::exchange::{Asked, Awake, End, Open, Phase, Trail, Twin};
use super::ids::{AgentName, ConversationId, Millis, RequestId};
use super::outcome::{Outcome, Refusal, explain};
use super::policy::{Limits, Permissions};
use super::registry::{Left, Registry};

/// Ended exchanges remembered so that a reply meets the truth before history has it; older ones are looked up there.
/// Larger than what the store's queue can hold unwritten.
const RECENT: usize = 16_384;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relay {
    pub(super) limits: Limits,
    pub(super) permissions: Permissions,
    pub(super) registry: Registry,
    pub(super) open: HashMap<RequestId, Open>,
    pub(super) deadlines: BTreeSet<(Millis, RequestId)>,
    /// Open exchanges by what identifies the same question asked again.
    pub(super) twins: HashMap<Twin, RequestId>,
    /// Exchanges by the asker's key: the open and the recent ones.
    pub(super) keys: HashMap<(AgentName, Arc<str>), Arc<Asked>>,
    pub(super) recent: HashMap<RequestId, Recent>,
    pub(super) recent_order: VecDeque<RequestId>,
}

/// What is remembered of an exchange that ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Recent {
    pub(super) asked: Arc<Asked>,
    pub(super) answered: bool,
    pub(super) call: Option<Arc<str>>,
}

/// What became of an ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Begun.
    Accepted,
    /// Kept for an absent agent; `position` counts from 1.
    Queued { position: usize, expires: Millis },
    /// The same question is being answered or was answered already.
    Joined(RequestId),
    Refused(Refusal),
}

/// An open exchange as history had it when the relay started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    pub asked: Arc<Asked>,
    pub queued_until: Option<Millis>,
    /// Who had received the question, and at which attempt.
    pub held: Option<(Arc<str>, u32)>,
}

impl Relay {
    #[must_use]
    pub fn new(limits: Limits, permissions: Permissions) -> Self {
        Self {
            limits,
            permissions,
            registry: Registry::default(),
            open: HashMap::new(),
            deadlines: BTreeSet::new(),
            twins: HashMap::new(),
            keys: HashMap::new(),
            recent: HashMap::new(),
            recent_order: VecDeque::new(),
        }
    }

    /// The agents that exist from now on. Connections and open exchanges of those that stay are untouched; an agent
    /// that is gone keeps its open exchanges until they end.
    pub fn set_agents(&mut self, names: &[AgentName], permissions: Permissions) {
        self.permissions = permissions;
        for name in names {
            self.registry.agents.entry(name.clone()).or_default();
        }
        self.registry.agents.retain(|name, agent| names.contains(name) || agent.online() || agent.load() > 0);
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

    /// Takes up the open exchanges of an earlier run, oldest first. Their clocks begin anew: the outage is not the bots'
    /// silence. Whatever may have been sent already waits for the bot to say which process it is.
    pub fn restore(&mut self, now: Millis, restored: Vec<Restored>) {
        let hands = self.limits.max_wakes_per_agent;
        for one in restored {
            let Some(to) = AgentName::parse(&one.asked.to) else { continue };
            let agent = self.registry.agents.entry(to.clone()).or_default();
            let (id, conversation) = (one.asked.id, one.asked.conversation);
            let busy = agent.awake.len() >= hands || agent.awake.iter().any(|(_, c)| *c == conversation);
            let phase = match (one.held, one.queued_until) {
                (None, Some(expires)) => Phase::Queued { expires },
                (None, None) if busy => Phase::Waiting,
                (held, _) => {
                    let (holder, attempt) = held.map_or((None, 0), |(holder, attempt)| (Some(holder), attempt));
                    Phase::Awake(Awake { on: None, attempt, heard: now, holder })
                }
            };
            match phase {
                Phase::Awake(_) => agent.awake.push((id, conversation)),
                _ => agent.waiting.push_back(id),
            }
            if !matches!(phase, Phase::Queued { .. }) {
                agent.left.get_or_insert(Left { at: now, clean: false });
            }
            if let Some(key) = &one.asked.key {
                self.keys.insert((one.asked.from.clone(), key.clone()), one.asked.clone());
            }
            self.admit(one.asked, to, phase);
        }
    }

    #[must_use]
    pub fn knows(&self, name: &AgentName) -> bool {
        self.registry.agents.contains_key(name)
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
        let conversation = ask.conversation.between(&ask.from, &ask.to);
        let begins = conversation.is_none() || matches!(ask.conversation, Place::New(_));
        let trail = self.trail_of(&ask.from, conversation);
        let judged = self.judge(&ask, &trail, conversation, begins);
        let (from, kept_key) = (ask.from.clone(), ask.key.clone());
        let asked = Arc::new(Asked {
            id: ask.id,
            conversation: conversation.unwrap_or_else(|| ask.conversation.fresh()),
            begins,
            from: ask.from,
            to: ask.to,
            message: ask.message,
            at: now,
            trail,
            // A refused ask does not use up its key.
            key: if judged.is_ok() { kept_key } else { None },
            traceparent: ask.traceparent,
        });
        let to = match judged {
            Ok(Judged::Begin(to)) => to,
            Ok(Judged::Join(id)) => return Verdict::Joined(id),
            Err(refusal) => return refuse(now, asked, refusal, out),
        };
        let place = match self.place(now, &to, ask.when_offline) {
            Ok(place) => place,
            Err(refusal) => {
                let asked = Arc::new(Asked { key: None, ..(*asked).clone() });
                return refuse(now, asked, refusal, out);
            }
        };
        out.push(Effect::Record(Fact::Asked(asked.clone())));
        let agent = self.registry.agents.entry(to.clone()).or_default();
        agent.waiting.push_back(asked.id);
        let verdict = match place {
            Phase::Queued { expires } => {
                out.push(Effect::Record(Fact::Queued { id: asked.id, expires }));
                Verdict::Queued { position: agent.waiting.len(), expires }
            }
            _ => Verdict::Accepted,
        };
        if let Some(key) = &asked.key {
            self.keys.insert((from, key.clone()), asked.clone());
        }
        self.admit(asked, to.clone(), place);
        self.advance(now, &to, out);
        verdict
    }

    /// The rules that need no knowledge of who is connected.
    fn judge(&self, ask: &Ask, trail: &Trail, conversation: Option<ConversationId>, begins: bool) -> Result<Judged, Refusal> {
        let bytes = ask.message.len();
        if bytes > self.limits.max_message_bytes {
            let max = self.limits.max_message_bytes;
            return Err(Refusal::TooLarge { what: "message", bytes, max, limit: "max_message_bytes" });
        }
        if let Err(bytes) = self.limits.check_frame(&ask.message) {
            let max = self.limits.max_frame_bytes;
            return Err(Refusal::TooLarge { what: "message as a JSON frame", bytes, max, limit: "max_frame_bytes" });
        }
        let unknown = || Refusal::UnknownAgent { to: ask.to.chars().take(80).collect() };
        let to = AgentName::parse(&ask.to).filter(|to| self.knows(to)).ok_or_else(unknown)?;
        if to == ask.from {
            return Err(Refusal::SelfAsk);
        }
        let Some(conversation) = conversation else {
            let given = if let Place::Named { given, .. } = &ask.conversation { given.chars().take(80).collect() } else { String::new() };
            return Err(Refusal::UnknownConversation { given });
        };
        if !self.permissions.allows(&ask.from, &to) {
            return Err(Refusal::NotAllowed { to });
        }
        if let Some(first) = self.first_with_key(ask) {
            let same = *first.message == *ask.message && *first.to == *to.as_str();
            return if same { Ok(Judged::Join(first.id)) } else { Err(Refusal::Conflict { first: first.id }) };
        }
        if ask.key.is_none() {
            let twin = Twin { from: ask.from.clone(), to: to.clone(), conversation: (!begins).then_some(conversation), message: ask.message.clone() };
            if let Some(first) = self.twins.get(&twin) {
                return Ok(Judged::Join(*first));
            }
        }
        self.loop_guard(&to, conversation, trail)?;
        Ok(Judged::Begin(to))
    }

    fn first_with_key(&self, ask: &Ask) -> Option<Arc<Asked>> {
        let key = ask.key.as_ref()?;
        self.keys.get(&(ask.from.clone(), key.clone())).or(ask.kept.as_ref()).cloned()
    }

    fn loop_guard(&self, to: &AgentName, conversation: ConversationId, trail: &Trail) -> Result<(), Refusal> {
        let path = || trail.path.iter().cloned().chain([to.clone()]).collect();
        if trail.hops() >= self.limits.max_depth {
            return Err(Refusal::LoopLimit { limit: "max_depth", max: self.limits.max_depth, path: path() });
        }
        let mut ancestor = trail.parent;
        while let Some(open) = ancestor.and_then(|id| self.open.get(&id)) {
            if open.to == *to && open.asked.conversation == conversation {
                return Err(Refusal::WouldWaitForItself { conversation, path: path() });
            }
            ancestor = open.asked.trail.parent;
        }
        Ok(())
    }

    /// Where the question goes first: the line, the queue, or nowhere.
    fn place(&self, now: Millis, to: &AgentName, when_offline: WhenOffline) -> Result<Phase, Refusal> {
        let Some(agent) = self.registry.agents.get(to) else {
            return Err(Refusal::UnknownAgent { to: to.to_string() });
        };
        let max = self.limits.max_waiting_per_agent;
        if agent.waiting.len() >= max {
            return Err(Refusal::LineFull { to: to.clone(), max: u32::try_from(max).unwrap_or(u32::MAX) });
        }
        let expected = agent.left.is_some_and(|left| !left.clean && now < left.at.plus(self.limits.reconnect_grace_ms));
        match when_offline {
            _ if agent.online() || expected => Ok(Phase::Waiting),
            WhenOffline::Queue => Ok(Phase::Queued { expires: now.plus(self.limits.queue_ttl_ms) }),
            WhenOffline::Fail => Err(Refusal::AgentOffline { to: to.clone(), since: agent.last_seen }),
        }
    }

    /// The chain that an ask of `from` belongs to: that of the question it is answering in the same conversation, else
    /// the longest among those it is answering.
    fn trail_of(&self, from: &AgentName, conversation: Option<ConversationId>) -> Trail {
        let answering = self.registry.agents.get(from).map(|a| a.awake.as_slice()).unwrap_or_default();
        let parents = answering.iter().filter_map(|(id, c)| Some((Some(*c) == conversation, self.open.get(id)?)));
        match parents.max_by_key(|(here, open)| (*here, open.asked.trail.hops())) {
            None => Trail { parent: None, origin: from.clone(), path: [from.clone()].into() },
            Some((_, parent)) => Trail {
                parent: Some(parent.asked.id),
                origin: parent.asked.trail.origin.clone(),
                path: parent.asked.trail.path.iter().cloned().chain([from.clone()]).collect(),
            },
        }
    }

    fn admit(&mut self, asked: Arc<Asked>, to: AgentName, phase: Phase) {
        let conversation = (!asked.begins).then_some(asked.conversation);
        let twin = Twin { from: asked.from.clone(), to: to.clone(), conversation, message: asked.message.clone() };
        self.twins.insert(twin.clone(), asked.id);
        let id = asked.id;
        self.open.insert(id, Open { asked, to, phase, due: Millis(u64::MAX), twin });
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
            _ => phase_end.min(open.asked.at.plus(self.limits.max_exchange_ms)),
        };
        if let Some(open) = self.open.get_mut(&id) {
            self.deadlines.remove(&(open.due, id));
            open.due = due;
            self.deadlines.insert((due, id));
        }
    }

    /// Ends what has lasted too long.
    pub fn tick(&mut self, now: Millis, out: &mut Vec<Effect>) {
        while let Some((due, id)) = self.deadlines.first().copied()
            && due <= now
        {
            let Some(open) = self.open.get(&id) else {
                self.deadlines.remove(&(due, id));
                continue;
            };
            let outcome = match &open.phase {
                Phase::Queued { .. } => Outcome::Expired,
                Phase::Waiting if self.registry.agents.get(&open.to).is_none_or(|a| !a.online()) => Outcome::AgentOffline,
                Phase::Awake(Awake { on: None, .. }) => Outcome::AgentDisconnected,
                Phase::Waiting | Phase::Awake(_) => Outcome::Timeout,
            };
            let text = explain(outcome, &open.to, None, self.limits.ask_timeout_ms);
            self.end(now, id, outcome, text.into(), None, out);
        }
    }

    /// The only way out of `open`.
    pub(super) fn end(&mut self, now: Millis, id: RequestId, outcome: Outcome, text: Arc<str>, call: Option<Arc<str>>, out: &mut Vec<Effect>) {
        let Some(open) = self.open.remove(&id) else { return };
        self.deadlines.remove(&(open.due, id));
        self.twins.remove(&open.twin);
        if let Some(agent) = self.registry.agents.get_mut(&open.to) {
            agent.forget(id);
        }
        let end = Arc::new(End { outcome, text, at: now, call: call.clone() });
        out.push(Effect::Record(Fact::Ended { id, end: end.clone() }));
        if let Phase::Awake(Awake { on: Some(connection), .. }) = open.phase
            && outcome != Outcome::Answered
            && self.understands(&open.to, connection, |f| f.cancelled)
        {
            out.push(Effect::Cancel { connection, id });
        }
        let asked = open.asked;
        self.remember(Recent { asked: asked.clone(), answered: outcome == Outcome::Answered, call });
        out.push(Effect::Finish { asked, end });
        self.advance(now, &open.to, out);
    }

    pub(super) fn remember(&mut self, recent: Recent) {
        let id = recent.asked.id;
        if self.recent.insert(id, recent).is_none() {
            self.recent_order.push_back(id);
        }
        while self.recent_order.len() > RECENT {
            let gone = self.recent_order.pop_front().and_then(|id| self.recent.remove(&id));
            if let Some(Recent { asked, .. }) = gone
                && let Some(key) = &asked.key
            {
                self.keys.remove(&(asked.from.clone(), key.clone()));
            }
        }
    }
}

enum Judged {
    Begin(AgentName),
    Join(RequestId),
}

fn refuse(now: Millis, asked: Arc<Asked>, refusal: Refusal, out: &mut Vec<Effect>) -> Verdict {
    let end = End { outcome: refusal.outcome(), text: refusal.to_string().into(), at: now, call: None };
    out.push(Effect::Record(Fact::Refused(asked, Arc::new(end))));
    Verdict::Refused(refusal)
}
