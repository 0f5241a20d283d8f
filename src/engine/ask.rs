//! One question through the driver: look up what history knows, let the core judge, wait for the end. And fetching the
//! answer later. What comes out is a report; wording it is the doors' work.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::waiters::{Ended, Waiting};
use super::{Engine, hush};
use crate::core::effect::{Ask, Effect, Fact, Place};
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
    /// The call waited as long as it may, or the relay is about to restart; the exchange goes on.
    StillWorking {
        id: RequestId,
        conversation: ConversationId,
        to: Arc<str>,
        restarting: bool,
    },
    /// `position` is known when the question was just put there.
    Queued {
        id: RequestId,
        conversation: ConversationId,
        to: Arc<str>,
        position: Option<usize>,
        expires: Millis,
    },
    /// It had ended before.
    Recorded(Record),
    Refused {
        id: RequestId,
        refusal: Refusal,
        recorded: bool,
    },
}

impl AskReport {
    /// The exchange that it tells of.
    #[must_use]
    pub fn id(&self) -> RequestId {
        match self {
            Self::Ended(ended) => ended.asked.id,
            Self::Recorded(record) => record.asked.id,
            Self::StillWorking { id, .. } | Self::Queued { id, .. } | Self::Refused { id, .. } => *id,
        }
    }
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

/// An ask that was judged.
pub enum Begun {
    /// Nothing to wait for: refused, or left in a queue.
    Done(AskReport),
    Going(Going),
}

/// An exchange that a caller waits for.
pub struct Going {
    pub id: RequestId,
    from: AgentName,
    waiting: Waiting,
    recorded: Option<oneshot::Receiver<Written>>,
    deadline: Instant,
    /// The question was asked before: its end may be on record already.
    again: bool,
}

impl Going {
    /// Resolves when the exchange is on record (or cannot be, where the relay goes on regardless).
    pub async fn recorded(&mut self) {
        if let Some(recorded) = &mut self.recorded {
            // Gone only with the store itself.
            let _ = recorded.await;
            self.recorded = None;
        }
    }
}

impl Engine {
    /// Asks and waits.
    pub async fn ask(self: &Arc<Self>, from: &AgentName, request: AskRequest) -> Result<AskReport, StoreError> {
        match self.begin(from, request).await? {
            Begun::Done(report) => Ok(report),
            Begun::Going(going) => self.finish(going).await,
        }
    }

    /// Has a question judged and, if it begins, recorded and on its way.
    pub async fn begin(self: &Arc<Self>, from: &AgentName, request: AskRequest) -> Result<Begun, StoreError> {
        let begun = Instant::now();
        let deadline = begun + self.config().ask_max_wait;
        let ask = self.prepare(from, request).await?;
        let (id, to) = (ask.id, ask.to.clone());
        let conversation = ask.conversation.between(&ask.from, &ask.to).unwrap_or_else(|| ask.conversation.fresh());
        let permit = self.store.admit().await?;
        let (verdict, going, refused, done) = {
            let mut relay = self.relay();
            let mut out = Vec::new();
            let verdict = relay.ask(self.now(), ask, &mut out);
            let (id, again) = if let Verdict::Joined(first) = verdict { (first, true) } else { (id, false) };
            let waiting = matches!(verdict, Verdict::Accepted | Verdict::Joined(_)).then(|| self.waiters.wait(id));
            if matches!(verdict, Verdict::Queued { .. }) {
                relay.excuse(id);
            }
            let refused = match out.first() {
                Some(Effect::Record(Fact::Refused(asked, end))) => Some((asked.clone(), end.clone())),
                _ => None,
            };
            let done = self.carry_after(permit, out);
            self.chores.due(relay.next_deadline());
            (verdict, waiting.map(|waiting| (id, again, waiting)), refused, done)
        };
        if let Some((id, again, waiting)) = going {
            let going = Going { id, from: from.clone(), waiting, recorded: Some(done), deadline, again };
            return Ok(Begun::Going(going));
        }
        let durable = done.await == Ok(Written::Durable);
        if matches!(verdict, Verdict::Refused(Refusal::UnknownConversation { .. })) {
            hush(begun).await;
        }
        Ok(Begun::Done(match verdict {
            Verdict::Queued { position, expires } if durable => AskReport::Queued { id, conversation, to, position: Some(position), expires },
            Verdict::Refused(refusal) => {
                if let Some((asked, end)) = &refused {
                    self.ended(asked, end);
                }
                self.audit_ask(id, from, &to, &refusal);
                AskReport::Refused { id, refusal, recorded: durable }
            }
            // What promises to be kept is refused when it cannot be.
            _ => {
                self.abandon(id);
                AskReport::Refused { id, refusal: Refusal::StoreUnavailable, recorded: false }
            }
        }))
    }

    /// Waits for the end of an exchange that began.
    pub async fn finish(self: &Arc<Self>, mut going: Going) -> Result<AskReport, StoreError> {
        if going.again {
            // The first may be on its way to the disk still; nobody hears of it before it is there.
            going.recorded().await;
        }
        let Going { id, from, waiting, deadline, again, recorded } = going;
        let (waiting, deadline) = if again {
            // Nobody waits for an absent agent: the first call did not either.
            (waiting, if self.queued(id).is_some() { Instant::now() } else { deadline })
        } else {
            if let Some(ended) = self.wait(waiting, deadline).await {
                self.settle(&from, id);
                return Ok(AskReport::Ended(ended));
            }
            // However long the disk takes: nobody is told to come back for what a crash could still undo.
            if let Some(recorded) = recorded {
                let _ = recorded.await;
            }
            (self.waiters.wait(id), Instant::now())
        };
        Ok(match self.answer_of(&from, id, waiting, deadline).await? {
            AnswerReport::Ended(ended) => AskReport::Ended(ended),
            AnswerReport::Recorded(record) => AskReport::Recorded(record),
            AnswerReport::StillWorking(asked) => self.unfinished(&asked),
            AnswerReport::Queued { asked, expires } => {
                AskReport::Queued { id, conversation: asked.conversation, to: asked.to.clone(), position: None, expires }
            }
            AnswerReport::Unknown => return Err(StoreError::Down),
        })
    }

    fn unfinished(&self, asked: &Asked) -> AskReport {
        AskReport::StillWorking { id: asked.id, conversation: asked.conversation, to: asked.to.clone(), restarting: self.stopping.is_cancelled() }
    }

    /// Takes up the waiting of an asker whose stream was cut. `None`: it has asked no such thing.
    pub async fn resume(self: &Arc<Self>, from: &AgentName, id: RequestId) -> Result<Option<Going>, StoreError> {
        let (begun, waiting) = (Instant::now(), self.waiters.wait(id));
        let record = self.read(move |store| store.record(id)).await?;
        if !record.is_some_and(|r| r.asked.from == *from && self.is_kept(&r)) {
            hush(begun).await;
            return Ok(None);
        }
        let deadline = Instant::now() + self.config().ask_max_wait;
        Ok(Some(Going { id, from: from.clone(), waiting, recorded: None, deadline, again: true }))
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

    /// The outcome of an exchange for one of its two parties, waiting for it at most `patience`.
    pub async fn get_answer(self: &Arc<Self>, from: &AgentName, id: RequestId, patience: Duration) -> Result<AnswerReport, StoreError> {
        let (begun, waiting) = (Instant::now(), self.waiters.wait(id));
        let report = self.answer_of(from, id, waiting, begun + patience.min(self.config().ask_max_wait)).await?;
        if matches!(report, AnswerReport::Unknown) {
            hush(begun).await;
        }
        Ok(report)
    }

    /// `waiting` is in place before anything is looked at: an exchange that ends in between is heard of in one way or the
    /// other. What is open is known here even while the disk refuses; everything else, foreign ones too, goes to history.
    async fn answer_of(self: &Arc<Self>, from: &AgentName, id: RequestId, waiting: Waiting, deadline: Instant) -> Result<AnswerReport, StoreError> {
        let open = self.relay().open(id).map(|open| Record { asked: open.asked.clone(), end: None, late: None, refused: false });
        let record = match open.filter(|record| record.is_party(from)) {
            Some(open) => Some(open),
            None => self.read(move |store| store.record(id)).await?,
        };
        let Some(record) = record.filter(|r| r.is_party(from) && self.is_kept(r)) else { return Ok(AnswerReport::Unknown) };
        if record.end.is_some() {
            return Ok(self.fetched(from, record));
        }
        if let Some(ended) = self.wait(waiting, deadline).await {
            self.settle(from, id);
            return Ok(AnswerReport::Ended(ended));
        }
        let open = if record.asked.from == *from { self.relay().excuse(id) } else { true };
        if !open && let Some(ended) = self.just_ended(id).await {
            return Ok(self.fetched(from, ended));
        }
        Ok(match self.queued(id) {
            Some(expires) => AnswerReport::Queued { asked: record.asked, expires },
            None => AnswerReport::StillWorking(record.asked),
        })
    }

    fn fetched(&self, from: &AgentName, record: Record) -> AnswerReport {
        self.settle(from, record.asked.id);
        if record.late.is_some() && record.asked.from == *from {
            self.handed.note(record.asked.id);
        }
        AnswerReport::Recorded(record)
    }

    /// What ended while its asker stopped waiting, and was on its way to the disk then. `None` while the disk refuses.
    async fn just_ended(self: &Arc<Self>, id: RequestId) -> Option<Record> {
        let _ = self.barrier(self.store.admit().await.ok()?).await;
        self.read(move |store| store.record(id)).await.ok().flatten().filter(|record| record.end.is_some())
    }

    fn is_kept(&self, record: &Record) -> bool {
        let keep = u64::try_from(self.config().keep_answers.as_millis()).unwrap_or(u64::MAX);
        record.asked.at.plus(keep) >= self.now()
    }

    fn queued(&self, id: RequestId) -> Option<Millis> {
        match self.relay().open(id)?.phase {
            Phase::Queued { expires } => Some(expires),
            _ => None,
        }
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
