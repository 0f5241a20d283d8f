//! How much of the doors one caller may take: requests and frames of one bot, requests of one address, sockets, connections,
//! bytes under way both ways, and searches in all. Each table is bounded; who is over a limit is told which, and when to come back.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use super::throttle::Throttle;
use super::untaken::Untaken;
use super::{Body, refused};
use crate::config::DoorLimits;
use crate::core::ids::{AgentName, Millis};
use crate::core::pace::{Pace, Rate, crowded};
use crate::engine::Engine;

/// Callers whose pace is known at a time. There are never so many bots; of addresses the least busy are forgotten.
const MAX_KNOWN: usize = 16_384;

/// Over a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooMuch {
    pub limit: &'static str,
    pub max: usize,
    pub retry_in_ms: u64,
}

#[derive(Default)]
pub(super) struct Gate {
    agents: Mutex<HashMap<AgentName, Pace>>,
    addresses: Mutex<HashMap<IpAddr, Pace>>,
    searches: Mutex<Pace>,
    /// Wrong tokens at the page's doors.
    pub tries: Throttle,
    pub sockets: Arc<Shares<AgentName>>,
    pub connections: Arc<Shares<IpAddr>>,
    /// Bytes of requests and frames that are not whole yet: of bots, and of whoever sends forms.
    pub half_sent: Arc<Shares<AgentName>>,
    pub half_sent_forms: Arc<Shares<IpAddr>>,
    /// Bytes of results that bots have not taken yet.
    untaken: Arc<Shares<AgentName>>,
    /// Requests to /mcp that are not answered to the end.
    calls: Arc<Shares<AgentName>>,
}

impl Gate {
    /// A request or frame of this bot.
    pub(super) fn agent(&self, now: Millis, name: &AgentName, limits: &DoorLimits) -> Result<(), TooMuch> {
        pass(&self.agents, now, name, "requests_per_second", limits.requests_per_second)
    }

    /// A request from this address.
    pub(super) fn address(&self, now: Millis, address: IpAddr, limits: &DoorLimits) -> Result<(), TooMuch> {
        pass(&self.addresses, now, &address, "requests_per_second_per_address", limits.requests_per_second_per_address)
    }

    /// For the result of a call of this bot.
    pub(super) fn room(&self, name: &AgentName) -> Arc<Untaken> {
        Untaken::new(self.untaken.share(name.clone()), None)
    }

    /// The same for a call over HTTP, which waits as long as it likes: so many of one bot at a time.
    pub(super) fn call(&self, name: &AgentName, limits: &DoorLimits) -> Result<Arc<Untaken>, TooMuch> {
        let mut call = self.calls.share(name.clone());
        call.hold(1, limits.max_calls_per_agent, "max_calls_per_agent")?;
        Ok(Untaken::new(self.untaken.share(name.clone()), Some(call)))
    }

    /// A request that searches.
    pub(super) fn search(&self, now: Millis, path: &str, limits: &DoorLimits) -> Result<(), TooMuch> {
        if !matches!(path, "/ui" | "/ui/" | "/ui/api/search") && !path.starts_with("/ui/export") {
            return Ok(());
        }
        let (limit, max) = ("searches_per_second", limits.searches_per_second);
        let taken = lock(&self.searches).try_take(now, Rate::per_second(max));
        taken.map_err(|retry_in_ms| TooMuch { limit, max: max as usize, retry_in_ms })
    }
}

fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pass<K: Eq + Hash + Clone>(table: &Mutex<HashMap<K, Pace>>, now: Millis, key: &K, limit: &'static str, max: u32) -> Result<(), TooMuch> {
    let mut table = lock(table);
    if let Some(over) = crowded(table.len(), MAX_KNOWN, now, table.values().map(Pace::until)) {
        table.retain(|_, pace| pace.until() > over);
    }
    if !table.contains_key(key) {
        table.insert(key.clone(), Pace::default());
    }
    let Some(pace) = table.get_mut(key) else { return Ok(()) };
    pace.try_take(now, Rate::per_second(max)).map_err(|retry_in_ms| TooMuch { limit, max: max as usize, retry_in_ms })
}

/// What each has of something, while it holds it.
pub(super) struct Shares<K: Eq + Hash + Clone>(Mutex<HashMap<K, usize>>);

impl<K: Eq + Hash + Clone> Default for Shares<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// A share; its drop gives it back.
pub(super) struct Share<K: Eq + Hash + Clone> {
    of: Arc<Shares<K>>,
    key: K,
    held: usize,
}

impl<K: Eq + Hash + Clone> Shares<K> {
    pub(super) fn share(self: &Arc<Self>, key: K) -> Share<K> {
        Share { of: self.clone(), key, held: 0 }
    }

    #[cfg(test)]
    pub(super) fn holders(&self) -> usize {
        lock(&self.0).len()
    }
}

impl<K: Eq + Hash + Clone> Share<K> {
    /// Is so much from now on, unless that is more than before and all shares of this key would then be more than `max`.
    pub(super) fn hold(&mut self, much: usize, max: usize, limit: &'static str) -> Result<(), TooMuch> {
        let mut all = lock(&self.of.0);
        let others = all.get(&self.key).copied().unwrap_or_default().saturating_sub(self.held);
        if much > self.held && others + much > max {
            return Err(TooMuch { limit, max, retry_in_ms: 5_000 });
        }
        self.held = much;
        match others + much {
            0 => all.remove(&self.key),
            sum => all.insert(self.key.clone(), sum),
        };
        Ok(())
    }
}

impl<K: Eq + Hash + Clone> Drop for Share<K> {
    fn drop(&mut self) {
        // Less is never refused.
        let _ = self.hold(0, 0, "");
    }
}

impl TooMuch {
    pub(super) fn sentence(&self) -> String {
        format!("{} = {} is reached; come back in {} seconds", self.limit, self.max, self.seconds())
    }

    fn seconds(&self) -> u64 {
        self.retry_in_ms.div_ceil(1_000).max(1)
    }

    /// On record, and told.
    pub(super) fn refuse(&self, engine: &Engine, who: &str, address: IpAddr) -> Response<Body> {
        self.note(engine, who, address);
        come_back(&self.sentence(), self.seconds())
    }

    pub(super) fn note(&self, engine: &Engine, who: &str, address: IpAddr) {
        refused(engine, self.limit, who, address, &self.sentence());
    }

    /// The same for a peer with which no HTTP was spoken yet.
    pub(super) fn bytes(&self, status: StatusCode) -> Vec<u8> {
        super::worded::raw(status, &format!("retry-after: {}\r\n", self.seconds()), &self.sentence())
    }
}

/// 429, and when to try again.
pub(super) fn come_back(why: &str, seconds: u64) -> Response<Body> {
    let mut response = super::error(StatusCode::TOO_MANY_REQUESTS, why);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> DoorLimits {
        let flags = crate::config::Flags { config: Some("/dev/null".into()), ..Default::default() };
        DoorLimits { requests_per_second: 2, requests_per_second_per_address: 2, ..crate::config::load(&flags, &|_| None).unwrap().doors }
    }

    #[test]
    fn each_bot_has_a_pace_of_its_own() {
        let (gate, [a, b]) = (Gate::default(), ["a", "b"].map(|n| AgentName::parse(n).unwrap()));
        let pass = |name, at| gate.agent(Millis(at), name, &limits());
        assert!(pass(&a, 0).is_ok() && pass(&a, 0).is_ok() && pass(&b, 0).is_ok());
        assert_eq!(pass(&a, 0), Err(TooMuch { limit: "requests_per_second", max: 2, retry_in_ms: 500 }));
        assert!(pass(&a, 500).is_ok());
    }

    #[test]
    fn a_hundred_thousand_addresses_are_no_memory() {
        let gate = Gate::default();
        for n in 0..100_000 {
            let address = IpAddr::from(std::net::Ipv4Addr::from_bits(n));
            assert!(gate.address(Millis(u64::from(n / 50_000)), address, &limits()).is_ok());
        }
        assert!(lock(&gate.addresses).len() <= MAX_KNOWN);
    }

    #[test]
    fn a_share_is_given_back_whole_and_leaves_nothing() {
        let shares = Arc::<Shares<&str>>::default();
        let (mut one, mut two) = (shares.share("a"), shares.share("a"));
        let held = [(&mut one, 60), (&mut two, 40)].map(|(share, much)| share.hold(much, 100, "l").is_ok());
        assert_eq!(held, [true, true]);
        assert_eq!(one.hold(61, 100, "l"), Err(TooMuch { limit: "l", max: 100, retry_in_ms: 5_000 }));
        assert!(one.hold(30, 100, "l").is_ok() && two.hold(70, 100, "l").is_ok() && two.hold(71, 100, "l").is_err());
        drop(one);
        assert!(two.hold(100, 100, "l").is_ok());
        drop(two);
        assert_eq!(shares.holders(), 0);
    }
}
