//! What runs in which order: every figure of the floor, of the durable floor and of the relay, in turn.
//!
//! Owns the alternation that makes ratios honest on a noisy machine: all three run side by side, one is measured at
//! a time, round by round. Knows no HTTP.

use super::commits;
use super::given::given;
use super::history;
use super::idle::{self, IdleBots, Start};
use super::load::{self, Figures, Level};
use super::proc::{self, Machine};
use super::report::{Beside, Compared, Report, Settings};
use super::scratch::Scratch;
use super::server::{Endpoint, Kind, LIMITS, Launcher, Server};
use super::trust;
use super::upkeep;
use super::{BenchArgs, Part, ReplyBy, progress};
use std::time::Duration;

const LIST_CALLERS: usize = 16;
const FLOORS_AND_RELAY: [Kind; 3] = [Kind::Floor, Kind::DurableFloor, Kind::Relay];
const FLOOR_AND_RELAY: [Kind; 2] = [Kind::Floor, Kind::Relay];

/// The flags, made definite.
struct Plan {
    levels: Vec<usize>,
    bots: Option<usize>,
    bytes: usize,
    reply: ReplyBy,
    rounds: usize,
    warm_up: Duration,
    window: Duration,
    idle_bots: usize,
    parts: Vec<Part>,
    relay: Relay,
}

enum Relay {
    Started,
    Given(Endpoint),
    None,
}

/// One of the servers under test.
enum Subject {
    Child(Box<Server>),
    Given(Endpoint),
}

pub(super) async fn run(args: BenchArgs) -> Result<Report, String> {
    let plan = Plan::new(&args).await?;
    let own = std::env::current_exe().map_err(|e| format!("this binary's path: {e}"))?;
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = Scratch::new(&parent)?;
    let launcher = Launcher {
        relay: args.relay_bin.clone().unwrap_or_else(|| own.clone()),
        floor: own,
        parent: scratch.path().to_owned(),
        extra: args.config_extra.clone().unwrap_or_else(|| LIMITS.to_owned()),
    };
    plan.check_open_files(proc::raise_open_files())?;
    let mut report = Report {
        version: 1,
        machine: Machine::look(scratch.path())?,
        settings: Settings {
            message_bytes: plan.bytes,
            reply: if plan.reply == ReplyBy::Http { "http" } else { "ws" },
            rounds: plan.rounds,
            window_seconds: plan.window.as_secs_f64(),
        },
        start: None,
        asks: Vec::new(),
        commits: Vec::new(),
        list_agents: None,
        idle_bots: None,
        history: None,
        upkeep: None,
        trust: None,
    };
    for part in &plan.parts {
        match part {
            Part::Start => report.start = Some(plan.starts(&launcher).await?),
            Part::Asks => report.asks = plan.asks(&launcher).await?,
            // Each level takes a fifth of what asks take.
            Part::Commits => report.commits = commits::measure(scratch.path(), plan.rounds, plan.window / 5).await?,
            Part::List => report.list_agents = Some(plan.lists(&launcher).await?),
            Part::Idle => report.idle_bots = Some(plan.idle(&launcher).await?),
            Part::Upkeep => report.upkeep = Some(upkeep::measure(&launcher, u64::from(args.exchanges)).await?),
            Part::Trust => {
                report.trust = Some(trust::measure(&launcher, plan.bytes, if args.quick { 200 } else { 1_000 }, plan.rounds, plan.window).await?)
            }
            Part::History => report.history = Some(history::measure(&launcher, u64::from(args.exchanges)).await?),
        }
    }
    Ok(report)
}

impl Plan {
    async fn new(args: &BenchArgs) -> Result<Self, String> {
        let seconds = args.seconds.unwrap_or(if args.quick { 0.5 } else { 1.0 });
        if !(0.05..=600.0).contains(&seconds) {
            return Err(format!("--seconds {seconds}: between 0.05 and 600"));
        }
        let relay = match (&args.url, &args.tokens) {
            _ if args.floor_only => Relay::None,
            (Some(url), Some(tokens)) => Relay::Given(given(url, tokens, args.pid).await?),
            _ => Relay::Started,
        };
        let mut parts = args.only.clone();
        if parts.is_empty() {
            parts = vec![Part::Start, Part::Asks, Part::List, Part::Idle];
            if matches!(relay, Relay::Started) {
                parts.push(Part::Commits);
            }
        }
        Ok(Self {
            levels: args.askers.iter().map(|n| *n as usize).collect(),
            bots: args.bots.map(|n| n as usize),
            bytes: args.message_bytes as usize,
            reply: args.reply,
            rounds: args.rounds.unwrap_or(if args.quick { 2 } else { 5 }) as usize,
            warm_up: Duration::from_secs_f64((seconds / 5.0).min(0.5)),
            window: Duration::from_secs_f64(seconds),
            idle_bots: args.idle_bots as usize,
            parts,
            relay,
        })
    }

    /// Each end of each connection is a file of one process or the other.
    fn check_open_files(&self, limit: Option<u64>) -> Result<(), String> {
        let most = self.levels.iter().copied().max().unwrap_or(0);
        let asks = most + 2 * self.bots.unwrap_or(most).max(most);
        let idle = if self.parts.contains(&Part::Idle) { self.idle_bots } else { 0 };
        let needed = asks.max(idle) as u64 + 100;
        match limit {
            Some(limit) if limit < needed => {
                Err(format!("this needs {needed} open files, the limit is {limit}: raise it (ulimit -n {needed}) or ask for less"))
            }
            _ => Ok(()),
        }
    }

    /// Bots at a level of so many askers: never more than a given relay has, or the floors would have it easier.
    fn answering(&self, askers: usize) -> usize {
        let bots = self.bots.unwrap_or(askers);
        match &self.relay {
            Relay::Given(endpoint) => bots.min(endpoint.bots.len()),
            _ => bots,
        }
    }

    async fn subject(&self, launcher: &Launcher, kind: Kind, askers: usize, bots: usize) -> Result<Option<Subject>, String> {
        match (&self.relay, kind) {
            (Relay::None, Kind::Relay) => Ok(None),
            (Relay::Given(endpoint), Kind::Relay) => Ok(Some(Subject::Given(endpoint.clone()))),
            _ => Ok(Some(Subject::Child(Box::new(launcher.start(kind, askers, bots).await?)))),
        }
    }

    async fn starts(&self, launcher: &Launcher) -> Result<Beside<Start>, String> {
        progress("start to ready, and memory at rest");
        let mut figures = Beside::default();
        for kind in FLOOR_AND_RELAY {
            if kind == Kind::Floor || matches!(self.relay, Relay::Started) {
                *figures.of(kind) = Some(idle::starts(launcher, kind, 3).await?);
            }
        }
        Ok(figures)
    }

    async fn asks(&self, launcher: &Launcher) -> Result<Vec<Compared>, String> {
        let most = self.levels.iter().copied().max().unwrap_or(1);
        let mut subjects = Vec::new();
        for kind in FLOORS_AND_RELAY {
            let bots = self.answering(most);
            if let Some(subject) = self.subject(launcher, kind, most, bots).await? {
                subjects.push((kind, subject));
            }
        }
        let mut levels = Vec::new();
        for &askers in &self.levels {
            let bots = self.answering(askers);
            let level = Level { askers, bots, bytes: self.bytes, reply: self.reply, warm_up: self.warm_up, window: self.window };
            let what = format!("{askers} asking at once");
            let rounds = self.rounds(&what, &subjects, |endpoint| load::asks(endpoint, level)).await?;
            levels.push(Compared::new(askers, Some(askers + bots), rounds, Kind::DurableFloor));
        }
        for (_, subject) in subjects {
            subject.stop().await;
        }
        Ok(levels)
    }

    async fn lists(&self, launcher: &Launcher) -> Result<Compared, String> {
        let (askers, bots) = match &self.relay {
            Relay::Given(endpoint) => (endpoint.askers.len(), endpoint.bots.len()),
            _ => (LIST_CALLERS, LIST_CALLERS),
        };
        let mut subjects = Vec::new();
        for kind in FLOOR_AND_RELAY {
            let subject = self.subject(launcher, kind, askers, bots).await?;
            subjects.extend(subject.map(|subject| (kind, subject)));
        }
        let rounds = self.rounds("list_agents", &subjects, |endpoint| load::lists(endpoint, LIST_CALLERS, self.warm_up, self.window)).await?;
        for (_, subject) in subjects {
            subject.stop().await;
        }
        Ok(Compared::new(LIST_CALLERS, Some(askers + bots), rounds, Kind::Floor))
    }

    /// Floor, durable floor, relay, and again.
    async fn rounds<'a, F>(
        &self,
        what: &str,
        subjects: &'a [(Kind, Subject)],
        mut measure: impl FnMut(&'a Endpoint) -> F,
    ) -> Result<Beside<Vec<Figures>>, String>
    where
        F: Future<Output = Result<Figures, String>>,
    {
        let mut all: Beside<Vec<Figures>> = Beside::default();
        for round in 1..=self.rounds {
            progress(&format!("{what}: round {round} of {}", self.rounds));
            for (kind, subject) in subjects {
                let figures = measure(subject.endpoint()).await.map_err(|e| format!("{what}, {kind}: {e}"))?;
                all.of(*kind).get_or_insert_default().push(figures);
            }
        }
        Ok(all)
    }

    async fn idle(&self, launcher: &Launcher) -> Result<Beside<IdleBots>, String> {
        let mut figures = Beside::default();
        for kind in FLOOR_AND_RELAY {
            progress(&format!("{} idle bots: {kind}", self.idle_bots));
            if let Some(subject) = self.subject(launcher, kind, 1, self.idle_bots).await? {
                *figures.of(kind) = Some(idle::bots(subject.endpoint(), self.idle_bots).await?);
                subject.stop().await;
            }
        }
        Ok(figures)
    }
}

impl Subject {
    fn endpoint(&self) -> &Endpoint {
        match self {
            Self::Child(server) => &server.endpoint,
            Self::Given(endpoint) => endpoint,
        }
    }

    async fn stop(self) {
        if let Self::Child(server) = self {
            server.stop().await;
        }
    }
}
