//! How far long work is, on standard error: nothing in its first second, then one line that is overwritten on a terminal
//! and a line every ten seconds elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const SILENT: Duration = Duration::from_secs(1);

pub(crate) struct Meter {
    begun: Instant,
    said: Option<Instant>,
    terminal: bool,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), said: None, terminal: std::io::stderr().is_terminal() }
    }

    pub(crate) fn show(&mut self, stage: &str, done: u64, of: u64) {
        let pause = if self.terminal { Duration::from_millis(200) } else { Duration::from_secs(10) };
        if self.begun.elapsed() < SILENT || self.said.is_some_and(|at| at.elapsed() < pause) {
            return;
        }
        self.said = Some(Instant::now());
        let percent = (u128::from(done) * 100).checked_div(of.into()).unwrap_or(0).min(100);
        let (before, after) = if self.terminal { ("\r\x1b[2K", "") } else { ("", "\n") };
        // Nobody may be looking.
        let _ = write!(std::io::stderr(), "{before}{stage}: {percent} % ({done} of {of}){after}");
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if self.terminal && self.said.is_some() {
            let _ = writeln!(std::io::stderr());
        }
    }
}
