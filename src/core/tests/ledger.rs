//! The referee of the model test: keeps what is on record and who was told what, and objects when the two do not fit. It
//! knows the promises and nothing of how the machine keeps them.

use std::collections::{HashMap, HashSet};

use super::*;
use crate::core::exchange::{End, Late, Open, Past, Phase, Record};
use crate::core::registry::Agent;
use crate::core::relay::Restored;

/// A bot's process and its socket, as the world has them (the machine knows only what it was told).
#[derive(Clone, Debug)]
pub(super) struct Socket {
    pub(super) id: ConnectionId,
    pub(super) agent: AgentName,
    /// `None` for an original bot, which never says which process it is.
    pub(super) process: Option<Arc<str>>,
}

pub(super) struct Line {
    pub(super) asked: Arc<Asked>,
    pub(super) end: Option<Arc<End>>,
    pub(super) late: Option<Arc<Late>>,
    queued: Option<(Millis, Millis)>,
    holders: Vec<Arc<str>>,
    attempt: u32,
    finished: bool,
    /// Its asker was told to go on with something else.
    pub(super) excused: bool,
    owed: bool,
}

impl Line {
    /// A relay starts with it open: whoever waited is gone, and an answer that was lost on its way to the log is not owed.
    pub(super) fn begin_anew(&mut self) {
        (self.excused, self.owed) = (true, false);
    }

    pub(super) fn past(&self) -> Option<Past> {
        Record { asked: self.asked.clone(), end: self.end.clone(), late: self.late.clone(), refused: false }.past()
    }
}

#[derive(Default)]
pub(super) struct Ledger {
    /// Accepted exchanges in the order of the log.
    pub(super) lines: Vec<Line>,
    at: HashMap<RequestId, usize>,
    refused: HashSet<RequestId>,
    pub(super) online: HashMap<AgentName, (Millis, bool)>,
    /// The last question of each conversation that a target was woken for.
    turn: HashMap<(Arc<str>, ConversationId), usize>,
}

impl Ledger {
    pub(super) fn line(&self, id: RequestId) -> Option<&Line> {
        self.at.get(&id).map(|at| &self.lines[*at])
    }

    pub(super) fn has(&self, id: RequestId) -> bool {
        self.at.contains_key(&id) || self.refused.contains(&id)
    }

    fn line_mut(&mut self, id: RequestId) -> &mut Line {
        let at = *self.at.get(&id).unwrap_or_else(|| panic!("nothing asked as {id}"));
        &mut self.lines[at]
    }

    /// A fact becomes durable.
    pub(super) fn record(&mut self, fact: &Fact) {
        match fact {
            Fact::Asked(asked) => {
                assert!(!self.has(asked.id), "{} recorded twice", asked.id);
                self.at.insert(asked.id, self.lines.len());
                let asked = asked.clone();
                self.lines.push(Line {
                    asked,
                    end: None,
                    late: None,
                    queued: None,
                    holders: Vec::new(),
                    attempt: 0,
                    finished: false,
                    excused: false,
                    owed: false,
                });
            }
            Fact::Refused(asked, _) => {
                assert!(!self.has(asked.id), "{} recorded twice", asked.id);
                assert!(asked.key.is_none(), "a refused ask uses up its key");
                self.refused.insert(asked.id);
            }
            Fact::Queued { id, at, expires } => self.line_mut(*id).queued = Some((*at, *expires)),
            Fact::Received { id, instance, attempt } => {
                let line = self.line_mut(*id);
                assert!(line.end.is_none() && !line.holders.contains(instance), "{instance} received {id} twice or after the end");
                line.holders.push(instance.clone());
                line.attempt = *attempt;
            }
            Fact::Ended { id, end, .. } => {
                let line = self.line_mut(*id);
                assert_eq!(line.end.replace(end.clone()), None, "{id} ended twice");
                let owed = line.excused && end.outcome.word() == "ok";
                assert_eq!(line.owed, owed, "{id} ended {}, its asker excused: {}", end.outcome.word(), line.excused);
            }
            Fact::Late { id, late } => {
                let line = self.line_mut(*id);
                assert!(line.end.as_ref().is_some_and(|end| end.outcome.word() != "ok"), "late answer to the open or answered {id}");
                assert_eq!(line.late.replace(late.clone()), None, "{id} has a second late answer");
                assert!(line.owed, "the late answer to {id} is owed to nobody");
            }
            Fact::Owed { id, .. } => self.line_mut(*id).owed = true,
            Fact::Taken { .. } => panic!("the rules hand nothing over"),
            Fact::Audit(_) => {}
            Fact::Presence { agent, at, online } => {
                self.online.insert(agent.clone(), (*at, *online));
            }
            Fact::Erased(_) => panic!("the rules erase nothing"),
        }
    }

    /// Something is told to a bot or a waiting asker, while these sockets are up.
    pub(super) fn tell(&mut self, effect: &Effect, sockets: &[Socket]) {
        match effect {
            Effect::Record(_) => {}
            Effect::Wake { connection, wake } => self.woken(*connection, wake.asked.id, sockets),
            Effect::Finish { asked, end, owed } => {
                let line = self.line_mut(asked.id);
                assert_eq!(line.owed, *owed, "{} is owed", asked.id);
                assert_eq!(line.end.as_ref(), Some(end), "told another end of {} than is on record", asked.id);
                assert!(!std::mem::replace(&mut line.finished, true), "{} finished twice", asked.id);
            }
            Effect::Cancel { connection, id } => {
                let to = self.line_mut(*id).asked.to.clone();
                assert!(sockets.iter().any(|s| s.id == *connection && s.agent.as_str() == &*to), "cancel to a stranger");
            }
            Effect::LateAnswer { connection, asked, late } => {
                assert_eq!(self.line_mut(asked.id).late.as_ref(), Some(late), "late answer told before it is on record");
                let to_asker = |connection: &ConnectionId| sockets.iter().any(|s| s.id == *connection && s.agent == asked.from);
                assert!(connection.as_ref().is_none_or(to_asker), "late answer to a stranger");
            }
        }
    }

    fn woken(&mut self, connection: ConnectionId, id: RequestId, sockets: &[Socket]) {
        let at = *self.at.get(&id).unwrap_or_else(|| panic!("wake of {id}, which is not on record"));
        let line = &self.lines[at];
        assert!(line.end.is_none(), "wake of {id}, which has ended");
        let socket = sockets.iter().find(|s| s.id == connection).unwrap_or_else(|| panic!("wake to {connection:?}, which is gone"));
        assert_eq!(socket.agent.as_str(), &*line.asked.to, "wake of {id} to a stranger");
        if let Some(process) = &socket.process {
            assert!(!line.holders.contains(process), "{process} is sent {id} again, which it has");
        }
        let turn = self.turn.entry((line.asked.to.clone(), line.asked.conversation)).or_insert(at);
        assert!(*turn <= at, "{id} is woken after a later question of its conversation");
        *turn = at;
    }

    /// The open exchanges as a starting relay finds them.
    pub(super) fn restored(&self) -> Vec<Restored> {
        let open = self.lines.iter().filter(|line| line.end.is_none());
        open.map(|l| Restored { asked: l.asked.clone(), queued: l.queued, holders: l.holders.clone(), attempt: l.attempt }).collect()
    }

    /// What holds between any two inputs.
    pub(super) fn check(&self, relay: &Relay, sockets: &[Socket]) {
        // Without `..`: whoever adds a field decides here what holds of it.
        let Relay { limits: _, permissions: _, registry, open, deadlines, twins, keys, recent, recent_order, recent_bytes, loops, quotas, paused: _ } =
            relay;
        let bytes = open.values().map(|open| open.asked.message.len()).sum();
        assert_eq!(quotas.totals(), (open.len(), bytes), "quotas");
        assert!(registry.agents.values().all(|a| a.circuit.probe.is_none_or(|id| open.contains_key(&id))), "a probe is left behind");
        assert_eq!(loops.sizes(), (roots(open), open.len() as u32), "chains");
        let still = self.lines.iter().filter(|l| l.end.is_none()).inspect(|l| assert!(open.contains_key(&l.asked.id), "{} is lost", l.asked.id));
        assert_eq!(still.count(), open.len(), "what is open and what history says is open");
        let mut keyless = 0;
        for (id, open) in open {
            assert!(deadlines.contains(&(open.due, *id)), "{id} has no deadline");
            keyless += usize::from(open.asked.key.is_none());
        }
        assert_eq!(deadlines.len(), open.len(), "a deadline is left behind");
        assert!(twins.values().all(|id| open.contains_key(id)), "a twin is left behind");
        assert_eq!(twins.len(), keyless, "twins");
        assert!(keys.values().all(|asked| open.contains_key(&asked.id) || recent.contains_key(&asked.id)), "a key is left behind");
        assert_eq!((recent.len(), *recent_bytes), (recent_order.len(), recent.values().map(|p| p.asked.message.len()).sum()));
        let placed: usize = registry.agents.iter().map(|(name, agent)| check_line(relay, name, agent)).sum();
        assert_eq!(placed, open.len(), "every open exchange stands in one line");
        let linked: usize = registry.agents.values().map(|agent| agent.links.len()).sum();
        assert_eq!((linked, registry.owners.len()), (sockets.len(), sockets.len()), "connections");
        for Socket { id, agent, .. } in sockets {
            assert_eq!(registry.owners.get(id), Some(agent));
            assert!(registry.agents[agent].links.iter().any(|link| link.id == *id), "{id:?} of {agent} is lost");
        }
    }
}

fn roots(open: &HashMap<RequestId, Open>) -> usize {
    open.values().map(|open| open.asked.trail.root).collect::<HashSet<_>>().len()
}

/// The line of one agent; how many exchanges stand in it.
fn check_line(relay: &Relay, name: &AgentName, agent: &Agent) -> usize {
    let hands = relay.limits.max_wakes_per_agent;
    assert!(agent.awake.len() <= hands, "{name} has {} questions at once", agent.awake.len());
    let introduced = agent.newest().is_some_and(|link| link.introduced);
    for (id, c) in &agent.awake {
        let Open { asked, phase: Phase::Awake(awake), .. } = &relay.open[id] else { panic!("{id} is not awake") };
        assert_eq!((asked.conversation, &*asked.to), (*c, name.as_str()));
        assert_eq!(agent.awake.iter().filter(|(_, other)| other == c).count(), 1, "{name} has two questions of one conversation");
        assert!(awake.on.is_none_or(|on| agent.links.iter().any(|link| link.id == on)), "{id} is on a connection that is gone");
        assert!(awake.on.is_some() || !introduced, "{id} is lost though {name} is back");
    }
    for (id, c) in &agent.waiting {
        let Open { asked, phase, .. } = &relay.open[id];
        assert_eq!((asked.conversation, &*asked.to), (*c, name.as_str()));
        assert!(!matches!(phase, Phase::Awake(_)), "{id} waits and is awake");
        let free = agent.online() && agent.awake.len() < hands && !agent.awake.iter().any(|(_, other)| other == c);
        assert!(!free, "{id} waits though {name} has a hand free");
        assert!(!matches!(phase, Phase::Queued { .. }) || !agent.online(), "{id} is queued though {name} is here");
    }
    agent.load()
}

/// Of one exchange, nothing is told in a batch before its record.
pub(super) fn in_order(batch: &[Effect]) {
    for (i, effect) in batch.iter().enumerate() {
        let Effect::Record(fact) = effect else { continue };
        let told = |e: &Effect| match e {
            Effect::Wake { wake, .. } => Some(wake.asked.id),
            Effect::Finish { asked, .. } | Effect::LateAnswer { asked, .. } => Some(asked.id),
            _ => None,
        };
        assert!(!batch[..i].iter().any(|e| told(e).is_some_and(|id| Some(id) == fact.request())), "told before recorded: {batch:?}");
    }
}
