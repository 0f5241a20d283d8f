//! The event stream of an open page: each exchange that changes, rendered as the page has it, under its position in the
//! log. Owns what a page is told and how often; a page that would be told too much is told to look again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use tokio::time::Instant;
use warp::sse::Event;

use super::address::Address;
use super::item::Place;
use super::view::View;
use super::{list, rail};
use crate::core::exchange::Record;
use crate::core::ids::{ConversationId, RequestId, Seq};
use crate::engine::{Change, Engine, Feed, Highlighter, Search};

/// Changes of so long are told together.
const GATHER: Duration = Duration::from_millis(200);
/// A page is not told of more than this at once.
const MOST: usize = 40;
/// The index follows the log a little later; a filtered page waits so long for it.
const INDEX_PATIENCE: Duration = Duration::from_secs(3);

pub(super) struct Listener {
    pub engine: Arc<Engine>,
    pub view: View,
    pub address: Address,
    pub conversation: Option<ConversationId>,
    pub feed: Feed,
    told: VecDeque<Event>,
    agents: String,
}

impl Listener {
    pub(super) fn new(engine: Arc<Engine>, view: View, address: Address, conversation: Option<ConversationId>, after: Option<Seq>) -> Self {
        let feed = engine.listen(after);
        let address = Address { before: String::new(), best: false, ..address };
        Self { engine, view, address, conversation, feed, told: VecDeque::new(), agents: String::new() }
    }

    pub(super) fn stream(mut self) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
        self.agents = self.agents_now();
        // Something is sent at once, so that proxies and the browser know that it begins.
        self.told.push_back(Event::default().comment("live"));
        futures_util::stream::unfold(self, |mut listener| async move {
            loop {
                if let Some(event) = listener.told.pop_front() {
                    return Some((Ok(event), listener));
                }
                listener.hear().await?;
            }
        })
    }

    /// Waits for changes and words them.
    async fn hear(&mut self) -> Option<()> {
        let mut changes = vec![self.feed.next().await?];
        let until = Instant::now() + GATHER;
        while changes.len() <= 4 * MOST
            && let Ok(change) = tokio::time::timeout_at(until, self.feed.next()).await
        {
            changes.push(change?);
        }
        // Whoever has been logged out meanwhile hears no more.
        if !self.view.guest.as_ref().is_some_and(|guest| guest.is_still(&self.engine)) {
            return None;
        }
        self.view.now = self.engine.now();
        let last = changes.last().map_or(Seq(0), |c| c.seq());
        let latest = latest(&changes);
        if latest.len() > MOST || changes.iter().any(|c| matches!(**c, Change::Missed(_))) {
            self.told.push_back(Event::default().event("missed").id(last.0.to_string()).data(latest.len().to_string()));
        } else if !latest.is_empty() {
            self.tell(latest, last).await;
        }
        self.tell_agents(last);
        Some(())
    }

    async fn tell(&mut self, mut latest: Vec<(Seq, Record)>, last: Seq) {
        if let Some(conversation) = self.conversation {
            latest.retain(|(_, r)| r.asked.conversation == conversation);
        }
        let filtered = self.conversation.is_none() && !self.address.is_plain();
        let (wanted, marks) = if filtered { self.matching(last).await } else { (None, Highlighter::default()) };
        for (seq, record) in latest {
            let fits = wanted.as_ref().is_none_or(|ids| ids.contains(&record.asked.id));
            let place = Place { marks: &marks, open: self.conversation.is_some(), framed: false };
            let html = list::day(&self.view, std::slice::from_ref(&record), &place).into_string();
            // What does not fit is only brought up to date where it is shown already.
            self.told.push_back(Event::default().event(if fits { "exchange" } else { "update" }).id(seq.0.to_string()).data(html));
        }
    }

    /// The newest that the page's search finds, once the index has what happened.
    async fn matching(&self, upto: Seq) -> (Option<HashSet<RequestId>>, Highlighter) {
        let until = Instant::now() + INDEX_PATIENCE;
        while self.engine.indexed() < upto && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let search = Search { zone: self.view.zone.clone(), ..super::search_of(&self.address) };
        match self.engine.search(search).await {
            Ok(found) => (Some(found.records.iter().map(|r| r.asked.id).collect()), found.marks),
            Err(_) => (Some(HashSet::new()), Highlighter::default()),
        }
    }

    fn agents_now(&self) -> String {
        if self.conversation.is_some() {
            return String::new();
        }
        rail::agents(&self.view, &self.address, &rail::sorted(self.engine.present(None))).into_string()
    }

    fn tell_agents(&mut self, seq: Seq) {
        let now = self.agents_now();
        if now != self.agents {
            self.told.push_back(Event::default().event("agents").id(seq.0.to_string()).data(now.clone()));
            self.agents = now;
        }
    }
}

/// Each exchange once, in the order of its last change.
fn latest(changes: &[Arc<Change>]) -> Vec<(Seq, Record)> {
    let mut latest: HashMap<RequestId, (Seq, &Record)> = HashMap::new();
    for change in changes {
        if let Change::Exchange(seq, record) = &**change {
            latest.insert(record.asked.id, (*seq, record));
        }
    }
    let mut all: Vec<_> = latest.into_values().map(|(seq, record)| (seq, record.clone())).collect();
    all.sort_by_key(|(seq, _)| *seq);
    all
}
