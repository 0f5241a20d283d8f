//! REDB, behind a journal. Owns the data directory's `bridge.redb` and `journal`: one writer thread with group commit,
//! an ordered log of facts that is the truth, and what is derived from it in the same transaction. Decides nothing.
//!
//! A batch of facts is durable when the journal has it on disk (one append, one fdatasync for all that wait), and
//! readable when redb has it (a commit without sync, of all that came within a few milliseconds or when somebody reads).
//! Once a second, and before the journal is full, redb is synced with quick repair and the journal begins again. At the start the journal's rest is applied, so redb opens in
//! milliseconds after a crash and nothing that was acknowledged is missing.

mod backup;
mod copy;
mod disk;
mod erase;
mod journal;
mod look;
mod medium;
mod migrate;
mod overlay;
mod read;
mod record;
mod rewrite;
mod tables;
mod writer;

#[cfg(test)]
mod erased;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod kept;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use redb::Database;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::core::effect::Fact;
use crate::core::ids::{AgentName, Seq};
use crate::metrics::Metrics;

pub use backup::{BackupError, Manifest, is_backup, restore, verify};
pub use copy::{Contents, Watch};
pub use erase::{Doomed, Old};
pub use look::{Look, look};
pub use read::{Ends, Finished};
pub use record::{StoredAgent, StoredDoor, StoredPause, StoredSession, StoredToken, StoredViewer};
pub use rewrite::{rewrite, rewrite_if_marked};
pub use tables::FORMAT;

#[cfg(test)]
pub(crate) use medium::{Access, Faults};

/// What is under way unwritten at most; whoever wants to record more waits for a place.
const QUEUE: usize = 1024;
const WRITER: &str = "store";

/// A reader waits for the writer at most so long: a disk that hangs must not hang the page.
const SHOW_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot use the data directory {}: {source}. Give another with --data-dir, or mend its owner and mode", path.display())]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("{} is in use by another process. Two relays cannot share a data directory: stop the other one, or give this one its own with --data-dir", path.display())]
    InUse { path: PathBuf },
    #[error("{} was written by a newer hermes-bridge (format {found}, this one reads up to {known}). Nothing was changed: run that version, or restore a backup made by this one", path.display())]
    Newer { path: PathBuf, found: u64, known: u64 },
    #[error("cannot open {}: {source}. `hermes-bridge check` looks closer; a backup can be put back with `restore`", path.display())]
    Open { path: PathBuf, source: Box<redb::Error> },
    #[error("{} is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("store: {0}")]
    Redb(#[from] Box<redb::Error>),
    #[error("the journal {}: {source}", path.display())]
    Journal { path: PathBuf, source: std::io::Error },
    #[error("a stored record cannot be read: {0}")]
    Record(String),
    #[error("the store is not available at the moment")]
    Down,
    #[error("it was stopped before it was done")]
    Interrupted,
    #[error("the writer thread could not be started: {0}")]
    Thread(std::io::Error),
}

macro_rules! from_redb {
    ($($kind:ident),*) => { $(impl From<redb::$kind> for StoreError {
        fn from(e: redb::$kind) -> Self { Self::Redb(Box::new(e.into())) }
    })* };
}
from_redb!(TransactionError, TableError, StorageError, CommitError, DatabaseError);

/// What became of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// On disk, and shown to whoever reads from now on.
    Durable,
    /// The disk refuses; kept in memory and written when it recovers.
    Deferred,
    /// The writer is gone.
    Lost,
}

pub(crate) type After = Box<dyn FnOnce(Written) + Send>;

pub(crate) enum Op {
    Facts {
        facts: Vec<Fact>,
        after: After,
    },
    Agent {
        name: AgentName,
        agent: Option<StoredAgent>,
        after: After,
    },
    Cursor {
        follower: String,
        seq: Seq,
        after: After,
    },
    Keep {
        what: &'static str,
        bytes: Vec<u8>,
        after: After,
    },
    /// Leave nothing of what was erased.
    Wipe {
        after: After,
    },
    /// Somebody reads: redb is to have all that is durable.
    Show {
        shown: mpsc::SyncSender<()>,
    },
    Stop,
}

/// A place in the writer's queue.
pub struct Permit(OwnedSemaphorePermit);

/// The one handle to everything recorded. Cheap to share; reads block, so async callers wrap them.
pub struct Store {
    sender: mpsc::Sender<(Op, Option<OwnedSemaphorePermit>)>,
    places: Arc<Semaphore>,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

pub(crate) struct Shared {
    /// `None` while it is being reopened after an I/O error.
    pub(crate) database: RwLock<Option<Arc<Database>>>,
    /// Why the disk refuses, while it does.
    pub(crate) trouble: RwLock<Option<Arc<str>>>,
    pub(crate) metrics: Arc<Metrics>,
    /// What waits for a disk that refuses takes all the memory that it may.
    pub(crate) crowded: AtomicBool,
    /// The last position that is on disk, and the last that redb has.
    pub(crate) durable: AtomicU64,
    pub(crate) last: watch::Sender<Seq>,
    /// The writer is gone.
    ended: CancellationToken,
}

impl Shared {
    fn say_trouble(&self, why: Option<Arc<str>>) {
        *self.trouble.write().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

impl Store {
    /// Opens or creates the store in `dir`.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        Self::open_on(dir, None)
    }

    pub(crate) fn open_on(dir: &Path, faults: Option<Arc<dyn medium::Faults>>) -> Result<Self, StoreError> {
        let opened = disk::open(dir, faults.as_ref())?;
        let shared = Arc::new(Shared {
            database: RwLock::new(Some(opened.database.clone())),
            trouble: RwLock::default(),
            metrics: Arc::default(),
            crowded: AtomicBool::new(false),
            durable: AtomicU64::new(opened.last.0),
            last: watch::Sender::new(opened.last),
            ended: CancellationToken::new(),
        });
        let (sender, receiver) = mpsc::channel();
        let writer = writer::Writer::new(dir.to_owned(), faults, opened, shared.clone());
        let watched = shared.clone();
        let write = move || {
            let _ended = Ended(watched);
            writer.run(&receiver);
        };
        let thread = std::thread::Builder::new().name(WRITER.into()).spawn(write).map_err(StoreError::Thread)?;
        Ok(Self { sender, places: Arc::new(Semaphore::new(QUEUE)), shared, thread: Mutex::new(Some(thread)) })
    }

    /// Waits for a place in the queue. Taken before the relay is locked, so that nothing waits inside the lock.
    pub async fn reserve(&self) -> Result<Permit, StoreError> {
        self.places.clone().acquire_owned().await.map(Permit).map_err(|_| StoreError::Down)
    }

    /// Like `reserve`, for what brings text: refused while the memory for what waits for the disk is full.
    pub async fn admit(&self) -> Result<Permit, StoreError> {
        if self.shared.crowded.load(Ordering::Acquire) { Err(StoreError::Down) } else { self.reserve().await }
    }

    /// Records the facts; `after` is called on the writer's thread, in the order of submission, and must not read.
    pub fn submit(&self, permit: Permit, facts: Vec<Fact>, after: impl FnOnce(Written) + Send + 'static) {
        self.send(Op::Facts { facts, after: Box::new(after) }, permit);
    }

    /// Keeps (or with `None` removes) what is known of an agent's tokens.
    pub fn put_agent(&self, permit: Permit, name: AgentName, agent: Option<StoredAgent>, after: impl FnOnce(Written) + Send + 'static) {
        self.send(Op::Agent { name, agent, after: Box::new(after) }, permit);
    }

    /// Keeps how far a follower of the log has come; it is on disk when `after` hears `Durable`. A follower called `kind:where`
    /// takes the place of those of its kind that went elsewhere.
    pub fn put_cursor(&self, permit: Permit, follower: &str, seq: Seq, after: impl FnOnce(Written) + Send + 'static) {
        self.send(Op::Cursor { follower: follower.to_owned(), seq, after: Box::new(after) }, permit);
    }

    /// Keeps a document in the place of the one that had this name; read again with `kept`.
    pub fn keep(&self, permit: Permit, what: &'static str, document: &impl serde::Serialize, after: impl FnOnce(Written) + Send + 'static) {
        match serde_json::to_vec(document) {
            Ok(bytes) => self.send(Op::Keep { what, bytes, after: Box::new(after) }, permit),
            Err(e) => {
                tracing::error!(error = %e, what, "a document could not be encoded");
                after(Written::Lost);
            }
        }
    }

    /// After an erasure: empties the journal and has the next start rewrite the file.
    pub fn wipe(&self, permit: Permit, after: impl FnOnce(Written) + Send + 'static) {
        self.send(Op::Wipe { after: Box::new(after) }, permit);
    }

    fn send(&self, op: Op, permit: Permit) {
        if let Err(mpsc::SendError((
            Op::Facts { after, .. } | Op::Agent { after, .. } | Op::Cursor { after, .. } | Op::Keep { after, .. } | Op::Wipe { after },
            _,
        ))) = self.sender.send((op, Some(permit.0)))
        {
            after(Written::Lost);
        }
    }

    /// Why nothing can be recorded, while that is so.
    #[must_use]
    pub fn trouble(&self) -> Option<Arc<str>> {
        self.shared.trouble.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where everything is counted: the store is there before all others.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.shared.metrics
    }

    /// The last position of the log that can be read; followers wait for it to change.
    #[must_use]
    pub fn last(&self) -> watch::Receiver<Seq> {
        self.shared.last.subscribe()
    }

    /// Hears when nothing will be written any more: after `close`, or because the writer panicked.
    #[must_use]
    pub fn ended(&self) -> CancellationToken {
        self.shared.ended.clone()
    }

    /// The number of the file's layout.
    pub fn format(&self) -> Result<u64, StoreError> {
        tables::format(&*self.database()?).map(Option::unwrap_or_default)
    }

    /// The database with everything in it that is durable by now.
    fn database(&self) -> Result<Arc<Database>, StoreError> {
        let durable = self.shared.durable.load(Ordering::Acquire);
        if durable > self.shared.last.borrow().0 {
            debug_assert_ne!(std::thread::current().name(), Some(WRITER), "the writer would wait for itself");
            let (shown, done) = mpsc::sync_channel(1);
            self.sender.send((Op::Show { shown }, None)).map_err(|_| StoreError::Down)?;
            done.recv_timeout(SHOW_PATIENCE).map_err(|_| StoreError::Down)?;
            if durable > self.shared.last.borrow().0 {
                return Err(StoreError::Down);
            }
        }
        self.shared.database.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(StoreError::Down)
    }

    /// Writes what waits, syncs, closes the file. Later submissions are lost. False if a fault broke the writer off, now or before.
    pub fn close(&self) -> bool {
        let _ = self.sender.send((Op::Stop, None));
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let well = thread.is_none_or(|thread| thread.join().is_ok());
        if !well {
            tracing::error!("the store's writer thread panicked");
        }
        well
    }
}

/// A writer that panicked has ended too; what it was about to write is on disk or not, which only opening it again can tell.
struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.say_trouble(Some("its writer was broken off by a fault of this program".into()));
        }
        self.0.ended.cancel();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}
