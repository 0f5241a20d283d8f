//! One struct of everything that is counted. Whoever does something counts it here, with atomics; whoever wants to read
//! gets Prometheus' text. Labels are agents of the configuration and words of this program, so their number is bounded.

mod kinds;
mod process;
mod text;

use std::collections::BTreeMap;
use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use kinds::{Counter, Family, Histogram};
pub use text::CONTENT_TYPE;

/// Shared by all rooms; made by the store, which is there first.
pub struct Metrics {
    /// By name. Written only when agents are read anew.
    agents: RwLock<BTreeMap<String, Agent>>,
    /// Whoever is asked without being an agent.
    nobody: Agent,
    /// From the ask to the first wake.
    pub wake_delivery: Histogram,
    pub late_replies: Counter,
    pub store_commit: Histogram,
    pub store_errors: Counter,
    pub search_query: Histogram,
    /// Outcome by tool.
    calls: Family<Family<Counter, 24>, 8>,
    pub auth_failures: Family<Counter, 8>,
    exports: Family<Export, 4>,
}

#[derive(Default)]
struct Agent {
    connects: Counter,
    left_cleanly: Counter,
    lost: Counter,
    heartbeats: Counter,
    extensions: Counter,
    /// Ends by status; most agents of a large configuration have none.
    ended: OnceLock<Box<Family<Histogram, 20>>>,
}

/// One way out.
pub struct Export {
    pub spans: Family<Counter, 8>,
    /// By HTTP status; 0 where there was none.
    requests: Vec<Counter>,
    /// Up to where in the log everything is exported.
    pub cursor: Counter,
    /// Seconds since 1970.
    last_success: Counter,
    begun: u64,
}

/// What is true at the moment of reading.
#[derive(Default)]
pub struct Now {
    pub agents: Vec<AgentNow>,
    pub store_bytes: u64,
    pub last_seq: u64,
    pub indexed: u64,
}

pub struct AgentNow {
    pub name: String,
    pub online: bool,
    pub in_flight: usize,
    /// What is queued while it is away, and how long the oldest of it has been.
    pub mailbox: usize,
    pub oldest: Duration,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            agents: RwLock::default(),
            nobody: Agent::default(),
            wake_delivery: Histogram::new(&kinds::SHORT),
            late_replies: Counter::default(),
            store_commit: Histogram::new(&kinds::SHORT),
            store_errors: Counter::default(),
            search_query: Histogram::new(&kinds::SHORT),
            calls: Family::default(),
            auth_failures: Family::default(),
            exports: Family::default(),
        }
    }
}

impl Default for Export {
    fn default() -> Self {
        let requests = std::iter::repeat_with(Counter::default).take(600).collect();
        Self { spans: Family::default(), requests, cursor: Counter::default(), last_success: Counter::default(), begun: seconds() }
    }
}

impl Metrics {
    /// The agents that may be labels from now on; those that stay keep their counts.
    pub fn set_agents<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let mut agents = self.agents.write().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *agents);
        agents.extend(names.map(|name| (name.to_owned(), before.remove(name).unwrap_or_default())));
    }

    pub fn connected(&self, agent: &str) {
        self.with(agent, |a| a.connects.one());
    }

    pub fn disconnected(&self, agent: &str, cleanly: bool) {
        self.with(agent, |a| if cleanly { a.left_cleanly.one() } else { a.lost.one() });
    }

    pub fn heartbeat(&self, agent: &str) {
        self.with(agent, |a| a.heartbeats.one());
    }

    pub fn extended(&self, agent: &str) {
        self.with(agent, |a| a.extensions.one());
    }

    pub fn ended(&self, to: &str, status: &'static str, took: Duration) {
        self.with(to, |a| {
            if let Some(histogram) = a.ended.get_or_init(Box::default).get_or(status, || Histogram::new(&kinds::LONG)) {
                histogram.took(took);
            }
        });
    }

    pub fn called(&self, tool: &'static str, outcome: &'static str) {
        if let Some(outcomes) = self.calls.get_or(tool, Family::default) {
            outcomes.one(outcome);
        }
    }

    /// Does `with` to one way out.
    /// Of each way out: up to where in the log everything is exported, and for how many seconds no request was taken.
    pub fn exported(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.exports.each().map(|(sink, export)| (sink, export.cursor.get(), seconds().saturating_sub(export.last_success.get().max(export.begun))))
    }

    pub fn export(&self, sink: &'static str, with: impl FnOnce(&Export)) {
        if let Some(export) = self.exports.get_or(sink, Export::default) {
            with(export);
        }
    }

    /// The read lock is held for some atomic additions, the write lock only while agents are read anew.
    fn with(&self, agent: &str, count: impl FnOnce(&Agent)) {
        let agents = self.agents.read().unwrap_or_else(PoisonError::into_inner);
        count(agents.get(agent).unwrap_or(&self.nobody));
    }
}

/// Since 1970.
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

impl Export {
    /// A request was answered with this status, or (0) not at all.
    pub fn requested(&self, status: u16) {
        if let Some(counter) = self.requests.get(usize::from(status)).or(self.requests.first()) {
            counter.one();
        }
        if (200..300).contains(&status) {
            self.last_success.set(seconds());
        }
    }
}
