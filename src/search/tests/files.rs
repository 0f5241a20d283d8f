//! The files: crashes, damage, other versions. Whatever happens to them, the index that is opened holds exactly what its
//! cursor says, or is empty and says why.

use std::fs;
use std::path::PathBuf;

use super::super::{Reason, SearchError};
use super::*;

fn many(n: u64) -> Vec<Record> {
    (0..n).map(|n| exchange(n, "ana-bot", "ops-bot", &format!("common number{n}"), "answer")).collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir.join("index-v1")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

fn segment_file(dir: &Path, extension: &str) -> PathBuf {
    files(dir).into_iter().find(|f| f.extension().is_some_and(|e| e == extension)).unwrap()
}

#[test]
fn a_missing_index_is_made_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let Opened { index, remade } = open(&dir.path().join("data")).unwrap();
    assert_eq!((index.cursor(), remade, index.documents()), (Seq(0), Some(Reason::Missing), 0));
    assert_eq!(ask(&index, "anything").total, 0);
}

#[test]
fn what_was_not_committed_before_a_crash_is_not_there_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let records = many(40);
    let index = holding(dir.path(), &records[..20]);
    records[20..].iter().for_each(|r| index.add(r).unwrap());
    assert_eq!(ask(&index, "common ").total, 20);
    drop(index);
    let Opened { index, remade } = open(dir.path()).unwrap();
    assert_eq!((index.cursor(), remade, index.documents()), (Seq(20), None, 20));
    // Following the log again, one of them twice.
    records[19..].iter().for_each(|r| index.add(r).unwrap());
    index.commit(Seq(40)).unwrap();
    assert_eq!((index.cursor(), ask(&index, "common ").total), (Seq(40), 40));
}

#[test]
fn a_clean_end_is_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let index = holding(dir.path(), &many(20));
    index.close();
    assert!(matches!(index.add(&many(1)[0]), Err(SearchError::Closed)));
    assert!(matches!(index.commit(Seq(1)), Err(SearchError::Closed)));
    assert_eq!(ask(&index, "common ").total, 20);
    drop(index);
    assert!(dir.path().join("index-v1/clean").exists());
    let Opened { index, remade } = open(dir.path()).unwrap();
    assert_eq!((index.cursor(), remade, index.documents()), (Seq(20), None, 20));
    assert!(!dir.path().join("index-v1/clean").exists());
}

/// Damages a cleanly and an uncleanly closed index and expects it to be made anew for a reason that names `word`.
fn damaged(damage: impl Fn(&Path), word: &str) {
    for clean in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let index = holding(dir.path(), &many(50));
        if clean {
            index.close();
        }
        drop(index);
        damage(dir.path());
        let Opened { index, remade } = open(dir.path()).unwrap();
        let Some(Reason::Damaged(what)) = remade else { panic!("clean {clean}: not noticed, {remade:?}") };
        assert!(what.contains(word), "{what}");
        assert_eq!((index.cursor(), index.documents()), (Seq(0), 0));
        many(50).iter().for_each(|r| index.add(r).unwrap());
        index.commit(Seq(50)).unwrap();
        assert_eq!(ask(&index, "common ").total, 50);
    }
}

#[test]
fn a_truncated_file_is_noticed() {
    for extension in ["term", "idx", "pos", "fast", "fieldnorm", "store"] {
        damaged(
            |dir| {
                let path = segment_file(dir, extension);
                let bytes = fs::read(&path).unwrap();
                fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
            },
            "",
        );
    }
}

#[test]
fn garbage_in_a_file_is_noticed() {
    for extension in ["term", "idx", "pos", "fast"] {
        damaged(
            |dir| {
                let path = segment_file(dir, extension);
                let mut bytes = fs::read(&path).unwrap();
                bytes[5] ^= 0x55;
                fs::write(&path, &bytes).unwrap();
            },
            "checksum",
        );
    }
}

#[test]
fn a_missing_file_is_noticed() {
    for extension in ["term", "idx", "pos", "fast"] {
        damaged(|dir| fs::remove_file(segment_file(dir, extension)).unwrap(), "");
    }
    damaged(|dir| fs::remove_file(dir.join("index-v1/meta.json")).unwrap(), "meta.json");
}

#[test]
fn a_meta_file_of_nonsense_is_noticed() {
    for nonsense in ["", "{", "null", "[]", "\u{fffd}", "{\"segments\":[]}"] {
        damaged(|dir| fs::write(dir.join("index-v1/meta.json"), nonsense).unwrap(), "");
    }
}

#[test]
fn other_fields_are_noticed() {
    damaged(
        |dir| {
            let meta = dir.join("index-v1/meta.json");
            let text = fs::read_to_string(&meta).unwrap();
            fs::write(&meta, text.replace("\"name\":\"duration\"", "\"name\":\"span\"").replace("\"name\": \"duration\"", "\"name\": \"span\""))
                .unwrap();
        },
        "fields",
    );
}

#[test]
fn indexes_of_other_versions_are_removed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["index-v0", "index-v7", "index-vold", "index", "bridge.redb.d"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    drop(open(dir.path()).unwrap());
    let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, ["bridge.redb.d", "index", "index-v1", "index-vold"]);
}

#[test]
fn an_index_in_use_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let index = holding(dir.path(), &many(10));
    assert!(matches!(open(dir.path()), Err(SearchError::InUse(_))));
    assert_eq!(ask(&index, "common ").total, 10);
    index.add(&many(11)[10]).unwrap();
    index.commit(Seq(11)).unwrap();
    assert_eq!(ask(&index, "common ").total, 11);
}

#[test]
fn an_emptied_index_begins_again() {
    let dir = tempfile::tempdir().unwrap();
    let index = holding(dir.path(), &many(10));
    index.add(&many(11)[10]).unwrap();
    index.clear().unwrap();
    assert_eq!((index.cursor(), index.documents(), ask(&index, "").total), (Seq(0), 0, 0));
    many(5).iter().for_each(|r| index.add(r).unwrap());
    index.commit(Seq(5)).unwrap();
    assert_eq!(ask(&index, "common ").total, 5);
    drop(index);
    assert_eq!(open(dir.path()).unwrap().index.cursor(), Seq(5));
}

#[test]
fn segments_stay_few_while_every_exchange_is_put_in_twice() {
    let dir = tempfile::tempdir().unwrap();
    let Opened { index, .. } = open(dir.path()).unwrap();
    for record in many(60) {
        index.add(&pending(&record)).unwrap();
        index.commit(Seq(1)).unwrap();
        index.add(&record).unwrap();
        index.commit(Seq(2)).unwrap();
    }
    assert_eq!((index.documents(), ask(&index, "status:ok").total), (60, 60));
    let terms = files(dir.path()).iter().filter(|f| f.extension().is_some_and(|e| e == "term")).count();
    assert!(terms < 40, "{terms} segments");
    assert!(index.size_bytes() > 0);
}
