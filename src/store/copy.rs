//! A consistent copy of every table into a new file, from one read transaction, in commits of bounded size; and the
//! digest by which two stores are told equal. Owns what counts as equal: the rows of every table, in order.

use std::collections::BTreeMap;
use std::path::Path;

use redb::{
    Builder, Database, Durability, Key, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, TableError,
    TableHandle, Value,
};
use sha2::{Digest, Sha256};

use super::StoreError;
use super::tables::{LOG, META, Visitor, visit};
use crate::core::ids::Seq;

/// A copy needs no upper levels of a tree to be at hand for long.
const CACHE_BYTES: usize = 16 << 20;
/// What is committed, and thereby on disk, at once.
const COMMIT_BYTES: usize = 4 << 20;
const COMMIT_ROWS: usize = 10_000;

/// What a store holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contents {
    pub format: u64,
    /// The last position of the log.
    pub last: Seq,
    pub rows: BTreeMap<String, u64>,
    /// Lower-case hex of the SHA-256 over all rows.
    pub sha256: String,
}

/// Hears how far the work is (stage, done, of) and says whether it shall go on.
pub type Watch<'a> = &'a mut dyn FnMut(&'static str, u64, u64) -> bool;

/// Copies what `from` shows at this moment into a new file.
pub(super) fn copy(from: &impl ReadableDatabase, to: &Path, watch: Watch<'_>) -> Result<Contents, StoreError> {
    let read = from.begin_read()?;
    let into = Builder::new().set_cache_size(CACHE_BYTES).create(to)?;
    walk(&read, Some(&into), "copying", watch)
}

/// Counts and digests everything in a file that nobody has open, without changing it.
pub(super) fn contents(path: &Path, watch: Watch<'_>) -> Result<Contents, StoreError> {
    let database = Builder::new().set_cache_size(CACHE_BYTES).open_read_only(path)?;
    walk(&database.begin_read()?, None, "verifying", watch)
}

fn walk(read: &ReadTransaction, into: Option<&Database>, stage: &'static str, watch: Watch<'_>) -> Result<Contents, StoreError> {
    let mut count = Count { read, rows: BTreeMap::new() };
    visit(&mut count)?;
    let rows = count.rows;
    if let Some(unknown) = read.list_tables()?.map(|t| t.name().to_owned()).find(|name| !rows.contains_key(name)) {
        return Err(StoreError::Record(format!("there is a table {unknown:?} that this version does not know")));
    }
    let of = rows.values().sum();
    let mut walker = Walker { read, into, stage, watch, digest: Sha256::new(), done: 0, of };
    visit(&mut walker)?;
    let sha256 = walker.digest.finalize().iter().map(|b| format!("{b:02x}")).collect();
    let last = read.open_table(LOG)?.last()?.map_or(0, |(seq, _)| seq.value());
    let format = read.open_table(META)?.get("format")?.map_or(0, |f| f.value());
    Ok(Contents { format, last: Seq(last), rows, sha256 })
}

struct Count<'a> {
    read: &'a ReadTransaction,
    rows: BTreeMap<String, u64>,
}

impl Visitor for Count<'_> {
    fn table<K: Key + 'static, V: Value + 'static>(&mut self, table: TableDefinition<'static, K, V>) -> Result<(), StoreError> {
        match self.read.open_table(table) {
            Ok(open) => _ = self.rows.insert(table.name().to_owned(), open.len()?),
            // A file of an earlier version may not have it yet.
            Err(TableError::TableDoesNotExist(_)) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }
}

struct Walker<'a> {
    read: &'a ReadTransaction,
    into: Option<&'a Database>,
    stage: &'static str,
    watch: Watch<'a>,
    digest: Sha256,
    done: u64,
    of: u64,
}

impl Visitor for Walker<'_> {
    fn table<K: Key + 'static, V: Value + 'static>(&mut self, table: TableDefinition<'static, K, V>) -> Result<(), StoreError> {
        let source = match self.read.open_table(table) {
            Ok(source) => source,
            Err(TableError::TableDoesNotExist(_)) => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        self.add(table.name().as_bytes());
        let mut rows = source.iter()?;
        loop {
            let more = match self.into {
                None => self.piece(&mut rows, |_, _| Ok(()))?,
                Some(into) => {
                    let mut write = into.begin_write()?;
                    write.set_durability(Durability::Immediate).map_err(|e| StoreError::Redb(Box::new(e.into())))?;
                    let more = {
                        let mut target = write.open_table(table)?;
                        self.piece(&mut rows, |key, value| target.insert(key, value).map(drop).map_err(StoreError::from))?
                    };
                    write.commit()?;
                    more
                }
            };
            if !(self.watch)(self.stage, self.done, self.of) {
                return Err(StoreError::Interrupted);
            }
            if !more {
                return Ok(());
            }
        }
    }
}

impl Walker<'_> {
    /// Digests and hands on as many rows as one commit takes; whether there are more.
    fn piece<K: Key + 'static, V: Value + 'static>(
        &mut self,
        rows: &mut redb::Range<'_, K, V>,
        mut each: impl FnMut(K::SelfType<'_>, V::SelfType<'_>) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let (mut bytes, mut count) = (0, 0);
        while bytes < COMMIT_BYTES && count < COMMIT_ROWS {
            let Some(row) = rows.next() else { return Ok(false) };
            let (key, value) = row?;
            let (key, value) = (key.value(), value.value());
            bytes += self.add(K::as_bytes(&key).as_ref()) + self.add(V::as_bytes(&value).as_ref());
            count += 1;
            self.done += 1;
            each(key, value)?;
        }
        Ok(true)
    }

    /// Lengths too, so that no two contents run together to the same bytes.
    fn add(&mut self, bytes: &[u8]) -> usize {
        self.digest.update((bytes.len() as u64).to_le_bytes());
        self.digest.update(bytes);
        bytes.len()
    }
}
