//! Starts that must not happen: each says in one line what is wrong, where, and what to do, exits with 1, and leaves
//! everything as it was.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use redb::{Database, TableDefinition};

use crate::rig::{Ran, Relay};

fn refused(ran: &Ran, words: &[&str]) {
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(!ran.err.contains("panicked") && ran.err.trim().lines().count() <= 2, "{ran:?}");
    for word in words {
        assert!(ran.err.contains(word), "{word:?} is not in {ran:?}");
    }
}

#[tokio::test]
async fn a_bad_configuration_is_refused_with_file_line_column_and_key() {
    let relay = Relay::prepare("", &[]);
    let cases: [(&str, &[&str]); 12] = [
        ("ask_timeout = 5\n", &["line 1, column 1", "ask_timeout"]),
        ("\n\n[limits]\nmax_depths = 5\n", &["line 4, column 1", "max_depths"]),
        ("ask_timeout_ms = \"long\"\n", &["line 1, column 18"]),
        ("# é\nask_timeout_ms = 5\n", &["line 2, column 18", "ask_timeout_ms = 5", "from 100 to"]),
        ("listen = \"nowhere\"\n", &["line 1, column 10", "listen = \"nowhere\""]),
        ("public_url = \"ftp://x\"\n", &["line 1, column 14", "public_url"]),
        ("listen = \n", &["line 1, column"]),
        ("[[agents]]\nname = \"a b\"\n", &["line 2, column 8", "name = \"a b\""]),
        ("[[agents]]\nname = \"a\"\n[[agents]]\nname = \"A\"\n", &["line 4, column 8", "two agents"]),
        ("[[agents]]\nname = \"a\"\ntoken = \"change-me-please\"\n", &["line 3, column 9", "token = [hidden]", "sample token"]),
        ("[[agents]]\nname = \"a\"\ntoken_env = \"HB_NOT_SET\"\n", &["line 3, column 13", "HB_NOT_SET", "not set"]),
        ("[[agents]]\nname = \"a\"\nmay_ask = [\"nobody\"]\n", &["line 3, column 12", "nobody"]),
    ];
    for (text, words) in cases {
        relay.write_config(text);
        let ran = relay.run(&["serve"]).await;
        refused(&ran, &["bridge.toml"]);
        refused(&ran, words);
    }
    refused(&relay.run(&["--config", "missing.toml"]).await, &["missing.toml"]);
    assert!(!relay.path("data").exists(), "nothing was made");
}

#[tokio::test]
async fn a_port_in_use_is_named_and_no_data_is_touched() {
    let relay = Relay::prepare("", &["alice"]);
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap().to_string();
    refused(&relay.run(&["--listen", &address]).await, &[&address, "another program uses this port", "--listen"]);
    assert!(!relay.path("data").exists());
}

#[tokio::test]
async fn a_data_directory_in_use_is_refused_after_a_moment_and_the_first_relay_goes_on() {
    let relay = Relay::start("", &["alice"]).await;
    let started = Instant::now();
    let ran = relay.run(&["--listen", "127.0.0.1:0"]).await;
    let took = started.elapsed();
    refused(&ran, &["bridge.redb", "in use by another process", "--data-dir"]);
    assert!(took > Duration::from_secs(4) && took < Duration::from_secs(40), "{took:?}");
    relay.is_well().await;
    let listed = relay.run(&["agent", "list"]).await;
    assert!(listed.code == 0 && listed.out.contains("alice"), "{listed:?}");
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_refused_and_stays_as_it_is() {
    const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    let mut relay = Relay::start("", &["alice"]).await;
    relay.caller("alice").ask("alice", "kept").await;
    relay.stop().await;
    let store = relay.path("data/bridge.redb");
    {
        let database = Database::create(&store).unwrap();
        let write = database.begin_write().unwrap();
        let known = write.open_table(META).unwrap().insert("format", 99).unwrap().unwrap().value();
        assert!(known < 99);
        write.commit().unwrap();
    }
    let before = fs::read(&store).unwrap();
    refused(&relay.run(&["serve"]).await, &["bridge.redb", "format 99", "newer"]);
    let ran = relay.run(&["check"]).await;
    assert!(ran.code == 1 && ran.out.contains("format 99"), "{ran:?}");
    refused(&relay.run(&["agent", "add", "bob"]).await, &["format 99"]);
    assert!(fs::read(&store).unwrap() == before, "the file was changed");
}

#[tokio::test]
async fn a_store_that_is_none_or_cannot_be_written_is_refused_with_its_name() {
    let relay = Relay::prepare("", &["alice"]);
    fs::create_dir(relay.path("data")).unwrap();
    fs::write(relay.path("data/bridge.redb"), "this is no store, it is a text of somebody".repeat(1000)).unwrap();
    refused(&relay.run(&["serve"]).await, &["bridge.redb", "cannot open"]);
    assert!(fs::read_to_string(relay.path("data/bridge.redb")).unwrap().starts_with("this is no store"));
    relay.configure("data_dir = \"bridge.toml/below\"", &["alice"]);
    refused(&relay.run(&["serve"]).await, &["bridge.toml/below", "data directory"]);
}

#[tokio::test]
async fn what_is_kept_is_the_owners_alone() {
    let mut relay = Relay::prepare("", &["alice"]);
    fs::create_dir(relay.path("data")).unwrap();
    fs::set_permissions(relay.path("data"), fs::Permissions::from_mode(0o755)).unwrap();
    relay.up().await;
    relay.caller("alice").ask("alice", "something to keep").await;
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&relay.path("data")), 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(relay.path("data")).unwrap() {
        let path = entry.unwrap().path();
        names.push(path.file_name().unwrap().to_string_lossy().into_owned());
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
    for name in ["bridge.redb", "journal", "control.sock"] {
        assert!(names.iter().any(|n| n == name), "{name} is not in {names:?}");
    }
}
