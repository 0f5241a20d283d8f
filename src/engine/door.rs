//! Who may open the page: the owner, viewers who only read, and the browsers that have logged in. Owns that table and what
//! `ui-token` changes in it; keeps only hashes. A session lives no longer than the token that it logged in with.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::Engine;
use crate::config::{Secret, TokenHash};
use crate::core::ids::Millis;
use crate::store::{StoreError, StoredDoor, StoredSession, StoredToken, StoredViewer, Written};

/// Browsers of the owner, and of all viewers, that are logged in at once; when there are more, the one of those that logged in
/// first must do so again.
const MAX_SESSIONS: usize = 256;
const MAX_VIEWERS: usize = 100;
/// Tokens lent to commands of this machine: never stored, gone with the process; oldest out first.
const MAX_LENT: usize = 64;
/// The name of the document in the store.
const KEPT: &str = "door";

/// Somebody at the page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Visitor {
    /// Reads everything, acts.
    Owner,
    /// Reads everything.
    Viewer(Arc<str>),
}

impl std::fmt::Display for Visitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Owner => f.write_str("owner"),
            Self::Viewer(name) => write!(f, "viewer {name}"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    #[error("the owner's token comes from bridge.toml ([ui] token, token_env or token_sha256, or $HERMES_BRIDGE_UI_TOKEN): change it there")]
    Configured,
    #[error("a viewer's name has 1 to 40 of a-z A-Z 0-9 . _ -, not {0:?}")]
    Name(String),
    #[error("there is already a viewer {0}: revoke it first, or choose another name")]
    Exists(String),
    #[error("there is no viewer {0}; `ui-token --list` shows all")]
    Unknown(String),
    #[error("there are {MAX_VIEWERS} viewers, which is the limit: revoke one")]
    Full,
    #[error("no random bytes from the operating system: {0}")]
    Random(getrandom::Error),
    #[error("could not be recorded: {0}")]
    Store(#[from] StoreError),
}

#[derive(Default)]
pub struct Door {
    table: RwLock<Arc<StoredDoor>>,
    lent: Mutex<VecDeque<TokenHash>>,
    /// What the forms of a page without login are known by.
    forms: String,
    /// One change at a time: from reading the table to having the new one on disk.
    changing: tokio::sync::Mutex<()>,
}

impl Door {
    pub(super) fn kept(store: &crate::store::Store) -> Result<Self, StoreError> {
        let forms = Secret::mint_as("").map_or_else(|_| String::new(), |s| s.reveal().to_owned());
        Ok(Self { table: RwLock::new(Arc::new(store.kept(KEPT)?)), forms, ..Self::default() })
    }

    fn table(&self) -> Arc<StoredDoor> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn is(stored: &str, hash: TokenHash) -> bool {
    TokenHash::parse(stored) == Some(hash)
}

impl Engine {
    /// Whose token this is.
    #[must_use]
    pub fn visitor(&self, token: &str) -> Option<Visitor> {
        let hash = TokenHash::of(token);
        let lent = || self.door.lent.lock().unwrap_or_else(PoisonError::into_inner).contains(&hash);
        self.holder(hash).or_else(|| lent().then_some(Visitor::Owner))
    }

    /// Whose browser holds this cookie.
    #[must_use]
    pub fn visitor_of(&self, cookie: &str) -> Option<Visitor> {
        let (hash, now) = (TokenHash::of(cookie), self.now());
        let table = self.door.table();
        let session = table.sessions.iter().find(|s| is(&s.sha256, hash) && now.0 < s.until)?;
        self.holder(TokenHash::parse(&session.token)?)
    }

    fn holder(&self, hash: TokenHash) -> Option<Visitor> {
        let table = self.door.table();
        let owner = match self.config().ui.token {
            Some(configured) => configured == hash,
            None => table.owner.as_ref().is_some_and(|t| is(&t.sha256, hash)),
        };
        let viewer = || table.viewers.iter().find(|v| is(&v.token.sha256, hash));
        if owner { Some(Visitor::Owner) } else { viewer().map(|v| Visitor::Viewer(v.name.as_str().into())) }
    }

    /// What a form must bring that was shown to this session, or where there is no login to anybody: known to whoever can
    /// read the page, and to no other site.
    #[must_use]
    pub fn form_token(&self, cookie: Option<&str>) -> String {
        let known = cookie.unwrap_or(&self.door.forms);
        TokenHash::of(&format!("form {known}")).to_hex()
    }

    /// A session for the holder of this token: what its cookie is to hold. `None` for a token that is nobody's.
    pub async fn log_in(&self, token: &str) -> Result<Option<(Visitor, Secret)>, DoorError> {
        let Some(visitor) = self.holder(TokenHash::of(token)) else { return Ok(None) };
        let cookie = Secret::mint_as("").map_err(DoorError::Random)?;
        let (now, life) = (self.now(), self.config().ui.session.as_millis());
        let session = StoredSession {
            sha256: cookie.hash().to_hex(),
            token: TokenHash::of(token).to_hex(),
            created: now.0,
            until: now.plus(u64::try_from(life).unwrap_or(u64::MAX)).0,
        };
        let added = self.change_sessions(|door| {
            door.sessions.push(session);
            let is_owners = |s: &StoredSession| TokenHash::parse(&s.token).and_then(|hash| self.holder(hash)) == Some(Visitor::Owner);
            let alike = |s: &StoredSession| is_owners(s) == (visitor == Visitor::Owner);
            let mut over = door.sessions.iter().filter(|s| alike(s)).count().saturating_sub(MAX_SESSIONS);
            door.sessions.retain(|s| {
                let goes = over > 0 && alike(s);
                over -= usize::from(goes);
                !goes
            });
        });
        match added.await {
            // A disk that refuses must not keep its owner from reading why: this session ends with the process.
            Ok(()) | Err(StoreError::Down) => Ok(Some((visitor, cookie))),
            Err(e) => Err(e.into()),
        }
    }

    /// Ends the session of this cookie.
    pub async fn log_out(&self, cookie: &str) -> Result<(), StoreError> {
        let hash = TokenHash::of(cookie);
        self.change_sessions(|door| door.sessions.retain(|s| !is(&s.sha256, hash))).await
    }

    /// A new token for the owner; the one before, and all who logged in with it, are out.
    pub async fn new_owner_token(&self) -> Result<Secret, DoorError> {
        if self.config().ui.token.is_some() {
            return Err(DoorError::Configured);
        }
        let token = Secret::mint_as("hbo_").map_err(DoorError::Random)?;
        let stored = self.stored_token(&token);
        self.change_token(|door| door.owner = Some(stored)).await?;
        Ok(token)
    }

    /// The owner's first token, if there is none of any kind.
    pub async fn mint_owner_token(&self) -> Result<Option<Secret>, DoorError> {
        let ui = &self.config().ui;
        let has_one = ui.open || ui.token.is_some() || self.door.table().owner.is_some();
        if has_one { Ok(None) } else { self.new_owner_token().await.map(Some) }
    }

    pub async fn add_viewer(&self, name: &str) -> Result<Secret, DoorError> {
        let plain = !name.is_empty() && name.len() <= 40 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        let table = self.door.table();
        if !plain {
            return Err(DoorError::Name(name.chars().take(60).collect()));
        }
        if table.viewers.iter().any(|v| v.name == name) {
            return Err(DoorError::Exists(name.to_owned()));
        }
        if table.viewers.len() >= MAX_VIEWERS {
            return Err(DoorError::Full);
        }
        let token = Secret::mint_as("hbv_").map_err(DoorError::Random)?;
        let viewer = StoredViewer { name: name.to_owned(), token: self.stored_token(&token) };
        self.change_token(|door| door.viewers.push(viewer)).await?;
        Ok(token)
    }

    pub async fn revoke_viewer(&self, name: &str) -> Result<(), DoorError> {
        if !self.door.table().viewers.iter().any(|v| v.name == name) {
            return Err(DoorError::Unknown(name.chars().take(60).collect()));
        }
        Ok(self.change_token(|door| door.viewers.retain(|v| v.name != name)).await?)
    }

    /// Names, and when each came to be.
    #[must_use]
    pub fn viewers(&self) -> Vec<(String, Millis)> {
        self.door.table().viewers.iter().map(|v| (v.name.clone(), Millis(v.token.created))).collect()
    }

    /// A token for a command of this machine: it may read as the owner does while the process lives.
    pub fn lend_page(&self) -> Result<Secret, DoorError> {
        let token = Secret::mint_as("hbo_").map_err(DoorError::Random)?;
        let mut lent = self.door.lent.lock().unwrap_or_else(PoisonError::into_inner);
        lent.push_back(token.hash());
        if lent.len() > MAX_LENT {
            lent.pop_front();
        }
        Ok(token)
    }

    fn stored_token(&self, token: &Secret) -> StoredToken {
        StoredToken { sha256: token.hash().to_hex(), created: self.now().0, until: None }
    }

    /// A changed token is good only when it is on disk; if the disk refuses, nothing has changed.
    async fn change_token(&self, change: impl FnOnce(&mut StoredDoor)) -> Result<(), StoreError> {
        self.change_door(true, change).await
    }

    /// A changed session is good at once.
    async fn change_sessions(&self, change: impl FnOnce(&mut StoredDoor)) -> Result<(), StoreError> {
        self.change_door(false, change).await
    }

    async fn change_door(&self, only_if_kept: bool, change: impl FnOnce(&mut StoredDoor)) -> Result<(), StoreError> {
        let _one_at_a_time = self.door.changing.lock().await;
        let permit = self.store.reserve().await?;
        let before = self.door.table();
        let mut door = (*before).clone();
        door.sessions.retain(|s| self.now().0 < s.until);
        change(&mut door);
        let (told, done) = tokio::sync::oneshot::channel();
        self.store.keep(permit, KEPT, &door, move |written| {
            let _ = told.send(written);
        });
        let kept = done.await == Ok(Written::Durable);
        if kept || !only_if_kept {
            *self.door.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(door);
        }
        if kept { Ok(()) } else { Err(StoreError::Down) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn browsers_are_bounded_in_number_and_a_session_ends_with_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let flags = crate::config::Flags { config: Some("/dev/null".into()), data_dir: Some(dir.path().to_owned()), ..Default::default() };
        let config = crate::config::load(&flags, &|_| None).unwrap();
        let engine = Engine::start(config, crate::store::Store::open(dir.path()).unwrap()).unwrap();
        let token = engine.mint_owner_token().await.unwrap().unwrap();
        assert!(engine.log_in("hbo_wrong").await.unwrap().is_none());
        let (_, first) = engine.log_in(token.reveal()).await.unwrap().unwrap();
        let session =
            |n: usize| StoredSession { sha256: TokenHash::of(&n.to_string()).to_hex(), token: token.hash().to_hex(), created: 0, until: u64::MAX };
        engine.change_sessions(|door| door.sessions.extend((1..MAX_SESSIONS).map(session))).await.unwrap();
        assert_eq!(engine.visitor_of(first.reveal()), Some(Visitor::Owner));
        let (_, last) = engine.log_in(token.reveal()).await.unwrap().unwrap();
        assert_eq!((engine.visitor_of(first.reveal()), engine.visitor_of(last.reveal())), (None, Some(Visitor::Owner)));
        let viewer = engine.add_viewer("claire").await.unwrap();
        let (claire, earliest) = engine.log_in(viewer.reveal()).await.unwrap().unwrap();
        let of_viewer = |n: usize| StoredSession { token: viewer.hash().to_hex(), ..session(n) };
        engine.change_sessions(|door| door.sessions.extend((1_000..999 + MAX_SESSIONS).map(of_viewer))).await.unwrap();
        assert_eq!(engine.visitor_of(earliest.reveal()), Some(claire.clone()));
        let (_, latest) = engine.log_in(viewer.reveal()).await.unwrap().unwrap();
        assert_eq!((engine.visitor_of(earliest.reveal()), engine.visitor_of(latest.reveal())), (None, Some(claire)));
        assert_eq!(engine.visitor_of(last.reveal()), Some(Visitor::Owner), "however often a viewer logs in");
        engine.change_sessions(|door| door.sessions.iter_mut().for_each(|s| s.until = 1)).await.unwrap();
        assert_eq!(engine.visitor_of(last.reveal()), None);
        engine.stop().await;
    }
}
