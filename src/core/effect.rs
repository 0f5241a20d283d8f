//! What the machine wants done, in order. Owns the vocabulary between rules and driver; carries nothing out.
//!
//! The law of a batch: its `Record`s are durable before any of its other effects is carried out, and no batch, not even one
//! without a `Record`, is carried out before those that the machine gave earlier.

use std::sync::Arc;

use super::audit::Event;
use super::exchange::{Asked, End, Late, WhenOffline, Work};
use super::ids::{AgentName, ConnectionId, ConversationId, Millis, RequestId, Seq};

/// Something that happened and must be on record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fact {
    Asked(Arc<Asked>),
    /// An ask that was refused: begun and ended at once.
    Refused(Arc<Asked>, Arc<End>),
    /// The question waits for an absent agent from `at` until `expires`, or until the agent comes.
    Queued {
        id: RequestId,
        at: Millis,
        expires: Millis,
    },
    /// A process of the target has the question.
    Received {
        id: RequestId,
        instance: Arc<str>,
        attempt: u32,
    },
    Ended {
        id: RequestId,
        end: Arc<End>,
        work: Work,
    },
    Late {
        id: RequestId,
        late: Arc<Late>,
    },
    /// The answer that is recorded next comes when its asker's call has returned: it is to be handed over.
    Owed {
        id: RequestId,
        at: Millis,
    },
    /// The asker has what was owed to it.
    Taken {
        id: RequestId,
        at: Millis,
    },
    /// An agent came or went.
    Presence {
        agent: AgentName,
        at: Millis,
        online: bool,
    },
    /// Something for the security log.
    Audit(Arc<Event>),
    /// The owner had exchanges taken off the record: what was said is gone, that it is gone stays known.
    Erased(Arc<Erasure>),
}

/// What is taken off the record at once; a larger erasure is several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Erasure {
    pub ids: Vec<RequestId>,
    /// Further positions of the log: what was noted beside these exchanges, old comings and goings.
    pub rows: Vec<Seq>,
    /// When it was asked for. Several of one erasure have the same.
    pub at: Millis,
    pub why: Arc<str>,
}

impl Fact {
    /// The exchange it is about.
    #[must_use]
    pub fn request(&self) -> Option<RequestId> {
        match self {
            Self::Asked(asked) | Self::Refused(asked, _) => Some(asked.id),
            Self::Queued { id, .. }
            | Self::Received { id, .. }
            | Self::Ended { id, .. }
            | Self::Late { id, .. }
            | Self::Owed { id, .. }
            | Self::Taken { id, .. } => Some(*id),
            Self::Presence { .. } | Self::Audit(_) | Self::Erased(_) => None,
        }
    }
}

/// A question on its way to the bot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wake {
    pub asked: Arc<Asked>,
    pub attempt: u32,
    /// How long silence is borne from now.
    pub deadline_ms: u64,
    /// What the owner says of the asker.
    pub note: Option<Arc<str>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    Record(Fact),
    Wake {
        connection: ConnectionId,
        wake: Wake,
    },
    /// Everybody who waits for this exchange hears its end.
    Finish {
        asked: Arc<Asked>,
        end: Arc<End>,
        /// If nobody waits, the asker is handed the answer when it can be.
        owed: bool,
    },
    /// The bot at work may stop: nobody waits for it any more.
    Cancel {
        connection: ConnectionId,
        id: RequestId,
    },
    /// A late answer for its asker, and the connection that takes such frames if there is one.
    LateAnswer {
        connection: Option<ConnectionId>,
        asked: Arc<Asked>,
        late: Arc<Late>,
    },
}

/// A question as a door hands it in: parsed, with its ids drawn, not judged yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    pub id: RequestId,
    pub from: AgentName,
    /// As the caller wrote it.
    pub to: Arc<str>,
    pub message: Arc<str>,
    pub conversation: Place,
    pub when_offline: WhenOffline,
    pub key: Option<Arc<str>>,
    /// The exchange that history has under this asker's key.
    pub kept: Option<Arc<Asked>>,
    pub traceparent: Option<Arc<str>>,
}

/// The conversation of an ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// The caller named none; this is the fresh id to use.
    New(ConversationId),
    /// The caller named one. `found`: what history has under that name, with the two agents of its first exchange.
    /// `fresh`: the id to put a refusal under when it is none of the caller's.
    Named { given: Arc<str>, found: Option<(ConversationId, AgentName, AgentName)>, fresh: ConversationId },
}

impl Place {
    /// The conversation that a question between these two belongs to, or `None` if the named one is not theirs.
    #[must_use]
    pub fn between(&self, from: &AgentName, to: &str) -> Option<ConversationId> {
        match self {
            Self::New(id) => Some(*id),
            Self::Named { found, .. } => {
                let (id, a, b) = found.as_ref()?;
                let to = AgentName::parse(to)?;
                ((a == from && *b == to) || (b == from && *a == to)).then_some(*id)
            }
        }
    }

    /// The id to record under when there is no such conversation for the caller.
    #[must_use]
    pub fn fresh(&self) -> ConversationId {
        match self {
            Self::New(id) | Self::Named { fresh: id, .. } => *id,
        }
    }
}
