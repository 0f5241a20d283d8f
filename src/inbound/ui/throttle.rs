//! How often a login may be tried: per address and in all, in windows of a minute. Bounded: a window holds no more
//! addresses than tries in all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use crate::core::ids::Millis;

const WINDOW_MS: u64 = 60_000;
const PER_ADDRESS: u32 = 10;
const IN_ALL: u32 = 300;

#[derive(Default)]
pub(super) struct Throttle(Mutex<Window>);

#[derive(Default)]
struct Window {
    began: Millis,
    all: u32,
    by: HashMap<IpAddr, u32>,
}

impl Throttle {
    /// Counts a try, or says how many seconds to wait.
    pub(super) fn attempt(&self, now: Millis, address: IpAddr) -> Result<(), u64> {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.since(window.began) >= WINDOW_MS || now < window.began {
            *window = Window { began: now, ..Window::default() };
        }
        let wait = (WINDOW_MS - now.since(window.began)).div_ceil(1_000);
        if window.all >= IN_ALL {
            return Err(wait);
        }
        let tries = window.by.entry(one_site(address)).or_default();
        if *tries >= PER_ADDRESS {
            return Err(wait);
        }
        *tries += 1;
        window.all += 1;
        Ok(())
    }

    /// The try was a right one, and counts no more.
    pub(super) fn succeeded(&self, address: IpAddr) {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        window.all = window.all.saturating_sub(1);
        if let Some(tries) = window.by.get_mut(&one_site(address)) {
            *tries = tries.saturating_sub(1);
        }
    }
}

/// A site has 2^64 addresses of IPv6 at the least.
fn one_site(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    #[test]
    fn ten_wrong_tries_of_an_address_and_it_waits_for_the_next_minute() {
        let throttle = Throttle::default();
        for _ in 0..PER_ADDRESS {
            assert_eq!(throttle.attempt(Millis(100_000), v4(1)), Ok(()));
        }
        assert_eq!(throttle.attempt(Millis(110_500), v4(1)), Err(50));
        assert_eq!(throttle.attempt(Millis(110_500), v4(2)), Ok(()));
        assert_eq!(throttle.attempt(Millis(160_000), v4(1)), Ok(()));
    }

    #[test]
    fn right_tries_do_not_count() {
        let throttle = Throttle::default();
        for _ in 0..2 * IN_ALL {
            assert_eq!(throttle.attempt(Millis(0), v4(1)), Ok(()));
            throttle.succeeded(v4(1));
        }
    }

    #[test]
    fn a_flood_from_everywhere_takes_no_more_memory_than_the_limit_in_all() {
        let throttle = Throttle::default();
        let passed = (0..100_000).filter(|n| throttle.attempt(Millis(5), v4(*n)).is_ok()).count();
        assert_eq!(passed, IN_ALL as usize);
        assert!(throttle.0.lock().unwrap().by.len() <= IN_ALL as usize);
    }

    #[test]
    fn the_addresses_of_one_ipv6_site_are_one() {
        let throttle = Throttle::default();
        let at = |n: u32| format!("2001:db8::{n:x}").parse().unwrap();
        let passed = (0..100).filter(|n| throttle.attempt(Millis(5), at(*n)).is_ok()).count();
        assert_eq!(passed, PER_ADDRESS as usize);
    }
}
