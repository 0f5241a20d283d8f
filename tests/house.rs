//! The rules of the house, held on the source text: which room may know which, what the rules' room may not know at all,
//! that every file says what it owns, that none grows past 500 lines, and that nothing of one machine is written down.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

use std::fs;
use std::path::{Path, PathBuf};

/// Room and whom it may import. What is not listed is forbidden; the command line may know everybody.
const MAY_IMPORT: [(&str, &[&str]); 10] = [
    ("core", &[]),
    ("wire", &["core"]),
    ("config", &["core"]),
    ("metrics", &[]),
    ("lasting", &[]),
    ("store", &["core", "config", "metrics"]),
    ("search", &["core"]),
    ("outbound", &["core", "wire", "config", "metrics", "lasting", "store"]),
    ("engine", &["core", "config", "metrics", "lasting", "store", "search"]),
    ("inbound", &["core", "wire", "config", "metrics", "engine"]),
];
const UNBOUND: [&str; 1] = ["cli"];

struct Source {
    /// From the checkout's root.
    path: String,
    text: String,
}

impl Source {
    fn room(&self) -> Option<&str> {
        let inside = self.path.strip_prefix("src/")?;
        Some(inside.split_once('/').map_or_else(|| inside.trim_end_matches(".rs"), |(room, _)| room))
    }

    /// Lines that are no comments, numbered from 1.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(n, line)| (n + 1, line)).filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn collect(dir: &Path, extensions: &[&str], found: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            let skip = matches!(name.as_str(), "target" | "node_modules" | "__pycache__") || (name.starts_with('.') && name != ".ci");
            if !skip {
                collect(&path, extensions, found);
            }
        } else if extensions.is_empty() || path.extension().is_some_and(|e| extensions.iter().any(|x| *x == e)) {
            // What is not text (pictures) has no lines to look at.
            if let Ok(text) = fs::read_to_string(&path) {
                found.push(Source { path: path.strip_prefix(root()).unwrap().to_string_lossy().into_owned(), text });
            }
        }
    }
}

fn rust() -> Vec<Source> {
    let mut found = Vec::new();
    collect(&root().join("src"), &["rs"], &mut found);
    collect(&root().join("tests"), &["rs"], &mut found);
    assert!(found.len() > 60, "only {} files were found", found.len());
    found
}

fn none(broken: &[String]) {
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn every_room_imports_only_the_rooms_it_may_know() {
    let mut broken = Vec::new();
    for file in rust() {
        let Some((room, allowed)) = file.room().and_then(|r| MAY_IMPORT.iter().find(|(room, _)| *room == r)) else { continue };
        for (n, line) in file.code() {
            for part in line.split("crate::").skip(1) {
                let named: String = part.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
                if named != *room && !allowed.contains(&named.as_str()) {
                    broken.push(format!("{}:{n}: {room} may not know {}", file.path, if named.is_empty() { part } else { &named }));
                }
            }
        }
    }
    none(&broken);
}

#[test]
fn every_room_stands_in_the_table() {
    let mut rooms: Vec<String> = rust().iter().filter_map(|f| f.room().map(str::to_owned)).collect();
    rooms.sort();
    rooms.dedup();
    rooms.retain(|r| r != "main" && r != "lib");
    for room in rooms {
        let known = MAY_IMPORT.iter().any(|(r, _)| *r == room) || UNBOUND.contains(&room.as_str());
        assert!(known, "the room {room} is not in the table of tests/house.rs: say whom it may know");
    }
}

#[test]
fn the_rules_know_no_clock_no_disk_no_network_no_runtime_and_no_serialisation() {
    let foreign = ["tokio", "serde", "std::fs", "std::net", "std::io", "std::thread", "std::time", "getrandom", "tracing", "redb", "now_v7"];
    let mut broken = Vec::new();
    for file in rust().iter().filter(|f| f.room() == Some("core") && !f.path.contains("/tests/")) {
        for (n, line) in file.code() {
            broken.extend(foreign.iter().filter(|w| line.contains(**w)).map(|w| format!("{}:{n}: core may not know {w}", file.path)));
        }
    }
    none(&broken);
}

#[test]
fn every_file_says_first_what_it_owns() {
    let silent = rust().into_iter().filter(|f| !f.text.starts_with("//! ") || f.text.lines().next().is_none_or(|l| l.len() < 20));
    none(&silent.map(|f| format!("{}: begins with no //! sentence", f.path)).collect::<Vec<_>>());
}

#[test]
fn no_file_has_more_than_500_lines() {
    let long = rust().into_iter().map(|f| (f.text.lines().count(), f.path)).filter(|(lines, _)| *lines > 500);
    none(&long.map(|(lines, path)| format!("{path}: {lines} lines are two files")).collect::<Vec<_>>());
}

#[test]
fn only_the_entry_point_lies_beside_the_rooms_and_it_is_short() {
    let main = fs::read_to_string(root().join("src/main.rs")).unwrap();
    assert!(main.lines().count() < 30, "main.rs is argv in, exit code out");
}

#[test]
fn nothing_of_one_machine_or_registry_is_written_down() {
    let mut all = Vec::new();
    for dir in ["src", "tests", "adapter", ".ci", "data"] {
        collect(&root().join(dir), &["rs", "md", "toml", "py", "sh", "js", "mjs", "ts", "json", "css", "yml", "yaml"], &mut all);
    }
    for file in ["README.md", "Cargo.toml", "Cargo.lock", "bridge.toml", "CHANGELOG.md", "Dockerfile", ".ci/run", "tests/run"] {
        if let Ok(text) = fs::read_to_string(root().join(file)) {
            all.push(Source { path: file.to_owned(), text });
        }
    }
    // Split, so that this file does not find itself.
    let forbidden = [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("../sha", "red"), concat!("arti", "factory")];
    let registry = concat!("registry+https://", "github.com/rust-lang/crates.io-index");
    let mut broken = Vec::new();
    for file in &all {
        for (n, line) in file.text.lines().enumerate() {
            broken.extend(forbidden.iter().filter(|w| line.contains(**w)).map(|w| format!("{}:{}: {w}", file.path, n + 1)));
            if file.path == "Cargo.lock" && line.starts_with("source = ") && !line.contains(registry) {
                broken.push(format!("{}:{}: {line}", file.path, n + 1));
            }
        }
    }
    none(&broken);
}
