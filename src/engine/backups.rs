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
        let Some(newest) = taken(&plan.dir)?.pop() else { return Ok(Duration::ZERO) };
        let since = Duration::from_millis(self.now().since(newest.at));
        Ok(plan.every.saturating_sub(since))
    }

    async fn back_up(self: &Arc<Self>, plan: &Backups) -> Result<(), String> {
        let dir = plan.dir.join(name(self.now()));
        self.begin_backup(dir)?.await.map_err(|_| "it broke off".to_owned())??;
        let all = taken(&plan.dir).map_err(|e| e.to_string())?;
        for old in &all[..all.len().saturating_sub(plan.keep)] {
            fs::remove_dir_all(&old.dir).map_err(|e| format!("{}: the old backup cannot be removed: {e}", old.dir.display()))?;
            tracing::info!(dir = %old.dir.display(), "removed an old backup");
        }
        Ok(())
    }
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

/// The backups of the clock in `dir`, oldest first. Whatever else lies there is not touched.
pub fn taken(dir: &Path) -> io::Result<Vec<Taken>> {
    let mut found = Vec::new();
    match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
        Ok(entries) => {
            for entry in entries {
                let dir = entry?.path();
                found.extend(dir.file_name().and_then(|n| at(n.to_str()?)).map(|at| Taken { at, dir: dir.clone() }));
            }
        }
    }
    found.sort_by_key(|t| t.at);
    Ok(found)
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
}
