//! A file that can only be read, which redb takes for one that it may write: what is written stays in memory and is gone with
//! it. Owns nothing on disk. So a store can be opened, repaired and checked whole, and stays as it is to the last byte.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

const PAGE: u64 = 4096;

#[derive(Debug)]
pub(super) struct Overlay {
    file: FileBackend,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    len: u64,
    /// Beyond it nothing of the file shows: it was cut there once.
    shows: u64,
    /// By number, each of `PAGE` bytes.
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    /// `file` needs to be open for reading only.
    pub(super) fn new(file: File) -> Result<Self, DatabaseError> {
        let file = FileBackend::new(file)?;
        let len = file.len()?;
        Ok(Self { file, written: Mutex::new(Written { len, shows: len, pages: BTreeMap::new() }) })
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the file shows at `offset`, zeros beyond.
    fn below(&self, written: &Written, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let shown = out.len().min(usize::try_from(written.shows.saturating_sub(offset)).unwrap_or(usize::MAX));
        self.file.read(offset, &mut out[..shown])?;
        out[shown..].fill(0);
        Ok(())
    }
}

/// Where the part of a page from `from` to `to` lies in it.
fn within(page: u64, from: u64, to: u64) -> std::ops::Range<usize> {
    (from - page * PAGE) as usize..(to - page * PAGE) as usize
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written();
        let end = offset + out.len() as u64;
        if end > written.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.below(&written, offset, out)?;
        for (page, bytes) in written.pages.range(offset / PAGE..end.div_ceil(PAGE)) {
            let (from, to) = (offset.max(page * PAGE), end.min((page + 1) * PAGE));
            out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(&bytes[within(*page, from, to)]);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.written();
        if len < written.len {
            written.shows = written.shows.min(len);
            written.pages.retain(|page, _| page * PAGE < len);
            if let Some(bytes) = written.pages.get_mut(&(len / PAGE)) {
                bytes[(len % PAGE) as usize..].fill(0);
            }
        }
        written.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written();
        let end = offset + data.len() as u64;
        for page in offset / PAGE..end.div_ceil(PAGE) {
            let mut bytes = match written.pages.remove(&page) {
                Some(bytes) => bytes,
                None => {
                    let mut bytes = vec![0; PAGE as usize];
                    self.below(&written, page * PAGE, &mut bytes)?;
                    bytes
                }
            };
            let (from, to) = (offset.max(page * PAGE), end.min((page + 1) * PAGE));
            bytes[within(page, from, to)].copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
            written.pages.insert(page, bytes);
        }
        written.len = written.len.max(end);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    /// A file that is open for reading can be held with others only; that keeps off whoever writes.
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn it_reads_as_what_was_written_and_the_file_keeps_its_bytes() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let before: Vec<u8> = (0..10_000_u32).map(|n| (n % 251) as u8).collect();
        file.write_all(&before).unwrap();
        let overlay = Overlay::new(File::open(file.path()).unwrap()).unwrap();
        let mut wanted = before.clone();
        let all = || {
            let mut out = vec![9; overlay.len().unwrap() as usize];
            overlay.read(0, &mut out).unwrap();
            out
        };
        for (offset, size) in [(0, 1), (4090, 10), (4096, 4096), (100, 9_000), (9_990, 5_000), (20_000, 3)] {
            let data = vec![(offset % 200) as u8; size];
            overlay.write(offset, &data).unwrap();
            wanted.resize(wanted.len().max(offset as usize + size), 0);
            wanted[offset as usize..offset as usize + size].copy_from_slice(&data);
            assert_eq!(all(), wanted, "{size} at {offset}");
            let mut part = vec![0; 5_000];
            overlay.read(3_000, &mut part).unwrap();
            assert_eq!(part, wanted[3_000..8_000]);
        }
        for len in [5_000, 9_000, 0, 4_097] {
            overlay.set_len(len).unwrap();
            wanted.resize(len as usize, 0);
            assert_eq!(all(), wanted, "cut to {len}");
        }
        assert!(overlay.read(4_000, &mut [0; 98]).is_err());
        assert_eq!(std::fs::read(file.path()).unwrap(), before);
    }
}
