//! One question from ask to its only end: what was asked, where it stands, how it ended. Data and its invariants;
//! the moves between the phases are `relay`'s.

use std::sync::Arc;

use super::ids::{AgentName, ConnectionId, ConversationId, Millis, RequestId};
use super::outcome::Outcome;

/// Where a question comes from: derived from what its asker is answering, never from what the asker claims.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trail {
    /// The first question of the chain; this one, if nobody's question led to it.
    pub root: RequestId,
    /// The exchange that the asker was answering when it asked.
    pub parent: Option<RequestId>,
    /// The first asker of the chain.
    pub origin: AgentName,
    /// The agents from the origin to the asker; as long as the chain is deep, bounded by `max_depth`.
    pub path: Arc<[AgentName]>,
}

impl Trail {
    /// 0 for a question that nobody's question led to.
    #[must_use]
    pub fn hops(&self) -> u32 {
        self.path.len().saturating_sub(1) as u32
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenOffline {
    #[default]
    Fail,
    /// The question is kept for the target's return.
    Queue,
}

/// A question as it was accepted or refused. Never changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    pub id: RequestId,
    pub conversation: ConversationId,
    /// The conversation begins with this question.
    pub begins: bool,
    pub from: AgentName,
    /// The agent's name; as the caller wrote it (clipped) when it is refused, because it may name an agent that is none.
    pub to: Arc<str>,
    pub message: Arc<str>,
    pub at: Millis,
    pub when_offline: WhenOffline,
    pub trail: Trail,
    pub key: Option<Arc<str>>,
    pub traceparent: Option<Arc<str>>,
}

impl Asked {
    /// The asker, or the one who was asked.
    #[must_use]
    pub fn is_party(&self, name: &AgentName) -> bool {
        self.from == *name || *self.to == *name.as_str()
    }
}

/// How it ended. `text` is the answer when it was answered, else the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    pub outcome: Outcome,
    pub text: Arc<str>,
    pub at: Millis,
    /// The id of the `call` that carried the answer, so that the same call sent again is not a second answer.
    pub call: Option<Arc<str>>,
    /// The person who ended it in the bot's place.
    pub by: Option<Arc<str>>,
}

/// What was seen of the work on an exchange, for those who look at it later. Best effort: a restart of the relay begins it
/// anew.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// When the question was sent to the target's socket first.
    pub delivered: Option<Millis>,
    pub heartbeats: u32,
    /// The target's own session, as its last heartbeat named it.
    pub session: Option<Arc<str>>,
}

/// An answer that came after the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Late {
    pub answer: Arc<str>,
    pub at: Millis,
    pub call: Option<Arc<str>>,
}

/// One exchange as history has it. `end` is `None` while it is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub asked: Arc<Asked>,
    pub end: Option<Arc<End>>,
    pub late: Option<Arc<Late>>,
    /// It was never begun: nobody was asked, nobody may answer.
    pub refused: bool,
}

impl Record {
    /// `ok`, `pending` or the outcome's word.
    #[must_use]
    pub fn status(&self) -> &'static str {
        self.end.as_ref().map_or("pending", |end| end.outcome.word())
    }

    /// The answer that was given, in time or late.
    #[must_use]
    pub fn answer(&self) -> Option<&Arc<str>> {
        match (&self.late, &self.end) {
            (Some(late), _) => Some(&late.answer),
            (None, Some(end)) if end.outcome == Outcome::Answered => Some(&end.text),
            _ => None,
        }
    }

    /// What a reply after the end has to know; `None` while it is open, and for what was refused.
    #[must_use]
    pub fn past(&self) -> Option<Past> {
        let end = self.end.as_ref().filter(|_| !self.refused)?;
        let call = self.late.as_ref().map_or(&end.call, |late| &late.call).clone();
        Some(Past { asked: self.asked.clone(), answered: end.outcome == Outcome::Answered, late: self.late.is_some(), call })
    }

    #[must_use]
    pub fn is_party(&self, name: &AgentName) -> bool {
        self.asked.is_party(name)
    }
}

/// What is remembered of an exchange that ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Past {
    pub asked: Arc<Asked>,
    /// In time.
    pub answered: bool,
    /// After the end.
    pub late: bool,
    /// The call that carried the last reply that was taken.
    pub call: Option<Arc<str>>,
}

/// Where an open exchange stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// In the target's line, not sent yet: an earlier question of the conversation is being answered, the target has
    /// its hands full, or it is expected back.
    Waiting,
    /// The target is away and the asker chose to leave the question.
    Queued {
        expires: Millis,
    },
    Awake(Awake),
}

/// Sent to the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Awake {
    /// The connection that carried the last wake; `None` when it is lost.
    pub on: Option<ConnectionId>,
    /// 1 for the first wake.
    pub attempt: u32,
    /// When the wake was sent or the target last said that it is at work. If `on` is `None`: when the connection was lost
    /// or the target came back without having said yet which process it is.
    pub heard: Millis,
    /// The processes that said that they have it: none of them is woken for this request again. The newest `MAX_HOLDERS`.
    pub holders: Vec<Arc<str>>,
}

/// A bot that comes back as another process so often within one question is broken, or means harm.
pub const MAX_HOLDERS: usize = 64;

/// Remembers one more process, in place of the oldest if there are too many.
pub fn keep_holder<T>(holders: &mut Vec<T>, holder: T) {
    if holders.len() >= MAX_HOLDERS {
        holders.remove(0);
    }
    holders.push(holder);
}

/// An accepted exchange that has not ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Open {
    pub asked: Arc<Asked>,
    pub to: AgentName,
    pub phase: Phase,
    /// When the longest time that it may take began: with the ask, the target's return to its queue, the relay's start.
    pub begun: Millis,
    /// The moment under which the exchange stands in the relay's list of deadlines.
    pub due: Millis,
    pub work: Work,
    /// The asker was told to go on with something else, or its waiting ended with the relay: an answer is owed to it.
    pub excused: bool,
}

/// Asks without a key that are the same question: same parties, same conversation as asked for, same text.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Twin {
    pub from: AgentName,
    pub to: AgentName,
    pub conversation: Option<ConversationId>,
    pub message: Arc<str>,
}

impl Twin {
    /// `None` for an ask with a key, which says itself what is the same.
    #[must_use]
    pub fn of(asked: &Asked, to: &AgentName) -> Option<Self> {
        let conversation = (!asked.begins).then_some(asked.conversation);
        let twin = || Self { from: asked.from.clone(), to: to.clone(), conversation, message: asked.message.clone() };
        asked.key.is_none().then(twin)
    }
}
