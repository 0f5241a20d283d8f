//! What a person does among the agents: asks under a name that no agent may have, answers in a bot's place, cancels, and
//! pauses a bot or a pair. Owns what pausing means: no new question, in neither direction, from anybody.

use std::sync::Arc;

use super::effect::Effect;
use super::exchange::End;
use super::ids::{AgentName, Millis, RequestId};
use super::outcome::{Outcome, explain};
use super::relay::Relay;
use super::replies::{Replied, Reply};

/// The name under which the relay's owner asks.
pub const OWNER: &str = "owner";

impl AgentName {
    /// Whether only a person may have this name.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.as_str() == OWNER
    }
}

/// More than anybody can keep in mind.
pub const MAX_PAUSES: usize = 1_000;

/// A bot, or two of them, that nobody may ask and that ask nobody until a person resumes them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pause {
    pub one: AgentName,
    /// With it only questions between the two are stopped.
    pub other: Option<AgentName>,
    pub by: Arc<str>,
    pub at: Millis,
}

impl Pause {
    /// Whether it stops the same, however the two are named.
    #[must_use]
    pub fn is_of(&self, one: &AgentName, other: Option<&AgentName>) -> bool {
        match (&self.other, other) {
            (None, None) => self.one == *one,
            (Some(mine), Some(other)) => (self.one == *one && mine == other) || (self.one == *other && mine == one),
            _ => false,
        }
    }

    /// Whether it stops a question between these two.
    #[must_use]
    pub fn stops(&self, from: &AgentName, to: &AgentName) -> bool {
        match &self.other {
            None => self.one == *from || self.one == *to,
            Some(_) => self.is_of(from, Some(to)),
        }
    }

    /// `bob`, or `alice and bob`.
    #[must_use]
    pub fn name(&self) -> String {
        self.other.as_ref().map_or_else(|| self.one.to_string(), |other| format!("{} and {other}", self.one))
    }
}

impl Relay {
    /// What is paused from now on. Open exchanges go on.
    pub fn set_paused(&mut self, paused: Vec<Pause>) {
        self.paused = paused;
    }

    #[must_use]
    pub fn paused(&self) -> &[Pause] {
        &self.paused
    }

    /// Ends an open exchange with a person's answer, in the bot's place. `Unknown`: it is not open.
    pub fn answer_as(&mut self, now: Millis, who: &Arc<str>, id: RequestId, answer: Arc<str>, out: &mut Vec<Effect>) -> Replied {
        if let Some(bad) = self.check_text(&Reply::Answer(answer.clone())) {
            return bad;
        }
        let Some(open) = self.open(id) else { return Replied::Unknown };
        let asked = open.asked.clone();
        self.loops.clear(&asked);
        self.end_with(id, End { outcome: Outcome::Answered, text: answer, at: now, call: None, by: Some(who.clone()) }, out);
        Replied::Taken
    }

    /// Ends an open exchange without an answer; `false` if it is none.
    pub fn cancel_as(&mut self, now: Millis, who: &Arc<str>, id: RequestId, out: &mut Vec<Effect>) -> bool {
        let Some(open) = self.open(id) else { return false };
        let text = explain(Outcome::Cancelled, &open.to, Some(&format!("by the relay's {who}, a person. Do not ask it again")), 0);
        self.end_with(id, End { outcome: Outcome::Cancelled, text: text.into(), at: now, call: None, by: Some(who.clone()) }, out);
        true
    }
}
