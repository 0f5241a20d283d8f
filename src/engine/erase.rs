//! Taking exchanges off the record: what the owner names (a conversation, an agent), and by the clock what is older or
//! larger than `[retention]` allows. In small pieces with rests between, asks first; each piece is a fact like any other,
//! so the index, the page and every follower of the log learn of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Engine;
use crate::config::Retention;
use crate::core::audit::Kind;
use crate::core::effect::{Erasure, Fact};
use crate::core::ids::{AgentName, ConversationId, Millis, RequestId, Seq};
use crate::core::outcome::Outcome;
use crate::store::{Doomed, Old, StoreError, Written};

/// Exchanges taken at once: some milliseconds of the writer's time.
const PIECE: usize = 100;
/// Exchanges or rows looked at, at once, for those of an agent.
const LOOK: usize = 1_000;
const EVERY: Duration = Duration::from_secs(3600);
/// A relay that has just started has better things to do.
const AFTER_START: Duration = Duration::from_secs(2);
/// Between two pieces; while asks come in so many times as long as the piece took, at most so long.
const REST: Duration = Duration::from_millis(5);
const BUSY_REST: u32 = 4;
const LONGEST_REST: Duration = Duration::from_secs(1);
const DAY_MS: u64 = 86_400_000;

/// What the owner wants gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unwanted {
    Conversation(ConversationId),
    Agent(AgentName),
}

impl Unwanted {
    fn why(&self) -> Arc<str> {
        match self {
            Self::Conversation(id) => format!("conversation {id}").into(),
            Self::Agent(name) => format!("agent {name}").into(),
        }
    }

    /// What the security log and the log of the process may say of it.
    fn kind(&self) -> &'static str {
        match self {
            Self::Conversation(_) => "a conversation",
            Self::Agent(_) => "an agent",
        }
    }
}

/// What was looked at so far.
#[derive(Default)]
struct Tally {
    looked: u64,
    gone: u64,
    open: u64,
    bytes: u64,
}

/// What the clock has removed, until the security log is told: once a day, for it may happen every hour.
#[derive(Default)]
struct Removed {
    day: u64,
    exchanges: u64,
}

/// How far the exchanges of each age were looked at with nothing left that could go later: the next pass begins there.
type Looked = BTreeMap<u64, RequestId>;

impl Engine {
    /// Begins to erase, for `who`; with `dry` only counts. How it goes: `progress`.
    pub fn begin_erase(
        self: &Arc<Self>,
        what: Unwanted,
        dry: bool,
        who: &'static str,
    ) -> Result<tokio::task::JoinHandle<Result<String, String>>, String> {
        let at = self.now();
        self.begin_work(move |engine, watch| {
            let mut tally = Tally::default();
            let outcome = engine.erase_all(&what, !dry, at, &mut tally, watch);
            if !dry && (outcome.is_ok() || tally.gone > 0) {
                tracing::info!(what = what.kind(), exchanges = tally.gone, still_open = tally.open, "erased");
                let done = format!("{} exchanges of {} taken off the record", tally.gone, what.kind());
                let _ = Handle::current().block_on(engine.audit(Kind::Erasure, who, None, &done));
            }
            outcome?;
            let open = match tally.open {
                0 => String::new(),
                n => format!("; {n} still open and left: erase again when they have ended"),
            };
            let would = if dry { "would erase" } else { "erased" };
            Ok(format!("{would} {} exchanges of {} ({} bytes){open}", tally.gone, what.why(), tally.bytes))
        })
    }

    fn erase_all(
        &self,
        what: &Unwanted,
        really: bool,
        at: Millis,
        tally: &mut Tally,
        watch: &mut dyn FnMut(&'static str, u64, u64) -> bool,
    ) -> Result<(), String> {
        let of = self.store.exchange_count().map_err(|e| e.to_string())?;
        let mut after = None;
        loop {
            let doomed = self.unwanted(what, after).map_err(|e| e.to_string())?;
            after = doomed.next;
            let (gone, bytes) = (doomed.ids.len() as u64, doomed.bytes);
            tally.open += doomed.open;
            tally.looked += doomed.looked;
            if really {
                self.erase(doomed, at, what.why())?;
            }
            tally.gone += gone;
            tally.bytes += bytes;
            if !watch("erasing", tally.looked, of) {
                return Err(format!("the relay stopped when {} exchanges were erased: do it again", tally.gone));
            }
            if after.is_none() {
                break;
            }
        }
        if really {
            self.erase_presence(what, at)?;
            self.leave_nothing()?;
        }
        Ok(())
    }

    fn unwanted(&self, what: &Unwanted, after: Option<RequestId>) -> Result<Doomed, StoreError> {
        match what {
            Unwanted::Conversation(id) => self.store.of_conversation(*id, after, PIECE),
            Unwanted::Agent(name) => self.store.of_agent(name, after, LOOK),
        }
    }

    fn erase_presence(&self, what: &Unwanted, at: Millis) -> Result<(), String> {
        let Unwanted::Agent(name) = what else { return Ok(()) };
        let mut after = Some(Seq(0));
        while let Some(from) = after {
            let (rows, next) = self.store.presence_of(name, from, 10 * LOOK).map_err(|e| e.to_string())?;
            after = next;
            self.erase(Doomed { rows, ..Doomed::default() }, at, what.why())?;
        }
        Ok(())
    }

    /// Has one piece recorded as erased. Blocks; on a thread of the runtime's that may.
    fn erase(&self, doomed: Doomed, at: Millis, why: Arc<str>) -> Result<(), String> {
        let Doomed { ids, ends, rows, .. } = doomed;
        if ids.is_empty() && rows.is_empty() {
            return Ok(());
        }
        for some in ids.chunks(PIECE).chain(ids.is_empty().then_some(&[][..])) {
            let fact = Fact::Erased(Arc::new(Erasure { ids: some.to_vec(), rows: rows.clone(), at, why: why.clone() }));
            self.submit_and_wait(|engine, permit, told| {
                engine.store.submit(permit, vec![fact], move |written| _ = told.send(written));
            })?;
            self.relay().forget(some);
        }
        self.count_lost(&ends)
    }

    /// What an export has not read yet and never will.
    fn count_lost(&self, ends: &[Seq]) -> Result<(), String> {
        for (name, cursor) in self.followers.get().into_iter().flatten() {
            let read = self.store.cursor(cursor).map_err(|e| e.to_string())?.unwrap_or_default();
            let lost = ends.iter().filter(|end| **end > read).count() as u64;
            self.metrics().export(name, |export| export.spans.add("retention", lost));
        }
        Ok(())
    }

    /// No byte of what was erased stays in the journal now, nor in the file after the next start.
    fn leave_nothing(&self) -> Result<(), String> {
        self.submit_and_wait(|engine, permit, told| engine.store.wipe(permit, move |written| _ = told.send(written)))
    }

    fn submit_and_wait(&self, submit: impl FnOnce(&Self, crate::store::Permit, oneshot::Sender<Written>)) -> Result<(), String> {
        let permit = Handle::current().block_on(self.store.reserve()).map_err(|e| e.to_string())?;
        let (told, done) = oneshot::channel();
        submit(self, permit, told);
        match done.blocking_recv() {
            Ok(Written::Durable) => Ok(()),
            _ => Err("the store cannot write at the moment; see the log".to_owned()),
        }
    }

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
            let Some(plan) = config.borrow_and_update().retention.clone() else { continue };
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
                    tracing::error!(error = %why, "old exchanges could not be removed; it is tried again every hour");
                }
                Err(_) => {}
            }
        }
    }

    /// Tells the security log what was removed on a day that is over by `today`.
    async fn note_removed(&self, removed: &mut Removed, today: u64) {
        if removed.exchanges > 0 && removed.day < today {
            let done = format!("{} exchanges removed by [retention]", removed.exchanges);
            let _ = self.audit(Kind::Erasure, "relay", None, &done).await;
            removed.exchanges = 0;
        }
    }

    /// One pass over everything that is too old, or too much. Blocks.
    fn prune(&self, plan: &Retention, removed: &mut Removed, looked: &mut Looked) -> Result<(), String> {
        let floor = self.slowest()?;
        let today = self.now().0 / DAY_MS;
        removed.day = today;
        let ages = plan.ages();
        let for_ever = ages.values().map(Vec::len).sum::<usize>() < Outcome::ALL.len();
        let ago = |days: u64| Millis(self.now().0.saturating_sub(days * DAY_MS));
        let beside = ages.keys().next_back().filter(|_| !for_ever).map_or(Millis(0), |days| ago(*days));
        for (days, outcomes) in &ages {
            let only = (outcomes.len() < Outcome::ALL.len()).then_some(outcomes.as_slice());
            let old = Old { before: ago(*days), only, floor, beside };
            let mut pass =
                Pass { plan, old, from: looked.get(days).copied(), bytes: u64::MAX, at: Millis(today * DAY_MS), why: why(plan, *days, outcomes) };
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

    /// Makes room, exported or not. What a piece frees is known only about, so it is looked at again until it is enough.
    fn prune_to(&self, plan: &Retention, max: u64, floor: Seq, at: Millis, removed: &mut Removed) -> Result<(), String> {
        let (mut first, mut all) = (None, 0);
        loop {
            let used = self.store.used_bytes().map_err(|e| e.to_string())?;
            if used <= max || self.is_over(plan) {
                if let Some(before) = first {
                    tracing::info!(exchanges = all, before, used, max, exported_up_to = floor.0, "removed the oldest exchanges to make room");
                }
                return Ok(());
            }
            first.get_or_insert(used);
            let old = Old { before: self.now(), only: None, floor: Seq(u64::MAX), beside: self.now() };
            let mut pass = Pass { plan, old, from: None, bytes: used - max, at, why: format!("more than {max} bytes").into() };
            let (gone, _) = self.prune_until(&mut pass, removed)?;
            all += gone;
            if gone == 0 {
                tracing::warn!(exchanges = all, used, max, "nothing more can be removed to make room: the rest has not ended, or is no exchange");
                return Ok(());
            }
        }
    }

    /// The relay stops, or its owner has thought better of it.
    fn is_over(&self, plan: &Retention) -> bool {
        self.stopping.is_cancelled() || self.config().retention.as_ref() != Some(plan)
    }

    /// How many are gone, and how many were spared for a follower. `pass.from` is then where nothing was left before.
    fn prune_until(&self, pass: &mut Pass<'_>, removed: &mut Removed) -> Result<(u64, u64), String> {
        let (mut after, mut gone, mut left, mut unread, mut freed) = (pass.from, 0, 0, 0, 0);
        loop {
            let (begun, seq) = (Instant::now(), self.last_seq());
            let doomed = self.store.oldest(after, pass.old, PIECE).map_err(|e| e.to_string())?;
            after = doomed.next;
            unread += doomed.unread;
            left += doomed.unread + doomed.open;
            freed += doomed.bytes;
            let some = doomed.ids.len() as u64;
            let pieces = u64::from(!doomed.ids.is_empty() || !doomed.rows.is_empty());
            self.erase(doomed, pass.at, pass.why.clone())?;
            gone += some;
            removed.exchanges += some;
            if left == 0 && after.is_some() {
                pass.from = after;
            }
            if after.is_none() || freed >= pass.bytes || self.is_over(pass.plan) {
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
struct Pass<'a> {
    plan: &'a Retention,
    old: Old<'a>,
    /// What was asked up to here is not looked at.
    from: Option<RequestId>,
    bytes: u64,
    at: Millis,
    why: Arc<str>,
}

fn why(plan: &Retention, days: u64, outcomes: &[Outcome]) -> Arc<str> {
    let which = if plan.days == Some(days) { String::new() } else { outcomes.iter().map(|o| o.word()).collect::<Vec<_>>().join(", ") + " " };
    format!("{which}older than {days} days").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::core::exchange::{Asked, End, Trail, WhenOffline};
    use crate::core::outcome::Outcome;
    use crate::engine::{AskRequest, Search};
    use crate::store::Store;

    fn name(text: &str) -> AgentName {
        AgentName::parse(text).unwrap()
    }

    /// An answered exchange of so many days ago.
    fn old(n: u128, days: u64, now: Millis) -> [Fact; 2] {
        let at = Millis(now.0 - days * DAY_MS);
        let id = RequestId::from_u128(u128::from(at.0) << 80 | n);
        let asked = Asked {
            id,
            conversation: ConversationId::from_u128(n % 4),
            begins: true,
            from: name("alice"),
            to: "bob".into(),
            message: format!("yesteryear number {n} {}", "and more of it ".repeat(40)).into(),
            at,
            when_offline: WhenOffline::Fail,
            trail: Trail { root: id, parent: None, origin: name("alice"), path: [name("alice")].into() },
            key: None,
            traceparent: None,
        };
        let end = End { outcome: Outcome::Answered, text: "done".into(), at, call: None, by: None };
        [Fact::Asked(Arc::new(asked)), Fact::Ended { id, end: Arc::new(end), work: Default::default() }]
    }

    async fn start(dir: &std::path::Path, retention: Option<Retention>) -> Arc<Engine> {
        let store = Store::open(dir).unwrap();
        if store.exchange_count().unwrap() == 0 {
            let now = Millis(jiff::Timestamp::now().as_millisecond() as u64);
            let facts = (0..1_000).flat_map(|n| old(n, if n < 900 { 40 } else { 3 }, now)).collect();
            let permit = store.reserve().await.unwrap();
            let (told, done) = oneshot::channel();
            store.submit(permit, facts, move |written| told.send(written).unwrap());
            assert_eq!(done.await, Ok(Written::Durable));
        }
        let flags = crate::config::Flags { config: Some("/dev/null".into()), data_dir: Some(dir.to_owned()), ..Default::default() };
        let mut config = crate::config::load(&flags, &|_| None).unwrap();
        config.retention = retention;
        config.agents = ["alice", "bob"].map(|n| crate::config::AgentEntry { name: name(n), credential: None }).into();
        Engine::start(config, store).unwrap()
    }

    async fn found(engine: &Arc<Engine>, text: &str) -> u64 {
        engine.search(Search { text: text.into(), ..Search::default() }).await.unwrap().total
    }

    async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds().await {
            assert!(Instant::now() < deadline, "{what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn stop(engine: Arc<Engine>) {
        engine.stop().await;
        tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_older_than_the_limit_goes_while_asks_are_served_and_the_index_follows() {
        let dir = tempfile::tempdir().unwrap();
        let engine = start(dir.path(), Some(Retention { days: Some(30), ..Retention::default() })).await;
        until("indexed", async || found(&engine, "yesteryear").await == 1_000).await;
        engine.keep_up(Vec::new());
        let mut asked = 0;
        until("the old ones are removed", async || {
            // Refused, for bob is away; recorded like any other.
            engine.ask(&name("alice"), AskRequest { to: "bob".into(), message: "today".into(), ..Default::default() }).await.unwrap();
            asked += 1;
            engine.store.exchange_count().unwrap() == 100 + asked
        })
        .await;
        until("the index has followed", async || found(&engine, "yesteryear").await == 100).await;
        let all = engine.erasures().await.unwrap();
        assert_eq!(all.iter().map(|(_, why, n)| (why.as_str(), *n)).collect::<Vec<_>>(), [("older than 30 days", 900)]);
        stop(engine).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_oldest_go_when_there_is_more_than_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let engine = start(dir.path(), Some(Retention { max_bytes: Some(500_000), ..Retention::default() })).await;
        assert!(engine.store.used_bytes().unwrap() > 700_000);
        engine.keep_up(Vec::new());
        until("there is room", async || engine.store.used_bytes().unwrap() <= 500_000).await;
        let left = engine.store.exchange_count().unwrap();
        assert!((100..1_000).contains(&left), "{left}");
        let newest = engine.newest(None, 1).await.unwrap();
        assert!(newest[0].asked.message.contains("number 999"));
        stop(engine).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_a_follower_has_not_read_is_spared() {
        let dir = tempfile::tempdir().unwrap();
        let engine = start(dir.path(), Some(Retention::default())).await;
        let (gone, unread) = {
            let engine = engine.clone();
            let prune = move || {
                let old = Old { before: Millis(engine.now().0 - 30 * DAY_MS), only: None, floor: Seq(600), beside: Millis(0) };
                let plan = &Retention::default();
                let mut pass = Pass { plan, old, from: None, bytes: u64::MAX, at: Millis(1), why: "test".into() };
                let done = engine.prune_until(&mut pass, &mut Removed::default());
                // The next pass begins at the first that was spared, not behind it.
                assert!(engine.store.oldest(pass.from, old, 1_000).unwrap().unread >= 600 - 3 * PIECE as u64);
                done
            };
            tokio::task::spawn_blocking(prune).await.unwrap().unwrap()
        };
        assert_eq!((gone, unread), (300, 600));
        stop(engine).await;
    }

    #[tokio::test]
    async fn a_pass_that_panics_is_not_the_last_and_a_new_limit_counts_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let engine = start(dir.path(), None).await;
        engine.keep_up(Vec::new());
        until("they listen to the configuration", async || engine.config.receiver_count() == 2).await;
        let keep = |days| {
            let mut config = Config::clone(&engine.config());
            config.retention = Some(Retention { days: Some(days), ..Retention::default() });
            engine.config.send_replace(Arc::new(config));
        };
        // More days than can be reckoned with; no configuration that is read has such a number.
        keep(u64::MAX);
        // On this one thread the pass has been begun now.
        tokio::task::yield_now().await;
        for (days, left) in [(30, 100), (2, 0)] {
            keep(days);
            until("the old ones are removed", async || engine.store.exchange_count().unwrap() == left).await;
        }
        stop(engine).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_limit_that_is_taken_back_removes_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let engine = start(dir.path(), None).await;
        let (pruning, plan) = (engine.clone(), Retention { days: Some(30), ..Retention::default() });
        let prune = move || pruning.prune(&plan, &mut Removed::default(), &mut Looked::default());
        tokio::task::spawn_blocking(prune).await.unwrap().unwrap();
        assert_eq!(engine.store.exchange_count().unwrap(), 1_000 - PIECE as u64);
        stop(engine).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_erased_conversation_is_not_found_and_a_dry_run_erases_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let engine = start(dir.path(), None).await;
        until("indexed", async || found(&engine, "yesteryear").await == 1_000).await;
        let what = Unwanted::Conversation(ConversationId::from_u128(3));
        let dry = engine.begin_erase(what.clone(), true, "test").unwrap().await.unwrap().unwrap();
        assert!(dry.contains("would erase 250 exchanges"), "{dry}");
        assert_eq!(engine.store.exchange_count().unwrap(), 1_000);
        let wet = engine.begin_erase(what, false, "test").unwrap().await.unwrap().unwrap();
        assert!(wet.contains("erased 250 exchanges"), "{wet}");
        until("the index has followed", async || found(&engine, "yesteryear").await == 750).await;
        let all = engine.begin_erase(Unwanted::Agent(name("bob")), false, "test").unwrap().await.unwrap().unwrap();
        assert!(all.contains("erased 750 exchanges"), "{all}");
        until("nothing is left", async || found(&engine, "yesteryear").await == 0).await;
        assert_eq!(engine.erasures().await.unwrap().iter().map(|e| e.2).collect::<Vec<_>>(), [250, 750]);
        stop(engine).await;
    }
}
