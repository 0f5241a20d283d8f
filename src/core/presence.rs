//! Comings and goings, and whose turn it is: a connection is a number, not a name, so the end of an old one takes down
//! only what it carried. Owns when a question is sent, sent again, or given to a newer connection without being sent.

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
        let Some(agent) = self.registry.agents.get_mut(name) else { return false };
        if !agent.online() {
            out.push(Effect::Record(Fact::Presence { agent: name.clone(), at: now, online: true }));
        }
        agent.links.push(Link { id: connection, since: now, introduced: false, hello: Hello::default() });
        agent.left = None;
        agent.last_seen = Some(now);
        let waiting: Vec<RequestId> = agent.waiting.iter().copied().collect();
        self.registry.owners.insert(connection, name.clone());
        for id in waiting {
            if let Some(open) = self.open.get_mut(&id) {
                open.phase = Phase::Waiting;
            }
            self.rearm(id);
        }
        self.advance(now, name, out);
        true
    }

    /// The process behind the connection said who it is, or will not.
    pub fn introduced(&mut self, now: Millis, connection: ConnectionId, hello: Option<Hello>, out: &mut Vec<Effect>) {
        let Some((name, agent)) = self.registry.owner_mut(connection) else { return };
        let Some(link) = agent.link_mut(connection) else { return };
        link.introduced = true;
        if let Some(hello) = hello {
            link.hello = hello;
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
        let newest_since = agent.newest().map(|l| l.since);
        let awake: Vec<RequestId> = agent.awake.iter().map(|(id, _)| *id).collect();
        let waiting: Vec<RequestId> = agent.waiting.iter().copied().collect();
        self.registry.owners.remove(&connection);
        for id in awake {
            let Some(awake) = self.awake_mut(id).filter(|a| a.on == Some(connection)) else { continue };
            awake.on = None;
            // Heard of since the newer connection is up: the same process, alive and at work.
            let alive = newest_since.is_some_and(|since| awake.heard >= since);
            if !alive {
                awake.heard = now;
            } else if let Some(newest) = self.registry.agents.get(&name).and_then(|a| a.newest()).map(|l| l.id)
                && let Some(awake) = self.awake_mut(id)
            {
                awake.on = Some(newest);
            }
            self.rearm(id);
        }
        if online {
            self.take_over(now, &name, out);
        } else {
            waiting.into_iter().for_each(|id| self.rearm(id));
        }
    }

    /// Gives the questions of lost connections to the newest one, once that is introduced: silently to the process that
    /// has them, by another wake to any other.
    fn take_over(&mut self, now: Millis, name: &AgentName, out: &mut Vec<Effect>) {
        let Some(agent) = self.registry.agents.get(name) else { return };
        let Some(newest) = agent.newest().filter(|l| l.introduced).cloned() else { return };
        let orphans: Vec<RequestId> = agent.awake.iter().map(|(id, _)| *id).collect();
        for id in orphans {
            let Some(awake) = self.awake_mut(id).filter(|a| a.on.is_none()) else { continue };
            let same_process = awake.holder.is_some() && awake.holder == newest.hello.instance;
            awake.on = Some(newest.id);
            awake.heard = now;
            if !same_process {
                awake.attempt += 1;
                awake.holder = None;
                self.send_wake(id, newest.id, out);
            }
            self.rearm(id);
        }
    }

    /// Wakes the agent for as many questions as it has hands free, oldest first, one a conversation.
    pub(super) fn advance(&mut self, now: Millis, name: &AgentName, out: &mut Vec<Effect>) {
        let hands = self.limits.max_wakes_per_agent;
        loop {
            let Some(agent) = self.registry.agents.get(name) else { return };
            let Some(connection) = agent.newest().map(|l| l.id) else { return };
            let next = agent.next_in_line(|id| self.open.get(id).map(|o| o.asked.conversation), hands);
            let Some(id) = next else { return };
            let Some(open) = self.open.get_mut(&id) else { return };
            open.phase = Phase::Awake(Awake { on: Some(connection), attempt: 1, heard: now, holder: None });
            let conversation = open.asked.conversation;
            if let Some(agent) = self.registry.agents.get_mut(name) {
                agent.waiting.retain(|r| *r != id);
                agent.awake.push((id, conversation));
            }
            self.send_wake(id, connection, out);
            self.rearm(id);
        }
    }

    fn send_wake(&self, id: RequestId, connection: ConnectionId, out: &mut Vec<Effect>) {
        if let Some(open) = self.open.get(&id)
            && let Phase::Awake(awake) = &open.phase
        {
            let wake = Wake { asked: open.asked.clone(), attempt: awake.attempt, deadline_ms: self.limits.ask_timeout_ms };
            out.push(Effect::Wake { connection, wake });
        }
    }

    /// The viewer itself and everybody it may ask, by name; all agents for `None`.
    #[must_use]
    pub fn present(&self, viewer: Option<&AgentName>) -> Vec<Present> {
        let visible = |name: &AgentName| viewer.is_none_or(|v| v == name || self.permissions.allows(v, name));
        let mut all: Vec<Present> = self
            .registry
            .agents
            .iter()
            .filter(|(name, _)| visible(name))
            .map(|(name, agent)| Present {
                name: name.clone(),
                online: agent.online(),
                last_seen: agent.last_seen,
                waiting: agent.load(),
                adapter: agent.newest().and_then(|l| l.hello.adapter.clone()),
            })
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
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
