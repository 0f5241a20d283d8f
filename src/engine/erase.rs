//! Taking exchanges off the record: what the owner names (a conversation, an agent), and by the clock what is older or
//! larger than `[retention]` allows. In small pieces with rests between, asks first; each piece is a fact like any other,
//! so the index, the page and every follower of the log learn of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Engine;
use crate::config::Retention;
use crate::core::effect::{Erasure, Fact};
use crate::core::ids::{AgentName, ConversationId, Millis, RequestId, Seq};
use crate::store::{Doomed, StoreError, Written};

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
}

/// What was looked at so far.
#[derive(Default)]
struct Tally {
    gone: u64,
    open: u64,
    bytes: u64,
}

impl Engine {
    /// Begins to erase; with `dry` only counts. How it goes: `progress`.
    pub fn begin_erase(self: &Arc<Self>, what: Unwanted, dry: bool) -> Result<tokio::task::JoinHandle<Result<String, String>>, String> {
        let at = self.now();
        self.begin_work(move |engine, watch| {
            let of = engine.store.exchange_count().map_err(|e| e.to_string())?;
            let mut tally = Tally::default();
            let mut after = None;
            loop {
                let doomed = engine.unwanted(&what, after).map_err(|e| e.to_string())?;
                after = doomed.next;
                tally.open += doomed.open;
                tally.bytes += doomed.bytes;
                tally.gone += doomed.ids.len() as u64;
                if !dry {
                    engine.erase(doomed, at, what.why())?;
                }
                if !watch("erasing", tally.gone, of) {
                    return Err(format!("the relay stopped when {} exchanges were erased: do it again", tally.gone));
                }
                if after.is_none() {
                    break;
                }
            }
            if !dry {
                engine.erase_presence(&what, at)?;
                engine.leave_nothing()?;
                tracing::info!(what = %what.why(), exchanges = tally.gone, still_open = tally.open, "erased");
            }
            let open = match tally.open {
                0 => String::new(),
                n => format!("; {n} still open and left: erase again when they have ended"),
            };
            let would = if dry { "would erase" } else { "erased" };
            Ok(format!("{would} {} exchanges of {} ({} bytes){open}", tally.gone, what.why(), tally.bytes))
        })
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
        let Doomed { ids, rows, .. } = doomed;
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
    pub(super) async fn keep_within_bounds(self: Arc<Self>, followers: Vec<String>) {
        let Some(plan) = self.config().retention.clone() else { return };
        let followers: Arc<[String]> = followers.into();
        let mut pause = AFTER_START;
        let mut failing = false;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stopping.cancelled() => return,
            }
            let (engine, plan, followers) = (self.clone(), plan.clone(), followers.clone());
            let pass = tokio::task::spawn_blocking(move || engine.prune(&plan, &followers)).await;
            match pass.unwrap_or_else(|_| Err("it broke off".to_owned())) {
                Ok(()) => failing = false,
                Err(why) if !std::mem::replace(&mut failing, true) => {
                    tracing::error!(error = %why, "old exchanges could not be removed; it is tried again every hour");
                }
                Err(_) => {}
            }
            pause = EVERY;
        }
    }

    /// One pass over everything that is too old, or too much. Blocks.
    fn prune(&self, plan: &Retention, followers: &[String]) -> Result<(), String> {
        let floor = self.slowest(followers)?;
        let today = Millis(self.now().0 / DAY_MS * DAY_MS);
        if let Some(days) = plan.days {
            let before = Millis(self.now().0.saturating_sub(days * DAY_MS));
            let (gone, unread) = self.prune_until(before, floor, u64::MAX, today, format!("older than {days} days").into())?;
            if gone > 0 || unread > 0 {
                tracing::info!(exchanges = gone, not_exported_yet = unread, days, "removed old exchanges");
            }
        }
        if let Some(max) = plan.max_bytes {
            self.prune_to(max, floor, today)?;
        }
        Ok(())
    }

    /// Makes room, exported or not. What a piece frees is known only about, so it is looked at again until it is enough.
    fn prune_to(&self, max: u64, floor: Seq, today: Millis) -> Result<(), String> {
        loop {
            let used = self.store.used_bytes().map_err(|e| e.to_string())?;
            if used <= max || self.stopping.is_cancelled() {
                return Ok(());
            }
            let why: Arc<str> = format!("more than {max} bytes").into();
            let (gone, _) = self.prune_until(self.now(), Seq(u64::MAX), used - max, today, why)?;
            tracing::info!(exchanges = gone, used, max, exported_up_to = floor.0, "removed the oldest exchanges to make room");
            if gone == 0 {
                return Ok(());
            }
        }
    }

    /// Removes the oldest of what was asked before `before` until so many bytes are gone; how many, and how many were
    /// spared for a follower.
    fn prune_until(&self, before: Millis, floor: Seq, bytes: u64, at: Millis, why: Arc<str>) -> Result<(u64, u64), String> {
        let (mut after, mut gone, mut unread, mut freed) = (None, 0, 0, 0);
        loop {
            let (begun, seq) = (Instant::now(), self.last_seq());
            let doomed = self.store.oldest(after, before, floor, PIECE).map_err(|e| e.to_string())?;
            after = doomed.next;
            unread += doomed.unread;
            freed += doomed.bytes;
            gone += doomed.ids.len() as u64;
            let pieces = u64::from(!doomed.ids.is_empty() || !doomed.rows.is_empty());
            self.erase(doomed, at, why.clone())?;
            if after.is_none() || freed >= bytes || self.stopping.is_cancelled() {
                return Ok((gone, unread));
            }
            let busy = self.last_seq().0 > seq.0 + pieces;
            std::thread::sleep(if busy { (begun.elapsed() * BUSY_REST).min(LONGEST_REST) } else { REST });
        }
    }

    /// How far all of these have come; nothing beyond it is removed for its age. One that has not said yet has read nothing.
    fn slowest(&self, followers: &[String]) -> Result<Seq, String> {
        let mut slowest = Seq(u64::MAX);
        for follower in followers {
            let cursor = self.store.cursor(follower).map_err(|e| e.to_string())?;
            slowest = slowest.min(cursor.unwrap_or_default());
        }
        Ok(slowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let engine = start(dir.path(), Some(Retention { days: Some(30), max_bytes: None })).await;
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
        let engine = start(dir.path(), Some(Retention { days: None, max_bytes: Some(500_000) })).await;
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
        let engine = start(dir.path(), None).await;
        let (gone, unread) = {
            let engine = engine.clone();
            let prune = move || engine.prune_until(Millis(engine.now().0 - 30 * DAY_MS), Seq(600), u64::MAX, Millis(1), "test".into());
            tokio::task::spawn_blocking(prune).await.unwrap().unwrap()
        };
        assert_eq!((gone, unread), (300, 600));
        stop(engine).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_erased_conversation_is_not_found_and_a_dry_run_erases_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let engine = start(dir.path(), None).await;
        until("indexed", async || found(&engine, "yesteryear").await == 1_000).await;
        let what = Unwanted::Conversation(ConversationId::from_u128(3));
        let dry = engine.begin_erase(what.clone(), true).unwrap().await.unwrap().unwrap();
        assert!(dry.contains("would erase 250 exchanges"), "{dry}");
        assert_eq!(engine.store.exchange_count().unwrap(), 1_000);
        let wet = engine.begin_erase(what, false).unwrap().await.unwrap().unwrap();
        assert!(wet.contains("erased 250 exchanges"), "{wet}");
        until("the index has followed", async || found(&engine, "yesteryear").await == 750).await;
        let all = engine.begin_erase(Unwanted::Agent(name("bob")), false).unwrap().await.unwrap().unwrap();
        assert!(all.contains("erased 750 exchanges"), "{all}");
        until("nothing is left", async || found(&engine, "yesteryear").await == 0).await;
        assert_eq!(engine.erasures().await.unwrap().iter().map(|e| e.2).collect::<Vec<_>>(), [250, 750]);
        stop(engine).await;
    }
}
