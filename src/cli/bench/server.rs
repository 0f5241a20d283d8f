//! The servers under test: child processes with a directory of their own, or a relay that somebody else runs.
//!
//! Owns the children (killed by id on every way out) and their files (removed after them). Never talks to a child
//! beyond its first line and `/ready`.

use super::client::Connection;
use super::proc;
use super::scratch::{Scratch, last_lines, write_private};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// What a relay under test is told beyond its defaults, so that no limit against abuse and no login is what is measured.
pub(super) const LIMITS: &str = "[ui]
open = true

[limits]
max_connections = 100000
max_connections_per_agent = 100000
max_connections_per_address = 100000
asks_per_minute = 1000000000
max_open_asks_per_agent = 1000000
max_open_bytes_per_agent = 1000000000
max_asks_per_root = 1000000000
max_turns_per_conversation = 1000000000
max_asks_per_pair_per_hour = 1000000000
";

const START_DEADLINE: Duration = Duration::from_secs(30);
const ANNOUNCEMENT: &str = "listening on http://";

/// A name and its token.
#[derive(Clone)]
pub(super) struct Agent {
    pub name: String,
    pub token: String,
}

/// Where a server listens, and who may speak there.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub addr: SocketAddr,
    pub askers: Vec<Agent>,
    pub bots: Vec<Agent>,
    pub pid: Option<u32>,
}

/// Which of the three is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Floor,
    DurableFloor,
    Relay,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Floor => "floor",
            Self::DurableFloor => "durable floor",
            Self::Relay => "relay",
        })
    }
}

/// How children are started.
pub(super) struct Launcher {
    pub relay: PathBuf,
    pub floor: PathBuf,
    /// The directory that takes the servers' directories: its disk is the one that is measured.
    pub parent: PathBuf,
    pub extra: String,
}

/// A running child.
pub(super) struct Server {
    pub endpoint: Endpoint,
    /// From spawn to the first 200 of `/ready`.
    pub ready_ms: f64,
    child: Child,
    output: JoinHandle<()>,
    _files: Arc<Scratch>,
}

impl Launcher {
    /// Starts a server with `askers` and `bots` known to it, over empty files, and waits until it is ready.
    pub(super) async fn start(&self, kind: Kind, askers: usize, bots: usize) -> Result<Server, String> {
        self.start_over(Arc::new(Scratch::new(&self.parent)?), kind, askers, bots).await
    }

    /// The same over the files that an earlier one left.
    pub(super) async fn start_over(&self, files: Arc<Scratch>, kind: Kind, askers: usize, bots: usize) -> Result<Server, String> {
        let (askers, bots) = (agents("asker", askers)?, agents("bot", bots)?);
        let mut command = self.command(kind, files.path(), askers.iter().chain(&bots))?;
        let log = files.path().join("stderr");
        apart(&mut command, &log)?;
        let begun = Instant::now();
        let mut child = command.spawn().map_err(|e| format!("{}: {e}", command.as_std().get_program().display()))?;
        let pid = child.id();
        let ready = async {
            let (addr, output) = announced(&mut child).await?;
            let endpoint = Endpoint { addr, askers, bots, pid };
            until_ready(&endpoint).await?;
            Ok::<_, String>((endpoint, output))
        };
        let outcome = timeout(START_DEADLINE, ready).await;
        let ready_ms = begun.elapsed().as_secs_f64() * 1e3;
        match outcome.unwrap_or_else(|_| Err(format!("not ready within {START_DEADLINE:?}"))) {
            Ok((endpoint, output)) => Ok(Server { endpoint, ready_ms, child, output, _files: files }),
            Err(error) => Err(format!("the {kind} did not start: {error}{}", last_lines(&log))),
        }
    }

    fn command<'a>(&self, kind: Kind, dir: &Path, agents: impl Iterator<Item = &'a Agent>) -> Result<Command, String> {
        let mut text = String::new();
        if kind == Kind::Relay {
            for Agent { name, token } in agents {
                text.push_str(&format!("[[agents]]\nname = \"{name}\"\ntoken = \"{token}\"\n\n"));
            }
            text.push_str(&self.extra);
            let config = dir.join("bridge.toml");
            if !config.exists() {
                write_private(&config, &text)?;
            }
            let mut command = Command::new(&self.relay);
            command.arg("serve").arg("--config").arg(config);
            command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(data_dir(dir));
            return Ok(command);
        }
        for Agent { name, token } in agents {
            text.push_str(&format!("{name} {token}\n"));
        }
        let tokens = dir.join("tokens");
        write_private(&tokens, &text)?;
        let mut command = Command::new(&self.floor);
        command.args(["bench", "--floor-server", "--tokens"]).arg(tokens);
        if kind == Kind::DurableFloor {
            command.arg("--floor-log").arg(dir.join("log"));
        }
        Ok(command)
    }
}

/// Where a relay under test keeps its data, below its files.
pub(super) fn data_dir(files: &Path) -> PathBuf {
    files.join("data")
}

impl Server {
    /// Kills the child and waits for its end, so that the next measurement has the machine to itself.
    pub(super) async fn stop(mut self) {
        let _ = self.child.start_kill();
        let _ = timeout(Duration::from_secs(10), self.child.wait()).await;
    }
}

impl Drop for Server {
    /// The way out of errors and signals: the files go after the process that writes them.
    fn drop(&mut self) {
        self.output.abort();
        let _ = self.child.start_kill();
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Nothing of this process's surroundings reaches the child, and nothing of the child outlives its `Child`.
fn apart(command: &mut Command, log: &Path) -> Result<(), String> {
    let stderr = fs::File::create(log).map_err(|e| format!("{}: {e}", log.display()))?;
    command.env_remove("PORT").env_remove("HERMES_BRIDGE_CONFIG").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).kill_on_drop(true);
    Ok(())
}

/// Reads the child's output up to the line with its address; the rest is read and dropped by a task.
async fn announced(child: &mut Child) -> Result<(SocketAddr, JoinHandle<()>), String> {
    let stdout = child.stdout.take().ok_or("no output to read the address from")?;
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await.map_err(|e| format!("its output: {e}"))? {
        if let Some(addr) = address_in(&line) {
            let rest = async move { while let Ok(Some(_)) = lines.next_line().await {} };
            return Ok((addr, tokio::spawn(rest)));
        }
    }
    let status = child.wait().await.map_err(|e| format!("its end: {e}"))?;
    Err(format!("it ended ({status}) without saying {ANNOUNCEMENT:?}"))
}

fn address_in(line: &str) -> Option<SocketAddr> {
    let rest = &line[line.find(ANNOUNCEMENT)? + ANNOUNCEMENT.len()..];
    let end = rest.find(|c: char| !(c.is_ascii_hexdigit() || ".:[]".contains(c)));
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

async fn until_ready(endpoint: &Endpoint) -> Result<(), String> {
    let nobody = Agent { name: String::new(), token: "none".to_owned() };
    loop {
        let mut connection = Connection::open(endpoint, &nobody).await?;
        if connection.get("/ready").await?.0.is_success() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// `asker-0001`, `asker-0002`, .. each with a random token.
fn agents(role: &str, count: usize) -> Result<Vec<Agent>, String> {
    (1..=count).map(|n| Ok(Agent { name: format!("{role}-{n:04}"), token: proc::random_hex()? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_whatever_line_it_stands() {
        let loopback = Some(SocketAddr::from(([127, 0, 0, 1], 8787)));
        assert_eq!(address_in("listening on http://127.0.0.1:8787"), loopback);
        assert_eq!(address_in("INFO listening on http://127.0.0.1:8787/ui ok"), loopback);
        assert_eq!(address_in("{\"m\":\"listening on http://127.0.0.1:8787\"}"), loopback);
        assert!(address_in("listening on http://[::1]:1").is_some_and(|a| a.is_ipv6()));
        assert_eq!(address_in("listening on http://nowhere"), None);
        assert_eq!(address_in("starting"), None);
    }
}
