//! An agent that is connected and lets question after question time out is asked nothing for a while: askers hear at once
//! what they would have heard after minutes. Then one question is the probe. An answer, a late
//! one too, or the agent's return ends it all; that it has received a question does not.
//!
//! The refusal is `rate_limited`: the agent is not offline, and "do not retry before" is what that word says.

use super::ids::{Millis, RequestId};
use super::outcome::Outcome;
use super::policy::Limits;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Circuit {
    /// Questions in a row that ended in silence.
    silent: u32,
    rests_until: Millis,
    /// The one question that was let through after the rest.
    pub(super) probe: Option<RequestId>,
}

impl Circuit {
    /// Milliseconds until it is worth asking; `None` when it is now.
    pub(super) fn wait(&self, now: Millis, limits: &Limits) -> Option<u64> {
        if self.silent < limits.max_timeouts_in_a_row {
            return None;
        }
        match self.rests_until.since(now) {
            0 => self.probe.map(|_| limits.silent_rest_ms),
            ms => Some(ms),
        }
    }

    /// A question to the agent begins.
    pub(super) fn begun(&mut self, id: RequestId, limits: &Limits) {
        if self.silent >= limits.max_timeouts_in_a_row {
            self.probe = Some(id);
        }
    }

    /// A question that the agent had has ended.
    pub(super) fn ended(&mut self, now: Millis, id: RequestId, outcome: Outcome, limits: &Limits) {
        if self.probe == Some(id) {
            self.probe = None;
        }
        if outcome == Outcome::Timeout {
            self.silent = self.silent.saturating_add(1);
            self.rests_until = now.plus(limits.silent_rest_ms);
        }
    }

    /// The agent answered, or came back.
    pub(super) fn alive(&mut self) {
        *self = Self::default();
    }
}
