//! The store's file written anew: what was freed goes back to the disk, and no page holds anything that was erased. Only of
//! a stopped relay; an erasure in a running one leaves a mark, and the next start does it.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use redb::{Builder, Database, ReadableDatabase, WriteTransaction};

use super::copy::{Watch, contents, copy};
use super::disk::{self, OpenStore};
use super::tables::META;
use super::{StoreError, backup};

const MARK: &str = "rewrite";

pub(super) fn mark(write: &WriteTransaction) -> Result<(), StoreError> {
    write.open_table(META)?.insert(MARK, 1)?;
    Ok(())
}

fn marked(path: &Path) -> Result<bool, StoreError> {
    // What cannot be looked at so is opened, and mended, later.
    let Ok(database) = Builder::new().open_read_only(path) else { return Ok(false) };
    Ok(match database.begin_read()?.open_table(META) {
        Ok(meta) => meta.get(MARK)?.is_some(),
        Err(_) => false,
    })
}

/// Rewrites the store in `dir` if an erasure asks for it; whether it did.
pub fn rewrite_if_marked(dir: &Path, watch: Watch<'_>) -> Result<bool, StoreError> {
    let path = dir.join("bridge.redb");
    Ok(path.exists() && marked(&path)? && rewrite(dir, watch).map(|_| true)?)
}

/// Rewrites the store in `dir`, which nobody has open: its bytes before and after. Needs room for a second file.
pub fn rewrite(dir: &Path, watch: Watch<'_>) -> Result<(u64, u64), StoreError> {
    let (path, new) = (dir.join("bridge.redb"), dir.join("bridge.redb.new"));
    let failed = |source| StoreError::Directory { path: dir.to_owned(), source };
    let erased = marked(&path)?;
    // Takes up the journal as well.
    let OpenStore { database, mut journal, .. } = disk::open(dir, None)?;
    let before = path.metadata().map_err(failed)?.len();
    match fs::remove_file(&new) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    let found = copy(&*database, &new, watch)?;
    if contents(&new, watch)? != found {
        return Err(StoreError::Damaged { path: new, why: "what was written reads differently".to_owned() });
    }
    unmark(&Database::open(&new)?)?;
    drop(database);
    let put = fs::set_permissions(&new, PermissionsExt::from_mode(0o600))
        .and_then(|()| File::open(&new)?.sync_all())
        .and_then(|()| fs::rename(&new, &path))
        .and_then(|()| File::open(dir)?.sync_all());
    put.map_err(failed)?;
    journal.wipe().map_err(|source| StoreError::Journal { path: dir.join("journal"), source })?;
    if erased {
        // Its words are in the index; it is made anew from what is left.
        backup::remove_index(dir).map_err(failed)?;
    }
    Ok((before, path.metadata().map_err(failed)?.len()))
}

fn unmark(database: &Database) -> Result<(), StoreError> {
    let write = database.begin_write()?;
    write.open_table(META)?.remove(MARK)?;
    Ok(write.commit()?)
}
