//! Long work that the owner asked for (a backup, an erasure): one at a time, on a thread of its own, behind the asks. Owns
//! how far it is and how it ended, for whoever looks; stops when the relay does.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Engine;
use crate::core::outcome::moment;
use crate::store::BackupError;

/// While asks come in, the work rests as long as it worked, at most so long at once.
const LONGEST_REST: Duration = Duration::from_millis(250);

/// How far the latest work is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    pub stage: &'static str,
    pub done: u64,
    pub of: u64,
    /// How it ended, once it has.
    pub outcome: Option<Result<String, String>>,
}

#[derive(Default)]
pub(super) struct Work {
    /// `None`: nothing was ever begun.
    progress: Mutex<Option<Progress>>,
}

impl Work {
    fn progress(&self) -> MutexGuard<'_, Option<Progress>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> bool {
        let mut progress = self.progress();
        if progress.as_ref().is_some_and(|p| p.outcome.is_none()) {
            return false;
        }
        *progress = Some(Progress { stage: "beginning", ..Progress::default() });
        true
    }
}

impl Engine {
    /// Begins work and returns; `Err` if other work is under way. `work` hears how to report (it rests inside while asks
    /// come in) and says in one sentence what it did.
    pub(super) fn begin_work(
        self: &Arc<Self>,
        work: impl FnOnce(&Engine, &mut dyn FnMut(&'static str, u64, u64) -> bool) -> Result<String, String> + Send + 'static,
    ) -> Result<tokio::task::JoinHandle<Result<String, String>>, String> {
        if !self.work.begin() {
            return Err("the relay has other such work under way (a backup, an erasure); try again when it is done".to_owned());
        }
        let engine = self.clone();
        Ok(self.tasks.spawn_blocking(move || {
            let _ended = Ended(&engine);
            let (mut since, mut seq) = (Instant::now(), engine.last_seq());
            let outcome = work(&engine, &mut |stage, done, of| {
                *engine.work.progress() = Some(Progress { stage, done, of, outcome: None });
                if engine.last_seq() != seq {
                    std::thread::sleep(since.elapsed().min(LONGEST_REST));
                }
                (since, seq) = (Instant::now(), engine.last_seq());
                !engine.stopping.is_cancelled()
            });
            engine.work.progress().get_or_insert_default().outcome = Some(outcome.clone());
            outcome
        }))
    }

    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        self.work.progress().clone()
    }

    /// Begins a backup into the new directory `dir`.
    pub fn begin_backup(self: &Arc<Self>, dir: PathBuf) -> Result<tokio::task::JoinHandle<Result<String, String>>, String> {
        let taken = moment(self.now());
        self.begin_work(move |engine, watch| {
            let made = engine.store.backup(&dir, &taken, watch);
            let made = made.map_err(|e: BackupError| e.to_string())?;
            tracing::info!(dir = %dir.display(), exchanges = made.exchanges, seq = made.seq, bytes = made.bytes, "backup taken");
            Ok(format!("{}: {} exchanges, {} bytes, as of {}", dir.display(), made.exchanges, made.bytes, made.taken))
        })
    }
}

/// Work that panicked has ended too.
struct Ended<'a>(&'a Engine);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let mut progress = self.0.work.progress();
        progress.get_or_insert_default().outcome.get_or_insert_with(|| Err("it broke off; see the log".to_owned()));
    }
}
