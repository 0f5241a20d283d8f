//! The data directory: owner, mode, room, the store's format and integrity, the index, backups.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::{Findings, Running};
use crate::cli::backup::now;
use crate::cli::client::ask_running;
use crate::cli::progress::timed;
use crate::config::{Backups, Config};
use crate::core::ids::{Millis, Seq};
use crate::engine::{Taken, taken};
use crate::search;
use crate::store::{self, FORMAT, Look, StoreError};
use crate::wire::control::{Answer, Command};

const MB: u64 = 1 << 20;
/// Below it the relay may be unable to write any moment.
const NO_ROOM: u64 = 64 * MB;
/// A store grows by doubling, and a restart or a backup wants room too.
const LITTLE_ROOM: u64 = 1024 * MB;

/// Says what there is; of a stopped relay also what its store holds, if it can be read.
pub(super) fn check(findings: &mut Findings, config: &Config, running: Option<&Running>, deep: bool) -> Option<Look> {
    let (dir, topic) = (config.data_dir.as_path(), "data");
    let shown = dir.display();
    let Ok(metadata) = dir.metadata() else {
        findings.ok(topic, format!("data directory {shown}: not there yet, the first start makes it"));
        return None;
    };
    if !metadata.is_dir() {
        findings.bad(topic, format!("data directory {shown}: is not a directory"), "name another with data_dir");
        return None;
    }
    rights(findings, dir, metadata.permissions().mode(), metadata.uid(), rustix::process::geteuid().as_raw());
    if let Ok(fs) = rustix::fs::statvfs(dir) {
        room(findings, fs.f_bavail.saturating_mul(fs.f_frsize), dir.join("bridge.redb").metadata().map_or(0, |m| m.len()));
    }
    let look = match running {
        Some(running) => {
            let online = running.agents.iter().filter(|r| r.online).count();
            let all = running.agents.len();
            findings.ok(topic, format!("data directory {shown}: a relay is running on it; {online} of {all} agents online"));
            if deep {
                findings.warn(topic, "--deep looks at the store of a stopped relay only", "take a backup instead: it is read whole and verified");
            }
            index_of_running(findings, config);
            None
        }
        None => closed(findings, dir, deep),
    };
    if let Some(plan) = &config.backups {
        match taken(&plan.dir, now()) {
            Ok(all) => backups(findings, plan, &all, now()),
            Err(e) => {
                let what = format!("backups in {}: {e}", plan.dir.display());
                findings.bad("backup", what, "make the directory readable for the relay's user, or name another with dir");
            }
        }
    } else {
        findings.ok("backup", "backups: none by the clock; [backup] every = \"24h\" takes them, `hermes-bridge backup DIR` takes one now");
    }
    look
}

fn rights(findings: &mut Findings, dir: &Path, mode: u32, owner: u32, we: u32) {
    let (topic, shown) = ("data", dir.display());
    if mode & 0o077 != 0 {
        findings.warn(topic, format!("data directory {shown}: others may read it"), "chmod 700 (the next start does it)");
    }
    // Who may do everything may look at it for its owner.
    if owner != we && we != 0 {
        let what = format!("data directory {shown}: belongs to user {owner}, this check runs as {we}");
        findings.warn(topic, what, format!("run check and relay as its owner, or chown -R {we} {shown}"));
    }
}

fn room(findings: &mut Findings, free: u64, store: u64) {
    let what = format!("room: {} MB free, the store has {} MB", free / MB, store / MB);
    if free < NO_ROOM {
        findings.bad("room", what, "free some at once: without room nothing can be recorded");
    } else if free < LITTLE_ROOM.max(2 * store) {
        findings.warn("room", what, "a store doubles its file when it grows, a backup needs as much again: make room, or set [retention]");
    } else {
        findings.ok("room", what);
    }
}

fn closed(findings: &mut Findings, dir: &Path, deep: bool) -> Option<Look> {
    let (topic, path) = ("store", dir.join("bridge.redb"));
    if !path.exists() {
        findings.ok(topic, format!("data directory {}: empty, the first start fills it", dir.display()));
        return None;
    }
    let looked = if deep { timed("reading every page, seconds so far", || store::look(dir, true)) } else { store::look(dir, false) };
    let look = match looked {
        Ok(look) => look,
        // They say themselves what to do.
        Err(e @ (StoreError::InUse { .. } | StoreError::Newer { .. } | StoreError::Directory { .. })) => {
            findings.bad(topic, e.to_string(), "do so, and check again");
            return None;
        }
        Err(e) => {
            findings.bad(topic, e.to_string(), "put a backup back with `hermes-bridge restore`, or ask for help with this sentence");
            return None;
        }
    };
    if deep {
        findings.ok(topic, format!("store {}: every page was read and is as its checksum says", path.display()));
    }
    inside(findings, &path, &look, now());
    index(findings, dir, Seq(look.last.0 + look.in_journal));
    Some(look)
}

fn inside(findings: &mut Findings, path: &Path, look: &Look, now: Millis) {
    let (topic, shown) = ("store", path.display());
    let waiting = match look.in_journal {
        0 => String::new(),
        n => format!("; {n} facts more are in the journal, the next start takes them up"),
    };
    findings.ok(topic, format!("store {shown}: format {}, opens, {} exchanges, {} of them open{waiting}", look.format, look.exchanges, look.open));
    if (1..FORMAT).contains(&look.format) {
        let what = format!("store {shown}: format {}: the next start of this version brings it to {FORMAT}, and there is no way back", look.format);
        findings.warn(topic, what, "take a backup before, with the version that wrote it, or copy the data directory");
    }
    if look.unreadable > 0 {
        let what = format!("store {shown}: {} rows cannot be read, and what stands in them is left out wherever the record is read", look.unreadable);
        findings.bad(topic, what, "put a backup back with `hermes-bridge restore` if it matters; look at the disk");
    }
    if look.newest.is_some_and(|at| at > now.plus(60_000)) {
        let what = "the newest exchange lies in the future: the clock was set back";
        findings.bad("clock", what, "set the clock; ids and history are ordered by it");
    }
}

fn index(findings: &mut Findings, dir: &Path, last: Seq) {
    let topic = "index";
    match search::glance(dir) {
        Ok(None) => findings.ok(topic, "search index: none of this version, the next start makes it"),
        Ok(Some(at)) if at < last => {
            findings.ok(topic, format!("search index: has followed the log to {} of {}, the next start goes on", at.0, last.0));
        }
        Ok(Some(_)) => findings.ok(topic, "search index: has followed the log to its end; a start looks whether it is whole"),
        Err(why) => findings.warn(topic, format!("search index: {why}"), "nothing: the next start makes it anew from the store"),
    }
}

fn index_of_running(findings: &mut Findings, config: &Config) {
    if let Ok(Some(Answer::Indexing { done, of, ready })) = ask_running(config, &Command::Indexing) {
        match ready {
            true => findings.ok("index", format!("search index: follows the log, at {done} of {of}")),
            false => {
                findings.warn("index", format!("search index: {done} of {of}"), "wait: it catches up by itself; its log says why if it does not")
            }
        }
    }
}

fn backups(findings: &mut Findings, plan: &Backups, all: &[Taken], now: Millis) {
    let (topic, shown) = ("backup", plan.dir.display());
    let Some(newest) = all.last() else {
        let remedy = "the running relay takes the first at its start; otherwise see its log";
        return findings.warn(topic, format!("backups in {shown}: none yet"), remedy);
    };
    if newest.at > now {
        let what = format!("backups in {shown}: {}, all of them from the future: the clock was wrong when they were taken", all.len());
        return findings.warn(topic, what, "look at the clock; the running relay takes the next at once");
    }
    let age = now.since(newest.at) / 1000;
    let what = format!("backups in {shown}: {}, the newest {} h {} min old", all.len(), age / 3600, age % 3600 / 60);
    // One may be under way.
    let late = plan.every.as_secs() + plan.every.as_secs() / 4 + 600;
    if age > late {
        findings.bad(topic, what, "look at the relay's log for the reason; it tries again every ten minutes");
    } else {
        findings.ok(topic, what);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Level;
    use super::*;

    fn found(check: impl FnOnce(&mut Findings)) -> Vec<(Level, String, String)> {
        let mut findings = Findings::default();
        check(&mut findings);
        findings.0.into_iter().map(|f| (f.level, f.what, f.remedy.unwrap_or_default())).collect()
    }

    fn one(check: impl FnOnce(&mut Findings)) -> (Level, String, String) {
        let mut all = found(check);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn a_directory_that_others_may_read_or_own_is_told_but_root_may_look() {
        let rights = |mode, owner, we| found(|f| rights(f, Path::new("data"), mode, owner, we));
        assert_eq!((rights(0o700, 7, 7).len(), rights(0o700, 7, 0).len()), (0, 0));
        let (level, what, remedy) = rights(0o750, 7, 7).remove(0);
        assert!(level == Level::Warning && what.contains("others may read it") && remedy.contains("chmod 700"), "{what} {remedy}");
        let (level, what, remedy) = rights(0o700, 7, 8).remove(0);
        assert!(level == Level::Warning && what.contains("belongs to user 7") && remedy.contains("chown -R 8 data"), "{what} {remedy}");
    }

    #[test]
    fn room_runs_out_by_degrees() {
        let level = |free: u64, store: u64| one(|f| room(f, free * MB, store * MB)).0;
        assert_eq!([level(63, 0), level(64, 0), level(1023, 0), level(1024, 0)], [Level::Wrong, Level::Warning, Level::Warning, Level::Ok]);
        assert_eq!([level(3999, 2000), level(4000, 2000)], [Level::Warning, Level::Ok]);
    }

    #[test]
    fn a_store_says_its_format_what_waits_in_its_journal_and_a_clock_that_was_set_back() {
        let now = Millis(1_796_059_554_000);
        let about = |look: &Look| found(|f| inside(f, Path::new("bridge.redb"), look, now));
        let look = Look { format: FORMAT, exchanges: 3, newest: Some(now), ..Look::default() };
        let [(Level::Ok, what, _)] = &about(&look)[..] else { panic!() };
        assert!(what.contains("3 exchanges") && !what.contains("journal"), "{what}");
        let all = about(&Look { format: 1, in_journal: 4, unreadable: 2, newest: Some(now.plus(61_000)), ..look });
        assert!(all[0].1.contains("4 facts more are in the journal"), "{all:?}");
        assert!(all[1].0 == Level::Warning && all[1].1.contains("format 1") && all[1].2.contains("with the version that wrote it"), "{all:?}");
        assert!(all[2].0 == Level::Wrong && all[2].1.contains("2 rows cannot be read") && all[2].2.contains("restore"), "{all:?}");
        assert!(all[3].0 == Level::Wrong && all[3].1.contains("future") && all[3].2.contains("set the clock"), "{all:?}");
    }

    #[test]
    fn backups_that_are_missing_late_or_from_the_future_are_told() {
        let plan = Backups { every: Duration::from_secs(3600), keep: 7, dir: "kept".into() };
        let now = Millis(1_796_059_554_000);
        let of = |at: &[u64]| {
            let all: Vec<Taken> = at.iter().map(|at| Taken { at: Millis(*at), dir: "kept/b".into() }).collect();
            one(|f| backups(f, &plan, &all, now))
        };
        let ago = |minutes: u64| now.0 - minutes * 60_000;
        assert_eq!([of(&[]).0, of(&[ago(300), ago(85)]).0, of(&[ago(300), ago(86)]).0], [Level::Warning, Level::Ok, Level::Wrong]);
        assert!(of(&[ago(300), ago(85)]).1.contains("2, the newest 1 h 25 min old"));
        let (level, what, _) = of(&[now.0 + 1000]);
        assert!(level == Level::Warning && what.contains("from the future"), "{what}");
    }

    #[test]
    fn the_index_of_a_stopped_relay_is_looked_at_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let about = |last| one(|f| index(f, dir.path(), Seq(last)));
        assert!(about(5).1.contains("none of this version"));
        let opened = search::open(dir.path()).unwrap();
        opened.index.commit(Seq(5)).unwrap();
        opened.index.close();
        assert!(about(5).1.contains("to its end") && about(9).1.contains("to 5 of 9"), "{:?} {:?}", about(5), about(9));
        let meta = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path().join("meta.json");
        std::fs::write(&meta, "{").unwrap();
        let (level, what, remedy) = about(5);
        assert!(level == Level::Warning && what.contains("meta.json") && remedy.contains("anew"), "{what} {remedy}");
    }
}
