//! Late answers as notes: what an asker's result says beside itself. Remembers which of them reached the asker another way.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::Engine;
use super::ask::AskReport;
use crate::core::exchange::Record;
use crate::core::ids::RequestId;
use crate::core::late::heard_with;

/// How far back in a conversation late answers are looked for.
const WINDOW: usize = 32;
/// Requests remembered as handed over; what is forgotten is told once more at worst.
const HANDED: usize = 4_096;

/// Late answers that were fetched, or sent to a socket that takes them.
#[derive(Default)]
pub(super) struct Handed(Mutex<(HashSet<RequestId>, VecDeque<RequestId>)>);

impl Handed {
    pub(super) fn note(&self, id: RequestId) {
        let (known, order) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.insert(id) {
            order.push_back(id);
        }
        if order.len() > HANDED
            && let Some(oldest) = order.pop_front()
        {
            known.remove(&oldest);
        }
    }

    fn has(&self, id: RequestId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.contains(&id)
    }
}

impl Engine {
    /// The late answers that this result is the one to tell of, oldest first.
    pub async fn late_beside(self: &Arc<Self>, report: &AskReport) -> Vec<Record> {
        let asked = match report {
            AskReport::Ended(ended) if ended.recorded => ended.asked.clone(),
            AskReport::Recorded(record) => record.asked.clone(),
            _ => return Vec::new(),
        };
        if asked.begins {
            return Vec::new();
        }
        let id = asked.id;
        let thread = self.read(move |store| store.with_late(asked.conversation, WINDOW)).await.unwrap_or_else(|e| {
            tracing::debug!(error = %e, "late answers cannot be looked up");
            Vec::new()
        });
        let mut late = heard_with(id, &thread);
        late.sort_by_key(|placed| placed.late);
        late.into_iter().map(|placed| placed.record.clone()).filter(|record| !self.handed.has(record.asked.id)).collect()
    }
}
