//! A look at a store that nobody has open, without changing a byte of it: not after a crash either, not of an old format. For
//! `check`, which promises so. What a start would repair is repaired in memory only.

use std::fs::File;
use std::io;
use std::path::Path;

use redb::{Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, ReadableTableMetadata};

use super::journal::Journal;
use super::medium::Medium;
use super::overlay::Overlay;
use super::tables::{EXCHANGES, FORMAT, LOG, OPEN};
use super::{StoreError, read, record, tables};
use crate::core::ids::{AgentName, Millis, Seq};

/// Rows of the log read, the newest, to see whether they can be; all of them in a deep look.
const SAMPLE: usize = 1_000;

/// What a store holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// 0 for a file in which nothing was ever recorded.
    pub format: u64,
    pub exchanges: u64,
    pub open: u64,
    /// When the newest exchange was asked.
    pub newest: Option<Millis>,
    /// Rows that are damaged: what stands in them is left out of everything.
    pub unreadable: u64,
    /// The last position of the log.
    pub last: Seq,
    /// Facts that only the journal has: the next start takes them up.
    pub in_journal: u64,
    /// When each agent was last seen.
    pub seen: Vec<(AgentName, Millis)>,
    /// The agents that `agent add` made.
    pub added: Vec<AgentName>,
}

/// Looks at the store in `dir`; `deep`: reads every page and compares its checksum.
pub fn look(dir: &Path, deep: bool) -> Result<Look, StoreError> {
    let path = dir.join("bridge.redb");
    let cannot_open = |e: DatabaseError| match e {
        DatabaseError::DatabaseAlreadyOpen => StoreError::InUse { path: path.clone() },
        e => StoreError::Open { path: path.clone(), source: Box::new(e.into()) },
    };
    let file = File::open(&path).map_err(|source| StoreError::Directory { path: path.clone(), source })?;
    let mut database = Overlay::new(file).and_then(|overlay| Builder::new().create_with_backend(overlay)).map_err(cannot_open)?;
    if deep {
        match database.check_integrity() {
            Ok(true) => {}
            Ok(false) => return Err(StoreError::Damaged { path, why: "some pages were not as their checksums say".to_owned() }),
            Err(e) => return Err(StoreError::Damaged { path, why: e.to_string() }),
        }
    }
    match tables::format(&database)? {
        None => Ok(Look::default()),
        Some(found) if found > FORMAT => Err(StoreError::Newer { path, found, known: FORMAT }),
        Some(format) => inside(&database, format, dir, if deep { usize::MAX } else { SAMPLE }),
    }
}

fn inside(database: &Database, format: u64, dir: &Path, rows: usize) -> Result<Look, StoreError> {
    let read = database.begin_read()?;
    let log = read.open_table(LOG)?;
    let last = Seq(log.last()?.map_or(0, |(seq, _)| seq.value()));
    let mut unreadable = 0;
    for row in log.iter()?.rev().take(rows) {
        unreadable += u64::from(record::decode(row?.1.value()).is_err());
    }
    Ok(Look {
        format,
        exchanges: read.open_table(EXCHANGES)?.len()?,
        open: read.open_table(OPEN)?.len()?,
        newest: read::newest(&read, None, 1)?.first().map(|record| record.asked.at),
        unreadable,
        last,
        in_journal: in_journal(dir, last)?,
        seen: read::presence(&read)?.into_iter().map(|(name, at, _)| (name, at)).collect(),
        added: read::agents(&read)?.into_iter().filter(|(_, agent)| agent.added).map(|(name, _)| name).collect(),
    })
}

/// How many facts the journal has beyond `last`; each is read.
fn in_journal(dir: &Path, last: Seq) -> Result<u64, StoreError> {
    let path = dir.join("journal");
    let failed = |source| StoreError::Journal { path: path.clone(), source };
    let file = match File::open(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
        opened => opened.map_err(failed)?,
    };
    let journal = Medium::new(file, None).map_err(io::Error::other).and_then(Journal::new).map_err(failed)?;
    let mut upto = last.0;
    for entry in journal.entries(last).map_err(failed)? {
        for bytes in &entry.rows {
            record::decode(bytes)?;
        }
        upto = upto.max(entry.first.0 + entry.rows.len() as u64 - 1);
    }
    Ok(upto - last.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::Store;
    use super::super::tests::{ask, crash, end, record as put};
    use super::*;
    use crate::core::outcome::Outcome;

    fn bytes(dir: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).map(|p| (p.clone(), std::fs::read(p).unwrap())).collect()
    }

    /// Looks, shallow and deep.
    fn looked(dir: &Path) -> Look {
        let before = bytes(dir);
        let found = look(dir, false).unwrap();
        assert_eq!(look(dir, true).unwrap(), found);
        assert!(bytes(dir) == before, "the look changed something in {}", dir.display());
        found
    }

    #[test]
    fn a_file_of_an_old_format_is_read_and_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/old/format-1.redb");
        std::fs::copy(old, dir.path().join("bridge.redb")).unwrap();
        let found = looked(dir.path());
        assert_eq!((found.format, found.exchanges, found.open, found.in_journal), (1, 5, 1, 0));
    }

    #[test]
    fn what_a_crash_left_is_read_and_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (data, left) = (dir.path().join("data"), dir.path().join("left"));
        let store = Store::open(&data).unwrap();
        assert!(matches!(look(&data, false), Err(StoreError::InUse { .. })));
        for n in 1..=40 {
            put(&store, vec![ask(n), end(n, Outcome::Answered)]);
            if n % 10 == 0 {
                crash(&store, &data, &left);
                let found = looked(&left);
                assert_eq!(u128::from(found.last.0 + found.in_journal), 2 * n, "{found:?}");
            }
        }
        let opened = Store::open(&left).unwrap();
        assert_eq!((opened.last().borrow().0, opened.exchange_count().unwrap()), (80, 40));
        drop(opened);
        let found = looked(&left);
        assert_eq!(
            (found.format, found.last, found.exchanges, found.open, found.in_journal, found.newest),
            (FORMAT, Seq(80), 40, 0, 0, Some(Millis(40)))
        );
    }

    #[test]
    fn damaged_rows_are_counted_the_newest_or_all() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        put(&store, (1..=SAMPLE as u128).flat_map(|n| [ask(n), end(n, Outcome::Answered)]).collect());
        assert_eq!(store.exchange_count().unwrap(), SAMPLE as u64);
        let write = store.database().unwrap().begin_write().unwrap();
        for seq in [3, 2 * SAMPLE as u64 - 1] {
            write.open_table(LOG).unwrap().insert(seq, b"no row".as_slice()).unwrap();
        }
        write.commit().unwrap();
        drop(store);
        assert_eq!((look(dir.path(), false).unwrap().unreadable, look(dir.path(), true).unwrap().unreadable), (1, 2));
    }

    #[test]
    fn an_empty_file_holds_nothing_and_no_store_at_all_is_told() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(look(dir.path(), false), Err(StoreError::Directory { .. })));
        std::fs::write(dir.path().join("bridge.redb"), "").unwrap();
        assert_eq!(looked(dir.path()), Look::default());
        std::fs::write(dir.path().join("bridge.redb"), "no store at all").unwrap();
        assert!(matches!(look(dir.path(), true), Err(StoreError::Open { .. })));
    }
}
