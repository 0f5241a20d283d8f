//! The files in the data directory: made with no rights for others, opened in the right order, refused when another
//! process or a newer version has them. Owns paths and modes.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redb::{Builder, Database, DatabaseError};

use super::journal::Journal;
use super::medium::{Faults, Medium};
use super::{StoreError, record, tables};
use crate::core::ids::Seq;

/// redb takes 1 GiB by default; 64 MiB hold the upper levels of a store with a million exchanges.
const CACHE_BYTES: usize = 64 << 20;
/// A process that was just killed may hold the lock for a moment.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct OpenStore {
    pub database: Arc<Database>,
    pub journal: Journal,
    pub last: Seq,
}

/// Opens or creates everything, applies what the journal has beyond redb, and begins the journal anew.
pub(super) fn open(dir: &Path, faults: Option<&Arc<dyn Faults>>) -> Result<OpenStore, StoreError> {
    make_directory(dir).map_err(|source| StoreError::Directory { path: dir.to_owned(), source })?;
    let path = dir.join("bridge.redb");
    let database = open_database(&path, faults)?;
    let last = tables::prepare(&database)?;
    let journal_path = dir.join("journal");
    let in_journal = |source| StoreError::Journal { path: journal_path.clone(), source };
    let mut journal = private_file(&journal_path).and_then(|file| journal_on(file, faults)).map_err(in_journal)?;
    let last = catch_up(&database, &journal, last).map_err(|e| match e {
        CatchUp::Io(source) => in_journal(source),
        CatchUp::Store(e) => e,
    })?;
    journal.rewind();
    Ok(OpenStore { database: Arc::new(database), journal, last })
}

fn journal_on(file: File, faults: Option<&Arc<dyn Faults>>) -> io::Result<Journal> {
    Journal::new(Medium::new(file, faults.cloned()).map_err(io::Error::other)?)
}

enum CatchUp {
    Io(io::Error),
    Store(StoreError),
}

impl<E: Into<StoreError>> From<E> for CatchUp {
    fn from(e: E) -> Self {
        Self::Store(e.into())
    }
}

fn catch_up(database: &Database, journal: &Journal, mut last: Seq) -> Result<Seq, CatchUp> {
    let entries = journal.entries(last).map_err(CatchUp::Io)?;
    if entries.is_empty() {
        return Ok(last);
    }
    let mut write = database.begin_write()?;
    write.set_quick_repair(true);
    for entry in entries {
        let known = usize::try_from(last.0 + 1 - entry.first.0).unwrap_or(0);
        let rows = entry.rows.into_iter().skip(known);
        let decoded = rows.map(|bytes| Ok((record::decode(&bytes)?, bytes))).collect::<Result<Vec<_>, StoreError>>()?;
        last = tables::apply(&write, last, decoded.iter().map(|(fact, bytes)| (fact, bytes.as_slice())))?;
    }
    write.commit()?;
    tracing::info!(last = last.0, "took up what an earlier run had not synced");
    Ok(last)
}

fn open_database(path: &Path, faults: Option<&Arc<dyn Faults>>) -> Result<Database, StoreError> {
    let started = Instant::now();
    loop {
        match try_open(path, faults) {
            Err(DatabaseError::DatabaseAlreadyOpen) if started.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(DatabaseError::DatabaseAlreadyOpen) => return Err(StoreError::InUse { path: path.to_owned() }),
            Err(e) => return Err(StoreError::Open { path: path.to_owned(), source: Box::new(e.into()) }),
            Ok(Found::Newer(found)) => {
                return Err(StoreError::Newer { path: path.to_owned(), found, known: tables::FORMAT });
            }
            Ok(Found::Usable(database)) => return Ok(database),
        }
    }
}

enum Found {
    Usable(Database),
    Newer(u64),
}

fn try_open(path: &Path, faults: Option<&Arc<dyn Faults>>) -> Result<Found, DatabaseError> {
    // Looked at read-only first: a file of a newer version must stay as it is.
    if path.metadata().is_ok_and(|m| m.len() > 0)
        && let Ok(database) = Builder::new().open_read_only(path)
        && let Ok(Some(found)) = tables::format(&database)
        && found > tables::FORMAT
    {
        return Ok(Found::Newer(found));
    }
    let medium = Medium::new(private_file(path)?, faults.cloned())?;
    let repair = |session: &mut redb::RepairSession| {
        tracing::warn!(done = session.progress(), "the store was not closed well and is being repaired");
    };
    let database = Builder::new().set_cache_size(CACHE_BYTES).set_repair_callback(repair).create_with_backend(medium)?;
    // A file that had to be repaired could not be looked at read-only.
    match tables::format(&database) {
        Ok(Some(found)) if found > tables::FORMAT => Ok(Found::Newer(found)),
        _ => Ok(Found::Usable(database)),
    }
}

/// The directory, readable by its owner alone. One that exists keeps its mode but loses the rights of others.
fn make_directory(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let mode = dir.metadata()?.permissions().mode();
    if mode & 0o077 != 0 {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(mode & 0o700))?;
    }
    Ok(())
}

fn private_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 != 0 {
        file.set_permissions(PermissionsExt::from_mode(mode & 0o700))?;
    }
    Ok(file)
}
