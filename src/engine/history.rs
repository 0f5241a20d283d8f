//! What the page and its API ask of history: a search with its records and counts, a thread, one exchange, each agent's
//! figures. Owns how many searches run at once and how long one may take; the index is fed by `follow`, and what has been
//! asked is never slowed by who reads.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use tokio::sync::{Semaphore, broadcast};

use super::Engine;
use super::feed::Change;
use crate::core::exchange::Record;
use crate::core::ids::{Millis, RequestId, Seq};
use crate::search::highlight::Highlighter;
use crate::search::{AgentFigures, Chip, Cursor, Facets, Index, MAX_PAGE, Now, Order, PageRequest, Query, SearchError};
use crate::store::{Store, StoreError};

/// One more search waits for its turn.
const SEARCHES: usize = 2;
/// What is not found by then is not found.
const SEARCH_BUDGET: Duration = Duration::from_millis(150);
const COUNT_BUDGET: Duration = Duration::from_millis(150);
/// Whoever listens slower than this is told to look again.
const FEED: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Search(#[from] SearchError),
    #[error("too many searches are under way")]
    Busy,
}

pub(super) struct History {
    /// Empty until the files are opened.
    pub(super) index: OnceLock<Arc<Index>>,
    pub(super) feed: broadcast::Sender<Arc<Change>>,
    /// Set while the index has much to catch up with.
    pub(super) building: std::sync::atomic::AtomicBool,
    /// Set when the index is to be built anew; `wake` tells the follower.
    pub(super) anew: std::sync::atomic::AtomicBool,
    pub(super) wake: tokio::sync::Notify,
    searches: Semaphore,
    exports: Semaphore,
}

impl Default for History {
    fn default() -> Self {
        Self {
            index: OnceLock::new(),
            feed: broadcast::channel(FEED).0,
            building: true.into(),
            anew: false.into(),
            wake: tokio::sync::Notify::new(),
            searches: Semaphore::new(SEARCHES),
            exports: Semaphore::new(1),
        }
    }
}

/// A search as a door read it: whatever cannot be understood is left out or taken as words, never refused.
#[derive(Clone, Debug)]
pub struct Search {
    pub text: String,
    pub agent: String,
    pub status: String,
    /// A day or a moment, inclusive; or an agent's name.
    pub from: String,
    pub to: String,
    pub best: bool,
    pub before: String,
    pub limit: usize,
    pub zone: TimeZone,
    /// Count by status, agent and time as well.
    pub counts: bool,
}

impl Default for Search {
    fn default() -> Self {
        let empty = String::new;
        let (text, agent, status, from, to, before) = (empty(), empty(), empty(), empty(), empty(), empty());
        Self { text, agent, status, from, to, best: false, before, limit: crate::search::PAGE, zone: TimeZone::UTC, counts: false }
    }
}

/// One page of what was found.
pub struct Findings {
    pub records: Vec<Record>,
    pub total: u64,
    /// What to ask for as `before` to go on.
    pub next: Option<String>,
    /// Nothing had these words; these have words that differ in a letter.
    pub typo: bool,
    /// The time was up, or the index is still being built: there may be more.
    pub partial: bool,
    pub took: Duration,
    pub chips: Vec<Chip>,
    pub marks: Highlighter,
    pub counts: Option<Facets>,
    /// Nothing narrows it: the whole history.
    pub whole: bool,
}

impl Search {
    fn query(&self, now: &Now) -> Query {
        let mut query = Query::parse(&self.text, now);
        query.add("agent", &self.agent, now);
        query.add("status", &self.status, now);
        if !query.add("after", &self.from, now) {
            query.add("from", &self.from, now);
        }
        if !query.add("before", &day_after(&self.to), now) {
            query.add("to", &self.to, now);
        }
        query
    }

    /// The one order that continues where `before` says.
    fn cursor(&self) -> Option<Cursor> {
        self.before.parse().ok()
    }
}

/// A day as an inclusive end is the beginning of the next; moments stay.
fn day_after(text: &str) -> String {
    // A moment would be read as its day.
    let day = Some(text).filter(|t| t.len() == "2026-11-30".len());
    day.unwrap_or_default().parse::<jiff::civil::Date>().ok().and_then(|d| d.tomorrow().ok()).map_or_else(|| text.to_owned(), |d| d.to_string())
}

impl Engine {
    /// Runs a search. At most two at once; one that takes too long returns what it has.
    pub async fn search(self: &Arc<Self>, search: Search) -> Result<Findings, HistoryError> {
        let _turn = self.history.searches.acquire().await.map_err(|_| HistoryError::Busy)?;
        self.find(search).await
    }

    /// The same for an export, which asks for page after page: one at a time, so that it leaves a place to the others.
    pub async fn search_on(self: &Arc<Self>, search: Search) -> Result<Findings, HistoryError> {
        let _turn = self.history.exports.acquire().await.map_err(|_| HistoryError::Busy)?;
        self.find(search).await
    }

    async fn find(self: &Arc<Self>, search: Search) -> Result<Findings, HistoryError> {
        let engine = self.clone();
        tokio::task::spawn_blocking(move || engine.find_now(&search)).await.map_err(|_| StoreError::Down)?
    }

    fn find_now(&self, search: &Search) -> Result<Findings, HistoryError> {
        let begun = Instant::now();
        let now = Now { at: self.now(), zone: search.zone.clone() };
        let query = search.query(&now);
        let mut found = match self.history.index.get() {
            Some(index) if !query.is_empty() => found_in(index, &self.store, &query, search)?,
            None if !query.is_empty() => Findings { partial: true, ..Findings::none() },
            _ => newest(&self.store, search)?,
        };
        found.took = begun.elapsed();
        self.metrics().search_query.took(found.took);
        found.partial |= self.indexing().is_some() && !query.is_empty();
        found.marks = Highlighter::new(&query, found.typo);
        found.whole = query.is_empty();
        found.chips = query.chips().to_vec();
        if let Some(index) = self.history.index.get().filter(|_| search.counts) {
            found.counts = Some(index.facets(&query, found.typo, &now, Instant::now() + COUNT_BUDGET)?);
        }
        Ok(found)
    }

    /// How far the index is behind: positions of the log that it has, and that there are. `None` when it has caught up.
    #[must_use]
    pub fn indexing(&self) -> Option<(u64, u64)> {
        let set = |flag: &std::sync::atomic::AtomicBool| flag.load(std::sync::atomic::Ordering::Acquire);
        if !set(&self.history.building) && !set(&self.history.anew) {
            return None;
        }
        let done = self.history.index.get().map_or(0, |index| index.cursor().0);
        Some((done, self.last_seq().0))
    }

    /// Has the index built anew, in the background.
    pub fn reindex(&self) {
        self.history.anew.store(true, std::sync::atomic::Ordering::Release);
        self.history.wake.notify_one();
    }

    /// The log up to here can be searched.
    #[must_use]
    pub fn indexed(&self) -> Seq {
        self.history.index.get().map_or(Seq(0), |index| index.cursor())
    }

    /// How each agent has answered since `since`.
    pub async fn figures(self: &Arc<Self>, since: Millis) -> Result<Vec<AgentFigures>, HistoryError> {
        let Some(index) = self.history.index.get().cloned() else { return Ok(Vec::new()) };
        let _turn = self.history.searches.acquire().await.map_err(|_| HistoryError::Busy)?;
        let at = self.now();
        let count = move || {
            let now = Now::utc(at);
            let mut query = Query::default();
            if since.0 > 0 {
                query.add("after", &crate::core::outcome::moment(since), &now);
            }
            index.figures(&query, Instant::now() + COUNT_BUDGET)
        };
        let figures = tokio::task::spawn_blocking(count).await.map_err(|_| StoreError::Down)??;
        Ok(figures.0)
    }

    pub async fn exchange(self: &Arc<Self>, id: RequestId) -> Result<Option<Record>, StoreError> {
        self.read(move |store| store.record(id)).await
    }

    /// What was ever erased: when, why, how many exchanges.
    pub async fn erasures(self: &Arc<Self>) -> Result<Vec<(Millis, String, u64)>, StoreError> {
        self.read(Store::erasures).await
    }

    /// The last position of the log that can be read.
    #[must_use]
    pub fn last_seq(&self) -> Seq {
        *self.store.last().borrow()
    }

    /// Why what happens cannot be written down at the moment; `None` when it is.
    #[must_use]
    pub fn unrecorded(&self) -> Option<Arc<str>> {
        self.store.trouble()
    }
}

impl Findings {
    fn none() -> Self {
        let (records, chips, marks) = (Vec::new(), Vec::new(), Highlighter::default());
        Self { records, total: 0, next: None, typo: false, partial: false, took: Duration::ZERO, chips, marks, counts: None, whole: false }
    }
}

fn found_in(index: &Index, store: &Store, query: &Query, search: &Search) -> Result<Findings, HistoryError> {
    let order = if search.best && query.has_words() { Order::Best } else { Order::Newest };
    let page = PageRequest { limit: search.limit, order, before: search.cursor() };
    let found = index.search(query, &page, Instant::now() + SEARCH_BUDGET)?;
    let next = found.next.map(|cursor| cursor.to_string());
    let records = store.records(&found.ids)?;
    Ok(Findings { records, total: found.total, next, typo: found.typo, partial: found.partial, ..Findings::none() })
}

/// Without a query the store itself is the list: nothing is newer.
fn newest(store: &Store, search: &Search) -> Result<Findings, HistoryError> {
    let limit = search.limit.clamp(1, MAX_PAGE);
    let before = search.before.rsplit('.').next().filter(|_| search.cursor().is_some()).and_then(RequestId::parse);
    let mut records = store.newest(before, limit + 1)?;
    let more = records.len() > limit;
    records.truncate(limit);
    let next = records.last().filter(|_| more).map(|r| Cursor::of(r.asked.at, r.asked.id).to_string());
    Ok(Findings { records, total: store.exchange_count()?, next, ..Findings::none() })
}
