//! Kept for years: a backup of a running relay put back elsewhere, damaged ones refused, backups by the clock. Each
//! command is the real program's.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::rig::{Relay, Worker, text, until};

fn echo(question: &str) -> String {
    format!("echo of {question}")
}

/// Every exchange, oldest first, as an export has it.
async fn export(relay: &Relay) -> Vec<Value> {
    let (status, body) = relay.get("/ui/export.ndjson").await;
    assert_eq!(status, 200, "{body}");
    let mut all: Vec<Value> = body.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    all.reverse();
    all
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_file()) {
        fs::copy(&entry, to.join(entry.file_name().unwrap())).unwrap();
    }
}

#[tokio::test]
async fn a_backup_of_a_busy_relay_is_put_back_elsewhere_as_of_one_moment() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    let bob = Worker::start(relay.address.clone(), "bob", echo);
    relay.wait_online("bob", true).await;
    assert_eq!(relay.caller("alice").ask("bob", "before").await["ok"], true);
    let askers: Vec<_> = (0..8)
        .map(|lane| {
            let alice = relay.caller("alice");
            tokio::spawn(async move {
                for n in 0..40 {
                    assert_eq!(alice.ask("bob", &format!("lane {lane}, question {n}")).await["ok"], true);
                }
            })
        })
        .collect();
    until("they ask", async || (export(&relay).await.len() > 20).then_some(())).await;
    let made = relay.run(&["backup", "kept/monday"]).await;
    assert!(made.code == 0 && made.out.contains("exchanges"), "{made:?}");
    for asker in askers {
        asker.await.unwrap();
    }
    let whole = relay.run(&["restore", "--verify", "kept/monday"]).await;
    assert!(whole.code == 0 && whole.out.contains("is whole"), "{whole:?}");
    let manifest: Value = serde_json::from_str(&fs::read_to_string(relay.path("kept/monday/manifest.json")).unwrap()).unwrap();
    let sums = std::process::Command::new("sha256sum").args(["-c", "--strict", "SHA256SUMS"]).current_dir(relay.path("kept/monday")).output();
    assert!(sums.unwrap().status.success());

    let mut other = Relay::prepare("", &["alice", "bob"]);
    let kept = relay.path("kept/monday");
    let put = other.run(&["restore", kept.to_str().unwrap()]).await;
    assert_eq!(put.code, 0, "{put:?}");
    other.up().await;
    let (here, there) = (export(&relay).await, export(&other).await);
    assert_eq!(manifest["exchanges"], there.len());
    assert!(there.len() < here.len(), "{} of {}", there.len(), here.len());
    for exchange in &there {
        let twin = here.iter().find(|e| e["request_id"] == exchange["request_id"]).unwrap();
        assert!(exchange["status"] == "pending" || exchange == twin, "{exchange} {twin}");
    }
    // What it is put into goes on, the conversations of before too.
    assert_eq!(there[0]["message"], "before");
    drop(bob);
    let _bob = Worker::start(other.address.clone(), "bob", echo);
    let more = json!({"to": "bob", "message": "after", "conversation_id": there[0]["conversation_id"]});
    assert_eq!(other.caller("alice").call("ask_agent", more).await["answer"], "echo of after");
    relay.stop().await;
}

/// The relay of a service with a /tmp of its own, as far as a command sees it: it says that it is done, and nothing is there.
fn a_relay_that_sees_other_files(data_dir: &Path) {
    fs::create_dir(data_dir).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(data_dir.join("control.sock")).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let command: Value = serde_json::from_str(&line).unwrap();
            let answer = match text(&command, "command") {
                "backup" => json!("done"),
                "progress" => json!({"progress": {"stage": "", "done": 1, "of": 1, "outcome": {"Ok": "taken"}}}),
                other => panic!("{other}"),
            };
            writeln!(stream, "{answer}").unwrap();
        }
    });
}

#[tokio::test]
async fn a_backup_that_the_relay_took_where_nobody_else_sees_it_is_no_success() {
    let relay = Relay::prepare("", &["alice"]);
    a_relay_that_sees_other_files(&relay.path("data"));
    let ran = relay.run(&["backup", "kept"]).await;
    assert!(ran.code == 1 && ran.out.is_empty() && ran.err.contains("PrivateTmp") && ran.err.contains("ReadWritePaths"), "{ran:?}");
    // One of another day under the same name is not taken for it.
    fs::create_dir(relay.path("kept")).unwrap();
    fs::write(relay.path("kept/manifest.json"), "{}").unwrap();
    let ran = relay.run(&["backup", "kept"]).await;
    assert!(ran.code == 1 && ran.err.contains("not empty"), "{ran:?}");
}

#[tokio::test]
async fn what_is_no_whole_backup_is_refused_and_nothing_is_overwritten() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    let _ = relay.caller("alice").ask("bob", "recorded").await;
    assert_eq!(relay.run(&["backup", "--config", "bridge.toml", "kept"]).await.code, 0);
    let again = relay.run(&["backup", "kept"]).await;
    assert!(again.code == 1 && again.err.contains("not empty"), "{again:?}");
    let running = relay.run(&["restore", "--force", "kept"]).await;
    assert!(running.code == 1 && running.err.contains("stop it first"), "{running:?}");
    relay.stop().await;
    let occupied = relay.run(&["restore", "--config", "bridge.toml", "kept"]).await;
    assert!(occupied.code == 1 && occupied.err.contains("--force"), "{occupied:?}");
    assert_eq!(relay.run(&["backup", "cold"]).await.code, 0);
    let mut bytes = fs::read(relay.path("kept/bridge.redb")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(relay.path("kept/bridge.redb"), bytes).unwrap();
    for arguments in [&["restore", "--verify", "kept"][..], &["restore", "--force", "kept"], &["restore", "--verify", "nowhere"]] {
        let refused = relay.run(arguments).await;
        assert!(refused.code == 1 && refused.err.contains("no whole backup"), "{refused:?}");
    }
    let forced = relay.run(&["restore", "--force", "cold"]).await;
    assert!(forced.code == 0 && forced.out.contains("before-restore-"), "{forced:?}");
    relay.up().await;
    assert_eq!(text(&relay.on_record("recorded").await, "status"), "agent_offline");
    let nothing = relay.run(&["backup", "--data-dir", "nowhere", "other"]).await;
    assert!(nothing.code == 1 && nothing.err.contains("no store"), "{nothing:?}");
}

#[tokio::test]
async fn the_copied_directory_of_a_stopped_relay_runs_elsewhere() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    let _ = relay.caller("alice").ask("bob", "recorded").await;
    relay.stop().await;
    let mut other = Relay::prepare("", &["alice", "bob"]);
    copy_dir(&relay.path("data"), &other.path("data"));
    other.up().await;
    assert_eq!(text(&other.on_record("recorded").await, "status"), "agent_offline");
}

#[tokio::test]
async fn backups_by_the_clock_are_named_by_their_moment_and_only_the_newest_are_kept() {
    let relay = Relay::start("[backup]\nevery = 1000\nkeep = 2", &["alice", "bob"]).await;
    let names = || {
        let entries = fs::read_dir(relay.path("data/backups")).into_iter().flatten();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).filter(|n| n.starts_with("backup-")).collect();
        names.sort();
        names
    };
    let first = until("the first backup", async || names().into_iter().next()).await;
    until("the first is removed again", async || (!names().contains(&first) && names().len() == 2).then_some(())).await;
    let newest = relay.path("data/backups").join(names().pop().unwrap());
    let whole = relay.run(&["restore", "--verify", newest.to_str().unwrap()]).await;
    // The clock may have removed it meanwhile, on a very slow machine.
    assert!(whole.code == 0 || !newest.exists(), "{whole:?}");
}

#[tokio::test]
async fn what_a_killed_relay_left_of_a_backup_is_removed_before_the_next() {
    let mut relay = Relay::prepare("[backup]\nevery = \"1h\"\ndir = \"kept\"", &["alice", "bob"]);
    for name in [".backup-2026-11-30T17-25-54Z.partial", ".monday.partial"] {
        fs::create_dir_all(relay.path("kept").join(name)).unwrap();
        fs::write(relay.path("kept").join(name).join("bridge.redb"), "half").unwrap();
    }
    // Of a clock that was wrong: it is no reason to wait.
    fs::create_dir(relay.path("kept/backup-2099-01-01T00-00-00Z")).unwrap();
    relay.up().await;
    let names = || {
        let mut names: Vec<String> = fs::read_dir(relay.path("kept")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    until("a backup", async || names().iter().any(|n| n.starts_with("backup-") && !n.contains("2099")).then_some(())).await;
    assert_eq!(names()[0], ".monday.partial", "what is not of the clock is not touched");
    assert_eq!(names().len(), 3, "{:?}", names());
}

#[tokio::test]
async fn a_backup_by_the_clock_that_fails_is_told_once_and_made_when_it_can_be() {
    let mut relay = Relay::prepare("[backup]\nevery = 1000\ndir = \"blocked\"", &["alice", "bob"]);
    fs::write(relay.path("blocked"), "a file where the directory should be").unwrap();
    relay.up().await;
    until("the failure is told", async || relay.said().contains("the backup failed").then_some(())).await;
    fs::remove_file(relay.path("blocked")).unwrap();
    until("a backup", async || fs::read_dir(relay.path("blocked")).ok()?.next()).await.unwrap();
    assert_eq!(relay.said().matches("the backup failed").count(), 1);
}
