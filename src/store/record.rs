//! Shapes on disk: JSON with a version, types of their own so that the core can change without touching old files.
//! Owns the way there and back; a field once written is never given another meaning.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::StoreError;
use crate::core::audit::{Event, Kind};
use crate::core::effect::{Erasure, Fact};
use crate::core::exchange::{Asked, End, Late, Trail, WhenOffline, Work};
use crate::core::ids::{AgentName, ConversationId, Millis, RequestId, Seq};
use crate::core::outcome::Outcome;
use crate::core::person::Pause;

/// One row of the log.
#[derive(Serialize, Deserialize, Debug)]
#[serde(tag = "t", rename_all = "snake_case")]
enum StoredFact {
    Asked(StoredAsked),
    Refused {
        asked: StoredAsked,
        end: StoredEnd,
    },
    Queued {
        id: String,
        at: u64,
        expires: u64,
    },
    Received {
        id: String,
        instance: Arc<str>,
        attempt: u32,
    },
    Ended {
        id: String,
        end: StoredEnd,
        #[serde(default, skip_serializing_if = "StoredWork::is_empty")]
        work: StoredWork,
    },
    Late {
        id: String,
        late: StoredLate,
    },
    Owed {
        id: String,
        at: u64,
    },
    Taken {
        id: String,
        at: u64,
    },
    Audit {
        at: u64,
        kind: String,
        who: Arc<str>,
        address: Arc<str>,
        what: Arc<str>,
        times: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<String>,
    },
    Erased {
        #[serde(default)]
        ids: Vec<String>,
        #[serde(default)]
        rows: Vec<u64>,
        at: u64,
        why: Arc<str>,
    },
    Presence {
        agent: Arc<str>,
        at: u64,
        online: bool,
    },
}

#[derive(Serialize, Deserialize, Debug)]
struct StoredAsked {
    id: String,
    conversation: String,
    begins: bool,
    from: Arc<str>,
    to: Arc<str>,
    message: Arc<str>,
    at: u64,
    /// To be kept for an absent agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    queue: bool,
    /// The first question of the chain; absent when it is this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// The chain of askers; absent when it is just `from`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    path: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<Arc<str>>,
}

#[derive(Serialize, Deserialize, Debug)]
struct StoredEnd {
    outcome: String,
    text: Arc<str>,
    at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<Arc<str>>,
}

#[derive(Serialize, Deserialize, Debug, Default, PartialEq)]
struct StoredWork {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delivered: Option<u64>,
    #[serde(default)]
    heartbeats: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<Arc<str>>,
}

impl StoredWork {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Serialize, Deserialize, Debug)]
struct StoredLate {
    answer: Arc<str>,
    at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<Arc<str>>,
}

/// What the store keeps of an agent's credentials. Never a token, only its hash.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
pub struct StoredAgent {
    /// Made by `agent add`; otherwise the agent is bridge.toml's and only its minted token is kept here.
    pub added: bool,
    pub tokens: Vec<StoredToken>,
    pub created: u64,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct StoredToken {
    /// Lower-case hex of the token's SHA-256.
    pub sha256: String,
    pub created: u64,
    /// The token is not accepted after this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// Who may open the page. Hashes only.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
pub struct StoredDoor {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<StoredToken>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub viewers: Vec<StoredViewer>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<StoredSession>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct StoredViewer {
    pub name: String,
    pub token: StoredToken,
}

/// A browser that has logged in.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct StoredSession {
    /// Hash of what its cookie holds.
    pub sha256: String,
    /// Hash of the token it logged in with: a session lives no longer than its token.
    pub token: String,
    pub created: u64,
    pub until: u64,
}

/// A pause, as a person set it.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct StoredPause {
    one: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    other: Option<String>,
    by: Arc<str>,
    at: u64,
}

impl StoredPause {
    #[must_use]
    pub fn of(pause: &Pause) -> Self {
        let Pause { one, other, by, at } = pause;
        Self { one: one.to_string(), other: other.as_ref().map(AgentName::to_string), by: by.clone(), at: at.0 }
    }

    /// `None` if it names no agents.
    #[must_use]
    pub fn load(self) -> Option<Pause> {
        let other = self.other.map(|name| AgentName::parse(&name).ok_or(())).transpose().ok()?;
        Some(Pause { one: AgentName::parse(&self.one)?, other, by: self.by, at: Millis(self.at) })
    }
}

fn bad(what: impl std::fmt::Display) -> StoreError {
    StoreError::Record(what.to_string())
}

pub(super) fn encode(fact: &Fact) -> Result<Vec<u8>, StoreError> {
    let stored = match fact {
        Fact::Asked(asked) => StoredFact::Asked(store_asked(asked)),
        Fact::Refused(asked, end) => StoredFact::Refused { asked: store_asked(asked), end: store_end(end) },
        Fact::Queued { id, at, expires } => StoredFact::Queued { id: id.to_string(), at: at.0, expires: expires.0 },
        Fact::Received { id, instance, attempt } => StoredFact::Received { id: id.to_string(), instance: instance.clone(), attempt: *attempt },
        Fact::Ended { id, end, work } => {
            let work = StoredWork { delivered: work.delivered.map(|at| at.0), heartbeats: work.heartbeats, session: work.session.clone() };
            StoredFact::Ended { id: id.to_string(), end: store_end(end), work }
        }
        Fact::Late { id, late } => {
            StoredFact::Late { id: id.to_string(), late: StoredLate { answer: late.answer.clone(), at: late.at.0, call: late.call.clone() } }
        }
        Fact::Owed { id, at } => StoredFact::Owed { id: id.to_string(), at: at.0 },
        Fact::Taken { id, at } => StoredFact::Taken { id: id.to_string(), at: at.0 },
        Fact::Audit(event) => {
            let Event { at, kind, who, address, what, times, request } = &**event;
            let (kind, request) = (kind.word().to_owned(), request.map(|r| r.to_string()));
            StoredFact::Audit { at: at.0, kind, who: who.clone(), address: address.clone(), what: what.clone(), times: *times, request }
        }
        Fact::Erased(e) => {
            let (ids, rows) = (e.ids.iter().map(RequestId::to_string).collect(), e.rows.iter().map(|row| row.0).collect());
            StoredFact::Erased { ids, rows, at: e.at.0, why: e.why.clone() }
        }
        Fact::Presence { agent, at, online } => StoredFact::Presence { agent: agent.as_str().into(), at: at.0, online: *online },
    };
    serde_json::to_vec(&stored).map_err(bad)
}

/// Whether this row ends an exchange, told without reading it: the tag comes first.
pub(super) fn is_end(bytes: &[u8]) -> bool {
    bytes.starts_with(br#"{"t":"ended""#) || bytes.starts_with(br#"{"t":"refused""#)
}

/// Whether this row is of those that stand beside exchanges and hold no text: arrivals, queueing, handing over, comings and
/// goings.
pub(super) fn is_beside(bytes: &[u8]) -> bool {
    let tag = bytes.strip_prefix(br#"{"t":""#).and_then(|rest| rest.split(|b| *b == b'"').next());
    tag.is_some_and(|tag| [&b"received"[..], b"queued", b"owed", b"taken", b"presence", b"erased"].contains(&tag))
}

/// What stands in the log where a fact leaves nothing: a late answer to an exchange that was erased meanwhile, or the removal
/// of rows alone.
pub(super) const NOTHING: &[u8] = br#"{"t":"erased","at":0,"why":"nothing is left of this"}"#;

pub(super) fn decode(bytes: &[u8]) -> Result<Fact, StoreError> {
    let stored: StoredFact = serde_json::from_slice(bytes).map_err(bad)?;
    Ok(match stored {
        StoredFact::Asked(asked) => Fact::Asked(Arc::new(load_asked(asked)?)),
        StoredFact::Refused { asked, end } => Fact::Refused(Arc::new(load_asked(asked)?), Arc::new(load_end(end)?)),
        StoredFact::Queued { id, at, expires } => Fact::Queued { id: request(&id)?, at: Millis(at), expires: Millis(expires) },
        StoredFact::Received { id, instance, attempt } => Fact::Received { id: request(&id)?, instance, attempt },
        StoredFact::Ended { id, end, work } => {
            let work = Work { delivered: work.delivered.map(Millis), heartbeats: work.heartbeats, session: work.session };
            Fact::Ended { id: request(&id)?, end: Arc::new(load_end(end)?), work }
        }
        StoredFact::Late { id, late } => {
            let late = Late { answer: late.answer, at: Millis(late.at), call: late.call };
            Fact::Late { id: request(&id)?, late: Arc::new(late) }
        }
        StoredFact::Owed { id, at } => Fact::Owed { id: request(&id)?, at: Millis(at) },
        StoredFact::Taken { id, at } => Fact::Taken { id: request(&id)?, at: Millis(at) },
        StoredFact::Audit { at, kind, who, address, what, times, request: about } => {
            let kind = Kind::parse(&kind).ok_or_else(|| bad(format!("unknown kind {kind:?}")))?;
            let about = about.as_deref().map(request).transpose()?;
            Fact::Audit(Arc::new(Event { at: Millis(at), kind, who, address, what, times, request: about }))
        }
        StoredFact::Erased { ids, rows, at, why } => {
            let ids = ids.iter().map(|id| request(id)).collect::<Result<_, _>>()?;
            Fact::Erased(Arc::new(Erasure { ids, rows: rows.into_iter().map(Seq).collect(), at: Millis(at), why }))
        }
        StoredFact::Presence { agent, at, online } => Fact::Presence { agent: name(&agent)?, at: Millis(at), online },
    })
}

fn store_asked(asked: &Asked) -> StoredAsked {
    let path = &asked.trail.path;
    StoredAsked {
        id: asked.id.to_string(),
        conversation: asked.conversation.to_string(),
        begins: asked.begins,
        from: asked.from.as_str().into(),
        to: asked.to.clone(),
        message: asked.message.clone(),
        at: asked.at.0,
        queue: asked.when_offline == WhenOffline::Queue,
        root: (asked.trail.root != asked.id).then(|| asked.trail.root.to_string()),
        parent: asked.trail.parent.map(|p| p.to_string()),
        path: if path.len() > 1 { path.iter().map(AgentName::to_string).collect() } else { Vec::new() },
        key: asked.key.clone(),
        traceparent: asked.traceparent.clone(),
    }
}

fn load_asked(stored: StoredAsked) -> Result<Asked, StoreError> {
    let from = name(&stored.from)?;
    let path: Vec<AgentName> = match stored.path.as_slice() {
        [] => vec![from.clone()],
        names => names.iter().map(|n| name(n)).collect::<Result<_, _>>()?,
    };
    let origin = path.first().cloned().unwrap_or_else(|| from.clone());
    let (id, parent) = (request(&stored.id)?, stored.parent.as_deref().map(request).transpose()?);
    let root = stored.root.as_deref().map(request).transpose()?.or(parent).unwrap_or(id);
    Ok(Asked {
        id,
        conversation: ConversationId::parse(&stored.conversation).ok_or_else(|| bad(&stored.conversation))?,
        begins: stored.begins,
        from,
        to: stored.to,
        message: stored.message,
        at: Millis(stored.at),
        when_offline: if stored.queue { WhenOffline::Queue } else { WhenOffline::Fail },
        trail: Trail { root, parent, origin, path: path.into() },
        key: stored.key,
        traceparent: stored.traceparent,
    })
}

fn store_end(end: &End) -> StoredEnd {
    StoredEnd { outcome: end.outcome.word().to_owned(), text: end.text.clone(), at: end.at.0, call: end.call.clone(), by: end.by.clone() }
}

fn load_end(stored: StoredEnd) -> Result<End, StoreError> {
    let outcome = Outcome::parse(&stored.outcome).ok_or_else(|| bad(format!("unknown outcome {:?}", stored.outcome)))?;
    Ok(End { outcome, text: stored.text, at: Millis(stored.at), call: stored.call, by: stored.by })
}

fn request(text: &str) -> Result<RequestId, StoreError> {
    RequestId::parse(text).ok_or_else(|| bad(format!("{text:?} is no request id")))
}

fn name(text: &str) -> Result<AgentName, StoreError> {
    AgentName::parse(text).ok_or_else(|| bad(format!("{text:?} is no agent name")))
}
