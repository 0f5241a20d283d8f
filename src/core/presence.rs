//! Comings and goings, and whose turn it is: a connection is a number, not a name, so the end of an old one takes down
//! only what it carried. Owns when a question is sent, sent again, or given to a newer connection without being sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::effect::{Effect, Fact, Wake};
use super::exchange::{Awake, Phase};
use super::ids::{AgentName, ConnectionId, Millis, RequestId};
use super::registry::{Hello, Left, Link};
use super::relay::Relay;

/// One agent as `list_agents` and the page show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Present {
    pub name: AgentName,
    pub online: bool,
    pub last_seen: Option<Millis>,
    pub waiting: usize,
    pub adapter: Option<Arc<str>>,
}

impl Relay {
    /// A socket of `name` is up. Questions never sent go out at once; those another connection carried wait for
    /// `introduced`, because the same process may have them. `false` if there is no such agent.
    pub fn connected(&mut self, now: Millis, name: &AgentName, connection: ConnectionId, out: &mut Vec<Effect>) -> bool {
        let Some(agent) = self.registry.agents.get_mut(name).filter(|agent| agent.listed) else { return false };
        let returns = !agent.online();
        agent.links.push(Link { id: connection, since: now, introduced: false, hello: Hello::default() });
        agent.left = None;
        agent.last_seen = Some(now);
        self.registry.owners.insert(connection, name.clone());
        if returns {
            agent.circuit.alive();
            out.push(Effect::Record(Fact::Presence { agent: name.clone(), at: now, online: true }));
            self.returned(now, name);
        }
        self.advance(now, name, out);
        true
    }

    /// The clocks of absence stop: what was queued is in line from now on, what was lost waits for the introduction.
    fn returned(&mut self, now: Millis, name: &AgentName) {
        let Some(agent) = self.registry.agents.get(name) else { return };
        let all: Vec<RequestId> = agent.waiting.iter().chain(&agent.awake).map(|(id, _)| *id).collect();
        for id in all {
            let Some(open) = self.open.get_mut(&id) else { continue };
            match &mut open.phase {
                Phase::Awake(awake) => awake.heard = now,
                Phase::Waiting => {}
                Phase::Queued { .. } => (open.phase, open.begun) = (Phase::Waiting, now),
            }
            self.rearm(id);
        }
    }

    /// The process behind the connection said who it is, or will not.
    pub fn introduced(&mut self, now: Millis, connection: ConnectionId, hello: Option<Hello>, out: &mut Vec<Effect>) {
        let Some((name, agent)) = self.registry.owner_mut(connection) else { return };
        let Some(link) = agent.link_mut(connection) else { return };
        link.introduced = true;
        if let Some(hello) = hello {
            // A connection is one process, whatever it says later.
            let first = link.hello.instance.take();
            link.hello = Hello { instance: first.or(hello.instance.clone()), ..hello };
        }
        self.take_over(now, &name, out);
        self.advance(now, &name, out);
    }

    /// The connection is gone; `clean` if it said goodbye.
    pub fn disconnected(&mut self, now: Millis, connection: ConnectionId, clean: bool, out: &mut Vec<Effect>) {
        let Some((name, agent)) = self.registry.owner_mut(connection) else { return };
        agent.links.retain(|l| l.id != connection);
        agent.last_seen = Some(now);
        let online = agent.online();
        if !online {
            agent.left = Some(Left { at: now, clean });
            out.push(Effect::Record(Fact::Presence { agent: name.clone(), at: now, online: false }));
        }
        let awake: Vec<RequestId> = agent.awake.iter().map(|(id, _)| *id).collect();
        let waiting: Vec<RequestId> = agent.waiting.iter().map(|(id, _)| *id).collect();
        self.registry.owners.remove(&connection);
        for id in awake {
            let Some(awake) = self.awake_mut(id).filter(|a| a.on == Some(connection)) else { continue };
            awake.on = None;
            awake.heard = now;
            self.rearm(id);
        }
        if online {
            self.take_over(now, &name, out);
        } else {
            waiting.into_iter().for_each(|id| self.rearm(id));
        }
    }

    /// Gives the questions of lost connections to those that are up: silently to a process that has them, else by another
    /// wake to the newest, once that is introduced.
    fn take_over(&mut self, now: Millis, name: &AgentName, out: &mut Vec<Effect>) {
        let Some(agent) = self.registry.agents.get(name) else { return };
        let links = agent.links.clone();
        let orphans: Vec<RequestId> = agent.awake.iter().map(|(id, _)| *id).collect();
        for id in orphans {
            let Some(awake) = self.awake_mut(id).filter(|a| a.on.is_none()) else { continue };
            let has_it = |link: &&Link| link.hello.instance.as_ref().is_some_and(|i| awake.holders.contains(i));
            let holder = links.iter().rev().find(has_it);
            let Some(link) = holder.or(links.last().filter(|newest| newest.introduced)) else { continue };
            awake.on = Some(link.id);
            awake.heard = now;
            if holder.is_none() {
                awake.attempt += 1;
                self.send_wake(now, id, link.id, out);
            }
            self.rearm(id);
        }
    }

    /// Wakes the agent for as many questions as it has hands free, oldest first, one a conversation.
    pub(super) fn advance(&mut self, now: Millis, name: &AgentName, out: &mut Vec<Effect>) {
        let hands = self.limits.max_wakes_per_agent;
        loop {
            let Some(agent) = self.registry.agents.get_mut(name) else { return };
            let Some(connection) = agent.newest().map(|l| l.id) else { return };
            let Some(id) = agent.take_next(hands) else { return };
            let Some(open) = self.open.get_mut(&id) else { continue };
            open.phase = Phase::Awake(Awake { on: Some(connection), attempt: 1, heard: now, holders: Vec::new() });
            self.send_wake(now, id, connection, out);
            self.rearm(id);
        }
    }

    fn send_wake(&mut self, now: Millis, id: RequestId, connection: ConnectionId, out: &mut Vec<Effect>) {
        if let Some(open) = self.open.get_mut(&id)
            && let Phase::Awake(awake) = &open.phase
        {
            open.work.delivered.get_or_insert(now);
            let note = self.permissions.note(&open.asked.from, &open.to);
            let wake = Wake { asked: open.asked.clone(), attempt: awake.attempt, deadline_ms: self.limits.ask_timeout_ms, note };
            out.push(Effect::Wake { connection, wake });
        }
    }

    /// The viewer itself and everybody it may ask, by name; all agents for `None`.
    #[must_use]
    pub fn present(&self, viewer: Option<&AgentName>) -> Vec<Present> {
        let visible = |name: &AgentName| viewer.is_none_or(|v| v == name || self.permissions.allows(v, name));
        self.registry
            .agents
            .iter()
            .filter(|(name, agent)| agent.listed && visible(name))
            .map(|(name, agent)| Present {
                name: name.clone(),
                online: agent.online(),
                last_seen: agent.last_seen,
                waiting: agent.load(),
                adapter: agent.newest().and_then(|l| l.hello.adapter.clone()),
            })
            .collect()
    }

    /// What waits in the queue of each agent that is away: how many, and since when the oldest.
    #[must_use]
    pub fn away(&self) -> BTreeMap<AgentName, (usize, Millis)> {
        let mut queues = BTreeMap::new();
        for open in self.open.values().filter(|open| matches!(open.phase, Phase::Queued { .. })) {
            let (count, oldest) = queues.entry(open.to.clone()).or_insert((0, open.asked.at));
            *count += 1;
            *oldest = open.asked.at.min(*oldest);
        }
        queues
    }

    #[must_use]
    pub fn last_seen(&self, name: &AgentName) -> Option<Millis> {
        self.registry.agents.get(name).and_then(|a| a.last_seen)
    }

    /// Connections to tell that the relay is about to come back: those that understand it.
    #[must_use]
    pub fn links(&self) -> Vec<(ConnectionId, AgentName, bool)> {
        let each = |(name, agent): (&AgentName, &super::registry::Agent)| {
            agent.links.iter().map(|l| (l.id, name.clone(), l.hello.features.restarting)).collect::<Vec<_>>()
        };
        self.registry.agents.iter().flat_map(each).collect()
    }
}
