//! Work that lasts as long as the relay: where a fault of ours breaks it off, that is logged and it begins again, so that
//! nothing stands still unnoticed until the next start. Knows nothing of what the work is.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A fault that stays must fill no log: twice as long after each, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Works until `work` ends by itself; after a panic it is begun again, unless `stop` comes first.
pub async fn lasting(what: &'static str, stop: CancellationToken, mut work: impl AsyncFnMut()) {
    let (mut pause, mut begun) = (FIRST_PAUSE, Instant::now());
    while AssertUnwindSafe(work()).catch_unwind().await.is_err() {
        if begun.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        tracing::error!(work = what, "broken off by a fault of this program (it is on standard error); it begins again");
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
        (pause, begun) = ((2 * pause).min(LONGEST_PAUSE), Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_that_panics_begins_again_and_work_that_ends_does_not() {
        let mut begun = 0;
        let work = async || {
            begun += 1;
            tokio::task::yield_now().await;
            assert!(begun > 3, "a fault");
        };
        let started = Instant::now();
        lasting("a test", CancellationToken::new(), work).await;
        assert_eq!((begun, started.elapsed().as_secs()), (4, 1 + 2 + 4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_for_no_work_that_panics_for_ever() {
        let stop = CancellationToken::new();
        let mut begun = 0;
        let work = async || {
            begun += 1;
            if begun == 3 {
                stop.cancel();
            }
            panic!("a fault");
        };
        lasting("a test", stop.clone(), work).await;
        assert_eq!(begun, 3);
    }
}
