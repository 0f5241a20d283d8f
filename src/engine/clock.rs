//! The time and fresh ids, for a core that has neither. Wall time that never runs backwards while the process lives.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use uuid::{ContextV7, Timestamp, Uuid};

use crate::core::ids::Millis;

/// Started once; reads the system's clock only then, so that a corrected clock cannot end exchanges early.
pub struct Clock {
    started: Instant,
    wall: u64,
    ids: Mutex<ContextV7>,
}

impl Clock {
    #[must_use]
    pub fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
        Self { started: Instant::now(), wall: u64::try_from(wall).unwrap_or(u64::MAX), ids: Mutex::new(ContextV7::new()) }
    }

    #[must_use]
    pub fn now(&self) -> Millis {
        Millis(self.wall.saturating_add(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)))
    }

    /// When `at` is, on the runtime's clock.
    #[must_use]
    pub fn instant(&self, at: Millis) -> Instant {
        let ms = at.0.saturating_sub(self.wall).min(1_000_000_000_000);
        self.started + std::time::Duration::from_millis(ms)
    }

    /// A UUIDv7 larger than every one drawn before.
    #[must_use]
    pub fn draw(&self) -> Uuid {
        let now = self.now().0;
        let seconds = now / 1000;
        let nanos = u32::try_from(now % 1000).unwrap_or(0) * 1_000_000;
        let ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        Uuid::new_v7(Timestamp::from_unix(&*ids, seconds, nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_ascend_even_within_a_millisecond() {
        let clock = Clock::start();
        let drawn: Vec<Uuid> = (0..10_000).map(|_| clock.draw()).collect();
        assert!(drawn.windows(2).all(|w| w[0] < w[1]));
    }
}
