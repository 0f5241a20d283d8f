//! How far long work is, on standard error: nothing in its first second, then one line that is overwritten on a terminal
//! and a line every ten seconds elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const SILENT: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);

pub(crate) struct Meter {
    begun: Instant,
    said: Option<Instant>,
    terminal: bool,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), said: None, terminal: std::io::stderr().is_terminal() }
    }

    /// What the store's long work reports, which goes on.
    pub(crate) fn watch(&mut self) -> impl FnMut(&'static str, u64, u64) -> bool {
        |stage, done, of| {
            self.show(stage, done, of);
            true
        }
    }

    /// `of` is 0 where the end is not known.
    pub(crate) fn show(&mut self, stage: &str, done: u64, of: u64) {
        let pause = if self.terminal { Duration::from_millis(200) } else { Duration::from_secs(10) };
        if self.begun.elapsed() < SILENT || self.said.is_some_and(|at| at.elapsed() < pause) {
            return;
        }
        self.said = Some(Instant::now());
        let far = match (u128::from(done) * 100).checked_div(of.into()) {
            Some(percent) => format!("{} % ({done} of {of})", percent.min(100)),
            None => done.to_string(),
        };
        let (before, after) = if self.terminal { ("\r\x1b[2K", "") } else { ("", "\n") };
        // Nobody may be looking.
        let _ = write!(std::io::stderr(), "{before}{stage}: {far}{after}");
    }
}

/// Does what cannot say how far it is, and says how many seconds it has been at it.
pub(crate) fn timed<T: Send>(stage: &str, work: impl FnOnce() -> T + Send) -> T {
    let (begun, mut meter) = (Instant::now(), Meter::new());
    std::thread::scope(|scope| {
        let working = scope.spawn(work);
        while !working.is_finished() {
            meter.show(stage, begun.elapsed().as_secs(), 0);
            std::thread::sleep(LOOK);
        }
        working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl Drop for Meter {
    fn drop(&mut self) {
        if self.terminal && self.said.is_some() {
            let _ = writeln!(std::io::stderr());
        }
    }
}
