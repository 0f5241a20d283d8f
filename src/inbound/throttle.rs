//! How many wrong tokens the page's doors take of one address, as a login or as a Bearer, in windows of a minute. What others
//! send never shuts an address out: a minted token has 256 bits, so it is the owner's access that a flood could cost, not the secret.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::core::ids::Millis;
use crate::engine::caller;

const WINDOW_MS: u64 = 60_000;
const PER_ADDRESS: u32 = 10;
/// Addresses told apart in a minute. With more than so many, the wrong tokens of the others are refused like any but not counted.
const MAX_KNOWN: usize = 16_384;

#[derive(Default)]
pub(super) struct Throttle(Mutex<Window>);

#[derive(Default)]
struct Window {
    began: Millis,
    by: HashMap<IpAddr, u32>,
}

impl Throttle {
    /// Whether a token may be looked at, or how many seconds to wait.
    pub(super) fn may_try(&self, now: Millis, address: IpAddr) -> Result<(), u64> {
        let window = self.window(now);
        let tries = window.by.get(&caller(address)).copied().unwrap_or_default();
        if tries < PER_ADDRESS { Ok(()) } else { Err((WINDOW_MS - now.since(window.began)).div_ceil(1_000)) }
    }

    /// It was a wrong one.
    pub(super) fn wrong(&self, now: Millis, address: IpAddr) {
        let (mut window, address) = (self.window(now), caller(address));
        if window.by.len() < MAX_KNOWN || window.by.contains_key(&address) {
            *window.by.entry(address).or_default() += 1;
        }
    }

    fn window(&self, now: Millis) -> MutexGuard<'_, Window> {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.since(window.began) >= WINDOW_MS || now < window.began {
            *window = Window { began: now, ..Window::default() };
        }
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    /// A wrong one, if it may be tried.
    fn tried(throttle: &Throttle, at: u64, address: IpAddr) -> Result<(), u64> {
        throttle.may_try(Millis(at), address)?;
        throttle.wrong(Millis(at), address);
        Ok(())
    }

    #[test]
    fn ten_wrong_tokens_of_an_address_and_it_waits_for_the_next_minute() {
        let throttle = Throttle::default();
        for _ in 0..PER_ADDRESS {
            assert_eq!(tried(&throttle, 100_000, v4(1)), Ok(()));
        }
        assert_eq!(tried(&throttle, 110_500, v4(1)), Err(50));
        assert_eq!(tried(&throttle, 110_500, v4(2)), Ok(()));
        assert_eq!(tried(&throttle, 160_000, v4(1)), Ok(()));
    }

    #[test]
    fn a_flood_from_everywhere_is_bounded_memory_and_shuts_nobody_else_out() {
        let throttle = Throttle::default();
        for n in 0..100_000 {
            assert_eq!(tried(&throttle, 5, v4(n)), Ok(()));
        }
        assert_eq!(throttle.0.lock().unwrap().by.len(), MAX_KNOWN);
        for _ in 0..2 * PER_ADDRESS {
            assert_eq!(tried(&throttle, 5, v4(200_000)), Ok(()), "it is not known, and did nothing wrong but this");
        }
        for _ in 1..PER_ADDRESS {
            assert_eq!(tried(&throttle, 5, v4(0)), Ok(()));
        }
        assert!(tried(&throttle, 5, v4(0)).is_err(), "who is known is still counted");
    }

    #[test]
    fn the_addresses_of_one_ipv6_site_are_one() {
        let throttle = Throttle::default();
        let at = |n: u32| format!("2001:db8::{n:x}").parse().unwrap();
        let passed = (0..100).filter(|n| tried(&throttle, 5, at(*n)).is_ok()).count();
        assert_eq!(passed, PER_ADDRESS as usize);
    }
}
