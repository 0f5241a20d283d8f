//! Directories and files that exist for one run only.
//!
//! Owns their modes (tokens lie in them: nobody else may look) and their removal. Never removes what it did not make.

use super::proc;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A directory that is gone when its owner is.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(parent: &Path) -> Result<Self, String> {
        let name = format!("hermes-bridge-bench-{}", &proc::random_hex()?[..16]);
        let path = parent.join(name);
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How `log` ends, as a clause for an error; empty if it is.
pub(super) fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(8)..].join("\n  ");
    if tail.is_empty() { tail } else { format!("; it said:\n  {tail}") }
}

/// A new file that only its owner can read.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), String> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_directory_goes_with_its_owner_and_all_that_is_in_it() {
        let scratch = Scratch::new(&std::env::temp_dir()).unwrap();
        let path = scratch.path().to_owned();
        write_private(&path.join("a"), "text").unwrap();
        assert!(write_private(&path.join("a"), "again").is_err());
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn of_a_long_log_the_end_is_shown() {
        let scratch = Scratch::new(&std::env::temp_dir()).unwrap();
        let log = scratch.path().join("log");
        assert_eq!(last_lines(&log), "");
        let lines: Vec<String> = (0..20).map(|n| format!("line {n}")).collect();
        write_private(&log, &lines.join("\n")).unwrap();
        let shown = last_lines(&log);
        assert!(shown.contains("line 19") && shown.contains("line 12") && !shown.contains("line 11"));
    }
}
