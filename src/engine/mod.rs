//! The driver: owns the relay's lock, the clock, fresh ids, who waits and which sockets are open. Feeds the core, has its
//! facts recorded, and only then lets anybody hear. Knows nothing of HTTP, frames or wording, and decides nothing.
//!
//! The relay sits in a std Mutex that is never held across an await: every call into it takes microseconds. A place in
//! the store's queue is taken before the lock, so that effects are handed over, in order, while the lock is held.

mod agents;
mod ask;
mod audit;
mod backups;
mod caller;
mod carry;
mod clock;
mod connection;
mod directory;
mod door;
mod erase;
mod feed;
mod figures;
mod follow;
mod history;
mod late;
mod links;
mod owed;
mod person;
mod reply;
mod retention;
mod waiters;
mod work;

#[cfg(test)]
mod erased;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use agents::{AgentError, Minted, Reloaded};
pub use ask::{AnswerReport, AskReport, AskRequest, Begun, Going};
pub use backups::{Taken, taken};
pub use caller::caller;
pub use connection::Connection;
pub use directory::{Listed, Pass, ROTATION_GRACE_MS};
pub use door::{DoorError, Visitor};
pub use erase::Unwanted;
pub use feed::{Change, Feed};
pub use history::{Findings, HistoryError, Search};
pub use links::ToBot;
pub use person::{Actor, Paused};
pub use reply::Kept;
pub use waiters::Ended;
pub use work::Progress;

pub use crate::search::highlight::Highlighter;
pub use crate::search::{AgentFigures, Bar, Chip, Facets, OPERATORS};
pub use crate::store::StoreError;

use crate::config::Config;
pub use crate::core::audit::{Event, Kind};
use crate::core::effect::{Effect, Fact};
use crate::core::exchange::Record;
use crate::core::ids::{AgentName, ConnectionId, ConversationId, Millis, RequestId};
use crate::core::presence::Present;
use crate::core::relay::Relay;
use crate::lasting::lasting;
use crate::store::{Permit, Store, Written};

/// A bot hears in steps of so long that something is unknown to it. What is another's takes longer to find than what is nobody's,
/// more so if it is long; the time must not tell which it was.
const UNKNOWN_STEP: std::time::Duration = std::time::Duration::from_millis(10);
/// How long a stop waits for what follows the log.
const LAST_TURN: std::time::Duration = std::time::Duration::from_secs(2);

pub struct Engine {
    relay: Mutex<Relay>,
    store: Arc<Store>,
    /// Those who work by it hear when it is read anew.
    config: watch::Sender<Arc<Config>>,
    directory: directory::Directory,
    door: door::Door,
    audit: audit::Audit,
    links: links::Links,
    waiters: Arc<waiters::Waiters>,
    clock: clock::Clock,
    next_connection: AtomicU64,
    chores: Chores,
    history: history::History,
    handed: late::Handed,
    owed: owed::Owed,
    work: work::Work,
    followers: OnceLock<Vec<(&'static str, String)>>,
    stopping: CancellationToken,
    tasks: TaskTracker,
}

/// What the housekeeper must see to: reported by those who cannot wait for a place in the store's queue.
#[derive(Default)]
struct Chores {
    wake: Notify,
    /// The deadline that the housekeeper sleeps for.
    armed: AtomicU64,
    gone: Mutex<Vec<(ConnectionId, bool)>>,
    unrecorded: Mutex<Vec<RequestId>>,
    /// Handed over.
    taken: Mutex<Vec<RequestId>>,
}

impl Engine {
    /// Takes up what an earlier run left open and starts the housekeeper.
    pub fn start(config: Config, store: impl Into<Arc<Store>>) -> Result<Arc<Self>, StoreError> {
        let store = store.into();
        let clock = clock::Clock::start();
        let now = clock.now();
        let directory = directory::Directory::default();
        directory.fill(&config, &store.agents()?);
        let mut relay = Relay::new(config.limits.clone(), config.permissions.clone());
        relay.set_agents(&directory.names(), config.permissions.clone());
        for (name, last_seen, online) in store.presence()? {
            relay.recall(now, &name, last_seen, online);
        }
        let open = store.open_exchanges()?;
        if !open.is_empty() {
            tracing::info!(open = open.len(), "took up the exchanges that were open");
        }
        relay.restore(now, open);
        relay.set_paused(person::kept(&store)?);
        let door = door::Door::kept(&store)?;
        let engine = Arc::new(Self {
            relay: Mutex::new(relay),
            store,
            config: watch::Sender::new(Arc::new(config)),
            directory,
            door,
            audit: audit::Audit::default(),
            links: links::Links::default(),
            waiters: Arc::default(),
            clock,
            next_connection: AtomicU64::new(1),
            chores: Chores::default(),
            history: history::History::default(),
            handed: late::Handed::default(),
            owed: owed::Owed::default(),
            work: work::Work::default(),
            followers: OnceLock::new(),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        engine.owe_on(engine.store.owed()?);
        engine.name_agents();
        engine.keep("the housekeeper", Self::keep_house);
        engine.keep("the security log", Self::keep_audit);
        engine.keep("the search index", Self::follow_log);
        engine.keep("the live feed", Self::tell_listeners);
        Ok(engine)
    }

    /// What a relay does by itself beside relaying; a command that only passes by does none of it. `followers`: those whose
    /// cursors in the store say what of the log is not needed any more, each with its name in the metrics.
    pub fn keep_up(self: &Arc<Self>, followers: Vec<(&'static str, String)>) {
        let _ = self.followers.set(followers);
        self.keep("backups by the clock", Self::back_up_by_the_clock);
        self.keep("the removal of old exchanges", Self::keep_within_bounds);
    }

    /// Has this go on as long as the relay does.
    fn keep<F: Future<Output = ()> + Send + 'static>(self: &Arc<Self>, what: &'static str, work: fn(Arc<Self>) -> F) {
        let engine = self.clone();
        self.tasks.spawn(lasting(what, self.stopping(), async move || work(engine.clone()).await));
    }

    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.config.borrow().clone()
    }

    #[must_use]
    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Whose token this is.
    #[must_use]
    pub fn authenticate(&self, token: &str) -> Option<Pass> {
        self.directory.authenticate(token, self.now())
    }

    /// Why the relay cannot do all its work at the moment; empty when it can.
    #[must_use]
    pub fn troubles(&self) -> Vec<&'static str> {
        let stopping = self.stopping.is_cancelled().then_some("the relay is stopping");
        let store = self.store.trouble().map(|_| "the store cannot write; see the log");
        stopping.into_iter().chain(store).collect()
    }

    #[must_use]
    pub fn present(&self, viewer: Option<&AgentName>) -> Vec<Present> {
        self.relay().present(viewer)
    }

    /// The newest exchanges, newest first.
    pub async fn newest(self: &Arc<Self>, before: Option<RequestId>, count: usize) -> Result<Vec<Record>, StoreError> {
        self.read(move |store| store.newest(before, count)).await
    }

    /// The exchanges of a conversation, oldest first, after `after`.
    pub async fn thread(self: &Arc<Self>, conversation: ConversationId, after: Option<RequestId>, count: usize) -> Result<Vec<Record>, StoreError> {
        self.read(move |store| store.thread(conversation, after, count)).await
    }

    /// A person lets bots go on: whatever limit against loops could stop this question counts anew. `false`: no such question.
    pub async fn clear_loop(self: &Arc<Self>, id: RequestId) -> Result<bool, StoreError> {
        let record = self.read(move |store| store.record(id)).await?;
        if let Some(record) = &record {
            self.relay().clear_loop(&record.asked);
        }
        Ok(record.is_some())
    }

    /// Stops taking part: bots are told to come back, callers that wait are told that the work goes on, what is recorded
    /// is synced. Exchanges stay open for the next start.
    pub async fn stop(&self) {
        self.stopping.cancel();
        self.chores.wake.notify_one();
        for (connection, _, _) in self.relay().links() {
            self.links.send(connection, ToBot::Restarting);
        }
        self.tasks.close();
        // Followers of the log get one bounded last turn: what they miss they catch up with at the next start.
        if tokio::time::timeout(LAST_TURN, self.tasks.wait()).await.is_err() {
            tracing::warn!("the search index or another follower did not end in time; it catches up at the next start");
        }
    }

    /// The last sync. Blocks; nothing can be recorded afterwards. False if the store's writer was broken off.
    pub fn close(&self) -> bool {
        self.store.close()
    }

    #[must_use]
    pub fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    #[must_use]
    pub fn connections(&self) -> usize {
        self.links.count()
    }

    fn relay(&self) -> MutexGuard<'_, Relay> {
        self.relay.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read<T: Send + 'static>(self: &Arc<Self>, read: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static) -> Result<T, StoreError> {
        let engine = self.clone();
        tokio::task::spawn_blocking(move || read(&engine.store)).await.map_err(|_| StoreError::Down)?
    }

    /// Hears when everything submitted before is on record.
    fn barrier(&self, permit: Permit) -> oneshot::Receiver<Written> {
        let (told, done) = oneshot::channel();
        self.store.submit(permit, Vec::new(), move |written| {
            let _ = told.send(written);
        });
        done
    }

    /// Like `carry`, for who asks what became of something: even if nothing is left to do, what an earlier call did may
    /// be on its way to the disk still, and nobody hears of it before it is there.
    fn carry_after(self: &Arc<Self>, permit: Permit, effects: Vec<Effect>) -> oneshot::Receiver<Written> {
        if effects.is_empty() { self.barrier(permit) } else { self.carry(permit, effects) }
    }

    /// Has the facts recorded and the rest carried out after that. Called with the relay locked, so that the order of
    /// the core's decisions is the order of the log. The receiver hears when it is done.
    fn carry(self: &Arc<Self>, permit: Permit, effects: Vec<Effect>) -> oneshot::Receiver<Written> {
        let (told, done) = oneshot::channel();
        if effects.is_empty() {
            let _ = told.send(Written::Durable);
            return done;
        }
        let (facts, rest) = carry::split(effects);
        let late = facts.iter().filter(|fact| matches!(fact, Fact::Late { .. })).count();
        self.metrics().late_replies.add(late as u64);
        let engine = self.clone();
        self.store.submit(permit, facts, move |written| {
            engine.perform(rest, written);
            let _ = told.send(written);
        });
        done
    }
}

async fn hush(begun: Instant) {
    let steps = begun.elapsed().as_millis() / UNKNOWN_STEP.as_millis() + 1;
    tokio::time::sleep_until(begun + UNKNOWN_STEP * u32::try_from(steps).unwrap_or(u32::MAX)).await;
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

impl Chores {
    fn note<T>(list: &Mutex<Vec<T>>, item: T) {
        list.lock().unwrap_or_else(PoisonError::into_inner).push(item);
    }

    fn take<T>(list: &Mutex<Vec<T>>) -> Vec<T> {
        std::mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Wakes the housekeeper if it sleeps past this deadline.
    fn due(&self, next: Option<Millis>) {
        if let Some(next) = next
            && next.0 < self.armed.load(Ordering::Acquire)
        {
            self.wake.notify_one();
        }
    }
}
