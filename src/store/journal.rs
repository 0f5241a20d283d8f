//! The file `journal`: batches of facts in the order of the log, each on disk before anybody hears of it. Written round
//! and round: after redb has synced what it holds, it begins again at the front. Owns the layout and the rule by which a
//! torn or stale entry is told from a good one; knows nothing of what the facts mean.
//!
//! Entry: magic, length, first position, count, checksum (little endian), then `count` rows of length and bytes. The
//! chain ends at the first entry that is not whole or does not continue the positions: what follows is an earlier lap.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use redb::StorageBackend;

use super::medium::Medium;
use crate::core::ids::Seq;

const MAGIC: u32 = 0x314a_4248;
const HEADER: usize = 24;
/// Past this the journal asks for a checkpoint. One entry may reach beyond it.
const FULL: u64 = 32 << 20;
/// The file grows by so many zero bytes at a time: syncing bytes inside the file is far cheaper than syncing its length.
const CHUNK: u64 = 1 << 20;

pub(super) struct Journal {
    file: Arc<Medium>,
    syncer: Syncer,
    at: u64,
    grown: u64,
    buffer: Vec<u8>,
}

/// One batch as it was found.
pub(super) struct Entry {
    pub first: Seq,
    pub rows: Vec<Vec<u8>>,
}

impl Journal {
    pub(super) fn new(file: Medium) -> io::Result<Self> {
        let grown = file.len()?;
        let file = Arc::new(file);
        Ok(Self { syncer: Syncer::new(file.clone())?, file, at: 0, grown, buffer: Vec::new() })
    }

    /// The entries that continue the log after `applied`, oldest first. Reading stops at the first that is not whole.
    pub(super) fn entries(&self, applied: Seq) -> io::Result<Vec<Entry>> {
        let mut bytes = vec![0; usize::try_from(self.grown).unwrap_or(0)];
        self.file.read(0, &mut bytes)?;
        let mut entries = Vec::new();
        let (mut rest, mut expected) = (bytes.as_slice(), None);
        while let Some((entry, after)) = read_entry(rest) {
            let next = entry.first.0 + entry.rows.len() as u64;
            let continues = expected.unwrap_or(entry.first.0.min(applied.0 + 1)) == entry.first.0;
            if !continues {
                break;
            }
            expected = Some(next);
            rest = after;
            if next > applied.0 + 1 {
                entries.push(entry);
            }
        }
        Ok(entries)
    }

    /// Writes a batch and begins to sync it. Nothing of it may be taken as written before `synced` says so.
    pub(super) fn append<'a>(&mut self, first: Seq, rows: impl ExactSizeIterator<Item = &'a [u8]>) -> io::Result<()> {
        let count = rows.len() as u32;
        self.buffer.clear();
        self.buffer.resize(HEADER, 0);
        for row in rows {
            self.buffer.extend_from_slice(&(row.len() as u32).to_le_bytes());
            self.buffer.extend_from_slice(row);
        }
        let header = header(first, count, &self.buffer[HEADER..]);
        self.buffer[..HEADER].copy_from_slice(&header);
        self.make_room(self.at + self.buffer.len() as u64)?;
        self.file.write(self.at, &self.buffer)?;
        self.syncer.begin()?;
        self.at += self.buffer.len() as u64;
        self.buffer.shrink_to(CHUNK as usize);
        Ok(())
    }

    /// Waits until the batch that was appended last is on disk.
    pub(super) fn synced(&self) -> io::Result<()> {
        self.syncer.end()
    }

    fn make_room(&mut self, end: u64) -> io::Result<()> {
        while self.grown < end {
            self.file.write(self.grown, &vec![0; CHUNK as usize])?;
            self.grown += CHUNK;
        }
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
        self.at >= FULL
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// Begins again in an empty file, so that nothing of earlier laps is left in it.
    pub(super) fn wipe(&mut self) -> io::Result<()> {
        self.rewind();
        self.grown = 0;
        self.file.set_len(0)?;
        self.file.sync_data()
    }

    /// Begins again at the front. Only when redb has synced everything appended so far.
    pub(super) fn rewind(&mut self) {
        self.at = 0;
    }
}

/// Syncs on a thread of its own, so that the batch can be put into redb meanwhile. The thread ends with the journal.
struct Syncer {
    orders: Sender<()>,
    done: Receiver<io::Result<()>>,
}

impl Syncer {
    fn new(file: Arc<Medium>) -> io::Result<Self> {
        let (orders, ordered) = channel();
        let (report, done) = channel();
        let work = move || {
            while ordered.recv().is_ok() {
                if report.send(file.sync_data()).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("journal".into()).spawn(work)?;
        Ok(Self { orders, done })
    }

    fn begin(&self) -> io::Result<()> {
        self.orders.send(()).map_err(|_| gone())
    }

    fn end(&self) -> io::Result<()> {
        self.done.recv().map_err(|_| gone())?
    }
}

fn gone() -> io::Error {
    io::Error::other("the journal's thread is gone")
}

fn header(first: Seq, count: u32, payload: &[u8]) -> [u8; HEADER] {
    let mut head = [0; HEADER];
    head[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    head[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    head[8..16].copy_from_slice(&first.0.to_le_bytes());
    head[16..20].copy_from_slice(&count.to_le_bytes());
    let mut sum = crc32fast::Hasher::new();
    sum.update(&head[0..20]);
    sum.update(payload);
    head[20..24].copy_from_slice(&sum.finalize().to_le_bytes());
    head
}

fn read_entry(bytes: &[u8]) -> Option<(Entry, &[u8])> {
    let head = bytes.get(..HEADER)?;
    let word = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let len = word(4)? as usize;
    let first = Seq(u64::from_le_bytes(head.get(8..16)?.try_into().ok()?));
    let payload = bytes.get(HEADER..HEADER + len)?;
    if word(0)? != MAGIC || header(first, word(16)?, payload) != *head {
        return None;
    }
    let (mut rows, mut rest) = (Vec::new(), payload);
    while let Some((size, after)) = rest.split_first_chunk::<4>() {
        let size = u32::from_le_bytes(*size) as usize;
        rows.push(after.get(..size)?.to_vec());
        rest = after.get(size..)?;
    }
    (rows.len() == word(16)? as usize && !rows.is_empty()).then_some((Entry { first, rows }, &bytes[HEADER + len..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        Journal::new(Medium::new(tempfile::tempfile().unwrap(), None).unwrap()).unwrap()
    }

    fn append(j: &mut Journal, first: u64, rows: &[Vec<u8>]) {
        j.append(Seq(first), rows.iter().map(Vec::as_slice)).unwrap();
        j.synced().unwrap();
    }

    fn rows(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|w| w.as_bytes().to_vec()).collect()
    }

    fn found(journal: &Journal, applied: u64) -> Vec<(u64, Vec<Vec<u8>>)> {
        journal.entries(Seq(applied)).unwrap().into_iter().map(|e| (e.first.0, e.rows)).collect()
    }

    #[test]
    fn what_was_appended_is_found_in_order() {
        let mut j = journal();
        append(&mut j, 1, &rows(&["a", "b"]));
        append(&mut j, 3, &rows(&["c"]));
        assert_eq!(found(&j, 0), [(1, rows(&["a", "b"])), (3, rows(&["c"]))]);
        assert_eq!(found(&j, 2), [(3, rows(&["c"]))]);
        assert_eq!(found(&j, 3), []);
    }

    #[test]
    fn an_earlier_lap_is_not_taken_for_a_newer_one() {
        let mut j = journal();
        for seq in 1..=5 {
            append(&mut j, seq, &rows(&["same length"]));
        }
        j.rewind();
        append(&mut j, 6, &rows(&["same length"]));
        assert_eq!(found(&j, 5), [(6, rows(&["same length"]))]);
    }

    #[test]
    fn a_torn_or_flipped_entry_ends_the_chain() {
        let mut j = journal();
        append(&mut j, 1, &rows(&["whole"]));
        let second = j.at;
        append(&mut j, 2, &rows(&["torn"]));
        for at in second..j.at {
            let mut byte = [0];
            j.file.read(at, &mut byte).unwrap();
            j.file.write(at, &[byte[0] ^ 0x40]).unwrap();
            assert_eq!(found(&j, 0), [(1, rows(&["whole"]))], "flipped byte {at}");
            j.file.write(at, &byte).unwrap();
        }
    }

    #[test]
    fn a_gap_between_store_and_journal_is_never_bridged() {
        let mut j = journal();
        append(&mut j, 9, &rows(&["from elsewhere"]));
        assert_eq!(found(&j, 3), []);
    }
}
