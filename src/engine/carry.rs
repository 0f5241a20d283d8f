//! Carrying out what the core decided, once its facts are on disk; and the housekeeper, the one task that ticks the core
//! and reports what was noticed where nothing can wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::links::ToBot;
use super::waiters::Ended;
use super::{Chores, Engine};
use crate::config::OnStoreFailure;
use crate::core::audit::{Kind, plain};
use crate::core::effect::{Effect, Fact};
use crate::core::exchange::{Asked, End, Late};
use crate::core::ids::{MAX_NAME, RequestId};
use crate::core::trace;
use crate::store::Written;

/// Facts, in order, and everything that must come after them, in order.
pub(super) fn split(effects: Vec<Effect>) -> (Vec<Fact>, Vec<Effect>) {
    let (mut facts, mut rest) = (Vec::new(), Vec::new());
    for effect in effects {
        match effect {
            Effect::Record(fact) => facts.push(fact),
            other => rest.push(other),
        }
    }
    (facts, rest)
}

impl Engine {
    /// On the store's thread: nothing here waits.
    pub(super) fn perform(&self, effects: Vec<Effect>, written: Written) {
        let recorded = written == Written::Durable;
        let refuse = !recorded && self.config().on_store_failure == OnStoreFailure::Refuse;
        for effect in effects {
            match effect {
                Effect::Record(_) => {}
                Effect::Wake { wake, .. } if refuse => self.abandon(wake.asked.id),
                Effect::Wake { connection, wake } => {
                    if wake.attempt == 1 {
                        self.metrics().wake_delivery.took(Duration::from_millis(self.now().since(wake.asked.at)));
                    }
                    self.links.send(connection, ToBot::Wake(wake));
                }
                Effect::Cancel { connection, id } => self.links.send(connection, ToBot::Cancelled(id)),
                Effect::LateAnswer { connection, asked, late } => {
                    self.owe(&asked);
                    self.hand(connection.filter(|_| recorded), asked, late);
                }
                Effect::Finish { asked, end, owed } => self.tell(Ended { asked, end, recorded }, owed),
            }
        }
    }

    /// Counts it, and gives it its line; not what a rule refused, which floods, and has its line in the security log.
    pub(super) fn ended(&self, asked: &Asked, end: &End) {
        let took = end.at.since(asked.at);
        self.metrics().ended(&asked.to.to_ascii_lowercase(), end.outcome.word(), Duration::from_millis(took));
        if Kind::of_refusal(end.outcome).is_some() {
            tracing::debug!(request_id = %asked.id, from = %asked.from, status = end.outcome.word(), "refused");
            return;
        }
        tracing::info!(
            conversation_id = %asked.conversation, request_id = %asked.id, from = %asked.from, to = %plain(&asked.to, MAX_NAME),
            status = end.outcome.word(), duration_ms = took, message_bytes = asked.message.len(), answer_bytes = end.text.len(),
            trace_id = trace::trace_id(asked.conversation), span_id = trace::span_id(asked.id),
            "exchange ended"
        );
    }

    fn tell(&self, ended: Ended, owed: bool) {
        let Ended { asked, end, .. } = &ended;
        self.ended(asked, end);
        // Before anybody hears: whoever waits settles it.
        if owed {
            self.owe(asked);
        }
        if !self.waiters.finish(&ended) && owed && ended.recorded {
            let connection = self.relay().hears_answers(&ended.asked.from);
            self.hand(connection, ended.asked.clone(), Arc::new(Late { answer: ended.end.text.clone(), at: ended.end.at, call: None }));
        }
    }

    /// A question that could not be recorded where only recorded ones may be asked, or kept. The housekeeper ends it.
    pub(super) fn abandon(&self, id: RequestId) {
        Chores::note(&self.chores.unrecorded, id);
        self.chores.wake.notify_one();
    }

    /// Sleeps until the next deadline, or until somebody has a chore for it. Ends when the relay stops.
    pub(super) async fn keep_house(self: Arc<Self>) {
        loop {
            let next = self.relay().next_deadline();
            self.chores.armed.store(next.map_or(u64::MAX, |at| at.0), Ordering::Release);
            let sleep_until = next.map_or_else(|| tokio::time::Instant::now() + Duration::from_secs(3600), |at| self.clock.instant(at));
            let last = tokio::select! {
                () = tokio::time::sleep_until(sleep_until) => false,
                () = self.chores.wake.notified() => false,
                () = self.stopping.cancelled() => true,
            };
            let Ok(permit) = self.store.reserve().await else { return };
            let mut out = Vec::new();
            let mut relay = self.relay();
            let now = self.now();
            out.extend(Chores::take(&self.chores.taken).into_iter().map(|id| Effect::Record(Fact::Taken { id, at: now })));
            // Whoever goes because the relay stops comes back, and time stands still until then.
            if !last {
                for (connection, clean) in Chores::take(&self.chores.gone) {
                    self.links.close(connection);
                    relay.disconnected(now, connection, clean, &mut out);
                }
                for id in Chores::take(&self.chores.unrecorded) {
                    relay.abandon(now, id, &mut out);
                }
                relay.tick(now, &mut out);
            }
            drop(self.carry(permit, out));
            if last {
                return;
            }
        }
    }
}
