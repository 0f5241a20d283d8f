//! A person takes part: asks, answers in a bot's place, cancels, pauses. Each is decided by the core, recorded like any
//! other fact, and stands in the security log with who it was and from where.

use std::net::IpAddr;
use std::sync::Arc;

use super::{AskRequest, Begun, Engine, Visitor, Written};
use crate::core::audit::{Event, Kind};
use crate::core::ids::{AgentName, RequestId};
use crate::core::person::{MAX_PAUSES, OWNER, Pause};
use crate::core::replies::Replied;
use crate::store::{StoreError, StoredPause};

/// The name of the document in the store.
const KEPT: &str = "pauses";

/// Who acts, and from where.
pub struct Actor {
    pub visitor: Visitor,
    pub address: IpAddr,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paused {
    Done,
    /// No agent has this name.
    Unknown,
    /// It was so already.
    Already,
    /// There are `MAX_PAUSES`.
    Full,
}

pub(super) fn kept(store: &crate::store::Store) -> Result<Vec<Pause>, StoreError> {
    Ok(store.kept::<Vec<StoredPause>>(KEPT)?.into_iter().filter_map(StoredPause::load).collect())
}

impl Engine {
    /// A question of the relay's owner. Refused or not, it is on record under this id.
    pub async fn ask_as_person(self: &Arc<Self>, actor: &Actor, request: AskRequest) -> Result<RequestId, StoreError> {
        let what = format!("asked {}", request.to);
        let id = match self.begin(&owner(), request).await? {
            Begun::Going(mut going) => {
                going.recorded().await;
                // Nobody waits in a call: the answer is read on the page.
                going.id
            }
            Begun::Done(report) => report.id(),
        };
        self.noted(actor, Some(id), &what).await;
        Ok(id)
    }

    /// Answers an open exchange in the bot's place.
    pub async fn answer_as_person(self: &Arc<Self>, actor: &Actor, id: RequestId, answer: &str) -> Result<Replied, StoreError> {
        let permit = self.store.admit().await?;
        let mut out = Vec::new();
        let (replied, done) = {
            let mut relay = self.relay();
            let replied = relay.answer_as(self.now(), &who(actor), id, answer.into(), &mut out);
            (replied, self.carry(permit, out))
        };
        let _ = done.await;
        if replied == Replied::Taken {
            self.noted(actor, Some(id), "answered in the bot's place").await;
        }
        Ok(replied)
    }

    /// Ends an open exchange; `false` if it is none.
    pub async fn cancel_as_person(self: &Arc<Self>, actor: &Actor, id: RequestId) -> Result<bool, StoreError> {
        let permit = self.store.reserve().await?;
        let mut out = Vec::new();
        let (cancelled, done) = {
            let mut relay = self.relay();
            let cancelled = relay.cancel_as(self.now(), &who(actor), id, &mut out);
            (cancelled, self.carry(permit, out))
        };
        let _ = done.await;
        if cancelled {
            self.noted(actor, Some(id), "cancelled").await;
        }
        Ok(cancelled)
    }

    /// Lets bots go on that a limit against loops has stopped; `false`: no such question.
    pub async fn clear_loop_as_person(self: &Arc<Self>, actor: &Actor, id: RequestId) -> Result<bool, StoreError> {
        let cleared = self.clear_loop(id).await?;
        if cleared {
            self.noted(actor, Some(id), "let go on what was stopped as a loop").await;
        }
        Ok(cleared)
    }

    /// Stops a bot, or two of them from talking, until `resume`; across restarts.
    pub async fn pause(self: &Arc<Self>, actor: &Actor, one: AgentName, other: Option<AgentName>) -> Result<Paused, StoreError> {
        let known = self.directory.names();
        if !known.contains(&one) || other.as_ref().is_some_and(|o| !known.contains(o) || *o == one) {
            return Ok(Paused::Unknown);
        }
        let pause = Pause { one, other, by: who(actor), at: self.now() };
        let what = format!("paused {}", pause.name());
        let paused = self.change_pauses(|pauses| {
            if pauses.iter().any(|p| p.is_of(&pause.one, pause.other.as_ref())) {
                return Paused::Already;
            }
            if pauses.len() >= MAX_PAUSES {
                return Paused::Full;
            }
            pauses.push(pause);
            Paused::Done
        });
        self.told(actor, paused.await?, &what).await
    }

    pub async fn resume_paused(self: &Arc<Self>, actor: &Actor, one: &AgentName, other: Option<&AgentName>) -> Result<Paused, StoreError> {
        let what = other.map_or_else(|| format!("resumed {one}"), |other| format!("resumed {one} and {other}"));
        let resumed = self.change_pauses(|pauses| {
            let before = pauses.len();
            pauses.retain(|p| !p.is_of(one, other));
            if pauses.len() < before { Paused::Done } else { Paused::Already }
        });
        self.told(actor, resumed.await?, &what).await
    }

    #[must_use]
    pub fn paused(&self) -> Vec<Pause> {
        self.relay().paused().to_vec()
    }

    /// A pause holds at once, and is written: if the disk refuses it holds until the relay ends, and whoever asked is told.
    async fn change_pauses(&self, change: impl FnOnce(&mut Vec<Pause>) -> Paused) -> Result<Paused, StoreError> {
        let permit = self.store.reserve().await?;
        let (told, done) = tokio::sync::oneshot::channel();
        {
            let mut relay = self.relay();
            let mut pauses = relay.paused().to_vec();
            let outcome = change(&mut pauses);
            if outcome != Paused::Done {
                return Ok(outcome);
            }
            let stored: Vec<StoredPause> = pauses.iter().map(StoredPause::of).collect();
            relay.set_paused(pauses);
            self.store.keep(permit, KEPT, &stored, move |written| {
                let _ = told.send(written);
            });
        }
        if done.await == Ok(Written::Durable) { Ok(Paused::Done) } else { Err(StoreError::Down) }
    }

    async fn told(&self, actor: &Actor, paused: Paused, what: &str) -> Result<Paused, StoreError> {
        if paused == Paused::Done {
            self.noted(actor, None, what).await;
        }
        Ok(paused)
    }

    async fn noted(&self, actor: &Actor, request: Option<RequestId>, what: &str) {
        let event = Event::new(self.now(), Kind::Person, &actor.visitor.to_string(), &actor.address.to_string(), what);
        // What was done is on record itself; the disk that refuses has said so.
        let _ = self.write_audit(vec![Event { request, ..event }]).await;
    }
}

/// The name under which a person asks.
fn owner() -> AgentName {
    AgentName::parse(OWNER).unwrap_or_else(|| unreachable!("the owner's name is a name"))
}

fn who(actor: &Actor) -> Arc<str> {
    actor.visitor.to_string().into()
}
