//! The one thread that writes. Takes all that waits as one batch: journal, sync, then tells everybody; redb takes the
//! rows of several batches at once. Owns when it does, the checkpoint (when redb is synced and the journal begins again)
//! and what happens when the disk refuses.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redb::{Database, Durability, WriteTransaction};
use tokio::sync::OwnedSemaphorePermit;

use super::disk::{self, OpenStore};
use super::journal::Journal;
use super::medium::Faults;
use super::{After, Op, Shared, StoreError, Written, record, rewrite, tables};
use crate::core::effect::Fact;
use crate::core::ids::Seq;

/// Facts and bytes in one batch at most; the rest waits for the next.
const BATCH: usize = 512;
const BATCH_BYTES: usize = 4 << 20;
/// How long redb may stay unsynced: the journal has everything, but reading it at a start is quick this way.
const CHECKPOINT: Duration = Duration::from_secs(1);
/// How long durable rows may be missing in redb. A transaction costs as much as dozens of rows, and who reads asks for
/// them (`Op::Show`), so this is what followers of the log may lag behind.
const LAG: Duration = Duration::from_millis(10);
/// What is kept in memory while the disk refuses. Beyond it nothing that brings text is let in (`Store::admit`), and who
/// comes and goes is forgotten; what was let in is never dropped, so the ends of what is open come on top.
const BACKLOG: usize = 50_000;
const BACKLOG_BYTES: usize = 64 << 20;
const RETRY: Duration = Duration::from_millis(250);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// Keys looked at with each sync, beside two for each row that came.
const SWEEP: usize = 64;

type Message = (Op, Option<OwnedSemaphorePermit>);

pub(super) struct Writer {
    dir: PathBuf,
    faults: Option<Arc<dyn Faults>>,
    shared: Arc<Shared>,
    disk: Option<Disk>,
    /// The last position given to a fact.
    last: Seq,
    backlog: VecDeque<Row>,
    backlog_bytes: usize,
    retry_at: Instant,
    retry_in: Duration,
}

struct Disk {
    database: Arc<Database>,
    journal: Journal,
    /// What the journal has and redb has not, in order, and since when.
    pending: Vec<Row>,
    pending_since: Instant,
    /// The last position that redb has.
    shown: Seq,
    dirty_since: Option<Instant>,
    /// Up to where old keys were removed, and how many rows came since.
    swept: (String, String),
    unswept: usize,
}

struct Row {
    fact: Fact,
    bytes: Vec<u8>,
}

impl Row {
    /// The fact has the same texts as its bytes.
    fn size(&self) -> usize {
        size_of::<Self>() + 2 * self.bytes.len()
    }
}

impl Writer {
    pub(super) fn new(dir: PathBuf, faults: Option<Arc<dyn Faults>>, opened: OpenStore, shared: Arc<Shared>) -> Self {
        let last = opened.last;
        let (backlog, disk) = (VecDeque::new(), Some(Disk::new(opened)));
        Self { dir, faults, shared, disk, last, backlog, backlog_bytes: 0, retry_at: Instant::now(), retry_in: RETRY }
    }

    pub(super) fn run(mut self, receiver: &Receiver<Message>) {
        let mut next: Option<Message> = None;
        loop {
            let first = match next.take() {
                Some(message) => Ok(message),
                None => receiver.recv_timeout(self.patience()),
            };
            match first {
                Ok((Op::Stop, _)) | Err(RecvTimeoutError::Disconnected) => return self.stop(),
                Err(RecvTimeoutError::Timeout) => {}
                Ok((Op::Agent { name, agent, after }, _permit)) => {
                    let result = self.write_beside(|write| tables::put_agent(write, &name, agent.as_ref()));
                    after(self.verdict(result));
                }
                Ok((Op::Cursor { follower, seq, after }, _permit)) => {
                    let result = self.write_beside(|write| tables::put_cursor(write, &follower, seq));
                    after(self.verdict(result));
                }
                Ok((Op::Keep { what, bytes, after }, _permit)) => {
                    let result = self.write_beside(|write| tables::keep(write, what, &bytes));
                    after(self.verdict(result));
                }
                Ok((Op::Wipe { after }, _permit)) => {
                    let result = self.wipe();
                    after(self.verdict(result));
                }
                Ok((Op::Show { shown }, _permit)) => {
                    self.show();
                    // Nobody may be left to hear it.
                    let _ = shown.send(());
                }
                Ok(message) => next = self.write_batch(message, receiver),
            }
            self.keep_house();
        }
    }

    fn patience(&self) -> Duration {
        let now = Instant::now();
        let due = match &self.disk {
            None => self.retry_at,
            Some(disk) if !disk.pending.is_empty() => disk.pending_since + LAG,
            Some(Disk { dirty_since: Some(since), .. }) => *since + CHECKPOINT,
            Some(_) => now + Duration::from_secs(60),
        };
        due.saturating_duration_since(now)
    }

    /// Writes the first message and what else is waiting. Returns the message that ended the batch.
    fn write_batch(&mut self, first: Message, receiver: &Receiver<Message>) -> Option<Message> {
        let mut rows = Vec::new();
        let mut afters: Vec<After> = Vec::new();
        let mut permits = Vec::new();
        let (mut bytes, mut next, mut rest) = (0, Some(first), None);
        while let Some((op, permit)) = next.take() {
            let Op::Facts { facts, after } = op else {
                rest = Some((op, permit));
                break;
            };
            for fact in facts {
                // Facts are made of checked parts; one that cannot be written is a fault of ours and must not stop the others.
                match record::encode(&fact) {
                    Ok(encoded) => {
                        bytes += encoded.len();
                        rows.push(Row { fact, bytes: encoded });
                    }
                    Err(e) => tracing::error!(error = %e, "a fact could not be encoded"),
                }
            }
            afters.push(after);
            permits.push(permit);
            if rows.len() < BATCH && bytes < BATCH_BYTES {
                next = receiver.try_recv().ok();
            }
        }
        let verdict = self.write(rows);
        drop(permits);
        afters.into_iter().for_each(|after| after(verdict));
        rest
    }

    fn write(&mut self, rows: Vec<Row>) -> Written {
        if rows.is_empty() {
            // Who asks only whether all before is on disk.
            return if self.backlog.is_empty() { Written::Durable } else { Written::Deferred };
        }
        let begun = Instant::now();
        let Err(e) = self.write_rows(&rows) else {
            self.shared.metrics.store_commit.took(begun.elapsed());
            // Without a disk redb has refused earlier rows; these are in the journal, which reopening reads.
            if let Some(disk) = &mut self.disk {
                disk.keep(rows);
            }
            return Written::Durable;
        };
        self.hold_back(rows);
        self.verdict(Err(e))
    }

    /// Keeps in memory what the disk refuses.
    fn hold_back(&mut self, mut rows: Vec<Row>) {
        // With a disk these may be in the journal already, whole or in part: reopening it counts them.
        if self.disk.is_none() && self.is_crowded() {
            rows.retain(|row| !matches!(row.fact, Fact::Presence { .. } | Fact::Audit(_)));
        }
        self.backlog_bytes += rows.iter().map(Row::size).sum::<usize>();
        self.backlog.extend(rows);
        self.shared.crowded.store(self.is_crowded(), Ordering::Release);
    }

    fn is_crowded(&self) -> bool {
        self.backlog.len() >= BACKLOG || self.backlog_bytes >= BACKLOG_BYTES
    }

    /// What to tell about a result; an error closes the disk until it can be opened again.
    fn verdict(&mut self, result: Result<(), StoreError>) -> Written {
        let Err(e) = result else { return Written::Durable };
        self.shared.metrics.store_errors.one();
        if self.disk.take().is_some() {
            self.refused(&e);
        }
        Written::Deferred
    }

    /// One line an outage: a disk that lets itself be opened and then refuses again is still the same one.
    fn refused(&mut self, e: &StoreError) {
        let mut trouble = self.shared.trouble.write().unwrap_or_else(PoisonError::into_inner);
        if trouble.is_none() {
            tracing::error!(error = %e, "the store refuses to write; it is tried again until it recovers");
            *trouble = Some(e.to_string().into());
            self.retry_in = RETRY;
        } else {
            tracing::debug!(error = %e, "the store does not write yet");
            self.retry_in = (self.retry_in * 2).min(LONGEST_RETRY);
        }
        self.retry_at = Instant::now() + self.retry_in;
    }

    /// Once the journal is synced the rows are durable, whatever redb says. While the sync goes on redb takes what earlier
    /// batches left.
    fn write_rows(&mut self, rows: &[Row]) -> Result<(), StoreError> {
        let Some(disk) = &mut self.disk else { return Err(StoreError::Down) };
        let path = self.dir.join("journal");
        let in_journal = |source| StoreError::Journal { path: path.clone(), source };
        disk.journal.append(Seq(self.last.0 + 1), rows.iter().map(|r| r.bytes.as_slice())).map_err(in_journal)?;
        let shown = if disk.is_due() { disk.show(&self.shared) } else { Ok(()) };
        disk.journal.synced().map_err(in_journal)?;
        self.last = Seq(self.last.0 + rows.len() as u64);
        self.shared.durable.store(self.last.0, Ordering::Release);
        self.verdict(shown);
        Ok(())
    }

    /// Has redb take what is durable, so that it can be read.
    fn show(&mut self) {
        if let Some(disk) = &mut self.disk {
            let shown = disk.show(&self.shared);
            self.verdict(shown);
        }
    }

    /// Writes what is no fact; with it redb is synced whole.
    fn write_beside(&mut self, change: impl FnOnce(&WriteTransaction) -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.disk.as_mut().ok_or(StoreError::Down)?.sync(&self.shared, change)
    }

    /// After an erasure: nothing of it stays in the journal, and the next start rewrites the store's file.
    fn wipe(&mut self) -> Result<(), StoreError> {
        self.write_beside(rewrite::mark)?;
        let path = self.dir.join("journal");
        let disk = self.disk.as_mut().ok_or(StoreError::Down)?;
        disk.journal.wipe().map_err(|source| StoreError::Journal { path, source })
    }

    /// Syncs redb when it is time, and opens it again after trouble.
    fn keep_house(&mut self) {
        let Some(disk) = &mut self.disk else {
            if Instant::now() >= self.retry_at {
                self.recover();
            }
            return;
        };
        let checkpoint = disk.dirty_since.is_some_and(|since| since.elapsed() >= CHECKPOINT) || disk.journal.is_full();
        if checkpoint {
            let synced = disk.checkpoint(&self.shared);
            self.verdict(synced);
        } else if disk.is_due() {
            self.show();
        }
    }

    fn recover(&mut self) {
        // The old handle must be gone, or the file counts as open.
        *self.shared.database.write().unwrap_or_else(PoisonError::into_inner) = None;
        match disk::open(&self.dir, self.faults.as_ref()) {
            Err(e) => {
                self.shared.metrics.store_errors.one();
                self.refused(&e);
            }
            Ok(opened) => {
                let database = opened.database.clone();
                // What failed may be in the journal whole: those rows head the backlog and are not written again.
                let there = opened.last.0.saturating_sub(self.last.0);
                self.backlog.drain(..self.backlog.len().min(usize::try_from(there).unwrap_or(usize::MAX)));
                self.last = opened.last;
                self.disk = Some(Disk::new(opened));
                let rows: Vec<Row> = std::mem::take(&mut self.backlog).into();
                self.backlog_bytes = 0;
                self.shared.crowded.store(false, Ordering::Release);
                *self.shared.database.write().unwrap_or_else(PoisonError::into_inner) = Some(database);
                self.shared.durable.store(self.last.0, Ordering::Release);
                self.shared.last.send_replace(self.last);
                let waiting = rows.len();
                if self.write(rows) == Written::Durable {
                    self.shared.say_trouble(None);
                    tracing::info!(waiting, "the store writes again; what waited in memory is on disk");
                }
            }
        }
    }

    fn stop(mut self) {
        if let Some(disk) = &mut self.disk
            && let Err(e) = disk.checkpoint(&self.shared)
        {
            tracing::error!(error = %e, "the last sync failed; the journal has what was acknowledged");
        }
        *self.shared.database.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.shared.say_trouble(Some(StoreError::Down.to_string().into()));
    }
}

impl Disk {
    fn new(opened: OpenStore) -> Self {
        let OpenStore { database, journal, last } = opened;
        let now = Instant::now();
        Self { database, journal, pending: Vec::new(), pending_since: now, shown: last, dirty_since: None, swept: <_>::default(), unswept: 0 }
    }

    /// Durable rows wait here for redb.
    fn keep(&mut self, rows: Vec<Row>) {
        if self.pending.is_empty() {
            self.pending_since = Instant::now();
        }
        self.pending.extend(rows);
    }

    fn is_due(&self) -> bool {
        !self.pending.is_empty() && (self.pending.len() >= BATCH || self.pending_since.elapsed() >= LAG)
    }

    /// A transaction of its own for what waits; it syncs nothing.
    fn show(&mut self, shared: &Shared) -> Result<(), StoreError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut write = self.database.begin_write()?;
        write.set_durability(Durability::None).map_err(|e| StoreError::Redb(Box::new(e.into())))?;
        let shown = self.apply(&write)?;
        write.commit()?;
        self.dirty_since.get_or_insert_with(Instant::now);
        self.has_shown(shown, shared);
        Ok(())
    }

    /// Puts what waits into the transaction; says up to where redb then has everything.
    fn apply(&self, write: &WriteTransaction) -> Result<Seq, StoreError> {
        tables::apply(write, self.shown, self.pending.iter().map(|r| (&r.fact, r.bytes.as_slice())))
    }

    fn has_shown(&mut self, upto: Seq, shared: &Shared) {
        self.unswept += self.pending.len();
        self.pending.clear();
        if upto != self.shown {
            self.shown = upto;
            shared.last.send_replace(upto);
        }
    }

    fn checkpoint(&mut self, shared: &Shared) -> Result<(), StoreError> {
        if self.dirty_since.is_some() || !self.journal.is_empty() {
            return self.sync(shared, |_| Ok(()));
        }
        self.settled();
        Ok(())
    }

    fn sync(&mut self, shared: &Shared, change: impl FnOnce(&WriteTransaction) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut write = self.database.begin_write()?;
        write.set_quick_repair(true);
        let shown = self.apply(&write)?;
        // A transaction that changes nothing would sync nothing.
        write.open_table(tables::META)?.insert("format", tables::FORMAT)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
        self.swept = tables::forget_keys(&write, &self.swept, SWEEP + 2 * self.unswept, now)?;
        change(&write)?;
        write.commit()?;
        self.has_shown(shown, shared);
        self.unswept = 0;
        self.settled();
        Ok(())
    }

    /// Redb has synced all that the journal holds.
    fn settled(&mut self) {
        self.journal.rewind();
        self.dirty_since = None;
    }
}
