//! One question from ask to its only end: what was asked, where it stands, how it ended. Data and its invariants;
//! the moves between the phases are `relay`'s.

use std::sync::Arc;

use super::ids::{AgentName, ConnectionId, ConversationId, Millis, RequestId};
use super::outcome::Outcome;

/// Where a question comes from: derived from what its asker is answering, never from what the asker claims.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trail {
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

/// A question as it was accepted or refused. Never changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    pub id: RequestId,
    pub conversation: ConversationId,
    /// The conversation begins with this question.
    pub begins: bool,
    pub from: AgentName,
    /// Text, because a refused ask may name an agent that is none.
    pub to: Arc<str>,
    pub message: Arc<str>,
    pub at: Millis,
    pub trail: Trail,
    pub key: Option<Arc<str>>,
    pub traceparent: Option<Arc<str>>,
}

/// How it ended. `text` is the answer when it was answered, else the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    pub outcome: Outcome,
    pub text: Arc<str>,
    pub at: Millis,
    /// The id of the `call` that carried the answer, so that the same call sent again is not a second answer.
    pub call: Option<Arc<str>>,
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

    #[must_use]
    pub fn is_party(&self, name: &AgentName) -> bool {
        self.asked.from == *name || *self.asked.to == *name.as_str()
    }
}

/// Where an open exchange stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// In the target's line, not sent yet: an earlier question of the conversation is being answered, the target has
    /// its hands full, or it is expected back.
    Waiting,
    /// The target is away and the asker chose to leave the question.
    Queued { expires: Millis },
    Awake(Awake),
}

/// Sent to the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Awake {
    /// The connection that carried the last wake; `None` when it is lost.
    pub on: Option<ConnectionId>,
    /// 1 for the first wake.
    pub attempt: u32,
    /// When the wake was sent or the target last said that it is at work; when the connection was lost if `on` is `None`.
    pub heard: Millis,
    /// The process that said `received`: it is never woken for this request again.
    pub holder: Option<Arc<str>>,
}

/// An accepted exchange that has not ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Open {
    pub asked: Arc<Asked>,
    pub to: AgentName,
    pub phase: Phase,
    /// The moment under which the exchange stands in the relay's list of deadlines.
    pub due: Millis,
    /// What an identical ask is recognised by.
    pub twin: Twin,
}

/// Asks that are the same question: same parties, same conversation as asked for, same text.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Twin {
    pub from: AgentName,
    pub to: AgentName,
    pub conversation: Option<ConversationId>,
    pub message: Arc<str>,
}
