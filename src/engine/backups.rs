//! Backups by the clock: one every so often into a directory of their own, named by its moment, the oldest beyond the
//! number to keep removed. Owns the names; a failure is told once and tried again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use crate::config::Backups;
use crate::core::ids::Millis;
use crate::core::outcome::moment;

const PREFIX: &str = "backup-";
/// After a failure, at the latest.
const RETRY: Duration = Duration::from_secs(600);

impl Engine {
    /// Ends when the relay stops.
    pub(super) async fn back_up_by_the_clock(self: Arc<Self>) {
        let mut failing = false;
        let mut config = self.config.subscribe();
        loop {
            let Some(plan) = config.borrow_and_update().backups.clone() else {
                tokio::select! {
                    Ok(()) = config.changed() => continue,
                    () = self.stopping.cancelled() => return,
                }
            };
            let wait = match self.due_in(&plan) {
                Ok(wait) if !wait.is_zero() => wait,
                due => match due.map_err(|e| e.to_string()).and(self.back_up(&plan).await) {
                    Ok(()) => {
                        failing = false;
                        continue;
                    }
                    Err(why) => {
                        if !std::mem::replace(&mut failing, true) && !self.stopping.is_cancelled() {
                            tracing::error!(dir = %plan.dir.display(), error = %why, "the backup failed; it is tried again and again until it succeeds");
                        }
                        RETRY.min(plan.every)
                    }
                },
            };
            tokio::select! {
                // Not all at once: the machine may sleep meanwhile, and its clock be set.
                () = tokio::time::sleep(wait.min(RETRY)) => {}
                Ok(()) = config.changed() => {}
                () = self.stopping.cancelled() => return,
            }
        }
    }

    fn due_in(&self, plan: &Backups) -> io::Result<Duration> {
        Ok(due_in(plan.every, &taken(&plan.dir, self.now())?, self.now()))
    }

    async fn back_up(self: &Arc<Self>, plan: &Backups) -> Result<(), String> {
        remove_partials(&plan.dir)?;
        let dir = plan.dir.join(name(self.now()));
        self.begin_backup(dir)?.await.map_err(|_| "it broke off".to_owned())??;
        let all = taken(&plan.dir, self.now()).map_err(|e| e.to_string())?;
        for old in &all[..all.len().saturating_sub(plan.keep)] {
            fs::remove_dir_all(&old.dir).map_err(|e| format!("{}: the old backup cannot be removed: {e}", old.dir.display()))?;
            tracing::info!(dir = %old.dir.display(), "removed an old backup");
        }
        Ok(())
    }
}

/// How long until the next. One from the future, of a clock that was wrong once, counts for none.
fn due_in(every: Duration, taken: &[Taken], now: Millis) -> Duration {
    match taken.last() {
        Some(newest) if newest.at <= now => every.saturating_sub(Duration::from_millis(now.since(newest.at))),
        _ => Duration::ZERO,
    }
}

/// What a relay that was killed left half written; each had a name of its own, so nobody else comes across it.
fn remove_partials(dir: &Path) -> Result<(), String> {
    for path in entries(dir).map_err(|e| format!("{}: {e}", dir.display()))? {
        let half = path.file_name().and_then(|n| n.to_str()?.strip_prefix('.')?.strip_suffix(".partial"));
        if half.and_then(at).is_some() {
            fs::remove_dir_all(&path).map_err(|e| format!("{}: the half-written backup cannot be removed: {e}", path.display()))?;
            tracing::info!(dir = %path.display(), "removed a backup that was broken off");
        }
    }
    Ok(())
}

/// A backup of the clock's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    pub at: Millis,
    pub dir: PathBuf,
}

/// `backup-2026-11-30T17-25-54Z`: the order of names is the order of time, and no colon troubles any file system.
fn name(at: Millis) -> String {
    format!("{PREFIX}{}", moment(at).replace(':', "-"))
}

fn at(name: &str) -> Option<Millis> {
    let (day, time) = name.strip_prefix(PREFIX)?.split_once('T')?;
    let time: jiff::Timestamp = format!("{day}T{}", time.replace('-', ":")).parse().ok()?;
    u64::try_from(time.as_millisecond()).ok().map(Millis)
}

/// The backups of the clock in `dir`, oldest first; those from the future before all others, for their age is not known. Whatever
/// else lies there is not touched.
pub fn taken(dir: &Path, now: Millis) -> io::Result<Vec<Taken>> {
    let moment = |dir: &PathBuf| dir.file_name().and_then(|n| at(n.to_str()?));
    let mut found: Vec<Taken> = entries(dir)?.into_iter().filter_map(|dir| moment(&dir).map(|at| Taken { at, dir })).collect();
    found.sort_by_key(|t| (t.at <= now, t.at));
    Ok(found)
}

/// None where there is no directory yet.
fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
        Ok(entries) => entries.map(|entry| entry.map(|e| e.path())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_moment_and_nothing_else_is_taken_for_one() {
        let moment = Millis(1_796_059_554_000);
        assert_eq!(name(moment), "backup-2026-11-30T17-25-54Z");
        assert_eq!(at(&name(moment)), Some(moment));
        for other in ["backup-", "backup-monday", ".backup-2026-11-30T17-25-54Z.partial", "2026-11-30T17-25-54Z", "backup-2026-11-30"] {
            assert_eq!(at(other), None, "{other}");
        }
    }
    #[test]
    fn a_backup_from_the_future_is_the_oldest_of_all_and_the_next_is_due() {
        let (dir, day) = (tempfile::tempdir().unwrap(), Duration::from_secs(86_400));
        let now = Millis(1_796_059_554_000);
        let hours = |n: u64| now.plus(n * 3_600_000);
        fs::create_dir(dir.path().join(name(hours(1000)))).unwrap();
        let alone = taken(dir.path(), now).unwrap();
        assert_eq!((alone.len(), due_in(day, &alone, now), due_in(day, &[], now)), (1, Duration::ZERO, Duration::ZERO));
        for at in [now, Millis(now.0 - 3_600_000)] {
            fs::create_dir(dir.path().join(name(at))).unwrap();
        }
        let all = taken(dir.path(), now).unwrap();
        assert_eq!(all.iter().map(|t| t.at).collect::<Vec<_>>(), [hours(1000), Millis(now.0 - 3_600_000), now]);
        assert_eq!(due_in(day, &taken(dir.path(), hours(5)).unwrap(), hours(5)), day - Duration::from_secs(5 * 3600));
        assert_eq!(due_in(day, &taken(dir.path(), hours(30)).unwrap(), hours(30)), Duration::ZERO);
    }
}
