//! Whether the files of an index can be trusted. Owns the mark of a clean end, the checks at the start and the reasons for
//! building anew; never repairs anything: a doubtful index is deleted by `index`.
//!
//! After a clean end sizes and times of the files are compared with the mark, which reads none of them. Without the mark,
//! or when a time differs (a restored backup), every checksum is verified, which reads them all.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use tantivy::Index;

use super::schema::VERSION;
use crate::core::ids::Seq;

const MARK: &str = "clean";

/// Why an index was made anew.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// There was none of this version.
    Missing,
    /// What was wrong with it.
    Damaged(String),
    /// It was emptied on request.
    Cleared,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "there is no search index of version {VERSION}"),
            Self::Damaged(what) => write!(f, "the search index was damaged ({what})"),
            Self::Cleared => f.write_str("the search index was emptied"),
        }
    }
}

/// Name, size and time of every file of the last commit; `None` if one cannot be read.
fn listing(dir: &Path, index: &Index) -> Option<String> {
    let mut lines = String::new();
    for name in files(index).ok()? {
        let meta = fs::metadata(dir.join(&name)).ok()?;
        let time = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
        lines.push_str(&format!("{} {time} {}\n", meta.len(), name.display()));
    }
    Some(lines)
}

/// What every segment of ours consists of. Tantivy notices only some of them missing when it opens the index.
const PARTS: [&str; 6] = ["term", "idx", "pos", "fast", "fieldnorm", "store"];

/// The files of the last commit: all that it needs, and those that some segments have.
fn files(index: &Index) -> tantivy::Result<BTreeSet<PathBuf>> {
    let directory = index.directory();
    let mut names = BTreeSet::from([PathBuf::from("meta.json"), PathBuf::from(".managed.json")]);
    for name in index.load_metas()?.list_segment_files() {
        let needed = name.extension().and_then(|e| e.to_str()).is_some_and(|e| PARTS.contains(&e));
        if needed || tantivy::Directory::exists(directory, &name).unwrap_or(true) {
            names.insert(name);
        }
    }
    Ok(names)
}

/// Up to where the index under `data_dir` has followed the log, by what its directory says, without opening or changing it; `None`
/// if there is none of this version.
pub fn glance(data_dir: &Path) -> Result<Option<Seq>, String> {
    let path = data_dir.join(format!("index-v{VERSION}"));
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read(path.join("meta.json")).map_err(|e| format!("{}: meta.json: {e}", path.display()))?;
    let meta: serde_json::Value = serde_json::from_slice(&text).map_err(|e| format!("{}: meta.json: {e}", path.display()))?;
    // Before its first commit it says nothing.
    Ok(Some(Seq(meta["payload"].as_str().and_then(|p| p.parse().ok()).unwrap_or(0))))
}

/// Writes the mark. A mark that cannot be written costs the next start a full check and nothing else.
pub(super) fn mark_clean(dir: &Path, index: &Index) {
    if let Some(lines) = listing(dir, index)
        && let Err(error) = fs::write(dir.join(MARK), lines)
    {
        tracing::warn!(dir = %dir.display(), %error, "cannot mark the search index as cleanly closed");
    }
}

/// Takes the mark away, for whatever is written from now on is not covered by it.
pub(super) fn take_mark(dir: &Path) -> io::Result<Option<String>> {
    let path = dir.join(MARK);
    match fs::read_to_string(&path) {
        Ok(mark) => fs::remove_file(&path).map(|()| Some(mark)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => fs::remove_file(&path).map(|()| None),
        Err(error) => Err(error),
    }
}

/// What is wrong, if anything.
pub(super) fn examine(dir: &Path, index: &Index, mark: Option<&str>) -> Option<String> {
    if mark.is_some() && listing(dir, index).as_deref() == mark {
        return None;
    }
    let names = match files(index) {
        Ok(names) => names,
        Err(error) => return Some(error.to_string()),
    };
    for name in names.iter().filter(|name| name.extension().is_some_and(|e| e != "json")) {
        match index.directory().validate_checksum(name) {
            Ok(true) => {}
            Ok(false) => return Some(format!("{} does not have its checksum", name.display())),
            Err(error) => return Some(format!("{}: {error}", name.display())),
        }
    }
    None
}
