//! From an earlier version: a real file of each earlier format with what lay beside it. `check` looks at it and changes nothing, the start
//! takes it over whole, and what is kept of it afterwards can be put back elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::rig::{Relay, text, until};

/// The earlier formats of the store, each with a file in `tests/it/old`; and this version's.
const OLD: [u32; 2] = [1, 2];
const NEW: u32 = 3;
/// One more is open; how it ends depends on who comes.
const ENDED: [&str; 4] = ["agent_offline", "failed", "ok", "ok"];

/// A data directory as the relay of this format left it when it was killed: an index of that time, its socket, an empty journal.
fn old(relay: &Relay, format: u32) -> PathBuf {
    let data = relay.path("data");
    fs::create_dir_all(data.join("index-v0")).unwrap();
    fs::write(data.join("index-v0/meta.json"), "{}").unwrap();
    let file = format!("tests/it/old/format-{format}.redb");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(file), data.join("bridge.redb")).unwrap();
    fs::write(data.join("journal"), vec![0; 1 << 20]).unwrap();
    drop(std::os::unix::net::UnixListener::bind(data.join("control.sock")).unwrap());
    fs::set_permissions(&data, PermissionsExt::from_mode(0o755)).unwrap();
    data
}

/// Everything in a directory: modes, and bytes.
fn all(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::from([(dir.to_owned(), (dir.metadata().unwrap().permissions().mode(), Vec::new()))]);
    for path in fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()) {
        if path.is_dir() {
            found.extend(all(&path));
        } else {
            // A socket cannot be read.
            found.insert(path.clone(), (path.metadata().unwrap().permissions().mode(), fs::read(&path).unwrap_or_default()));
        }
    }
    found
}

async fn is_all_there(relay: &Relay) {
    let exchanges = relay.exchanges().await;
    assert_eq!(exchanges.len(), 5);
    let open = |e: &&Value| ["left for your return", "wait for it"].contains(&text(e, "message"));
    let mut statuses: Vec<&str> = exchanges.iter().filter(|e| !open(e)).map(|e| text(e, "status")).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ENDED);
    let answered = exchanges.iter().find(|e| e["status"] == "ok").unwrap();
    let (answer, id) = (text(answered, "answer").split(' ').next().unwrap(), &answered["request_id"]);
    until("search finds them", async || {
        let (status, body) = relay.get(&format!("/ui/api/search?q=status:ok+{answer}")).await;
        assert_eq!(status, 200, "{body}");
        let found: Value = serde_json::from_str(&body).unwrap();
        found["exchanges"].as_array().unwrap().iter().any(|e| e["request_id"] == *id).then_some(())
    })
    .await;
}

#[tokio::test]
async fn check_of_an_old_store_says_its_format_and_changes_nothing() {
    for format in OLD {
        let relay = Relay::prepare("", &["alice", "bob"]);
        let data = old(&relay, format);
        let before = all(&data);
        for arguments in [&["check"][..], &["check", "--deep"], &["check", "--json"]] {
            let ran = relay.run(arguments).await;
            assert_eq!(ran.code, 0, "{ran:?}");
            assert!(ran.out.contains(&format!("format {format}, opens, 5 exchanges, 1 of them open")), "{ran:?}");
            assert!(ran.out.contains(&format!("the next start of this version brings it to {NEW}")), "{ran:?}");
            assert!(ran.out.contains("agent bob: last seen "), "{ran:?}");
            assert!(all(&data) == before, "{arguments:?} changed something");
        }
    }
}

#[tokio::test]
async fn the_store_of_an_earlier_version_is_taken_over_backed_up_and_put_back_elsewhere() {
    for format in OLD {
        is_taken_over(format).await;
    }
}

async fn is_taken_over(format: u32) {
    let mut relay = Relay::prepare("", &["alice", "bob"]);
    let data = old(&relay, format);
    relay.up().await;
    is_all_there(&relay).await;
    assert!(!data.join("index-v0").exists() && data.metadata().unwrap().permissions().mode() & 0o077 == 0);
    assert_eq!(relay.run(&["backup", "kept"]).await.code, 0);
    let manifest: Value = serde_json::from_str(&fs::read_to_string(relay.path("kept/manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["format"], NEW);
    let mut other = Relay::prepare("", &["alice", "bob"]);
    let put = other.run(&["restore", relay.path("kept").to_str().unwrap()]).await;
    assert_eq!(put.code, 0, "{put:?}");
    other.up().await;
    is_all_there(&other).await;
    let ran = other.run(&["check"]).await;
    assert!(ran.code == 0 && !ran.out.contains("brings it to"), "{ran:?}");
}
