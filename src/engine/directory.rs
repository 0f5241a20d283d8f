//! Which token is whose. Owns the table of hashes that every request is checked against, and what `agent add`, `rotate`
//! and `revoke` change in it; keeps only hashes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};

use crate::config::{Config, Credential, Secret, TokenHash};
use crate::core::ids::{AgentName, Millis};
use crate::store::{StoredAgent, StoredToken};

/// How long the token before a rotation stays valid.
pub const ROTATION_GRACE_MS: u64 = 24 * 3_600_000;

#[derive(Default)]
pub struct Directory {
    table: RwLock<Arc<Table>>,
    /// Tokens lent to commands of this machine: never stored, gone with the process. At most `MAX_LENT`, oldest out first.
    lent: RwLock<VecDeque<Entry>>,
}

const MAX_LENT: usize = 256;

#[derive(Default)]
struct Table {
    by_bucket: HashMap<[u8; 8], Vec<Entry>>,
    agents: Vec<Listed>,
}

struct Entry {
    hash: TokenHash,
    name: AgentName,
    until: Option<Millis>,
}

/// An agent as `agent list` shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    pub name: AgentName,
    /// From bridge.toml, or else from `agent add`.
    pub configured: bool,
    /// Has no token anywhere: one must be made.
    pub tokenless: bool,
}

impl Directory {
    /// Whose token this is. The time it takes depends on the number of tokens, not on how much of one is right.
    #[must_use]
    pub fn authenticate(&self, token: &str, now: Millis) -> Option<AgentName> {
        let hash = TokenHash::of(token);
        let good = |e: &&Entry| e.hash == hash && e.until.is_none_or(|until| now < until);
        let table = self.table();
        if let Some(found) = table.by_bucket.get(&hash.bucket()).and_then(|entries| entries.iter().find(good)) {
            return Some(found.name.clone());
        }
        self.lent.read().unwrap_or_else(PoisonError::into_inner).iter().find(good).map(|e| e.name.clone())
    }

    /// Lets this token stand for that agent while the process lives.
    pub fn lend(&self, name: AgentName, token: &Secret) {
        let mut lent = self.lent.write().unwrap_or_else(PoisonError::into_inner);
        lent.push_back(Entry { hash: token.hash(), name, until: None });
        while lent.len() > MAX_LENT {
            lent.pop_front();
        }
    }

    fn table(&self) -> Arc<Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[must_use]
    pub fn listed(&self) -> Vec<Listed> {
        self.table().agents.clone()
    }

    #[must_use]
    pub fn names(&self) -> Vec<AgentName> {
        self.table().agents.iter().map(|a| a.name.clone()).collect()
    }

    /// Makes the table anew from the configuration and what the store keeps; a name in both is the configuration's,
    /// and both tokens are good: the store's is a minted or rotated one.
    pub fn fill(&self, config: &Config, stored: &[(AgentName, StoredAgent)]) {
        let mut table = Table::default();
        for entry in &config.agents {
            let kept = stored.iter().find(|(name, _)| *name == entry.name).map(|(_, a)| a);
            let rotated = kept.is_some_and(|k| !k.tokens.is_empty());
            if let Some(Credential(hash)) = &entry.credential {
                table.put(*hash, &entry.name, None);
            }
            table.put_stored(&entry.name, kept);
            table.agents.push(Listed { name: entry.name.clone(), configured: true, tokenless: entry.credential.is_none() && !rotated });
        }
        for (name, agent) in stored.iter().filter(|(name, a)| a.added && !name.is_reserved()) {
            if !table.agents.iter().any(|l| l.name == *name) {
                table.put_stored(name, Some(agent));
                table.agents.push(Listed { name: name.clone(), configured: false, tokenless: agent.tokens.is_empty() });
            }
        }
        self.lent.write().unwrap_or_else(PoisonError::into_inner).retain(|e| table.agents.iter().any(|l| l.name == e.name));
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
    }
}

impl Table {
    fn put(&mut self, hash: TokenHash, name: &AgentName, until: Option<Millis>) {
        self.by_bucket.entry(hash.bucket()).or_default().push(Entry { hash, name: name.clone(), until });
    }

    fn put_stored(&mut self, name: &AgentName, agent: Option<&StoredAgent>) {
        for token in agent.iter().flat_map(|a| &a.tokens) {
            if let Some(hash) = TokenHash::parse(&token.sha256) {
                self.put(hash, name, token.until.map(Millis));
            }
        }
    }
}

/// The record of an agent with a fresh token; tokens it had stay valid for `ROTATION_GRACE_MS`.
pub fn with_token(before: Option<StoredAgent>, token: &Secret, now: Millis, added: bool) -> StoredAgent {
    let mut agent = before.unwrap_or(StoredAgent { added, tokens: Vec::new(), created: now.0 });
    agent.tokens.retain(|t| t.until.is_none_or(|until| now.0 < until));
    for old in &mut agent.tokens {
        old.until.get_or_insert(now.plus(ROTATION_GRACE_MS).0);
    }
    agent.tokens.push(StoredToken { sha256: token.hash().to_hex(), created: now.0, until: None });
    agent
}
