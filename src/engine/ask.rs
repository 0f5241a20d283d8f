//! One question through the driver: look up what history knows, let the core judge, wait for the end. And fetching the
//! answer later. What comes out is a report; wording it is the doors' work.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Engine;
use super::waiters::{Ended, Waiting};
use crate::core::effect::{Ask, Place};
use crate::core::exchange::{Asked, Phase, Record, WhenOffline};
use crate::core::ids::{AgentName, ConversationId, Millis, RequestId};
use crate::core::outcome::Refusal;
use crate::core::relay::Verdict;
use crate::store::{StoreError, Written};

/// The arguments of `ask_agent`, as a door read them.
#[derive(Clone, Debug, Default)]
pub struct AskRequest {
    pub to: String,
    pub message: String,
    pub conversation: Option<String>,
    pub when_offline: WhenOffline,
    pub key: Option<String>,
    pub traceparent: Option<String>,
}

/// What a caller of `ask_agent` is told.
#[derive(Clone, Debug)]
pub enum AskReport {
    Ended(Ended),
    /// The call waited as long as it may; the exchange goes on.
    StillWorking {
        id: RequestId,
        conversation: ConversationId,
        to: Arc<str>,
    },
    Queued {
        id: RequestId,
        conversation: ConversationId,
        to: Arc<str>,
        position: usize,
        expires: Millis,
    },
    Refused {
        id: RequestId,
        refusal: Refusal,
        recorded: bool,
    },
}

/// What a caller of `get_answer` is told.
#[derive(Clone, Debug)]
pub enum AnswerReport {
    /// No such exchange, or none of the caller's.
    Unknown,
    /// It ended after the call had looked, or while it waited.
    Ended(Ended),
    Recorded(Record),
    StillWorking(Arc<Asked>),
    Queued {
        asked: Arc<Asked>,
        expires: Millis,
    },
}

impl Engine {
    pub async fn ask(self: &Arc<Self>, from: &AgentName, request: AskRequest) -> Result<AskReport, StoreError> {
        let deadline = Instant::now() + self.config().ask_max_wait;
        let ask = self.prepare(from, request).await?;
        let (id, to) = (ask.id, ask.to.clone());
        let fresh = ask.conversation.between(&ask.from, &ask.to).unwrap_or_else(|| ask.conversation.fresh());
        let permit = self.store.reserve().await?;
        let (verdict, waiting, done) = {
            let mut relay = self.relay();
            let mut out = Vec::new();
            let verdict = relay.ask(self.now(), ask, &mut out);
            let waiting = match &verdict {
                Verdict::Accepted => Some(self.waiters.wait(id)),
                Verdict::Joined(first) => Some(self.waiters.wait(*first)),
                Verdict::Queued { .. } | Verdict::Refused(_) => None,
            };
            let done = self.carry(permit, out);
            self.chores.due(relay.next_deadline());
            (verdict, waiting, done)
        };
        match (verdict, waiting) {
            (Verdict::Accepted, Some(waiting)) => Ok(match self.wait(waiting, deadline).await {
                Some(ended) => AskReport::Ended(ended),
                None => AskReport::StillWorking { id, conversation: fresh, to },
            }),
            (Verdict::Joined(first), Some(waiting)) => self.join(from, first, waiting, deadline).await,
            (Verdict::Refused(refusal), _) => {
                let recorded = done.await == Ok(Written::Durable);
                tracing::debug!(request = %id, from = %from, outcome = refusal.outcome().word(), "refused");
                Ok(AskReport::Refused { id, refusal, recorded })
            }
            (Verdict::Queued { position, expires }, _) => Ok(match done.await {
                Ok(Written::Durable) => AskReport::Queued { id, conversation: fresh, to, position, expires },
                // What promises to be kept is refused when it cannot be.
                _ => {
                    super::Chores::note(&self.chores.unrecorded, id);
                    self.chores.wake.notify_one();
                    AskReport::Refused { id, refusal: Refusal::StoreUnavailable, recorded: false }
                }
            }),
            _ => Err(StoreError::Down),
        }
    }

    /// Draws the ids and looks up what history has under the named conversation and key.
    async fn prepare(self: &Arc<Self>, from: &AgentName, request: AskRequest) -> Result<Ask, StoreError> {
        let fresh = ConversationId(self.clock.draw());
        let id = RequestId(self.clock.draw());
        let key: Option<Arc<str>> = request.key.filter(|k| !k.is_empty()).map(Into::into);
        let named = request.conversation.filter(|c| !c.is_empty());
        let found = named.as_deref().and_then(ConversationId::parse);
        let (asker, sought) = (from.clone(), key.clone());
        let (beginning, kept) = if found.is_some() || key.is_some() {
            let look = move |store: &crate::store::Store| {
                let beginning = found.map(|c| store.beginning(c)).transpose()?.flatten();
                let kept = sought.map(|k| store.keyed(&asker, &k)).transpose()?.flatten();
                Ok((beginning, kept))
            };
            self.read(look).await?
        } else {
            (None, None)
        };
        let conversation = match named {
            None => Place::New(fresh),
            Some(given) => Place::Named { given: given.into(), found: beginning.and_then(|b| members(&b)), fresh },
        };
        Ok(Ask {
            id,
            from: from.clone(),
            to: request.to.into(),
            message: request.message.into(),
            conversation,
            when_offline: request.when_offline,
            key,
            kept,
            traceparent: request.traceparent.map(Into::into),
        })
    }

    /// The same question again: its one outcome, whether it is to come or there already.
    async fn join(self: &Arc<Self>, from: &AgentName, first: RequestId, waiting: Waiting, deadline: Instant) -> Result<AskReport, StoreError> {
        Ok(match self.answer_of(from, first, waiting, deadline).await? {
            AnswerReport::Ended(ended) => AskReport::Ended(ended),
            AnswerReport::Recorded(Record { asked, end: Some(end), .. }) => AskReport::Ended(Ended { asked, end, recorded: true }),
            AnswerReport::StillWorking(asked) | AnswerReport::Recorded(Record { asked, .. }) => {
                AskReport::StillWorking { id: first, conversation: asked.conversation, to: asked.to.clone() }
            }
            AnswerReport::Queued { asked, expires } => {
                AskReport::Queued { id: first, conversation: asked.conversation, to: asked.to.clone(), position: 0, expires }
            }
            AnswerReport::Unknown => return Err(StoreError::Down),
        })
    }

    /// The outcome of an exchange for one of its two parties, waiting for it at most `patience`.
    pub async fn get_answer(self: &Arc<Self>, from: &AgentName, id: RequestId, patience: Duration) -> Result<AnswerReport, StoreError> {
        let deadline = Instant::now() + patience.min(self.config().ask_max_wait);
        let waiting = self.waiters.wait(id);
        self.answer_of(from, id, waiting, deadline).await
    }

    /// `waiting` is in place before the record is read: an exchange that ends in between is heard of in one way or the other.
    async fn answer_of(self: &Arc<Self>, from: &AgentName, id: RequestId, waiting: Waiting, deadline: Instant) -> Result<AnswerReport, StoreError> {
        let (asked, queued) = match self.standing(id) {
            // What has just been accepted is not on record yet, but may be asked again already.
            Some(open) => open,
            None => match self.read(move |store| store.record(id)).await? {
                Some(record) if record.end.is_some() && self.is_kept(&record) && record.asked.is_party(from) => {
                    return Ok(AnswerReport::Recorded(record));
                }
                Some(record) if record.end.is_none() => (record.asked, None),
                _ => return Ok(AnswerReport::Unknown),
            },
        };
        if !asked.is_party(from) {
            return Ok(AnswerReport::Unknown);
        }
        if let Some(ended) = self.wait(waiting, deadline).await {
            return Ok(AnswerReport::Ended(ended));
        }
        Ok(match queued {
            Some(expires) => AnswerReport::Queued { asked, expires },
            None => AnswerReport::StillWorking(asked),
        })
    }

    fn is_kept(&self, record: &Record) -> bool {
        let keep = u64::try_from(self.config().keep_answers.as_millis()).unwrap_or(u64::MAX);
        record.asked.at.plus(keep) >= self.now()
    }

    /// An exchange that is open, and until when it is kept if it is in a queue.
    fn standing(&self, id: RequestId) -> Option<(Arc<Asked>, Option<Millis>)> {
        let relay = self.relay();
        let open = relay.open(id)?;
        let expires = match open.phase {
            Phase::Queued { expires } => Some(expires),
            _ => None,
        };
        Some((open.asked.clone(), expires))
    }

    /// A relay that stops lets its callers go: what they wait for is taken up at the next start.
    async fn wait(&self, waiting: Waiting, deadline: Instant) -> Option<Ended> {
        tokio::select! {
            ended = waiting.until(deadline) => ended,
            () = self.stopping.cancelled() => None,
        }
    }
}

fn members(beginning: &Asked) -> Option<(ConversationId, AgentName, AgentName)> {
    Some((beginning.conversation, beginning.from.clone(), AgentName::parse(&beginning.to)?))
}
