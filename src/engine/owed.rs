//! Answers that come when their asker's call has returned: owed to its socket until it has taken them. A frame that was sent is
//! not taken yet, for the connection may be dead; each is followed by a ping, and its pong says that it came through.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::Engine;
use super::links::ToBot;
use crate::core::exchange::{Asked, End, Late, Record};
use crate::core::ids::{AgentName, ConnectionId, RequestId};
use crate::core::outcome::Outcome;

/// Of one asker. What is forgotten waits for `get_answer`, and is told as a note with the next result if it was late.
const MAX_OWED: usize = 64;

/// In memory: after a restart what had ended before it waits for `get_answer` too.
#[derive(Default)]
pub(super) struct Owed(Mutex<HashMap<AgentName, VecDeque<RequestId>>>);

impl Owed {
    fn add(&self, asker: &AgentName, id: RequestId) {
        let mut owed = self.lock();
        let to_asker = owed.entry(asker.clone()).or_default();
        if !to_asker.contains(&id) {
            to_asker.push_back(id);
        }
        if to_asker.len() > MAX_OWED {
            to_asker.pop_front();
        }
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
    pub(super) fn owe(&self, connection: Option<ConnectionId>, asked: Arc<Asked>, late: Arc<Late>) {
        self.owed.add(&asked.from, asked.id);
        if let Some(connection) = connection {
            self.links.send(connection, ToBot::Answer(asked, late));
        }
    }

    /// The asker has it: by a frame that came through, or fetched.
    pub(super) fn settle(&self, asker: &AgentName, id: RequestId) {
        if self.owed.settle(asker, id) {
            self.handed.note(id);
        }
    }

    /// Sends what is owed to an asker that came back, if its process takes such frames.
    pub(super) fn pay(self: &Arc<Self>, asker: &AgentName) {
        let ids = self.owed.to(asker);
        let Some(connection) = self.relay().hears_answers(asker).filter(|_| !ids.is_empty()) else { return };
        let (engine, asker) = (self.clone(), asker.clone());
        self.tasks.spawn(async move {
            for id in ids {
                match engine.read(move |store| store.record(id)).await.ok().flatten().and_then(answer_of) {
                    Some((asked, late)) => engine.links.send(connection, ToBot::Answer(asked, late)),
                    // Erased, or the disk fails: whoever asks for it is told.
                    None => _ = engine.owed.settle(&asker, id),
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
