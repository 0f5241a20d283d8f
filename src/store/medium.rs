//! A file as the store sees it, for redb and the journal alike. Owns nothing but the way to the disk, and the one seam at
//! which tests make the disk refuse.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

/// Says of each change to a file whether the disk takes it. There is none outside tests.
pub trait Faults: Debug + Send + Sync {
    fn before(&self, what: Access) -> io::Result<()>;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Write,
    Sync,
}

#[derive(Debug)]
pub(super) struct Medium {
    file: FileBackend,
    faults: Option<Arc<dyn Faults>>,
}

type Locked<T> = Result<T, BackendError>;

impl Medium {
    pub(super) fn new(file: File, faults: Option<Arc<dyn Faults>>) -> Result<Self, DatabaseError> {
        Ok(Self { file: FileBackend::new(file)?, faults })
    }

    fn ask(&self, what: Access) -> io::Result<()> {
        self.faults.as_ref().map_or(Ok(()), |f| f.before(what))
    }
}

impl StorageBackend for Medium {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.ask(Access::Write)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.ask(Access::Sync)?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.ask(Access::Write)?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<bool> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<bool> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<()> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<()> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<()> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<bool> {
        self.file.query_lock_range(start, end)
    }
}
