//! Feeds the search index from the log, by cursor: opens it in the background, adds what is new, commits twice a second
//! while there is something to commit. A crash, a deleted index and a first start are the same case: it catches up.
//! Never touches the relay's lock, so no ask waits for it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Engine;
use super::history::HistoryError;
use crate::core::effect::Fact;
use crate::core::ids::RequestId;
use crate::search::{self, Index};

/// Between two commits; also how long a new exchange may stay unfound.
const PAUSE: Duration = Duration::from_millis(500);
/// While asks come in, indexing rests so many times as long as it worked, so that it never takes more than a quarter of a
/// core from them; at most so long.
const REST: u32 = 3;
const LONGEST_REST: Duration = Duration::from_secs(5);
/// After something went wrong.
const RETRY: Duration = Duration::from_secs(5);
/// Facts read at once.
const BATCH: usize = 200;
/// A turn ends after so long, so that a rebuild becomes visible bit by bit and a stop is not kept waiting.
const TURN: Duration = Duration::from_millis(2_000);
/// With more than this to read the page says that the index is being built.
const MUCH: u64 = 2_000;

impl Engine {
    /// Ends when the relay stops, after one last turn.
    pub(super) async fn follow_log(self: Arc<Self>) {
        let Some(index) = self.open_index().await else { return };
        let mut last = self.store.last();
        // A command that only passed by does not wait for an index to be built.
        while !self.stopping.is_cancelled() {
            let engine = self.clone();
            let feeding = index.clone();
            let (begun, before) = (Instant::now(), self.last_seq());
            let turn = tokio::task::spawn_blocking(move || engine.feed_index(&feeding)).await;
            let pause = match turn {
                Ok(Ok(caught_up)) => {
                    self.history.building.store(!caught_up, Ordering::Release);
                    let busy = self.last_seq() != before;
                    if caught_up || busy { PAUSE.max((begun.elapsed() * REST).min(LONGEST_REST)) } else { Duration::ZERO }
                }
                Ok(Err(e)) => {
                    tracing::warn!(error = %e, "the search index could not follow; it tries again");
                    RETRY
                }
                Err(_) => {
                    tracing::error!("a turn of the search index panicked; it tries again");
                    RETRY
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stopping.cancelled() => break,
            }
            if pause.is_zero() {
                continue;
            }
            tokio::select! {
                () = self.history.wake.notified() => {}
                changed = last.wait_for(|seq| *seq != index.cursor()) => if changed.is_err() { break },
                () = self.stopping.cancelled() => break,
            }
        }
        let engine = self.clone();
        let closing = move || {
            if engine.indexing().is_none()
                && let Err(e) = engine.feed_index(&index)
            {
                tracing::debug!(error = %e, "the search index missed its last turn; the next start catches up");
            }
            index.close();
        };
        let _ = tokio::task::spawn_blocking(closing).await;
    }

    async fn open_index(self: &Arc<Self>) -> Option<Arc<Index>> {
        if let Some(open) = self.history.index.get() {
            return Some(open.clone());
        }
        loop {
            let dir = self.config().data_dir.clone();
            match tokio::task::spawn_blocking(move || search::open(&dir)).await {
                Ok(Ok(opened)) => {
                    let index = Arc::new(opened.index);
                    let _ = self.history.index.set(index.clone());
                    return Some(index);
                }
                Ok(Err(e)) => tracing::warn!(error = %e, "the search index cannot be opened; it is tried again"),
                Err(_) => tracing::error!("opening the search index panicked"),
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = self.stopping.cancelled() => return None,
            }
        }
    }

    /// One turn: reads on from the cursor, commits, says whether it reached the end. Blocks.
    fn feed_index(&self, index: &Index) -> Result<bool, HistoryError> {
        let last = self.last_seq();
        if self.history.anew.load(Ordering::Acquire) {
            index.clear()?;
            self.history.building.store(true, Ordering::Release);
            self.history.anew.store(false, Ordering::Release);
        }
        if index.cursor() > last {
            tracing::warn!(index = index.cursor().0, log = last.0, "the search index is ahead of the log and is built anew");
            index.clear()?;
        }
        let behind = last.0.saturating_sub(index.cursor().0);
        let begun = Instant::now();
        let mut cursor = index.cursor();
        loop {
            let (facts, upto) = self.store.log(cursor, BATCH)?;
            if upto == cursor {
                break;
            }
            cursor = upto;
            let mut seen = HashSet::new();
            let ids: Vec<RequestId> = facts.iter().filter_map(|(_, f)| f.request()).filter(|id| seen.insert(*id)).collect();
            for record in self.store.records(&ids)? {
                index.add(&record)?;
            }
            for (_, fact) in &facts {
                if let Fact::Erased(erasure) = fact {
                    erasure.ids.iter().try_for_each(|id| index.remove(*id))?;
                }
            }
            if begun.elapsed() > TURN {
                break;
            }
        }
        if cursor != index.cursor() {
            index.commit(cursor)?;
        }
        let end = self.last_seq();
        if behind > MUCH {
            tracing::info!(done = cursor.0, of = end.0, "indexing history");
        }
        Ok(end.0.saturating_sub(cursor.0) <= MUCH)
    }
}
