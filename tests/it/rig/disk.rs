//! Disks that refuse while the real program runs: full by a limit on the size of files, or failing with an error of the
//! test's choice by a small C library that is loaded before the program (Linux, and a C compiler that Rust links with).

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// What a disk will do to the relay when the test says so.
#[derive(Clone, Copy)]
pub enum Disk {
    /// No write to any file has room.
    Full,
    /// These calls (open, write, sync) fail with this errno on files whose path has this part.
    Fails { calls: &'static str, errno: i32, on: &'static str },
}

impl Disk {
    /// Whether it can be had here: on Linux always.
    pub fn is_to_be_had(self) -> bool {
        let there = matches!(self, Self::Full) || LIBRARY.is_some();
        assert!(there || !cfg!(target_os = "linux"), "`cc`, with which Rust links, does not make the library");
        there
    }

    /// What the relay must find in its surroundings.
    pub(super) fn surroundings(self, dir: &Path) -> Vec<(&'static str, PathBuf)> {
        match (self, LIBRARY.as_ref()) {
            (Self::Fails { .. }, Some((_, library))) => vec![("LD_PRELOAD", library.clone()), ("DISK_REFUSES", control(dir))],
            _ => Vec::new(),
        }
    }
}

pub(super) fn control(dir: &Path) -> PathBuf {
    dir.join("the-disk-refuses")
}

/// The library in a directory of its own; `None` without a compiler.
static LIBRARY: LazyLock<Option<(tempfile::TempDir, PathBuf)>> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("refusing.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/rig/refusing.c");
    let mut compiler = std::process::Command::new("cc");
    match compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl").status() {
        Err(_) => None,
        Ok(status) => {
            assert!(status.success(), "cc could not compile the failing disk");
            Some((dir, library))
        }
    }
});
