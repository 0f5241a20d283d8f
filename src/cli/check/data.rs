//! The data directory: owner, mode, room, the store's format and integrity, the index, backups.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::{Findings, Running};
use crate::cli::backup::now;
use crate::cli::client::ask_running;
use crate::cli::progress::timed;
use crate::config::Config;
use crate::engine::taken;
use crate::store::{self, Store};
use crate::wire::control::{Answer, Command};

const MB: u64 = 1 << 20;
/// Below it the relay may be unable to write any moment.
const NO_ROOM: u64 = 64 * MB;
/// A store grows by doubling, and a restart or a backup wants room too.
const LITTLE_ROOM: u64 = 1024 * MB;
/// Records read of a closed store, newest first.
const SAMPLE: usize = 200;

pub(super) fn check(findings: &mut Findings, config: &Config, running: Option<&Running>, deep: bool) {
    let (dir, topic) = (config.data_dir.as_path(), "data");
    let shown = dir.display();
    let Ok(metadata) = dir.metadata() else {
        return findings.ok(topic, format!("data directory {shown}: not there yet, the first start makes it"));
    };
    if !metadata.is_dir() {
        return findings.bad(topic, format!("data directory {shown}: is not a directory"), "name another with data_dir");
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        findings.warn(topic, format!("data directory {shown}: others may read it"), "chmod 700 (the next start does it)");
    }
    let (owner, we) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != we {
        let what = format!("data directory {shown}: belongs to user {owner}, this check runs as {we}");
        findings.warn(topic, what, format!("run check and relay as its owner, or chown -R {we} {shown}"));
    }
    room(findings, dir);
    match running {
        Some(running) => {
            let online = running.agents.iter().filter(|r| r.online).count();
            let all = running.agents.len();
            findings.ok(topic, format!("data directory {shown}: a relay is running on it; {online} of {all} agents online"));
            if deep {
                findings.warn(topic, "--deep looks at the store of a stopped relay only", "take a backup instead: it is read whole and verified");
            }
            index_of_running(findings, config);
        }
        None => closed(findings, dir, deep),
    }
    backups(findings, config);
}

fn room(findings: &mut Findings, dir: &Path) {
    let Ok(fs) = rustix::fs::statvfs(dir) else { return };
    let free = fs.f_bavail.saturating_mul(fs.f_frsize);
    let store = dir.join("bridge.redb").metadata().map_or(0, |m| m.len());
    let what = format!("room: {} MB free, the store has {} MB", free / MB, store / MB);
    if free < NO_ROOM {
        findings.bad("room", what, "free some at once: without room nothing can be recorded");
    } else if free < LITTLE_ROOM.max(2 * store) {
        findings.warn("room", what, "a store doubles its file when it grows, a backup needs as much again: make room, or set [retention]");
    } else {
        findings.ok("room", what);
    }
}

fn closed(findings: &mut Findings, dir: &Path, deep: bool) {
    let path = dir.join("bridge.redb");
    let topic = "store";
    if !path.exists() {
        return findings.ok(topic, format!("data directory {}: empty, the first start fills it", dir.display()));
    }
    let remedy = "put a backup back with `hermes-bridge restore`, or ask for help with this sentence";
    if deep {
        match timed("reading every page, seconds so far", || store::examine(dir)) {
            Ok(()) => findings.ok(topic, format!("store {}: every page was read and is whole", path.display())),
            Err(e) => return findings.bad(topic, e.to_string(), remedy),
        }
    }
    let looked = Store::open(dir).and_then(|store| {
        let newest = store.newest(None, SAMPLE)?;
        Ok((store.format()?, store.exchange_count()?, store.open_exchanges()?.len(), newest.first().map(|r| r.asked.at)))
    });
    match looked {
        Ok((format, all, open, newest)) => {
            findings.ok(topic, format!("store {}: format {format}, opens, {all} exchanges, {open} of them open", path.display()));
            if newest.is_some_and(|at| at > now().plus(60_000)) {
                findings.bad(
                    "clock",
                    "the newest exchange lies in the future: the clock was set back",
                    "set the clock; ids and history are ordered by it",
                );
            }
        }
        Err(e) => findings.bad(topic, e.to_string(), remedy),
    }
    let index = std::fs::read_dir(dir).into_iter().flatten().flatten().any(|e| e.file_name().to_string_lossy().starts_with("index-v"));
    findings
        .ok("index", if index { "search index: there; a start looks whether it is whole" } else { "search index: none, the next start makes it" });
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

fn backups(findings: &mut Findings, config: &Config) {
    let Some(plan) = &config.backups else {
        return findings.ok("backup", "backups: none by the clock; [backup] every = \"24h\" takes them, `hermes-bridge backup DIR` takes one now");
    };
    let shown = plan.dir.display();
    let retry = "look at the relay's log for the reason; it tries again every ten minutes";
    match taken(&plan.dir, now()) {
        Err(e) => {
            findings.bad("backup", format!("backups in {shown}: {e}"), "make the directory readable for the relay's user, or name another with dir")
        }
        Ok(all) => match all.last() {
            None => findings.warn(
                "backup",
                format!("backups in {shown}: none yet"),
                "the running relay takes the first at its start; otherwise see its log",
            ),
            Some(newest) => {
                let age = now().since(newest.at) / 1000;
                let what = format!("backups in {shown}: {}, the newest {} h {} min old", all.len(), age / 3600, age % 3600 / 60);
                // One may be under way.
                let late = plan.every.as_secs() + plan.every.as_secs() / 4 + 600;
                if age > late { findings.bad("backup", what, retry) } else { findings.ok("backup", what) }
            }
        },
    }
}
