//! What stops bots that keep asking each other: how deep a chain is, how many questions one question has led to, how long
//! two have gone on in one conversation, how often a circle has gone round. Reads what happened, never what a bot claims.
//!
//! A chain holds as long as its questions are open, and is taken up with them after a restart. Bots that answer first and
//! ask anew leave no chain: for them conversations and pairs are counted. Those counts begin anew with the process, and
//! the least recent are forgotten when there are too many.

use std::collections::{HashMap, VecDeque};

use super::exchange::Asked;
use super::ids::{AgentName, ConversationId, Millis, RequestId};
use super::outcome::{LoopRule, Refusal};
use super::pace::{Pace, Rate, crowded};
use super::policy::Limits;

/// Conversations and pairs that are counted at a time.
const MAX_COUNTED: usize = 16_384;
/// A conversation that rested for so long begins to count anew.
const REST_MS: u64 = 30 * 60 * 1_000;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Loops {
    turns: HashMap<ConversationId, Turns>,
    /// Asker -> asked. A pair whose pace is used up is hot.
    pairs: HashMap<AgentName, HashMap<AgentName, Pace>>,
    pair_count: usize,
    /// By their first question, the chains of which a question is open.
    chains: HashMap<RequestId, Chain>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Turns {
    count: u32,
    last: Millis,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Chain {
    asks: u32,
    open: u32,
}

impl Loops {
    /// Whether this question may begin, as far as counts say.
    pub(super) fn check(&self, now: Millis, asked: &Asked, to: &AgentName, limits: &Limits) -> Result<(), Refusal> {
        let stop = |rule, max, path| Err(Refusal::LoopLimit { rule, max, path });
        let path = || asked.trail.path.iter().cloned().chain([to.clone()]).collect();
        if self.chains.get(&asked.trail.root).is_some_and(|chain| chain.asks >= limits.max_asks_per_root) {
            return stop(LoopRule::Root, limits.max_asks_per_root, path());
        }
        let turns = self.turns.get(&asked.conversation).filter(|turns| turns.until() > now);
        if turns.is_some_and(|turns| turns.count >= limits.max_turns_per_conversation) {
            return stop(LoopRule::Turns, limits.max_turns_per_conversation, path());
        }
        match self.circle(now, &asked.from, to, limits) {
            Some(circle) => stop(LoopRule::Pair, limits.max_asks_per_pair_per_hour, circle),
            None => Ok(()),
        }
    }

    /// The way back from `to` to `from` over hot pairs, if this pair is hot: asks that only go one way are no loop.
    fn circle(&self, now: Millis, from: &AgentName, to: &AgentName, limits: &Limits) -> Option<Vec<AgentName>> {
        let rate = Rate::per_hour(limits.max_asks_per_pair_per_hour);
        let hot = |pace: &Pace| pace.wait(now, rate) > 0;
        self.pairs.get(from)?.get(to).filter(|pace| hot(pace))?;
        // Breadth first, so that the shortest circle is shown.
        let mut came: HashMap<&AgentName, &AgentName> = HashMap::new();
        let mut line = VecDeque::from([to]);
        while let Some(agent) = line.pop_front() {
            for (next, pace) in self.pairs.get(agent).into_iter().flatten() {
                if !hot(pace) || next == to || came.contains_key(next) {
                    continue;
                }
                came.insert(next, agent);
                if next == from {
                    let back = std::iter::successors(Some(next), |at| came.get(at).copied());
                    let mut circle: Vec<AgentName> = back.cloned().chain([from.clone()]).collect();
                    circle.reverse();
                    return Some(circle);
                }
                line.push_back(next);
            }
        }
        None
    }

    /// A question begins. `more`: an earlier one of its conversation is open, so it is no new turn.
    pub(super) fn begun(&mut self, now: Millis, asked: &Asked, to: &AgentName, more: bool, limits: &Limits) {
        self.held(asked);
        if !more {
            let turns = self.turns.entry(asked.conversation).or_insert(Turns { count: 0, last: now });
            turns.count = if turns.until() > now { turns.count.saturating_add(1) } else { 1 };
            turns.last = now;
        }
        let pairs = self.pairs.entry(asked.from.clone()).or_default();
        self.pair_count += usize::from(!pairs.contains_key(to));
        pairs.entry(to.clone()).or_default().take(now, Rate::per_hour(limits.max_asks_per_pair_per_hour));
        self.shed(now);
    }

    /// A question is open: begun now, or taken up after a restart.
    pub(super) fn held(&mut self, asked: &Asked) {
        let chain = self.chains.entry(asked.trail.root).or_default();
        chain.asks = chain.asks.saturating_add(1);
        chain.open += 1;
    }

    pub(super) fn ended(&mut self, asked: &Asked) {
        if let Some(chain) = self.chains.get_mut(&asked.trail.root) {
            chain.open -= 1;
            if chain.open == 0 {
                self.chains.remove(&asked.trail.root);
            }
        }
    }

    /// A person says that it may go on: whatever could stop this question counts anew.
    pub(super) fn clear(&mut self, asked: &Asked) {
        self.turns.remove(&asked.conversation);
        if let Some(chain) = self.chains.get_mut(&asked.trail.root) {
            chain.asks = 0;
        }
        for (from, to) in [(asked.from.as_str(), &*asked.to), (&*asked.to, asked.from.as_str())] {
            let pairs = AgentName::parse(from).and_then(|from| self.pairs.get_mut(&from));
            if let (Some(pairs), Some(to)) = (pairs, AgentName::parse(to)) {
                self.pair_count -= usize::from(pairs.remove(&to).is_some());
            }
        }
    }

    fn shed(&mut self, now: Millis) {
        if let Some(over) = crowded(self.turns.len(), MAX_COUNTED, now, self.turns.values().map(Turns::until)) {
            self.turns.retain(|_, turns| turns.until() > over);
        }
        let untils = self.pairs.values().flat_map(HashMap::values).map(Pace::until);
        if let Some(over) = crowded(self.pair_count, MAX_COUNTED, now, untils) {
            self.pairs.values_mut().for_each(|pairs| pairs.retain(|_, pace| pace.until() > over));
            self.pairs.retain(|_, pairs| !pairs.is_empty());
            self.pair_count = self.pairs.values().map(HashMap::len).sum();
        }
    }

    /// Conversations and pairs that are counted.
    #[cfg(test)]
    pub(super) fn counted(&self) -> usize {
        assert_eq!(self.pair_count, self.pairs.values().map(HashMap::len).sum::<usize>());
        self.turns.len() + self.pair_count
    }

    /// Chains, and their open questions.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, u32) {
        (self.chains.len(), self.chains.values().map(|chain| chain.open).sum())
    }
}

impl Turns {
    fn until(&self) -> Millis {
        self.last.plus(REST_MS)
    }
}
