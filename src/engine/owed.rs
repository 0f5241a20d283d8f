//! Answers that come when their asker's call has returned: owed to it until it has taken them, across restarts too. A frame
//! that was sent is not taken yet, for the connection may be dead; each is followed by a ping, and its pong says that it came
//! through.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::links::ToBot;
use super::{Chores, Engine};
use crate::core::exchange::{Asked, End, Late, Record};
use crate::core::ids::{AgentName, ConnectionId, RequestId};
use crate::core::outcome::Outcome;

/// Of one asker. What is forgotten waits for `get_answer`, and is told as a note with the next result if it was late.
const MAX_OWED: usize = 64;

#[derive(Default)]
pub(super) struct Owed(Mutex<HashMap<AgentName, VecDeque<RequestId>>>);

impl Owed {
    /// What is forgotten for it.
    fn add(&self, asker: &AgentName, id: RequestId) -> Option<RequestId> {
        let mut owed = self.lock();
        let to_asker = owed.entry(asker.clone()).or_default();
        if !to_asker.contains(&id) {
            to_asker.push_back(id);
        }
        if to_asker.len() > MAX_OWED { to_asker.pop_front() } else { None }
    }

    /// True if it was owed to this asker.
    fn settle(&self, asker: &AgentName, id: RequestId) -> bool {
        let mut owed = self.lock();
        let Some(to_asker) = owed.get_mut(asker) else { return false };
        let before = to_asker.len();
        to_asker.retain(|one| *one != id);
        let settled = to_asker.len() < before;
        if to_asker.is_empty() {
            owed.remove(asker);
        }
        settled
    }

    fn to(&self, asker: &AgentName) -> Vec<RequestId> {
        self.lock().get(asker).into_iter().flatten().copied().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<AgentName, VecDeque<RequestId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// What an earlier run had yet to hand over.
    pub(super) fn owe_on(&self, owed: Vec<(AgentName, RequestId)>) {
        for (asker, id) in owed {
            self.owe_to(&asker, id);
        }
    }

    pub(super) fn owe(&self, asked: &Asked) {
        // A person reads it on the page.
        if !asked.from.is_reserved() {
            self.owe_to(&asked.from, asked.id);
        }
    }

    fn owe_to(&self, asker: &AgentName, id: RequestId) {
        if let Some(forgotten) = self.owed.add(asker, id) {
            self.strike(forgotten);
        }
    }

    pub(super) fn hand(&self, connection: Option<ConnectionId>, asked: Arc<Asked>, late: Arc<Late>) {
        if let Some(connection) = connection {
            self.links.send(connection, ToBot::Answer(asked, late));
        }
    }

    /// The asker has it: by a frame that came through, or fetched.
    pub(super) fn settle(&self, asker: &AgentName, id: RequestId) {
        if self.owed.settle(asker, id) {
            self.handed.note(id);
            self.strike(id);
        }
    }

    /// Off the list on disk too. A kill before that costs the asker a second frame.
    fn strike(&self, id: RequestId) {
        Chores::note(&self.chores.taken, id);
        self.chores.wake.notify_one();
    }

    /// Sends what is owed to an asker that came back, if its process takes such frames.
    pub(super) fn pay(self: &Arc<Self>, asker: &AgentName) {
        let ids = self.owed.to(asker);
        let Some(connection) = self.relay().hears_answers(asker).filter(|_| !ids.is_empty()) else { return };
        let (engine, asker) = (self.clone(), asker.clone());
        self.tasks.spawn(async move {
            for id in ids {
                match engine.read(move |store| store.record(id)).await.map(|record| record.map(answer_of)) {
                    Ok(Some(Some((asked, late)))) => engine.links.send(connection, ToBot::Answer(asked, late)),
                    // Erased.
                    Ok(None) if engine.store.trouble().is_none() => engine.settle(&asker, id),
                    _ => tracing::debug!(request_id = %id, "an answer waits for the disk, and for its asker's next return"),
                }
            }
        });
    }
}

fn answer_of(record: Record) -> Option<(Arc<Asked>, Arc<Late>)> {
    let in_time = |end: &End| Arc::new(Late { answer: end.text.clone(), at: end.at, call: None });
    let end = record.end.filter(|end| end.outcome == Outcome::Answered);
    Some((record.asked, record.late.or_else(|| end.as_deref().map(in_time))?))
}
