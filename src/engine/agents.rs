//! Agents coming into being and going: minting, `agent add`, `rotate`, `revoke`, and a changed configuration. What
//! was opened with a token that stays good is not touched; what another opened is closed at once.

use std::sync::Arc;
use std::time::Duration;

use super::directory::with_token;
use super::{Engine, Pass};
use crate::config::{Config, Secret};
use crate::core::ids::AgentName;
use crate::store::{StoreError, StoredAgent, Written};

/// For a token that is good without an end. A timer takes no longer time.
const NO_END: Duration = Duration::from_secs(365 * 86_400);

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("there is already an agent {0}; `agent rotate {0}` gives it another token")]
    Exists(AgentName),
    #[error("{0} is the name under which the relay's owner asks; no agent can have it")]
    Reserved(AgentName),
    #[error("there is no agent {0}; `agent list` shows all")]
    Unknown(AgentName),
    #[error("{0} comes from bridge.toml: remove its [[agents]] entry there and reload (kill -HUP)")]
    Configured(AgentName),
    #[error("no random bytes from the operating system: {0}")]
    Random(getrandom::Error),
    #[error("could not be recorded: {0}")]
    Store(#[from] StoreError),
}

/// A token just made; shown once, never kept in clear.
pub struct Minted {
    pub name: AgentName,
    pub token: Secret,
}

/// What became of a newly read configuration.
pub struct Reloaded {
    pub minted: Vec<Minted>,
    /// Keys with other values than those that the relay works by until it starts again.
    pub waiting: Vec<&'static str>,
}

impl Engine {
    /// Makes tokens for the agents that have none.
    pub async fn mint_missing(self: &Arc<Self>) -> Result<Vec<Minted>, AgentError> {
        let mut minted = Vec::new();
        for agent in self.directory.listed().into_iter().filter(|a| a.tokenless) {
            minted.push(self.give_token(agent.name, !agent.configured).await?);
        }
        Ok(minted)
    }

    pub async fn add_agent(self: &Arc<Self>, name: AgentName) -> Result<Minted, AgentError> {
        if self.directory.names().contains(&name) {
            return Err(AgentError::Exists(name));
        }
        if name.is_reserved() {
            return Err(AgentError::Reserved(name));
        }
        self.give_token(name, true).await
    }

    pub async fn rotate_token(self: &Arc<Self>, name: AgentName) -> Result<Minted, AgentError> {
        let listed = self.directory.listed().into_iter().find(|a| a.name == name);
        let listed = listed.ok_or_else(|| AgentError::Unknown(name.clone()))?;
        self.give_token(name, !listed.configured).await
    }

    /// A token that lives as long as the relay does.
    pub fn lend_token(&self, name: AgentName) -> Result<Minted, AgentError> {
        if !self.directory.names().contains(&name) {
            return Err(AgentError::Unknown(name));
        }
        let token = Secret::mint().map_err(AgentError::Random)?;
        self.directory.lend(name.clone(), &token);
        Ok(Minted { name, token })
    }

    pub async fn revoke_agent(self: &Arc<Self>, name: AgentName) -> Result<(), AgentError> {
        let listed = self.directory.listed().into_iter().find(|a| a.name == name);
        if listed.ok_or_else(|| AgentError::Unknown(name.clone()))?.configured {
            return Err(AgentError::Configured(name));
        }
        self.put(name, None).await?;
        Ok(self.reload_agents(None).await?)
    }

    /// Takes over what can be taken over of a newly read configuration.
    pub async fn reconfigure(self: &Arc<Self>, new: Config) -> Result<Reloaded, AgentError> {
        let (config, waiting) = self.config().taking_over(new);
        self.reload_agents(Some(config)).await?;
        Ok(Reloaded { minted: self.mint_missing().await?, waiting })
    }

    /// Resolves when what this pass opened is to be closed: its token was taken back, changed, or its time is over.
    pub fn revoked(self: &Arc<Self>, pass: Pass) -> impl Future<Output = ()> + Send + use<> {
        let engine = self.clone();
        async move {
            let mut changes = engine.directory.changes();
            while let Ok(until) = engine.directory.is_good(&pass, engine.now()) {
                let over = until.map_or(NO_END, |until| Duration::from_millis(until.since(engine.now())));
                // Too early does no harm; a change while this looks is heard of at once.
                let _ = tokio::time::timeout(over, changes.changed()).await;
            }
        }
    }

    #[must_use]
    pub fn listed_agents(&self) -> Vec<super::Listed> {
        self.directory.listed()
    }

    async fn give_token(self: &Arc<Self>, name: AgentName, added: bool) -> Result<Minted, AgentError> {
        let token = Secret::mint().map_err(AgentError::Random)?;
        let (sought, now) = (name.clone(), self.now());
        let before = self.read(move |store| Ok(store.agents()?.into_iter().find(|(n, _)| *n == sought).map(|(_, a)| a))).await?;
        self.put(name.clone(), Some(with_token(before, &token, now, added))).await?;
        self.reload_agents(None).await?;
        Ok(Minted { name, token })
    }

    async fn put(&self, name: AgentName, agent: Option<StoredAgent>) -> Result<(), StoreError> {
        let permit = self.store.reserve().await?;
        let (told, done) = tokio::sync::oneshot::channel();
        self.store.put_agent(permit, name, agent, move |written| {
            let _ = told.send(written);
        });
        if done.await == Ok(Written::Durable) { Ok(()) } else { Err(StoreError::Down) }
    }

    async fn reload_agents(self: &Arc<Self>, config: Option<Config>) -> Result<(), StoreError> {
        let stored = self.read(|store| store.agents()).await?;
        let mut relay = self.relay();
        if let Some(new) = config {
            self.config.send_replace(Arc::new(new));
        }
        let config = self.config();
        self.directory.fill(&config, &stored);
        self.name_agents();
        relay.set_agents(&self.directory.names(), config.permissions.clone());
        Ok(())
    }
}
