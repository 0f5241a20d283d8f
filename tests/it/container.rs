//! The Dockerfile, the compose example and the systemd unit, as far as they can be tried without Docker and without being
//! the machine's first process: what they name exists, the commands in them are ours, and systemd finds no fault.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::rig::Relay;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn dockerfile() -> String {
    fs::read_to_string(root().join("Dockerfile")).unwrap().replace("\\\n", "")
}

/// The words of a command in exec form, without the program.
fn exec(line: &str) -> Vec<String> {
    let words: Vec<String> = serde_json::from_str(&line[line.find('[').unwrap()..]).unwrap();
    words.into_iter().filter(|w| w != "hermes-bridge").collect()
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_image_is_built_from_all_that_the_program_is_made_of() {
    let text = dockerfile();
    let copied: Vec<PathBuf> = text
        .lines()
        .filter_map(|l| l.strip_prefix("COPY "))
        .filter(|l| !l.starts_with("--from"))
        .flat_map(|l| l.split_whitespace().rev().skip(1).map(|name| root().join(name)).collect::<Vec<_>>())
        .collect();
    assert!(copied.len() >= 5 && copied.iter().all(|p| p.exists()), "{copied:?}");
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let mut included = 0;
    for file in files {
        for call in fs::read_to_string(&file).unwrap().split("include_").skip(1) {
            let Some(name) = call.split_once("!(\"").map(|(_, rest)| rest.split('"').next().unwrap()) else { continue };
            let Ok(path) = file.parent().unwrap().join(name).canonicalize() else { continue };
            included += 1;
            assert!(copied.iter().any(|c| path.starts_with(c)), "{} is not in the image's build", path.display());
        }
    }
    assert!(included > 3, "{included}");
}

#[tokio::test]
async fn the_images_commands_are_ours_and_its_user_has_no_rights() {
    let relay = Relay::prepare("", &["alice"]);
    let text = dockerfile();
    assert!(
        text.contains("\nUSER bridge\n") && text.contains("\nVOLUME /data\n") && text.contains("\nEXPOSE 8787\n") && text.contains("ca-certificates")
    );
    for start in ["HEALTHCHECK", "CMD"] {
        let line = text.lines().find(|l| l.starts_with(start)).unwrap();
        let mut words = exec(line);
        words.push("--help".into());
        let ran = relay.run(&words.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
    }
    // Where the image's relay keeps its data: `data` beside a bridge.toml in the working directory.
    assert!(text.contains("\nWORKDIR /\n"));
}

#[test]
fn the_compose_example_trusts_the_one_address_of_its_proxy_and_no_range() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let trusted: Vec<&str> = readme.split("trusted_proxies = [\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(!trusted.is_empty() && trusted.iter().all(|address| address.parse::<std::net::IpAddr>().is_ok()), "{trusted:?}");
    let compose = readme.split("```yaml\nservices:\n").nth(1).unwrap().split("```").next().unwrap();
    let (_, caddy) = compose.split_once("  caddy:\n").unwrap();
    assert!(trusted.iter().any(|address| caddy.contains(&format!("ipv4_address: {address}}}"))), "{trusted:?}: {caddy}");
}

#[test]
fn the_program_needs_nothing_but_what_every_debian_has() {
    let said = Command::new("readelf").args(["--dynamic", "--wide", env!("CARGO_BIN_EXE_hermes-bridge")]).output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout);
    let needed: Vec<&str> = said.lines().filter(|l| l.contains("(NEEDED)")).map(|l| l.split(['[', ']']).nth(1).unwrap()).collect();
    // The libraries of glibc and gcc, which are in debian:bookworm-slim.
    let there = |name: &&str| ["libc.so.", "libm.so.", "libgcc_s.so.", "ld-linux"].iter().any(|known| name.starts_with(known));
    assert!(needed.contains(&"libc.so.6") && needed.iter().all(there), "{needed:?}");
}

#[test]
fn systemd_finds_no_fault_with_the_unit_of_the_readme() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let unit = readme.split("```ini\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(unit.contains("NoNewPrivileges=yes") && unit.contains("ProtectSystem=strict"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hermes-bridge.service");
    // The program and its user are not installed here.
    let unit = unit.replace("/usr/local/bin/hermes-bridge", env!("CARGO_BIN_EXE_hermes-bridge")).replace("User=hermes-bridge", "User=daemon");
    fs::write(&path, unit).unwrap();
    let Ok(verified) = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output() else {
        // `tests/run` says so.
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(!said.contains("hermes-bridge.service:"), "{said}");
}
