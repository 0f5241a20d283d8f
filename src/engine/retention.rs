//! Taking off the record by the clock what is older or larger than `[retention]` allows: in small pieces with rests between,
//! asks first. Owns when that happens and how far it has looked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Engine;
use super::erase::{LOOK, PIECE};
use crate::config::Retention;
use crate::core::audit::Kind;
use crate::core::ids::{Millis, RequestId, Seq};
use crate::core::outcome::Outcome;
use crate::store::{Doomed, Old};

const EVERY: Duration = Duration::from_secs(3600);
/// A relay that has just started has better things to do.
const AFTER_START: Duration = Duration::from_secs(2);
/// Between two pieces; while asks come in so many times as long as the piece took, at most so long.
const REST: Duration = Duration::from_millis(5);
const BUSY_REST: u32 = 4;
const LONGEST_REST: Duration = Duration::from_secs(1);
pub(super) const DAY_MS: u64 = 86_400_000;
/// A byte of text takes no more of the file than this: half empty pages, its lines in other tables.
const MOST_ROOM: u64 = 4;

/// What the clock has removed, until the security log is told: once a day, for it may happen every hour.
#[derive(Default)]
pub(super) struct Removed {
    day: u64,
    exchanges: u64,
    entries: u64,
}

/// How far the exchanges of each age were looked at with nothing left that could go later: the next pass begins there.
pub(super) type Looked = BTreeMap<u64, RequestId>;

impl Engine {
    /// Ends when the relay stops.
    pub(super) async fn keep_within_bounds(self: Arc<Self>) {
        let mut config = self.config.subscribe();
        let (mut pause, mut failing) = (AFTER_START, false);
        let (mut removed, mut looked) = (Removed::default(), Looked::default());
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                Ok(()) = config.changed() => looked.clear(),
                () = self.stopping.cancelled() => return self.note_removed(&mut removed, u64::MAX).await,
            }
            pause = EVERY;
            let plan = config.borrow_and_update().retention.clone();
            self.note_removed(&mut removed, self.now().0 / DAY_MS).await;
            let engine = self.clone();
            let pass = tokio::task::spawn_blocking(move || {
                let outcome = engine.prune(&plan, &mut removed, &mut looked);
                (outcome, removed, looked)
            });
            let outcome;
            // What a pass that panicked had counted is gone with it; it is on record all the same.
            (outcome, removed, looked) = pass.await.unwrap_or_else(|_| (Err("a fault of this program".to_owned()), <_>::default(), <_>::default()));
            match outcome {
                Ok(()) => failing = false,
                Err(why) if !std::mem::replace(&mut failing, true) => {
                    tracing::error!(error = %why, "what is old could not be removed; it is tried again every hour");
                }
                Err(_) => {}
            }
        }
    }

    /// Tells the security log what was removed on a day that is over by `today`.
    async fn note_removed(&self, removed: &mut Removed, today: u64) {
        let some = [(removed.exchanges, "exchanges"), (removed.entries, "entries of the security log")].into_iter().filter(|(n, _)| *n > 0);
        let what = some.map(|(n, what)| format!("{n} {what}")).collect::<Vec<_>>().join(" and ");
        if !what.is_empty() && removed.day < today {
            let _ = self.audit(Kind::Erasure, "relay", None, &format!("{what} removed by [retention]")).await;
            (removed.exchanges, removed.entries) = (0, 0);
        }
    }

    /// One pass over everything that is too old, or too much. Blocks.
    pub(super) fn prune(&self, plan: &Retention, removed: &mut Removed, looked: &mut Looked) -> Result<(), String> {
        let today = self.now().0 / DAY_MS;
        removed.day = today;
        // Before exchanges make room for it.
        self.prune_audit(plan, removed)?;
        let floor = self.slowest()?;
        let ages = plan.ages();
        let for_ever = ages.values().map(Vec::len).sum::<usize>() < Outcome::ALL.len();
        let ago = |days: u64| Millis(self.now().0.saturating_sub(days * DAY_MS));
        let beside = ages.keys().next_back().filter(|_| !for_ever).map_or(Millis(0), |days| ago(*days));
        for (days, outcomes) in &ages {
            let only = (outcomes.len() < Outcome::ALL.len()).then_some(outcomes.as_slice());
            let old = Old { before: ago(*days), only, floor, beside };
            let (from, at, why) = (looked.get(days).copied(), Millis(today * DAY_MS), why(plan, *days, outcomes));
            let mut pass = Pass { plan, old, from, bytes: u64::MAX, freed: 0, exported: floor, lost: 0, at, why };
            let (gone, unread) = self.prune_until(&mut pass, removed)?;
            looked.extend(pass.from.map(|clean| (*days, clean)));
            if gone > 0 || unread > 0 {
                tracing::info!(exchanges = gone, not_exported_yet = unread, why = %pass.why, "removed old exchanges");
            }
        }
        if let Some(max) = plan.max_bytes {
            self.prune_to(plan, max, floor, Millis(today * DAY_MS), removed)?;
        }
        Ok(())
    }

    /// Makes room, exported or not, and no more than must be: on disk a text takes up to several times its own bytes. How
    /// many times, what went first has shown.
    fn prune_to(&self, plan: &Retention, max: u64, floor: Seq, at: Millis, removed: &mut Removed) -> Result<(), String> {
        let used = || self.store.used_bytes().map_err(|e| e.to_string());
        let before = used()?;
        let (mut all, mut lost, mut left, mut gone) = (0, 0, before, 1);
        let (mut texts, mut room) = (1, MOST_ROOM);
        while left > max && gone > 0 && !self.is_over(plan) {
            let surplus = left - max;
            let old = Old { before: self.now(), only: None, floor: Seq(u64::MAX), beside: self.now() };
            let why = format!("more than {max} bytes").into();
            let bytes = part(surplus, texts, room);
            let mut pass = Pass { plan, old, from: None, bytes, freed: 0, exported: floor, lost: 0, at, why };
            (gone, _) = self.prune_until(&mut pass, removed)?;
            all += gone;
            lost += pass.lost;
            let now = used()?;
            (texts, room) = (pass.freed, left.saturating_sub(now));
            left = now;
        }
        if gone == 0 {
            let why = "nothing more can be removed to make room: the rest has not ended, or is no exchange";
            tracing::warn!(exchanges = all, not_exported = lost, used = left, max, "{why}");
        } else if lost > 0 {
            let why = "removed the oldest exchanges to make room, also some that an export had not sent yet: max_bytes does not wait for it";
            tracing::warn!(exchanges = all, not_exported = lost, before, used = left, max, "{why}");
        } else if all > 0 {
            tracing::info!(exchanges = all, before, used = left, max, "removed the oldest exchanges to make room");
        }
        Ok(())
    }

    /// Entries of the security log that are too old, and refusals that are too many.
    fn prune_audit(&self, plan: &Retention, removed: &mut Removed) -> Result<(), String> {
        let before = Millis(plan.security_days.map_or(0, |days| self.now().0.saturating_sub(days * DAY_MS)));
        let surplus = self.store.surplus_refusals(plan.refusals()).map_err(|e| e.to_string())?;
        let (mut after, mut gone) = (Some(Seq(0)), 0);
        while let Some(from) = after.filter(|_| !self.is_over(plan)) {
            let (rows, next) = self.store.old_entries(from, before, surplus, LOOK).map_err(|e| e.to_string())?;
            let some = rows.len() as u64;
            self.erase(Doomed { rows, ..Doomed::default() }, self.now(), "[retention]".into())?;
            gone += some;
            removed.entries += some;
            after = next;
            std::thread::sleep(REST);
        }
        if gone > 0 {
            tracing::info!(entries = gone, "removed old entries of the security log");
        }
        Ok(())
    }

    /// The relay stops, or its owner has thought better of it.
    fn is_over(&self, plan: &Retention) -> bool {
        self.stopping.is_cancelled() || self.config().retention != *plan
    }

    /// How many are gone, and how many were spared for a follower. `pass.from` is then where nothing was left before.
    pub(super) fn prune_until(&self, pass: &mut Pass<'_>, removed: &mut Removed) -> Result<(u64, u64), String> {
        let (mut after, mut gone, mut left, mut unread) = (pass.from, 0, 0, 0);
        loop {
            let (begun, seq) = (Instant::now(), self.last_seq());
            let doomed = self.store.oldest(after, pass.old, PIECE).map_err(|e| e.to_string())?;
            after = doomed.next;
            unread += doomed.unread;
            left += doomed.unread + doomed.open;
            pass.freed += doomed.bytes;
            let lost = doomed.ends.iter().filter(|end| **end > pass.exported).count() as u64;
            let some = doomed.ids.len() as u64;
            let pieces = u64::from(!doomed.ids.is_empty() || !doomed.rows.is_empty());
            self.erase(doomed, pass.at, pass.why.clone())?;
            gone += some;
            pass.lost += lost;
            removed.exchanges += some;
            if left == 0 && after.is_some() {
                pass.from = after;
            }
            if after.is_none() || pass.freed >= pass.bytes || self.is_over(pass.plan) {
                return Ok((gone, unread));
            }
            let busy = self.last_seq().0 > seq.0 + pieces;
            std::thread::sleep(if busy { (begun.elapsed() * BUSY_REST).min(LONGEST_REST) } else { REST });
        }
    }

    /// How far all of these have come; nothing beyond it is removed for its age. One that has not said yet has read nothing.
    fn slowest(&self) -> Result<Seq, String> {
        let mut slowest = Seq(u64::MAX);
        for (_, cursor) in self.followers.get().into_iter().flatten() {
            let cursor = self.store.cursor(cursor).map_err(|e| e.to_string())?;
            slowest = slowest.min(cursor.unwrap_or_default());
        }
        Ok(slowest)
    }
}

/// Removes the oldest, until so many bytes are gone.
pub(super) struct Pass<'a> {
    pub(super) plan: &'a Retention,
    pub(super) old: Old<'a>,
    /// What was asked up to here is not looked at.
    pub(super) from: Option<RequestId>,
    /// How many bytes of text shall go, and how many went.
    pub(super) bytes: u64,
    pub(super) freed: u64,
    /// Up to where all followers have read, and how many went that stand beyond it.
    pub(super) exported: Seq,
    pub(super) lost: u64,
    pub(super) at: Millis,
    pub(super) why: Arc<str>,
}

/// Of how many bytes of text `surplus` bytes of the file are freed, when so many have freed so much room.
fn part(surplus: u64, texts: u64, room: u64) -> u64 {
    let part = u128::from(surplus) * u128::from(texts) / u128::from(room.max(1));
    u64::try_from(part).unwrap_or(u64::MAX).clamp(1, surplus)
}

fn why(plan: &Retention, days: u64, outcomes: &[Outcome]) -> Arc<str> {
    let which = if plan.days == Some(days) { String::new() } else { outcomes.iter().map(|o| o.word()).collect::<Vec<_>>().join(", ") + " " };
    format!("{which}older than {days} days").into()
}
