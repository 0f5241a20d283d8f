//! Which token is whose. Owns the table of hashes that every request is checked against, and what `agent add`, `rotate`
//! and `revoke` change in it; keeps only hashes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

use crate::config::{Config, Credential, Secret, TokenHash};
use crate::core::ids::{AgentName, Millis};
use crate::store::{StoredAgent, StoredToken};

/// How long the token before a rotation stays valid.
pub const ROTATION_GRACE_MS: u64 = 24 * 3_600_000;

#[derive(Default)]
pub struct Directory {
    table: watch::Sender<Arc<Table>>,
    /// Tokens lent to commands of this machine: never stored, gone with the process. At most `MAX_LENT`, oldest out first.
    lent: RwLock<VecDeque<Entry>>,
}

const MAX_LENT: usize = 256;

/// The token is not good any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Revoked;

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

/// What a token let in, and by which token: what was opened with one that is not good any more is closed.
#[derive(Clone, Debug)]
pub struct Pass {
    pub name: AgentName,
    /// `None`: lent to a command of this machine, which goes on when others have borrowed more than `MAX_LENT`.
    token: Option<TokenHash>,
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
    pub fn authenticate(&self, token: &str, now: Millis) -> Option<Pass> {
        let hash = TokenHash::of(token);
        if let Some(found) = self.table().entry(hash, now) {
            return Some(Pass { name: found.name.clone(), token: Some(hash) });
        }
        let lent = self.lent.read().unwrap_or_else(PoisonError::into_inner);
        lent.iter().find(|e| e.hash == hash).map(|e| Pass { name: e.name.clone(), token: None })
    }

    /// Hears of each change of the tokens.
    pub fn changes(&self) -> watch::Receiver<impl Sized> {
        self.table.subscribe()
    }

    /// Whether what this pass opened may go on, and if so until when.
    pub fn is_good(&self, pass: &Pass, now: Millis) -> Result<Option<Millis>, Revoked> {
        let table = self.table();
        match pass.token {
            Some(hash) => table.entry(hash, now).filter(|e| e.name == pass.name).map(|e| e.until).ok_or(Revoked),
            None => table.agents.iter().any(|a| a.name == pass.name).then_some(None).ok_or(Revoked),
        }
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
        self.table.borrow().clone()
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
        self.table.send_replace(Arc::new(table));
    }
}

impl Table {
    fn entry(&self, hash: TokenHash, now: Millis) -> Option<&Entry> {
        self.by_bucket.get(&hash.bucket())?.iter().find(|e| e.hash == hash && e.until.is_none_or(|until| now < until))
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_before_a_rotation_is_good_for_the_stated_time_to_the_millisecond() {
        let flags = crate::config::Flags { config: Some("/dev/null".into()), ..Default::default() };
        let config = crate::config::load(&flags, &|_| None).unwrap();
        let (old, new) = (Secret::new("old".into()), Secret::new("new".into()));
        let name = AgentName::parse("a").unwrap();
        let made = with_token(None, &old, Millis(0), true);
        let rotated = with_token(Some(made), &new, Millis(1_000), true);
        let directory = Directory::default();
        directory.fill(&config, &[(name.clone(), rotated)]);
        let over = 1_000 + 24 * 3_600_000;
        let whose = |token: &str, at| directory.authenticate(token, Millis(at)).map(|pass| pass.name);
        assert_eq!((whose("old", over - 1), whose("old", over)), (Some(name.clone()), None));
        assert_eq!(whose("new", u64::MAX), Some(name));
        let pass = directory.authenticate("old", Millis(over - 1)).unwrap();
        assert_eq!(directory.is_good(&pass, Millis(over - 1)), Ok(Some(Millis(over))));
        assert_eq!(directory.is_good(&pass, Millis(over)), Err(Revoked));
    }

    #[test]
    fn a_lent_token_goes_on_for_what_it_opened_until_its_agent_is_gone() {
        let flags = crate::config::Flags { config: Some("/dev/null".into()), ..Default::default() };
        let config = crate::config::load(&flags, &|_| None).unwrap();
        let name = AgentName::parse("a").unwrap();
        let made = with_token(None, &Secret::new("t".into()), Millis(0), true);
        let directory = Directory::default();
        directory.fill(&config, &[(name.clone(), made)]);
        let lend = |n: usize| directory.lend(name.clone(), &Secret::new(format!("lent {n}")));
        lend(0);
        let pass = directory.authenticate("lent 0", Millis(0)).unwrap();
        (1..=MAX_LENT).for_each(lend);
        assert!(directory.authenticate("lent 0", Millis(0)).is_none());
        assert_eq!(directory.is_good(&pass, Millis(0)), Ok(None));
        directory.fill(&config, &[]);
        assert_eq!(directory.is_good(&pass, Millis(0)), Err(Revoked));
    }
}
