//! Who waits for which exchange to end. A waiter is in place before the exchange can end; one that stops waiting takes
//! itself away, and the exchange goes on without it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::core::exchange::{Asked, End};
use crate::core::ids::RequestId;

/// How an exchange ended, for somebody who waited.
#[derive(Clone, Debug)]
pub struct Ended {
    pub asked: Arc<Asked>,
    pub end: Arc<End>,
    /// False only while the disk refuses and the configuration says to go on.
    pub recorded: bool,
}

type ByRequest = HashMap<RequestId, Vec<(u64, oneshot::Sender<Ended>)>>;

#[derive(Default)]
pub struct Waiters {
    next: std::sync::atomic::AtomicU64,
    waiting: Mutex<ByRequest>,
}

impl Waiters {
    pub fn wait(self: &Arc<Self>, id: RequestId) -> Waiting {
        let (sender, receiver) = oneshot::channel();
        let number = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.lock().entry(id).or_default().push((number, sender));
        Waiting { id, number, receiver, waiters: self.clone() }
    }

    /// Tells everybody who waits. False if nobody does.
    pub fn finish(&self, ended: &Ended) -> bool {
        let waiting = self.lock().remove(&ended.asked.id).unwrap_or_default();
        let mut heard = false;
        for (_, sender) in waiting {
            // Whoever left meanwhile finds the answer with get_answer.
            heard |= sender.send(ended.clone()).is_ok();
        }
        heard
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ByRequest> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One waiting; dropping it ends the waiting, not the exchange.
pub struct Waiting {
    id: RequestId,
    number: u64,
    receiver: oneshot::Receiver<Ended>,
    waiters: Arc<Waiters>,
}

impl Waiting {
    /// The end, or `None` when it did not come by then.
    pub async fn until(mut self, deadline: tokio::time::Instant) -> Option<Ended> {
        tokio::time::timeout_at(deadline, &mut self.receiver).await.ok()?.ok()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut waiting = self.waiters.lock();
        if let Some(list) = waiting.get_mut(&self.id) {
            list.retain(|(number, _)| *number != self.number);
            if list.is_empty() {
                waiting.remove(&self.id);
            }
        }
    }
}
