//! One round of one level: N callers at once for a while, and what the server spent on it.
//!
//! Owns the window that is measured: callers warm up, all stop at one moment, latencies are of calls that began
//! inside. Any answer but the right one ends the round with an error; figures of a failing server are no figures.

use super::bot::{Bot, ReplyBy};
use super::check::{self, Failure};
use super::client::Connection;
use super::proc;
use super::script;
use super::server::{Agent, Endpoint};
use super::stats::percentile;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

/// The longest that one call, or the arrival of one bot, may take.
pub(super) const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// What the callers do.
#[derive(Clone, Copy)]
pub(super) struct Level {
    pub askers: usize,
    pub bots: usize,
    pub bytes: usize,
    pub reply: ReplyBy,
    pub warm_up: Duration,
    pub window: Duration,
}

/// Figures of one round, or medians of several.
#[derive(Clone, Copy, Serialize, Default)]
pub(super) struct Figures {
    pub per_second: f64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    pub server_cpu_ms_per_call: Option<f64>,
    pub client_cpu_ms_per_call: Option<f64>,
    pub server_rss_mb: Option<f64>,
}

/// The moments of one round.
#[derive(Clone, Copy)]
pub(super) struct Window {
    from: Instant,
    pub until: Instant,
}

#[derive(Default)]
pub(super) struct Tally {
    done: u64,
    latencies: Vec<u64>,
}

/// `askers` ask `bots` in fixed pairs, each its next question when it has the answer to the last.
pub(super) async fn asks(endpoint: &Endpoint, level: Level) -> Result<Figures, String> {
    let mut bots = JoinSet::new();
    let joining =
        stream::iter(0..level.bots.min(endpoint.bots.len())).map(|n| Bot::join(endpoint, &endpoint.bots[n], level.reply)).buffer_unordered(32);
    let joined: Vec<Bot> = limited("bots to connect", joining.try_collect()).await?;
    let count = joined.len().max(1);
    for bot in joined {
        bots.spawn(bot.serve());
    }
    let callers = open(endpoint, level.askers).await?;
    let window = Window::starting_in(level.warm_up, level.window);
    let mut askers = JoinSet::new();
    for (n, (connection, agent)) in callers.into_iter().enumerate() {
        let bot = endpoint.bots[n % count].name.clone();
        let salt = script::mix(window.salt() ^ n as u64);
        askers.spawn(asker(connection, agent, bot, salt, level.bytes, window));
    }
    let figures = tokio::select! {
        figures = gather(endpoint, askers, window) => figures,
        Some(ended) = bots.join_next() => Err(ended.unwrap_or_else(|e| format!("a bot's task: {e}"))),
    };
    bots.shutdown().await;
    figures
}

/// `callers` call `list_agents`, each again when it has the list.
pub(super) async fn lists(endpoint: &Endpoint, callers: usize, warm_up: Duration, length: Duration) -> Result<Figures, String> {
    let opened = open(endpoint, callers).await?;
    let window = Window::starting_in(warm_up, length);
    let mut tasks = JoinSet::new();
    for (connection, agent) in opened {
        tasks.spawn(lister(connection, agent, window));
    }
    gather(endpoint, tasks, window).await
}

/// `future`, or after the deadline what it was that took so long.
pub(super) async fn limited<T>(what: &str, future: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let late = |_| Err(format!("waited {CALL_DEADLINE:?} for {what}"));
    timeout(CALL_DEADLINE, future).await.unwrap_or_else(late)
}

async fn open(endpoint: &Endpoint, count: usize) -> Result<Vec<(Connection, Agent)>, String> {
    let opening = stream::iter(0..count)
        .map(|n| async move {
            let agent = &endpoint.askers[n % endpoint.askers.len()];
            Ok((Connection::open(endpoint, agent).await?, agent.clone()))
        })
        .buffered(32);
    limited("connections", opening.try_collect()).await
}

async fn asker(mut connection: Connection, from: Agent, bot: String, salt: u64, bytes: usize, window: Window) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mut id = 0;
    let mut began = Instant::now();
    while began < window.until {
        id += 1;
        let nonce = salt.wrapping_add(id);
        let body = script::ask_body(id, &bot, nonce, bytes);
        let reply = limited("an answer", connection.call(body)).await?;
        match check::check_answer(id, &reply.payload, nonce, &bot, &from.name, bytes) {
            Ok(()) => window.count(&mut tally, began, reply.at),
            // Bots joined a moment ago: a server may need one to know.
            Err(Failure::Offline) if began < window.from => sleep(Duration::from_millis(10)).await,
            Err(failure) => return Err(format!("ask of {} to {bot}: {failure}", from.name)),
        }
        began = Instant::now();
    }
    Ok(tally)
}

async fn lister(mut connection: Connection, agent: Agent, window: Window) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mut id = 0;
    let mut began = Instant::now();
    while began < window.until {
        id += 1;
        let reply = limited("a list", connection.call(script::list_body(id))).await?;
        let failed = |e| format!("list_agents of {}: {e}", agent.name);
        check::check_list(id, &reply.payload, &agent.name).map_err(failed)?;
        window.count(&mut tally, began, reply.at);
        began = Instant::now();
    }
    Ok(tally)
}

/// Reads the server's CPU time at both ends of the window, then collects what the callers saw.
async fn gather(endpoint: &Endpoint, callers: JoinSet<Result<Tally, String>>, window: Window) -> Result<Figures, String> {
    let client = Some(std::process::id());
    let spent = async {
        sleep_until(window.from.into()).await;
        let before = (proc::cpu_ms(endpoint.pid), proc::cpu_ms(client));
        sleep_until(window.until.into()).await;
        let after = (proc::cpu_ms(endpoint.pid), proc::cpu_ms(client));
        let difference = |a: Option<f64>, b: Option<f64>| Some(b? - a?);
        (difference(before.0, after.0), difference(before.1, after.1), proc::rss_mb(endpoint.pid))
    };
    let ((server, own, rss), all) = tokio::try_join!(async { Ok(spent.await) }, collected(callers))?;
    let done = all.done;
    let each = |ms: Option<f64>| ms.filter(|_| done > 0).map(|ms| ms / done as f64);
    Ok(Figures { server_cpu_ms_per_call: each(server), client_cpu_ms_per_call: each(own), server_rss_mb: rss, ..all.figures(window) })
}

/// What all of them saw together.
pub(super) async fn collected(mut callers: JoinSet<Result<Tally, String>>) -> Result<Tally, String> {
    let mut all = Tally::default();
    while let Some(ended) = callers.join_next().await {
        let one = ended.map_err(|e| format!("a caller's task: {e}"))??;
        all.done += one.done;
        all.latencies.extend(one.latencies);
    }
    Ok(all)
}

impl Tally {
    pub(super) fn figures(self, window: Window) -> Figures {
        let mut latencies = self.latencies;
        latencies.sort_unstable();
        let at = |percent| percentile(&latencies, percent) as f64 / 1e6;
        let per_second = self.done as f64 / (window.until - window.from).as_secs_f64();
        Figures { per_second, p50_ms: at(50.0), p90_ms: at(90.0), p99_ms: at(99.0), max_ms: at(100.0), ..Figures::default() }
    }
}

impl Window {
    pub(super) fn starting_in(warm_up: Duration, length: Duration) -> Self {
        let from = Instant::now() + warm_up;
        Self { from, until: from + length }
    }

    /// Throughput is of calls that ended inside, latency of calls that began inside, however late they ended.
    pub(super) fn count(&self, tally: &mut Tally, began: Instant, ended: Instant) {
        if ended >= self.from && ended < self.until {
            tally.done += 1;
        }
        if began >= self.from {
            let nanos = u64::try_from((ended - began).as_nanos()).unwrap_or(u64::MAX);
            tally.latencies.push(nanos);
        }
    }

    /// Differs from round to round, so that no question is ever asked twice.
    fn salt(&self) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |d| d.as_nanos() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::floor;
    use super::*;
    use tokio::net::TcpListener;

    /// A floor of this process with two askers and two bots; it ends with the set.
    async fn floor() -> (Endpoint, JoinSet<Result<(), String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let agent = |name: &str| Agent { name: name.to_owned(), token: format!("t-{name}") };
        let endpoint = Endpoint { addr, askers: vec![agent("a1"), agent("a2")], bots: vec![agent("b1"), agent("b2")], pid: None };
        let mut tasks = JoinSet::new();
        tasks.spawn(async { floor::accept(listener, "a1 t-a1\na2 t-a2\nb1 t-b1\nb2 t-b2", None).await });
        (endpoint, tasks)
    }

    /// On a busy machine nothing may be heard in less.
    const WINDOW: Duration = Duration::from_millis(500);

    fn level(reply: ReplyBy, bytes: usize) -> Level {
        let (warm_up, window) = (Duration::from_millis(20), WINDOW);
        Level { askers: 5, bots: 2, bytes, reply, warm_up, window }
    }

    #[tokio::test]
    async fn every_asker_hears_its_own_answer_whichever_way_bots_reply() {
        let (endpoint, _floor) = floor().await;
        for (reply, bytes) in [(ReplyBy::Http, 200), (ReplyBy::Ws, 200), (ReplyBy::Http, 16_384)] {
            let figures = asks(&endpoint, level(reply, bytes)).await.unwrap();
            assert!(figures.per_second > 0.0 && figures.p50_ms > 0.0);
            assert!(figures.p50_ms <= figures.p99_ms && figures.p99_ms <= figures.max_ms);
        }
        assert!(lists(&endpoint, 3, WINDOW, WINDOW).await.unwrap().per_second > 0.0);
    }

    #[tokio::test]
    async fn a_bot_that_stays_offline_ends_the_round() {
        let (mut endpoint, _floor) = floor().await;
        endpoint.bots.truncate(1);
        endpoint.bots[0].token = "t-b2".to_owned(); // connects as b2, is asked as b1: nobody answers b1
        let error = asks(&endpoint, level(ReplyBy::Http, 200)).await.err().unwrap();
        assert!(error.contains("offline"), "{error}");
    }

    #[tokio::test]
    async fn a_refused_token_ends_the_round() {
        let (mut endpoint, _floor) = floor().await;
        endpoint.askers[1].token = "wrong".to_owned();
        let error = asks(&endpoint, level(ReplyBy::Http, 200)).await.err().unwrap();
        assert!(error.contains("401"), "{error}");
    }
}
