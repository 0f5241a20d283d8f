//! How much of the doors one caller may take: requests and frames of one bot, requests of one address, sockets, connections,
//! bytes under way, and searches in all. Each table is bounded; who is over a limit is told which, and when to come back.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use super::Body;
use crate::config::DoorLimits;
use crate::core::ids::{AgentName, Millis};
use crate::core::pace::{Pace, Rate, crowded};

/// Callers whose pace is known at a time. There are never so many bots; of addresses the least busy are forgotten.
const MAX_KNOWN: usize = 16_384;
/// Bytes of bodies that one bot has under way: eight of the largest.
pub(super) const MAX_BODIES: usize = 32 << 20;
/// A caller that stays over its limit is logged so often.
const LOG_EVERY_MS: u64 = 60_000;

/// Over a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooMuch {
    pub limit: &'static str,
    pub max: usize,
    pub retry_in_ms: u64,
}

#[derive(Default)]
pub(super) struct Gate {
    agents: Mutex<HashMap<AgentName, Caller>>,
    addresses: Mutex<HashMap<IpAddr, Caller>>,
    searches: Mutex<Pace>,
    pub sockets: Arc<Shares<AgentName>>,
    pub connections: Arc<Shares<IpAddr>>,
    pub bodies: Arc<Shares<AgentName>>,
}

#[derive(Default)]
struct Caller {
    pace: Pace,
    logged: Option<Millis>,
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

fn pass<K: Eq + Hash + Clone + std::fmt::Debug>(
    table: &Mutex<HashMap<K, Caller>>,
    now: Millis,
    key: &K,
    limit: &'static str,
    max: u32,
) -> Result<(), TooMuch> {
    let mut table = lock(table);
    if let Some(over) = crowded(table.len(), MAX_KNOWN, now, table.values().map(|caller| caller.pace.until())) {
        table.retain(|_, caller| caller.pace.until() > over);
    }
    if !table.contains_key(key) {
        table.insert(key.clone(), Caller::default());
    }
    let Some(caller) = table.get_mut(key) else { return Ok(()) };
    caller.pace.try_take(now, Rate::per_second(max)).map_err(|retry_in_ms| {
        if caller.logged.is_none_or(|at| now.since(at) >= LOG_EVERY_MS) {
            caller.logged = Some(now);
            tracing::warn!(caller = ?key, limit, max, "too many requests; more are refused");
        }
        TooMuch { limit, max: max as usize, retry_in_ms }
    })
}

/// The address that counts: all of an IPv6 network of 64 bits is one caller.
pub(super) fn caller(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 => v4,
    }
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
    fn holders(&self) -> usize {
        lock(&self.0).len()
    }
}

impl<K: Eq + Hash + Clone> Share<K> {
    /// Takes so much more, unless all shares of this key would then be more than `max`.
    pub(super) fn grow(&mut self, by: usize, max: usize, limit: &'static str) -> Result<(), TooMuch> {
        let mut all = lock(&self.of.0);
        let held = all.get(&self.key).copied().unwrap_or_default();
        if held + by > max {
            return Err(TooMuch { limit, max, retry_in_ms: 5_000 });
        }
        all.insert(self.key.clone(), held + by);
        self.held += by;
        Ok(())
    }
}

impl<K: Eq + Hash + Clone> Drop for Share<K> {
    fn drop(&mut self) {
        let mut all = lock(&self.of.0);
        if let Some(held) = all.get_mut(&self.key) {
            *held -= self.held;
            if *held == 0 {
                all.remove(&self.key);
            }
        }
    }
}

impl TooMuch {
    pub(super) fn sentence(&self) -> String {
        format!("{} = {} is reached; come back in {} seconds", self.limit, self.max, self.seconds())
    }

    fn seconds(&self) -> u64 {
        self.retry_in_ms.div_ceil(1_000).max(1)
    }

    pub(super) fn response(&self) -> Response<Body> {
        let mut response = super::error(StatusCode::TOO_MANY_REQUESTS, &self.sentence());
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(self.seconds()));
        response
    }

    /// The same for a peer with which no HTTP was spoken yet.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let body = format!("{{\"error\":\"{}\"}}", self.sentence());
        let head = "HTTP/1.1 429 Too Many Requests\r\nconnection: close\r\ncontent-type: application/json";
        format!("{head}\r\nretry-after: {}\r\ncontent-length: {}\r\n\r\n{body}", self.seconds(), body.len()).into()
    }
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
    fn an_ipv6_network_is_one_caller_and_a_mapped_address_is_its_ipv4_one() {
        let of = |text: &str| caller(text.parse().unwrap());
        assert_eq!(of("2001:db8::1:2:3:4"), of("2001:db8::ffff:2:3:4"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8::1"));
        assert_eq!(of("::ffff:10.1.2.3"), of("10.1.2.3"));
    }

    #[test]
    fn a_share_is_given_back_whole_and_leaves_nothing() {
        let shares = Arc::<Shares<&str>>::default();
        let (mut one, mut two) = (shares.share("a"), shares.share("a"));
        assert!(
            one.grow(60, 100, "l").is_ok() && one.grow(30, 100, "l").is_ok() && two.grow(11, 100, "l").is_err() && two.grow(10, 100, "l").is_ok()
        );
        drop(one);
        assert!(two.grow(90, 100, "l").is_ok());
        drop(two);
        assert_eq!(shares.holders(), 0);
    }
}
