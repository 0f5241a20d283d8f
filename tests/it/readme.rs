//! The README's word: every command in its `console` blocks is run, in order, in an empty directory, and prints what the
//! README says it prints.

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::rig::soon;

const README: &str = include_str!("../../README.md");

/// One command of a block, and the lines that the README shows under it.
struct Shown {
    command: &'static str,
    output: Vec<&'static str>,
}

fn shown() -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    for block in README.split("```console\n").skip(1) {
        for line in block.split("```").next().unwrap().lines() {
            match line.strip_prefix("$ ") {
                Some(command) => all.push(Shown { command, output: Vec::new() }),
                None => all.last_mut().unwrap().output.push(line),
            }
        }
    }
    all
}

fn command(line: &str, dir: &Path) -> Command {
    let binary = env!("CARGO_BIN_EXE_hermes-bridge");
    let mut command = Command::new("sh");
    // exec, so that the child is the program and not a shell around it.
    let line = line.replace("target/release/hermes-bridge", binary).replace("cargo run --release", binary);
    command.arg("-c").arg(format!("exec {line}")).current_dir(dir).env("PORT", "0").env_remove("HERMES_BRIDGE_CONFIG");
    command.env_remove("HERMES_BRIDGE_RELAY_URL").env_remove("HERMES_BRIDGE_TOKEN");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Starts what stays, and returns once it has said that it is there.
async fn start(line: &str, dir: &Path, sign: &str) -> Child {
    let mut child = command(line, dir).spawn().unwrap();
    let (mut out, mut err) = (BufReader::new(child.stdout.take().unwrap()).lines(), BufReader::new(child.stderr.take().unwrap()).lines());
    let said = async {
        loop {
            let line = tokio::select! { Ok(Some(line)) = out.next_line() => line, Ok(Some(line)) = err.next_line() => line };
            if line.contains(sign) {
                return;
            }
        }
    };
    soon(line, said).await;
    // Its further words must not meet a pipe that is full or gone.
    tokio::spawn(async move { while let Ok(Some(_)) = err.next_line().await {} });
    tokio::spawn(async move { while let Ok(Some(_)) = out.next_line().await {} });
    child
}

#[tokio::test]
async fn every_command_of_the_readme_does_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut staying = Vec::new();
    let mut ran = 0;
    for Shown { command: line, output } in shown() {
        ran += 1;
        match line.split_whitespace().next().unwrap() {
            "cargo" if line == "cargo run --release" => staying.push(start(line, dir.path(), "listening on http://127.0.0.1:").await),
            // What this very test is run by.
            "cargo" => assert!(line.starts_with("cargo clippy"), "{line}"),
            "tests/run" => {
                let help = Command::new(root.join("tests/run")).arg("--help").output().await.unwrap();
                let help = String::from_utf8(help.stdout).unwrap();
                assert!(line.split_whitespace().skip(1).all(|flag| help.contains(flag)), "{line}: {help}");
            }
            _ if line.contains(" listen ") => staying.push(start(line, dir.path(), "connected to").await),
            _ if line.contains(" demo") => staying.push(start(line, dir.path(), "http://127.0.0.1:").await),
            _ => {
                let done = soon(line, command(line, dir.path()).output()).await.unwrap();
                let printed = String::from_utf8(done.stdout).unwrap();
                assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
                assert!(output.is_empty() || printed.lines().eq(output.iter().copied()), "{line} printed {printed:?}");
            }
        }
    }
    assert!(ran >= 8, "only {ran} commands found");
}
