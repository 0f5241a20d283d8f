//! The relay as a child process: its directory, its configuration, its life and death, and commands of the same program.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process};
use serde_json::Value;
use tokio::process::{Child, Command};

use super::disk::{self, Disk};
use super::{Bot, Caller, soon, until};

/// Where the relay is reached at the moment; another one after each start.
pub type Address = Arc<Mutex<String>>;

pub struct Relay {
    pub dir: Arc<tempfile::TempDir>,
    pub address: Address,
    child: Option<Child>,
    runs: u32,
    log: Option<&'static str>,
    /// What its disk may do to it.
    disk: Option<Disk>,
}

/// A test that fails says what the relay said last.
impl Drop for Relay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let said = self.said();
            let lines: Vec<&str> = said.lines().collect();
            println!("the relay's last words in run {}:\n{}", self.runs, lines[lines.len().saturating_sub(20)..].join("\n"));
        }
    }
}

/// What a command of the program did.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// A token that is known before the relay starts.
pub fn token(agent: &str) -> String {
    format!("tok-{agent}-0123456789")
}

/// The page's owner token of every relay that is not told another.
pub const OWNER: &str = "owner-token-of-the-tests";

/// The program without what the surroundings might tell it.
fn program(dir: &Path) -> Command {
    program_on(env!("CARGO_BIN_EXE_hermes-bridge"), dir)
}

fn program_on(start: &str, dir: &Path) -> Command {
    let mut command = Command::new(start);
    for name in ["PORT", "HERMES_BRIDGE_CONFIG", "HERMES_BRIDGE_RELAY_URL", "HERMES_BRIDGE_TOKEN", "RUST_LOG"] {
        command.env_remove(name);
    }
    command.env("HERMES_BRIDGE_UI_TOKEN", OWNER);
    command.current_dir(dir).kill_on_drop(true).stdin(Stdio::null());
    command
}

impl Relay {
    /// A running relay. `keys` stands before the agents in bridge.toml; an agent may have more lines after its name.
    pub async fn start(keys: &str, agents: &[&str]) -> Self {
        let mut relay = Self::prepare(keys, agents);
        relay.up().await;
        relay
    }

    /// Everything but the start.
    pub fn prepare(keys: &str, agents: &[&str]) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let relay = Self { dir, address: Address::default(), child: None, runs: 0, log: None, disk: None };
        relay.configure(keys, agents);
        relay
    }

    pub fn configure(&self, keys: &str, agents: &[&str]) {
        let mut text = format!("listen = \"127.0.0.1:0\"\n{keys}\n");
        for agent in agents {
            let (name, more) = agent.split_once('\n').unwrap_or((agent, ""));
            text.push_str(&format!("[[agents]]\nname = \"{name}\"\ntoken = \"{}\"\n{more}\n", token(name)));
        }
        self.write_config(&text);
    }

    pub fn write_config(&self, text: &str) {
        fs::write(self.path("bridge.toml"), text).unwrap();
    }

    /// Its disk can be made to refuse in this way while it runs.
    pub fn on(&mut self, disk: Disk) {
        self.disk = Some(disk);
    }

    /// From now on its disk refuses, or does not.
    pub fn disk_refuses(&self, refuses: bool) {
        match self.disk.expect("its disk can refuse") {
            Disk::Full => {
                let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Fsize);
                let limit = Rlimit { current: if refuses { Some(0) } else { current }, maximum };
                rustix::process::prlimit(Some(self.pid()), Resource::Fsize, limit).unwrap();
            }
            Disk::Fails { calls, errno, on } if refuses => fs::write(disk::control(self.dir.path()), format!("{calls} {errno} {on}")).unwrap(),
            Disk::Fails { .. } => fs::remove_file(disk::control(self.dir.path())).unwrap(),
        }
    }

    pub fn log_everything(&mut self) {
        self.log = Some("trace,hyper=trace,rmcp=trace,rmcp::service=trace,tantivy=trace,warp=trace");
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts the relay and waits until it listens.
    pub async fn up(&mut self) {
        self.up_with(&[]).await;
    }

    pub async fn up_with(&mut self, arguments: &[&str]) {
        self.up_in(arguments, &[]).await;
    }

    /// In surroundings of its own.
    pub async fn up_in(&mut self, arguments: &[&str], env: &[(&str, &str)]) {
        assert!(self.child.is_none(), "it runs");
        self.runs += 1;
        let file = |kind: &str| File::create(self.path(&format!("{kind}-{}", self.runs))).unwrap();
        let fills = matches!(self.disk, Some(Disk::Full));
        let mut command = if fills { program_on("sh", self.dir.path()) } else { program(self.dir.path()) };
        command.envs(self.disk.into_iter().flat_map(|disk| disk.surroundings(self.dir.path())));
        if let Some(filter) = self.log {
            command.env("RUST_LOG", filter);
        }
        if fills {
            // A write beyond the limit is an error then, and not the end. Its log goes through us: a file would be full too.
            command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_hermes-bridge")]).stderr(Stdio::piped());
        } else {
            command.stderr(file("err"));
        }
        let mut child = command.args(arguments).envs(env.iter().copied()).stdout(file("out")).spawn().unwrap();
        if let Some(mut said) = child.stderr.take() {
            let mut log = tokio::fs::File::from_std(file("err"));
            tokio::spawn(async move { tokio::io::copy(&mut said, &mut log).await });
        }
        let out = self.path(&format!("out-{}", self.runs));
        let listening = until("the relay listens", async || {
            assert!(child.try_wait().unwrap().is_none(), "the relay ended: {}", self.said());
            let said = fs::read_to_string(&out).unwrap();
            let line = said.split_inclusive('\n').find(|l| l.starts_with("listening on ") && l.ends_with('\n'))?;
            Some(line.trim_start_matches("listening on ").trim().to_owned())
        });
        *self.address.lock().unwrap() = listening.await;
        self.child = Some(child);
    }

    pub fn url(&self) -> String {
        self.address.lock().unwrap().clone()
    }

    pub fn host(&self) -> String {
        self.url().trim_start_matches("http://").to_owned()
    }

    /// All that it printed and logged, in all its runs.
    pub fn said(&self) -> String {
        let names = (1..=self.runs).flat_map(|n| [format!("out-{n}"), format!("err-{n}")]);
        names.map(|name| String::from_utf8_lossy(&fs::read(self.path(&name)).unwrap_or_default()).into_owned()).collect()
    }

    fn pid(&self) -> Pid {
        let id = self.child.as_ref().and_then(Child::id).expect("it runs");
        Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// kill -9.
    pub async fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().await.unwrap();
    }

    /// SIGTERM; how it ended and how long that took.
    pub async fn stop(&mut self) -> (Option<i32>, Duration) {
        self.stop_by(Signal::TERM).await
    }

    pub async fn stop_by(&mut self, signal: Signal) -> (Option<i32>, Duration) {
        let started = Instant::now();
        self.signal(signal);
        let mut child = self.child.take().expect("it runs");
        let status = soon("the relay stops", child.wait()).await.unwrap();
        (status.code(), started.elapsed())
    }

    /// Ends, by "kill" or "stop", and runs again.
    pub async fn again_after(&mut self, end: &str) {
        match end {
            "kill" => self.kill().await,
            _ => drop(self.stop().await),
        }
        self.up().await;
    }

    /// Resident memory in KiB.
    pub fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most of it at any moment since `peak_begins`.
    pub fn peak_memory(&self) -> u64 {
        self.status("VmHWM:")
    }

    pub fn peak_begins(&self) {
        fs::write(format!("/proc/{}/clear_refs", self.pid().as_raw_nonzero()), "5").unwrap();
    }

    fn status(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid().as_raw_nonzero())).unwrap();
        let line = status.lines().find(|l| l.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Runs a command of the program in the relay's directory.
    pub async fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, &[]).await
    }

    pub async fn run_with(&self, arguments: &[&str], env: &[(&str, &str)]) -> Ran {
        let mut command = program(self.dir.path());
        command.args(arguments).envs(env.iter().copied());
        let output = soon("the command ends", command.output()).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// A command that goes on: `listen`. What it says goes to a file.
    pub fn spawn(&self, arguments: &[&str], log: &str) -> Child {
        self.spawn_to(arguments, "/dev/null", log)
    }

    /// One whose output is looked at too.
    pub fn spawn_to(&self, arguments: &[&str], out: &str, log: &str) -> Child {
        let file = |name| File::create(self.path(name)).unwrap();
        program(self.dir.path()).args(arguments).stdout(file(out)).stderr(file(log)).spawn().unwrap()
    }

    pub fn caller(&self, agent: &str) -> Caller {
        Caller::new(self.address.clone(), &token(agent))
    }

    pub fn caller_with(&self, token: &str) -> Caller {
        Caller::new(self.address.clone(), token)
    }

    /// A bot as the original's adapter is: no hello.
    pub async fn bot(&self, agent: &str) -> Bot {
        Bot::connect(&self.url(), agent, &token(agent)).await.unwrap()
    }

    /// A bot that says which process it is and understands every frame.
    pub async fn bot_of(&self, agent: &str, instance: &str) -> Bot {
        let mut bot = self.bot(agent).await;
        bot.hello(instance).await;
        bot
    }

    /// As the page's owner.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let request = super::caller::http().get(format!("{}{path}", self.url())).bearer_auth(OWNER);
        let response = soon(path, request.send()).await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// The newest entries of the security log, once the relay takes a request for them. `query`: `?kind=..`.
    pub async fn security(&self, query: &str) -> Vec<Value> {
        let read = until("the security log is to be read", async || {
            let request = super::caller::http().get(format!("{}/ui/api/security{query}", self.url())).bearer_auth(OWNER);
            let answer = soon("the security log", request.send()).await.ok()?;
            if answer.status() == 200 { answer.text().await.ok() } else { None }
        });
        serde_json::from_str::<Value>(&read.await).unwrap()["events"].as_array().unwrap().clone()
    }

    /// The newest entry of a kind whose text has `part`, once there is one.
    pub async fn noted(&self, kind: &str, part: &str) -> Value {
        let query = format!("?kind={kind}&limit=500");
        let found = async || self.security(&query).await.into_iter().find(|e| e["what"].as_str().unwrap_or_default().contains(part));
        until(&format!("{kind} {part} stands in the security log"), found).await
    }

    /// What the page shows.
    pub async fn state(&self) -> Value {
        let (status, body) = self.get("/ui/api/state").await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    pub async fn exchanges(&self) -> Vec<Value> {
        self.state().await["exchanges"].as_array().unwrap().clone()
    }

    /// The exchange that asks this, once it is on record.
    pub async fn on_record(&self, message: &str) -> Value {
        until(&format!("{message} is on record"), async || self.exchanges().await.into_iter().find(|e| e["message"] == message)).await
    }

    pub async fn is_online(&self, agent: &str) -> bool {
        let state = self.state().await;
        let found = state["agents"].as_array().unwrap().iter().find(|a| a["name"] == agent).cloned();
        found.unwrap_or_else(|| panic!("no agent {agent} in {state}"))["online"] == true
    }

    pub async fn wait_online(&self, agent: &str, online: bool) {
        until(&format!("{agent} is online: {online}"), async || (self.is_online(agent).await == online).then_some(())).await;
    }

    pub async fn is_well(&self) {
        assert_eq!(self.get("/health").await, (200, r#"{"status":"ok"}"#.to_owned()));
    }
}
