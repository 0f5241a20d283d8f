//! The figures of the moment, for whoever reads the metrics: who is there, what waits, how far things are.

use std::time::Duration;

use super::Engine;
use crate::metrics::{AgentNow, Metrics, Now};

impl Engine {
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        self.store.metrics()
    }

    /// Everything that is counted, as Prometheus reads it.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        let (present, away) = {
            let relay = self.relay();
            (relay.present(None), relay.away())
        };
        let at = self.now();
        let agents = present.into_iter().map(|agent| {
            let (mailbox, oldest) = away.get(&agent.name).copied().unwrap_or((0, at));
            let oldest = Duration::from_millis(at.since(oldest));
            AgentNow { name: agent.name.to_string(), online: agent.online, in_flight: agent.waiting, mailbox, oldest }
        });
        let size = |file: &str| self.config().data_dir.join(file).metadata().map_or(0, |m| m.len());
        let now = Now {
            agents: agents.collect(),
            store_bytes: size("bridge.redb") + size("journal"),
            last_seq: self.last_seq().0,
            indexed: self.indexed().0,
        };
        self.metrics().text(&now)
    }

    /// Called whenever the agents may have changed.
    pub(super) fn name_agents(&self) {
        let names = self.directory.names();
        self.metrics().set_agents(names.iter().map(crate::core::ids::AgentName::as_str));
    }
}
