//! What one agent may take of the relay as an asker: how fast it asks, how many of its questions are open and how large they
//! are. A refused question counts as one asked, so that refusals cannot be had for nothing. Rates begin anew with the
//! process; what is open is taken up with it.

use std::collections::HashMap;

use super::exchange::Asked;
use super::ids::{AgentName, Millis};
use super::outcome::Refusal;
use super::pace::{Pace, Rate};
use super::policy::Limits;

/// When to try again what others, not time, have to make room for.
const ROOM_MS: u64 = 5_000;

/// By asker. As many as there are agents: nobody else can ask.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Quotas {
    askers: HashMap<AgentName, Asker>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Asker {
    pace: Pace,
    open: usize,
    bytes: usize,
}

impl Quotas {
    pub(super) fn check_pace(&self, now: Millis, from: &AgentName, limits: &Limits) -> Result<(), Refusal> {
        let max = limits.asks_per_minute;
        match self.askers.get(from).map_or(0, |asker| asker.pace.wait(now, Rate::per_minute(max))) {
            0 => Ok(()),
            retry_in_ms => Err(Refusal::RateLimited { limit: "asks_per_minute", max: u64::from(max), retry_in_ms }),
        }
    }

    pub(super) fn check_open(&self, asked: &Asked, limits: &Limits) -> Result<(), Refusal> {
        let Some(asker) = self.askers.get(&asked.from) else { return Ok(()) };
        let full = |limit, max: usize| Err(Refusal::RateLimited { limit, max: max as u64, retry_in_ms: ROOM_MS });
        if asker.open >= limits.max_open_asks_per_agent {
            return full("max_open_asks_per_agent", limits.max_open_asks_per_agent);
        }
        if asker.open > 0 && asker.bytes + asked.message.len() > limits.max_open_bytes_per_agent {
            return full("max_open_bytes_per_agent", limits.max_open_bytes_per_agent);
        }
        Ok(())
    }

    /// A question was judged.
    pub(super) fn judged(&mut self, now: Millis, from: &AgentName, limits: &Limits) {
        self.askers.entry(from.clone()).or_default().pace.take(now, Rate::per_minute(limits.asks_per_minute));
    }

    /// A question is open: begun now, or taken up after a restart.
    pub(super) fn held(&mut self, asked: &Asked) {
        let asker = self.askers.entry(asked.from.clone()).or_default();
        asker.open += 1;
        asker.bytes += asked.message.len();
    }

    pub(super) fn ended(&mut self, asked: &Asked) {
        if let Some(asker) = self.askers.get_mut(&asked.from) {
            asker.open -= 1;
            asker.bytes -= asked.message.len();
        }
    }

    /// Open questions and their bytes.
    #[cfg(test)]
    pub(super) fn totals(&self) -> (usize, usize) {
        self.askers.values().fold((0, 0), |(open, bytes), asker| (open + asker.open, bytes + asker.bytes))
    }
}
