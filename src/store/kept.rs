//! What a backup promises: one moment's state, whole, equal by count and hash when it is put back; anything less is
//! refused, and neither a backup nor a store that is there is ever overwritten.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::tests::{ask, end, record};
use super::*;
use crate::core::outcome::Outcome;

const TAKEN: &str = "2026-11-30T17:25:54Z";

fn go_on(_: &'static str, _: u64, _: u64) -> bool {
    true
}

/// A store with six questions, five of them answered.
fn filled(dir: &Path) -> Store {
    let store = Store::open(dir).unwrap();
    for n in 1..=6 {
        record(&store, vec![ask(n)]);
        if n > 1 {
            record(&store, vec![end(n, Outcome::Answered)]);
        }
    }
    store
}

fn contents(dir: &Path) -> Contents {
    copy::contents(&dir.join("bridge.redb"), &mut go_on).unwrap()
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn a_backup_put_back_is_equal_by_count_and_hash() {
    let dir = tempfile::tempdir().unwrap();
    let (kept, elsewhere) = (dir.path().join("deep/kept"), dir.path().join("elsewhere"));
    let store = filled(&dir.path().join("data"));
    let made = store.backup(&kept, TAKEN, &mut go_on).unwrap();
    assert_eq!((made.seq, made.exchanges, made.taken.as_str()), (11, 6, TAKEN));
    drop(store);
    assert_eq!(verify(&kept, &mut go_on).unwrap(), made);
    assert_eq!(restore(&kept, &elsewhere, None, &mut go_on).unwrap(), made);
    assert_eq!(contents(&elsewhere), contents(&dir.path().join("data")));
    assert_eq!(contents(&elsewhere).sha256, made.content_sha256);
    let store = Store::open(&elsewhere).unwrap();
    assert_eq!(store.open_exchanges().unwrap().len(), 1);
    assert_eq!(record(&store, vec![end(1, Outcome::Answered)]), Written::Durable);
    assert_eq!(store.log(Seq(0), 100).unwrap().0.len(), 12);
    // Using what was put back changes nothing of the backup.
    assert_eq!(verify(&kept, &mut go_on).unwrap(), made);
}

#[test]
fn a_backup_taken_while_others_record_is_one_moment_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (kept, elsewhere) = (dir.path().join("kept"), dir.path().join("elsewhere"));
    let store = filled(&dir.path().join("data"));
    let enough = AtomicBool::new(false);
    let made = std::thread::scope(|scope| {
        for lane in 1..=4u128 {
            let (store, enough) = (&store, &enough);
            scope.spawn(move || {
                for n in 0.. {
                    let id = lane * 1_000_000 + n;
                    assert_eq!(record(store, vec![ask(id)]), Written::Durable);
                    assert_eq!(record(store, vec![end(id, Outcome::Answered)]), Written::Durable);
                    if enough.load(Ordering::Acquire) {
                        return;
                    }
                }
            });
        }
        let before = store.last().borrow().0;
        while store.last().borrow().0 < before + 200 {
            std::thread::yield_now();
        }
        let made = store.backup(&kept, TAKEN, &mut |_, _, _| {
            // Something is recorded between any two pieces of the copy.
            let seen = store.last().borrow().0;
            while store.last().borrow().0 == seen {
                std::thread::yield_now();
            }
            true
        });
        enough.store(true, Ordering::Release);
        made.unwrap()
    });
    restore(&kept, &elsewhere, None, &mut go_on).unwrap();
    let copied = Store::open(&elsewhere).unwrap();
    let here = store.log(Seq(0), 1_000_000).unwrap().0;
    let there = copied.log(Seq(0), 1_000_000).unwrap().0;
    assert!(here.len() > there.len() && there.len() as u64 == made.seq, "{} {} {}", here.len(), there.len(), made.seq);
    assert_eq!(there, here[..there.len()]);
    // And the tables that are derived from the log are of the same moment.
    let asked = there.iter().filter(|(_, fact)| matches!(fact, Fact::Asked(_))).count();
    let ended = there.iter().filter(|(_, fact)| matches!(fact, Fact::Ended { .. })).count();
    assert_eq!((made.exchanges as usize, made.rows["open"] as usize), (asked, asked - ended));
}

#[test]
fn a_damaged_backup_is_refused_whatever_was_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let (kept, data) = (dir.path().join("kept"), dir.path().join("put back"));
    filled(&dir.path().join("data")).backup(&kept, TAKEN, &mut go_on).unwrap();
    let mut tried = 0;
    for name in ["bridge.redb", "manifest.json", "SHA256SUMS"] {
        let path = kept.join(name);
        let whole = fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(1 + whole.len() / 20) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(&path, &flipped).unwrap();
            assert!(matches!(verify(&kept, &mut go_on), Err(BackupError::Damaged { .. })), "{name}, byte {at}");
            tried += 1;
        }
        for length in [0, 1, whole.len() / 2, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(matches!(restore(&kept, &data, None, &mut go_on), Err(BackupError::Damaged { .. })), "{name}, {length} bytes");
        }
        fs::remove_file(&path).unwrap();
        let error = restore(&kept, &data, None, &mut go_on).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("Nothing was changed"), "{error}");
        fs::write(&path, &whole).unwrap();
    }
    assert!(tried > 50 && !data.exists());
    restore(&kept, &data, None, &mut go_on).unwrap();
}

#[test]
fn nothing_that_is_there_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let (kept, data) = (dir.path().join("kept"), dir.path().join("data"));
    fs::create_dir(&kept).unwrap();
    let store = filled(&data);
    // An empty directory may be named.
    store.backup(&kept, TAKEN, &mut go_on).unwrap();
    let before = contents(&kept);
    assert!(matches!(store.backup(&kept, TAKEN, &mut go_on), Err(BackupError::Exists(_))));
    assert_eq!(contents(&kept), before);
    record(&store, vec![ask(7)]);
    let used = restore(&kept, &data, Some("aside"), &mut go_on).unwrap_err();
    assert!(matches!(used, BackupError::Store(StoreError::InUse { .. })), "{used}");
    drop(store);
    fs::create_dir(data.join("index-v1")).unwrap();
    assert!(matches!(restore(&kept, &data, None, &mut go_on), Err(BackupError::Occupied(_))));
    assert_eq!(Store::open(&data).unwrap().exchange_count().unwrap(), 7);
    restore(&kept, &data, Some("aside"), &mut go_on).unwrap();
    assert_eq!(Store::open(&data).unwrap().exchange_count().unwrap(), 6);
    assert_eq!(Store::open(&data.join("aside")).unwrap().exchange_count().unwrap(), 7);
    assert!(data.join("aside/index-v1").exists() && !data.join("index-v1").exists());
}

#[test]
fn a_backup_that_was_stopped_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir.path().join("data"));
    for stage in ["copying", "verifying", "checksums"] {
        let stopped = store.backup(&dir.path().join("kept"), TAKEN, &mut |at, _, _| at != stage);
        assert!(matches!(stopped, Err(BackupError::Store(StoreError::Interrupted))), "{stage}");
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["data"]);
    }
}

#[test]
fn putting_one_back_says_how_far_it_is_and_leaves_nothing_half_done() {
    let dir = tempfile::tempdir().unwrap();
    let (kept, data) = (dir.path().join("kept"), dir.path().join("put back"));
    let store = Store::open(&dir.path().join("data")).unwrap();
    for n in 1..=40 {
        record(&store, vec![Fact::Asked(Arc::new(super::tests::asked(n, n, &"long ".repeat(20_000))))]);
    }
    let made = store.backup(&kept, TAKEN, &mut go_on).unwrap();
    assert!(made.bytes > 3 << 20, "{}", made.bytes);
    let mut said = Vec::new();
    restore(&kept, &data, None, &mut |stage, done, of| {
        said.extend((stage == "copying").then_some((done, of)));
        true
    })
    .unwrap();
    assert!(said.len() >= 4 && said.is_sorted() && said.last() == Some(&(made.bytes, made.bytes)), "{said:?}");
    let other = dir.path().join("other");
    let stopped = restore(&kept, &other, None, &mut |stage, done, _| stage != "copying" || done < 2 << 20);
    assert!(matches!(stopped, Err(BackupError::Store(StoreError::Interrupted))));
    assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
}

#[test]
fn a_backup_of_a_newer_version_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    filled(&dir.path().join("data")).backup(&kept, TAKEN, &mut go_on).unwrap();
    let text = fs::read_to_string(kept.join("manifest.json")).unwrap();
    let text = text.replace("\"backup\": 1", "\"backup\": 2").replace(env!("CARGO_PKG_VERSION"), "9.9.9");
    fs::write(kept.join("manifest.json"), text).unwrap();
    let sums = std::process::Command::new("sha256sum").args(["bridge.redb", "manifest.json"]).current_dir(&kept).output().unwrap();
    fs::write(kept.join("SHA256SUMS"), sums.stdout).unwrap();
    let error = verify(&kept, &mut go_on).unwrap_err();
    assert!(matches!(&error, BackupError::Newer { version, .. } if version == "9.9.9"), "{error}");
}

#[test]
fn a_table_that_a_backup_does_not_know_is_never_left_out_silently() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir.path().join("data"));
    let database = store.database().unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(redb::TableDefinition::<u64, u64>::new("added later")).unwrap();
    write.commit().unwrap();
    let error = store.backup(&dir.path().join("kept"), TAKEN, &mut go_on).unwrap_err().to_string();
    assert!(error.contains("added later"), "{error}");
}

#[test]
fn the_copied_directory_of_a_stopped_relay_is_a_backup_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let (data, copied) = (dir.path().join("data"), dir.path().join("copied"));
    drop(filled(&data));
    copy_dir(&data, &copied);
    assert_eq!(contents(&copied), contents(&data));
    let store = Store::open(&copied).unwrap();
    assert_eq!(record(&store, vec![ask(7)]), Written::Durable);
    assert_eq!(store.exchange_count().unwrap(), 7);
}
