//! Backups: a directory with the store in one file, a manifest and the checksums of both (`sha256sum -c SHA256SUMS` checks
//! them too). Owns its layout, how one is made, verified and put back. A backup is whole or not there: it is written
//! beside its place and renamed at the end. The search index is not in it: it is made from the store.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use redb::{Builder, DatabaseError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::copy::{Contents, Watch, contents, copy};
use super::{Store, StoreError, tables};
use crate::core::ids::Seq;

/// The number of this layout of a backup.
const LAYOUT: u32 = 1;
const STORE: &str = "bridge.redb";
const MANIFEST: &str = "manifest.json";
const SUMS: &str = "SHA256SUMS";
const PIECE: usize = 1 << 20;
/// Synced at once, so that no sync is silent for long.
const SYNC: usize = 64 << 20;

/// What a backup says of itself.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    pub backup: u32,
    /// The hermes-bridge that made it.
    pub version: String,
    /// The format of the store in it.
    pub format: u64,
    /// RFC 3339.
    pub taken: String,
    /// The last position of the log that is in it.
    pub seq: u64,
    pub exchanges: u64,
    pub rows: std::collections::BTreeMap<String, u64>,
    /// Over all rows, whatever the file around them looks like.
    pub content_sha256: String,
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{} is there already and not empty: name a directory that does not exist yet", .0.display())]
    Exists(PathBuf),
    #[error("cannot {what} {}: {source}{}", path.display(), hint(source))]
    Files { what: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{} is no whole backup: {why}. Nothing was changed; take another backup", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("{} was made by hermes-bridge {version}, which is newer than this one: restore it with that version", path.display())]
    Newer { path: PathBuf, version: String },
    #[error("{} has a store already. Nothing was changed; --force moves it aside and puts the backup in its place", .0.display())]
    Occupied(PathBuf),
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            "; a service with ProtectSystem= may write only to its StateDirectory= and to what ReadWritePaths= names"
        }
        _ => "",
    }
}

fn files<'a>(what: &'static str, path: &'a Path) -> impl Fn(io::Error) -> BackupError + 'a {
    move |source| BackupError::Files { what, path: path.to_owned(), source }
}

impl Store {
    /// Writes all that is on record at this moment into the new directory `dir`, and reads it again. Blocks for as long as
    /// it takes and holds nothing that the writer waits for. `taken` is the moment in RFC 3339.
    pub fn backup(&self, dir: &Path, taken: &str, watch: Watch<'_>) -> Result<Manifest, BackupError> {
        let name = dir.file_name().ok_or_else(|| BackupError::Exists(dir.to_owned()))?;
        if !is_free(dir).map_err(files("look into", dir))? {
            return Err(BackupError::Exists(dir.to_owned()));
        }
        let parent = dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        make_private(parent).map_err(files("make", parent))?;
        let partial = parent.join(format!(".{}.partial", name.to_string_lossy()));
        remove(&partial).map_err(files("remove", &partial))?;
        let made = self.write_backup(&partial, taken, watch).and_then(|manifest| {
            fs::rename(&partial, dir).map_err(files("put the finished backup into", dir))?;
            sync_directory(parent).map_err(files("sync", parent))?;
            Ok(manifest)
        });
        if made.is_err() {
            // The error is told; what is left of the attempt is only in the way.
            let _ = remove(&partial);
        }
        made
    }

    fn write_backup(&self, dir: &Path, taken: &str, watch: Watch<'_>) -> Result<Manifest, BackupError> {
        DirBuilder::new().mode(0o700).create(dir).map_err(files("make", dir))?;
        let path = dir.join(STORE);
        let database = self.database()?;
        let found = copy(&*database, &path, watch)?;
        drop(database);
        if contents(&path, watch)? != found {
            return Err(BackupError::Damaged { path, why: "what was written reads differently".to_owned() });
        }
        let file = File::open(&path).map_err(files("open", &path))?;
        let bytes = file.metadata().map_err(files("look at", &path))?.len();
        file.sync_all().map_err(files("sync", &path))?;
        let manifest = Manifest::of(found, taken, bytes);
        let text = serde_json::to_string_pretty(&manifest).map_err(|e| StoreError::Record(e.to_string()))?;
        write_new(&dir.join(MANIFEST), format!("{text}\n").as_bytes())?;
        let sums = sums(dir, watch)?;
        write_new(&dir.join(SUMS), sums.as_bytes())?;
        sync_directory(dir).map_err(files("sync", dir))?;
        Ok(manifest)
    }
}

impl Manifest {
    fn of(found: Contents, taken: &str, bytes: u64) -> Self {
        Self {
            backup: LAYOUT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            format: found.format,
            taken: taken.to_owned(),
            seq: found.last.0,
            exchanges: found.rows.get("exchanges").copied().unwrap_or(0),
            rows: found.rows,
            content_sha256: found.sha256,
            bytes,
        }
    }
}

/// Whether there is a backup in `dir`; whether it is whole is for `verify`.
#[must_use]
pub fn is_backup(dir: &Path) -> bool {
    dir.join(MANIFEST).is_file()
}

/// Whether `dir` is a whole backup, to the last byte, that this version can put back.
pub fn verify(dir: &Path, watch: Watch<'_>) -> Result<Manifest, BackupError> {
    let damaged = |why: String| BackupError::Damaged { path: dir.to_owned(), why };
    for name in [STORE, MANIFEST, SUMS] {
        if !dir.join(name).is_file() {
            return Err(damaged(format!("it has no {name}")));
        }
    }
    let said = fs::read(dir.join(SUMS)).map_err(files("read", dir))?;
    if sums(dir, watch)?.as_bytes() != said {
        return Err(damaged(format!("its files are not those that {SUMS} names")));
    }
    let text = fs::read(dir.join(MANIFEST)).map_err(files("read", dir))?;
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|e| damaged(format!("{MANIFEST}: {e}")))?;
    if manifest.backup > LAYOUT || manifest.format > tables::FORMAT {
        return Err(BackupError::Newer { path: dir.to_owned(), version: manifest.version });
    }
    let found = contents(&dir.join(STORE), watch)?;
    let same = Contents { format: manifest.format, last: Seq(manifest.seq), rows: manifest.rows.clone(), sha256: manifest.content_sha256.clone() };
    if found != same {
        return Err(damaged("its rows are not those that its manifest counts".to_owned()));
    }
    Ok(manifest)
}

/// Verifies the backup and puts it into `data_dir`, where no relay may run. With `aside` a store that is there is moved into
/// a new directory of that name below `data_dir`; without it, it is refused.
pub fn restore(dir: &Path, data_dir: &Path, aside: Option<&str>, watch: Watch<'_>) -> Result<Manifest, BackupError> {
    let manifest = verify(dir, watch)?;
    make_private(data_dir).map_err(files("make", data_dir))?;
    not_in_use(&data_dir.join(STORE))?;
    let there = store_files(data_dir).map_err(files("look into", data_dir))?;
    if !there.is_empty() && aside.is_none() {
        return Err(BackupError::Occupied(data_dir.to_owned()));
    }
    let arriving = data_dir.join(".restoring");
    let copied = copy_whole(&dir.join(STORE), &arriving, manifest.bytes, watch);
    if copied.is_err() {
        // The error is told; half a store is only in the way.
        let _ = fs::remove_file(&arriving);
    }
    copied?;
    if let Some(aside) = aside.filter(|_| !there.is_empty()) {
        let aside = data_dir.join(aside);
        make_private(&aside).map_err(files("make", &aside))?;
        for path in &there {
            let to = aside.join(path.file_name().unwrap_or_default());
            fs::rename(path, &to).map_err(files("move aside", path))?;
        }
    }
    fs::rename(&arriving, data_dir.join(STORE)).map_err(files("put the store into", data_dir))?;
    sync_directory(data_dir).map_err(files("sync", data_dir))?;
    Ok(manifest)
}

/// What belongs to a store in a data directory.
fn store_files(data_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(data_dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name == STORE || name == "journal" || name.starts_with("index-v") {
            found.push(entry.path());
        }
    }
    Ok(found)
}

pub(super) fn remove_index(data_dir: &Path) -> io::Result<()> {
    store_files(data_dir)?.iter().filter(|path| path.is_dir()).try_for_each(|path| remove(path))
}

fn not_in_use(path: &Path) -> Result<(), StoreError> {
    if !path.exists() {
        return Ok(());
    }
    match Builder::new().open_read_only(path) {
        Err(DatabaseError::DatabaseAlreadyOpen) => Err(StoreError::InUse { path: path.to_owned() }),
        // Whatever else is wrong with it, it may be moved aside.
        _ => Ok(()),
    }
}

/// The text of SHA256SUMS for the files as they are.
fn sums(dir: &Path, watch: Watch<'_>) -> Result<String, BackupError> {
    let mut text = String::new();
    for name in [STORE, MANIFEST] {
        let path = dir.join(name);
        let bytes = path.metadata().map_err(files("look at", &path))?.len();
        text.push_str(&format!("{}  {name}\n", hash(&path, bytes, watch)?));
    }
    Ok(text)
}

fn hash(path: &Path, of: u64, watch: Watch<'_>) -> Result<String, BackupError> {
    pieces(path, of, "checksums", watch, |_, _| Ok(()))
}

/// Copies piece by piece, synced as it goes, so that who waits sees how far it really is; and reads the copy again.
fn copy_whole(from: &Path, to: &Path, of: u64, watch: Watch<'_>) -> Result<(), BackupError> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to).map_err(files("write", to))?;
    let mut unsynced = 0;
    let read = pieces(from, of, "copying", watch, |piece, last| {
        file.write_all(piece).map_err(files("write", to))?;
        unsynced += piece.len();
        if last || unsynced >= SYNC {
            unsynced = 0;
            file.sync_all().map_err(files("sync", to))?;
        }
        Ok(())
    })?;
    if hash(to, of, watch)? != read {
        return Err(BackupError::Damaged { path: to.to_owned(), why: "the copy in the data directory reads differently".to_owned() });
    }
    Ok(())
}

/// Hands on a file piece by piece, an empty one at the end, and digests it.
fn pieces(
    path: &Path,
    of: u64,
    stage: &'static str,
    watch: Watch<'_>,
    mut each: impl FnMut(&[u8], bool) -> Result<(), BackupError>,
) -> Result<String, BackupError> {
    let mut file = File::open(path).map_err(files("open", path))?;
    let (mut digest, mut piece, mut done) = (Sha256::new(), vec![0; PIECE], 0);
    loop {
        let n = file.read(&mut piece).map_err(files("read", path))?;
        each(&piece[..n], n == 0)?;
        if n == 0 {
            return Ok(digest.finalize().iter().map(|b| format!("{b:02x}")).collect());
        }
        digest.update(&piece[..n]);
        done += n as u64;
        if !watch(stage, done, of) {
            return Err(StoreError::Interrupted.into());
        }
    }
}

fn is_free(dir: &Path) -> io::Result<bool> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(e) => Err(e),
    }
}

fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<(), BackupError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all())).map_err(files("write", path))
}

fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
