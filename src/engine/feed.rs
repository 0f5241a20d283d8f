//! The live feed: what changes in history, for pages that are open. One task reads the log and tells all; who falls behind
//! or comes back reads on from its own cursor, so that nothing is missed; who is too far behind is told to look anew.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::Engine;
use crate::core::effect::Fact;
use crate::core::exchange::Record;
use crate::core::ids::Seq;
use crate::store::{Store, StoreError};

/// Facts read at once.
const BATCH: usize = 256;
/// Between two looks at the log: changes of one exchange in this time are told as one.
const PAUSE: Duration = Duration::from_millis(100);
/// Who is further behind than this is not told one by one.
const FAR: u64 = 2_000;

/// Something that an open page should know.
#[derive(Clone, Debug)]
pub enum Change {
    /// An exchange as it is now.
    Exchange(Seq, Record),
    /// An agent came or went.
    Presence(Seq),
    /// More happened than is told: look again.
    Missed(Seq),
}

impl Change {
    #[must_use]
    pub fn seq(&self) -> Seq {
        match self {
            Self::Exchange(seq, _) | Self::Presence(seq) | Self::Missed(seq) => *seq,
        }
    }
}

/// One listener's place.
pub struct Feed {
    engine: Arc<Engine>,
    cursor: Seq,
    live: broadcast::Receiver<Arc<Change>>,
    reading: bool,
    ready: VecDeque<Arc<Change>>,
}

impl Engine {
    /// Listens from now on, or from after a position that was seen before.
    pub fn listen(self: &Arc<Self>, after: Option<Seq>) -> Feed {
        // In this order: what is said between the two lines is heard twice rather than not at all.
        let live = self.history.feed.subscribe();
        let last = self.last_seq();
        let cursor = after.unwrap_or(last);
        let stale = cursor > last;
        let cursor = if stale { Seq(0) } else { cursor };
        Feed { engine: self.clone(), cursor, live, reading: cursor < last, ready: VecDeque::new() }
    }

    /// Tells what the log has to tell while somebody listens. Ends when the relay stops.
    pub(super) async fn tell_listeners(self: Arc<Self>) {
        let mut last = self.store.last();
        let mut cursor = *last.borrow();
        // Whoever listens already has missed something: this work was broken off.
        let _ = self.history.feed.send(Arc::new(Change::Missed(cursor)));
        loop {
            tokio::select! {
                changed = last.wait_for(|seq| *seq > cursor) => if changed.is_err() { return },
                () = self.stopping.cancelled() => return,
            }
            let end = self.last_seq();
            let feed = &self.history.feed;
            if feed.receiver_count() == 0 {
                cursor = end;
            } else if end.0 - cursor.0 > FAR {
                cursor = end;
                let _ = feed.send(Arc::new(Change::Missed(end)));
            } else {
                match self.read(move |store| changes(store, cursor)).await {
                    Ok((changes, upto)) => {
                        cursor = upto;
                        // Nobody may be left to hear it.
                        changes.into_iter().for_each(|change| _ = feed.send(Arc::new(change)));
                    }
                    Err(e) => tracing::debug!(error = %e, "the live feed cannot read the log yet"),
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// What happened after `cursor`, each exchange once, and up to where.
fn changes(store: &Store, cursor: Seq) -> Result<(Vec<Change>, Seq), StoreError> {
    let (facts, upto) = store.log(cursor, BATCH)?;
    let mut latest = HashMap::new();
    let (mut presence, mut erased) = (None, None);
    for (seq, fact) in &facts {
        match (fact.request(), fact) {
            (Some(id), _) => _ = latest.insert(id, *seq),
            // What a page shows may be gone.
            (None, Fact::Erased(_)) => erased = Some(*seq),
            (None, Fact::Presence { .. }) => presence = Some(*seq),
            (None, _) => {}
        }
    }
    let ids: Vec<_> = latest.keys().copied().collect();
    let records = store.records(&ids)?.into_iter();
    let mut changes: Vec<Change> = records
        .map(|r| Change::Exchange(latest.get(&r.asked.id).copied().unwrap_or(upto), r))
        .chain(presence.map(Change::Presence))
        .chain(erased.map(Change::Missed))
        .collect();
    changes.sort_by_key(Change::seq);
    Ok((changes, upto))
}

impl Feed {
    /// The next change; `None` when the relay stops.
    pub async fn next(&mut self) -> Option<Arc<Change>> {
        let stopping = self.engine.stopping();
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Some(change);
            }
            if self.reading {
                self.read_on().await;
                continue;
            }
            let heard = tokio::select! {
                heard = self.live.recv() => heard,
                () = stopping.cancelled() => return None,
            };
            match heard {
                Ok(change) if change.seq() > self.cursor => {
                    self.cursor = change.seq();
                    return Some(change);
                }
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => self.reading = true,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    async fn read_on(&mut self) {
        let (cursor, last) = (self.cursor, self.engine.last_seq());
        if last.0.saturating_sub(cursor.0) > FAR {
            (self.cursor, self.reading) = (last, false);
            self.ready.push_back(Arc::new(Change::Missed(last)));
            return;
        }
        match self.engine.read(move |store| changes(store, cursor)).await {
            Ok((changes, upto)) => {
                self.reading = upto > cursor;
                self.cursor = upto;
                self.ready.extend(changes.into_iter().map(Arc::new));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::core::ids::AgentName;
    use crate::engine::{AskRequest, Search};
    use crate::store::Store;

    fn start(dir: &std::path::Path) -> Arc<Engine> {
        let flags = crate::config::Flags { config: Some("/dev/null".into()), data_dir: Some(dir.to_owned()), ..Default::default() };
        let mut config = crate::config::load(&flags, &|_| None).unwrap();
        let entry = |name: &str| crate::config::AgentEntry { name: AgentName::parse(name).unwrap(), credential: None };
        config.agents = vec![entry("alice"), entry("bob")];
        Engine::start(config, Store::open(dir).unwrap()).unwrap()
    }

    /// A refused ask is recorded like any other, and needs no bot.
    async fn ask(engine: &Arc<Engine>, message: &str) {
        let request = AskRequest { to: "bob".into(), message: message.into(), ..AskRequest::default() };
        engine.ask(&AgentName::parse("alice").unwrap(), request).await.unwrap();
    }

    async fn heard(feed: &mut Feed) -> String {
        loop {
            let change = tokio::time::timeout(Duration::from_secs(10), feed.next()).await.unwrap().unwrap();
            if let Change::Exchange(_, record) = &*change {
                return record.asked.message.to_string();
            }
        }
    }

    async fn found(engine: &Arc<Engine>, text: &str, want: u64) -> u64 {
        let mut total = 0;
        for _ in 0..400 {
            total = engine.search(Search { text: text.into(), ..Search::default() }).await.unwrap().total;
            if total == want {
                break;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        total
    }

    async fn stop(engine: Arc<Engine>) {
        engine.stop().await;
        tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_listener_that_comes_back_misses_nothing_and_hears_nothing_twice() {
        let dir = tempfile::tempdir().unwrap();
        let engine = start(dir.path());
        let mut feed = engine.listen(None);
        ask(&engine, "one").await;
        assert_eq!(heard(&mut feed).await, "one");
        let seen = feed.cursor;
        drop(feed);
        ask(&engine, "two").await;
        ask(&engine, "three").await;
        let mut feed = engine.listen(Some(seen));
        ask(&engine, "four").await;
        for word in ["two", "three", "four"] {
            assert_eq!(heard(&mut feed).await, word);
        }
        stop(engine).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_deleted_index_is_built_anew_from_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let engine = start(dir.path());
        for n in 0..20 {
            ask(&engine, &format!("étape {n}")).await;
        }
        assert_eq!(found(&engine, "etape", 20).await, 20);
        stop(engine).await;
        let index = std::fs::read_dir(dir.path()).unwrap().flatten().find(|e| e.file_name().to_string_lossy().starts_with("index")).unwrap();
        std::fs::remove_dir_all(index.path()).unwrap();
        let engine = start(dir.path());
        assert_eq!(found(&engine, "etape", 20).await, 20);
        ask(&engine, "étape again").await;
        assert_eq!(found(&engine, "etape", 21).await, 21);
        assert!(engine.indexing().is_none());
        stop(engine).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_cannot_be_understood_is_left_out_and_pages_follow_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let engine = start(dir.path());
        for n in 0..7 {
            ask(&engine, &format!("page {n}")).await;
        }
        assert_eq!(found(&engine, "page", 7).await, 7);
        for text in ["", "page"] {
            let mut search = Search { text: text.into(), limit: 3, status: "nonsense".into(), before: "zzz".into(), ..Search::default() };
            let mut seen = Vec::new();
            loop {
                let page = engine.search(search.clone()).await.unwrap();
                seen.extend(page.records.iter().map(|r| r.asked.message.to_string()));
                let Some(next) = page.next else { break };
                search.before = next;
            }
            assert_eq!(seen, (0..7).rev().map(|n| format!("page {n}")).collect::<Vec<_>>());
        }
        stop(engine).await;
    }
}
