//! Hands for the tests: a relay that can be started, stopped and killed, bots, callers, and waiting for a condition with a
//! deadline. Nothing here sleeps to let something happen; what has to happen is waited for.

mod bot;
mod caller;
mod collector;
mod disk;
pub mod raw;
mod relay;
mod worker;

use std::time::{Duration, Instant};

pub use bot::Bot;
pub use caller::{Caller, cut_at, event_id, http, http_unled, tool_result};
pub use collector::{Answer, Collector, attribute};
pub use disk::Disk;
pub use relay::{Address, OWNER, Ran, Relay, token};
pub use worker::Worker;

/// How long anything may take that should happen at once; generous, because test machines are busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Probes until there is something, or fails after `PATIENCE`.
pub async fn until<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The future's value, or a failure after `PATIENCE`.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited in vain: {what}"))
}

/// A text field of a frame or result; fails if it is not there.
pub fn text<'a>(value: &'a serde_json::Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no text {key} in {value}"))
}

/// Random numbers that are the same in every run.
pub struct Seeded(pub u64);

impl Seeded {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}
