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
        if let Some(line) = self.line(Instant::now(), stage, done, of) {
            // Nobody may be looking.
            let _ = write!(std::io::stderr(), "{line}");
        }
    }

    /// What is to be written at this moment, if anything.
    fn line(&mut self, now: Instant, stage: &str, done: u64, of: u64) -> Option<String> {
        let pause = if self.terminal { Duration::from_millis(200) } else { Duration::from_secs(10) };
        if now.duration_since(self.begun) < SILENT || self.said.is_some_and(|at| now.duration_since(at) < pause) {
            return None;
        }
        self.said = Some(now);
        let far = match (u128::from(done) * 100).checked_div(of.into()) {
            Some(percent) => format!("{} % ({done} of {of})", percent.min(100)),
            None => done.to_string(),
        };
        let (before, after) = if self.terminal { ("\r\x1b[2K", "") } else { ("", "\n") };
        Some(format!("{before}{stage}: {far}{after}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said at these milliseconds after the beginning, with so much done of 200.
    fn said(terminal: bool, at: &[(u64, u64)]) -> Vec<String> {
        let begun = Instant::now();
        let mut meter = Meter { begun, said: None, terminal };
        let lines = at.iter().filter_map(|(ms, done)| meter.line(begun + Duration::from_millis(*ms), "copying", *done, 200)).collect();
        // Its last line is nobody's.
        meter.said = None;
        lines
    }

    #[test]
    fn nothing_is_said_in_the_first_second() {
        assert_eq!(said(true, &[(0, 0), (500, 100), (999, 200)]), Vec::<String>::new());
        assert_eq!(said(false, &[(0, 0), (999, 200)]), Vec::<String>::new());
    }

    #[test]
    fn a_terminal_has_one_line_that_is_overwritten_and_a_file_one_every_ten_seconds() {
        let at = [(1_000, 20), (1_100, 25), (1_200, 50), (5_000, 100), (11_000, 150), (12_000, 250)];
        assert_eq!(said(false, &at), ["copying: 10 % (20 of 200)\n", "copying: 75 % (150 of 200)\n"]);
        let on_terminal = said(true, &at);
        assert_eq!(on_terminal.len(), 5);
        assert_eq!((&*on_terminal[1], &*on_terminal[4]), ("\r\x1b[2Kcopying: 25 % (50 of 200)", "\r\x1b[2Kcopying: 100 % (250 of 200)"));
    }

    #[test]
    fn where_the_end_is_not_known_no_share_is_said() {
        let mut meter = Meter { begun: Instant::now(), said: None, terminal: false };
        let later = meter.begun + Duration::from_secs(2);
        assert_eq!(meter.line(later, "reading, seconds so far", 7, 0).as_deref(), Some("reading, seconds so far: 7\n"));
    }
}
