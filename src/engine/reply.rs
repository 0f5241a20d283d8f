//! An answer through the driver: to an open question, or late to one that history knows. Acknowledged when it is on disk; while
//! the disk refuses, as not recorded yet, so that the bot keeps it and says it again.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Engine, hush};
use crate::core::ids::{AgentName, RequestId};
use crate::core::replies::{Replied, Reply};
use crate::store::{StoreError, Written};

/// What became of a reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    pub replied: Replied,
    /// False: it waits in memory for the disk, and a crash would lose it.
    pub recorded: bool,
}

impl Engine {
    /// A reply to a question that `from` was asked. `call`: the id under which the bot may send this again.
    pub async fn reply(self: &Arc<Self>, from: &AgentName, id: RequestId, reply: Reply, call: Option<Arc<str>>) -> Result<Kept, StoreError> {
        let begun = Instant::now();
        let kept = self.take_reply(from, id, reply, call).await?;
        if kept.replied == Replied::Unknown {
            hush(begun).await;
        }
        Ok(kept)
    }

    async fn take_reply(self: &Arc<Self>, from: &AgentName, id: RequestId, reply: Reply, call: Option<Arc<str>>) -> Result<Kept, StoreError> {
        let permit = self.store.admit().await?;
        let mut out = Vec::new();
        let (first, done) = {
            let mut relay = self.relay();
            let first = relay.reply(self.now(), from, id, reply.clone(), call.clone(), &mut out);
            (first, self.carry_after(permit, out))
        };
        if !matches!(first, Replied::AskHistory | Replied::Unknown) {
            return kept(first, done).await;
        }
        // A foreign request takes the same way as an unknown one.
        let record = self.read(move |store| store.record(id)).await?;
        let past = record.filter(|record| *record.asked.to == *from.as_str()).and_then(|record| record.past());
        let Some(past) = past else { return Ok(Kept { replied: Replied::Unknown, recorded: true }) };
        let permit = self.store.admit().await?;
        let mut out = Vec::new();
        let (replied, done) = {
            let mut relay = self.relay();
            let replied = relay.late(self.now(), from, past, reply, call, &mut out);
            (replied, self.carry_after(permit, out))
        };
        kept(replied, done).await
    }
}

async fn kept(replied: Replied, done: oneshot::Receiver<Written>) -> Result<Kept, StoreError> {
    match done.await {
        Ok(Written::Lost) | Err(_) => Err(StoreError::Down),
        Ok(written) => Ok(Kept { replied, recorded: written == Written::Durable }),
    }
}
