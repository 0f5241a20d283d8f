//! The open sockets of bots, as queues: what is sent to a connection goes through its bounded queue. A bot that does not
//! read until its queue is full loses the connection, and only that: its exchanges wait for its return.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::core::effect::Wake;
use crate::core::exchange::{Asked, Late};
use crate::core::ids::{ConnectionId, RequestId};
use std::sync::Arc;

/// Wakes and notices waiting for one socket. A bot has at most `max_wakes_per_agent` wakes, so this is full only for
/// one that has stopped reading.
const QUEUE: usize = 256;

/// What a bot is told over its socket.
#[derive(Clone, Debug)]
pub enum ToBot {
    Wake(Wake),
    Cancelled(RequestId),
    Answer(Arc<Asked>, Arc<Late>),
    Restarting,
}

#[derive(Default)]
pub struct Links {
    open: Mutex<HashMap<ConnectionId, Link>>,
}

struct Link {
    queue: mpsc::Sender<ToBot>,
    hang_up: CancellationToken,
}

impl Links {
    pub(super) fn open(&self, id: ConnectionId, hang_up: CancellationToken) -> mpsc::Receiver<ToBot> {
        let (queue, receiver) = mpsc::channel(QUEUE);
        self.lock().insert(id, Link { queue, hang_up });
        receiver
    }

    pub(super) fn close(&self, id: ConnectionId) {
        self.lock().remove(&id);
    }

    pub(super) fn send(&self, id: ConnectionId, what: ToBot) {
        if let Some(link) = self.lock().get(&id)
            && let Err(mpsc::error::TrySendError::Full(_)) = link.queue.try_send(what)
        {
            tracing::warn!(connection = id.0, "a bot does not read what it is sent; closing its connection");
            link.hang_up.cancel();
        }
    }

    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ConnectionId, Link>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
