//! The owner's door: a Unix socket in the data directory, one JSON line each way. The directory's mode is its lock.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{Secret, local_url};
use crate::core::ids::{AgentName, ConversationId};
use crate::core::outcome::moment;
use crate::engine::{Engine, Kind, Progress, Unwanted};
use crate::wire::control::{AgentRow, Answer, Command, ErasureRow, ExportRow, ViewerRow};

/// Who acts here, in the security log.
const COMMAND: &str = "command line";
const MAX_LINE: u64 = 64 * 1024;
const LINE_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the socket of a data directory is. Socket paths are short by law of the kernel (108 bytes), so a long directory
/// is named through its descriptor.
pub fn path(data_dir: &Path) -> io::Result<(PathBuf, Option<std::fs::File>)> {
    let path = data_dir.join("control.sock");
    if path.as_os_str().len() < 100 {
        return Ok((path, None));
    }
    let directory = std::fs::File::open(data_dir)?;
    let short = format!("/proc/self/fd/{}/control.sock", std::os::fd::AsRawFd::as_raw_fd(&directory));
    Ok((short.into(), Some(directory)))
}

/// Opens the socket. The store's lock is held by now, so one that is there is a dead relay's.
pub fn bind(data_dir: &Path) -> io::Result<UnixListener> {
    let (path, _directory) = path(data_dir)?;
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
    Ok(listener)
}

/// Serves until `stop`. `bound`: where the relay listens.
pub async fn serve(listener: &UnixListener, engine: Arc<Engine>, bound: SocketAddr, stop: CancellationToken) {
    let tasks = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let Ok((stream, _)) = accepted else {
            super::rest_from_accepting().await;
            continue;
        };
        let engine = engine.clone();
        tasks.spawn(async move {
            if let Err(e) = tokio::time::timeout(LINE_TIMEOUT, converse(stream, &engine, bound)).await {
                tracing::debug!(error = %e, "a control connection took too long");
            }
        });
    }
    tasks.close();
    tasks.wait().await;
}

async fn converse(stream: UnixStream, engine: &Arc<Engine>, bound: SocketAddr) {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    if BufReader::new(read.take(MAX_LINE)).read_line(&mut line).await.is_err() {
        return;
    }
    let answer = match serde_json::from_str(&line) {
        Ok(command) => obey(engine, command, bound).await,
        Err(e) => Answer::Failed(format!("this relay does not know this command ({e}); it is version {}", env!("CARGO_PKG_VERSION"))),
    };
    let mut text = serde_json::to_string(&answer).unwrap_or_default();
    text.push('\n');
    // Whoever asked may be gone.
    let _ = write.write_all(text.as_bytes()).await;
}

/// Carries out one command; also what the command line calls when no relay is running.
pub async fn obey(engine: &Arc<Engine>, command: Command, bound: SocketAddr) -> Answer {
    let (changes, borrower) = (changed_token(&command), borrower(&command));
    let answer = carry_out(engine, command, bound).await;
    if let Some(what) = changes.filter(|_| !matches!(answer, Answer::Failed(_))) {
        match borrower {
            Some(who) => engine.audit_counted(Kind::Token, "lent", &who, None, &what),
            // It has happened; the answer says nothing else because the note of it waits for the disk.
            None => drop(engine.audit(Kind::Token, COMMAND, None, &what).await),
        }
    }
    answer
}

/// Who takes a token for one command, as scripts do all day.
fn borrower(command: &Command) -> Option<String> {
    let Command::Lend { name } = command else { return None };
    Some(format!("{COMMAND} as {name}"))
}

/// What the security log says of a command that changes who may do what.
fn changed_token(command: &Command) -> Option<String> {
    match command {
        Command::AgentAdd { name } => Some(format!("agent {name} added")),
        Command::AgentRotate { name } => Some(format!("a new token for agent {name}")),
        Command::AgentRevoke { name } => Some(format!("agent {name} revoked")),
        Command::Lend { name } => Some(format!("a token of agent {name} lent to a command of this machine")),
        Command::UiToken => Some("a new owner token; logins with the old one are void".to_owned()),
        Command::ViewerAdd { name } => Some(format!("viewer {name} added")),
        Command::ViewerRevoke { name } => Some(format!("viewer {name} revoked")),
        _ => None,
    }
}

async fn carry_out(engine: &Arc<Engine>, command: Command, bound: SocketAddr) -> Answer {
    match command {
        Command::AgentList => Answer::Agents(list(engine)),
        Command::Reindex => {
            engine.reindex();
            Answer::Done
        }
        Command::Indexing => {
            let (done, of) = engine.indexing().unwrap_or_else(|| (engine.indexed().0, engine.last_seq().0));
            Answer::Indexing { done, of, ready: engine.indexing().is_none() }
        }
        Command::About => {
            let troubles = engine.troubles().into_iter().map(str::to_owned).collect();
            let last = engine.last_seq().0;
            let row = |(sink, upto, quiet): (&str, u64, u64)| ExportRow { sink: sink.to_owned(), behind: last.saturating_sub(upto), quiet };
            let exports = engine.metrics().exported().map(row).collect();
            Answer::About { version: env!("CARGO_PKG_VERSION").to_owned(), listen: bound.to_string(), troubles, exports }
        }
        Command::Backup { dir } => done(engine.begin_backup(dir).map(drop)),
        Command::Erase { conversation, agent, dry_run } => erase(engine, conversation.as_deref(), agent.as_deref(), dry_run),
        Command::Erasures => erasures(engine).await,
        Command::Progress => {
            let Progress { stage, done, of, outcome } = engine.progress().unwrap_or_default();
            Answer::Progress { stage: stage.to_owned(), done, of, outcome }
        }
        Command::UiToken => token("the owner", engine.new_owner_token().await, &engine.config().base_url(bound)),
        Command::LendPage => token("the owner", engine.lend_page(), &local_url(bound)),
        Command::ViewerAdd { name } => token(&name, engine.add_viewer(&name).await, &engine.config().base_url(bound)),
        Command::ViewerRevoke { name } => done(engine.revoke_viewer(&name).await),
        Command::ViewerList => {
            let row = |(name, since)| ViewerRow { name, since: moment(since) };
            Answer::Viewers(engine.viewers().into_iter().map(row).collect())
        }
        Command::AgentAdd { ref name } | Command::AgentRotate { ref name } | Command::AgentRevoke { ref name } | Command::Lend { ref name } => {
            match AgentName::parse(name) {
                Some(name) => agent(engine, &command, name, bound).await,
                None => Answer::Failed(format!("{name:?} is no agent name: 1 to 64 of a-z 0-9 . _ -, the first a letter or digit")),
            }
        }
    }
}

/// A command about one agent. What is lent is for commands of this machine, which may not reach the public address.
async fn agent(engine: &Arc<Engine>, command: &Command, name: AgentName, bound: SocketAddr) -> Answer {
    let (minted, url) = match command {
        Command::AgentAdd { .. } => (engine.add_agent(name.clone()).await, engine.config().base_url(bound)),
        Command::AgentRotate { .. } => (engine.rotate_token(name.clone()).await, engine.config().base_url(bound)),
        Command::Lend { .. } => (engine.lend_token(name.clone()), local_url(bound)),
        _ => return done(engine.revoke_agent(name).await),
    };
    token(name.as_str(), minted.map(|m| m.token), &url)
}

fn token<E: std::fmt::Display>(name: &str, made: Result<Secret, E>, url: &str) -> Answer {
    match made {
        Ok(token) => Answer::Token { name: name.to_owned(), token: token.reveal().to_owned(), url: url.to_owned() },
        Err(e) => Answer::Failed(e.to_string()),
    }
}

fn erase(engine: &Arc<Engine>, conversation: Option<&str>, agent: Option<&str>, dry_run: bool) -> Answer {
    let what = match (conversation, agent) {
        (Some(id), None) => ConversationId::parse(id).map(Unwanted::Conversation).ok_or_else(|| format!("{id:?} is no conversation id")),
        (None, Some(name)) => AgentName::parse(name).map(Unwanted::Agent).ok_or_else(|| format!("{name:?} is no agent name")),
        _ => Err("name a conversation or an agent, not both".to_owned()),
    };
    done(what.and_then(|what| engine.begin_erase(what, dry_run, COMMAND)).map(drop))
}

async fn erasures(engine: &Arc<Engine>) -> Answer {
    match engine.erasures().await {
        Ok(all) => Answer::Erasures(all.into_iter().map(|(at, what, exchanges)| ErasureRow { at: moment(at), what, exchanges }).collect()),
        Err(e) => Answer::Failed(e.to_string()),
    }
}

fn done<E: std::fmt::Display>(result: Result<(), E>) -> Answer {
    match result {
        Ok(()) => Answer::Done,
        Err(e) => Answer::Failed(e.to_string()),
    }
}

fn list(engine: &Engine) -> Vec<AgentRow> {
    let listed = engine.listed_agents();
    let present = engine.present(None);
    let row = |agent: crate::engine::Listed| {
        let seen = present.iter().find(|p| p.name == agent.name);
        AgentRow {
            name: agent.name.to_string(),
            source: if agent.configured { "bridge.toml" } else { "agent add" }.to_owned(),
            online: seen.is_some_and(|p| p.online),
            last_seen: seen.and_then(|p| p.last_seen).map(moment),
            adapter: seen.and_then(|p| p.adapter.as_ref()).map(|a| a.to_string()),
        }
    };
    listed.into_iter().map(row).collect()
}
