//! One socket of a bot, seen from the inside: what it reports goes to the core, what it is told comes from a bounded
//! queue. Its end is reported by its drop, whatever ended it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::links::ToBot;
use super::{Chores, Engine};
use crate::core::effect::Effect;
use crate::core::ids::{AgentName, ConnectionId, Millis, RequestId};
use crate::core::registry::Hello;
use crate::core::relay::Relay;
use crate::store::StoreError;

pub struct Connection {
    pub id: ConnectionId,
    pub name: AgentName,
    /// What the bot is to be told, in order.
    pub queue: mpsc::Receiver<ToBot>,
    /// Cancelled when the relay wants this socket closed.
    pub hang_up: CancellationToken,
    engine: Arc<Engine>,
    clean: bool,
}

impl Engine {
    /// A bot's socket is up. `None` if the agent was removed meanwhile.
    pub async fn connect(self: &Arc<Self>, name: &AgentName) -> Result<Option<Connection>, StoreError> {
        let permit = self.store.reserve().await?;
        let id = ConnectionId(self.next_connection.fetch_add(1, Ordering::Relaxed));
        let hang_up = CancellationToken::new();
        let queue = self.links.open(id, hang_up.clone());
        let known = {
            let mut relay = self.relay();
            let mut out = Vec::new();
            let known = relay.connected(self.now(), name, id, &mut out);
            drop(self.carry(permit, out));
            known
        };
        if !known {
            self.links.close(id);
            return Ok(None);
        }
        self.metrics().connected(name.as_str());
        tracing::info!(agent = %name, connection = id.0, "connected");
        if self.stopping.is_cancelled() {
            // It may have come after the stop had told everybody.
            self.links.send(id, ToBot::Restarting);
        }
        Ok(Some(Connection { id, name: name.clone(), queue, hang_up, engine: self.clone(), clean: false }))
    }
}

impl Connection {
    /// The bot said who it is, or (`None`) will not.
    pub async fn introduce(&self, hello: Option<Hello>) -> Result<(), StoreError> {
        let permit = self.engine.store.reserve().await?;
        let mut out = Vec::new();
        let mut relay = self.engine.relay();
        relay.introduced(self.engine.now(), self.id, hello, &mut out);
        drop(self.engine.carry(permit, out));
        self.engine.chores.due(relay.next_deadline());
        Ok(())
    }

    /// Sends again what its owner did not take while it was away.
    pub fn pay(&self) {
        self.engine.pay(&self.name);
    }

    /// The bot took what it was sent before the ping with this payload.
    pub fn took(&self, payload: &[u8]) {
        if let Ok(id) = payload.try_into() {
            self.engine.settle(&self.name, RequestId::from_u128(u128::from_be_bytes(id)));
        }
    }

    /// The bot has the question. `false`: it is none of its own.
    pub async fn received(&self, id: RequestId) -> Result<bool, StoreError> {
        self.report(id, |relay, now, out| relay.heard(now, self.id, id, out)).await
    }

    /// The bot is at work on the question, in this session of its own. `false`: it is none of its own.
    pub async fn heartbeat(&self, id: RequestId, session: Option<Arc<str>>) -> Result<bool, StoreError> {
        self.engine.metrics().heartbeat(self.name.as_str());
        self.report(id, |relay, now, out| relay.heartbeat(now, self.id, id, session, out)).await
    }

    async fn report(&self, id: RequestId, tell: impl FnOnce(&mut Relay, Millis, &mut Vec<Effect>) -> bool) -> Result<bool, StoreError> {
        let permit = self.engine.store.reserve().await?;
        let mut out = Vec::new();
        let known = {
            let mut relay = self.engine.relay();
            if tell(&mut relay, self.engine.now(), &mut out) {
                self.engine.metrics().extended(self.name.as_str());
            }
            drop(self.engine.carry(permit, out));
            relay.was_asked(&self.name, id)
        };
        // What ended long ago, or before the relay was started, only history knows. One that cannot be read accuses nobody.
        let asked_of = async || match self.engine.read(move |store| store.record(id)).await {
            Ok(record) => record.is_some_and(|record| *record.asked.to == *self.name.as_str()),
            Err(_) => true,
        };
        Ok(known || asked_of().await)
    }

    /// The bot closed with a goodbye.
    pub fn said_goodbye(&mut self) {
        self.clean = true;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        tracing::info!(agent = %self.name, connection = self.id.0, clean = self.clean, "disconnected");
        self.engine.metrics().disconnected(self.name.as_str(), self.clean);
        Chores::note(&self.engine.chores.gone, (self.id, self.clean));
        self.engine.chores.wake.notify_one();
    }
}
