//! Asks at a steady pace, for as long as something else goes on beside them: what that costs whoever asks.
//!
//! Owns the pace. A call is timed from the moment at which it was due, so that one slow answer counts for all those it held
//! up. Any answer but the right one is an error.

use super::bot::{Bot, ReplyBy};
use super::check;
use super::client::Connection;
use super::load::limited;
use super::script;
use super::server::{Agent, Endpoint};
use super::stats::percentile;
use serde::Serialize;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

/// Asks a second, in all.
pub(super) const RATE: u32 = 200;
/// Callers that take turns: enough that none waits for its own last answer.
pub(super) const CALLERS: usize = 32;
const BYTES: usize = 200;
/// Bots have joined, caches are warm.
const WARM_UP: Duration = Duration::from_secs(1);

#[derive(Serialize)]
pub(super) struct Steady {
    pub asked: usize,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    /// No commit took longer, by the steps of the relay's own histogram; `None` if one did than its last step.
    pub commits_within_ms: Option<f64>,
}

/// Asks until `beside` is done; what that was, and how the asks fared meanwhile.
pub(super) async fn during<T>(endpoint: &Endpoint, beside: impl Future<Output = Result<T, String>>) -> Result<(T, Steady), String> {
    let mut bots = JoinSet::new();
    for agent in endpoint.bots.iter().take(CALLERS) {
        bots.spawn(limited("a bot to connect", Bot::join(endpoint, agent, ReplyBy::Ws)).await?.serve());
    }
    let (begin, stop) = (Instant::now() + WARM_UP, CancellationToken::new());
    let turn = Duration::from_secs(1) / RATE;
    let mut looker = Connection::open(endpoint, &endpoint.askers[0]).await?;
    let before = commits(&mut looker).await?;
    let mut callers = JoinSet::new();
    for (n, agent) in (0..CALLERS).zip(endpoint.askers.iter().cycle()) {
        let connection = Connection::open(endpoint, agent).await?;
        let first = begin + turn * u32::try_from(n).unwrap_or(0);
        let bot = endpoint.bots[n % endpoint.bots.len()].name.clone();
        callers.spawn(caller(connection, agent.clone(), bot, first, stop.clone()));
    }
    let work = async {
        sleep_until(begin.into()).await;
        let done = beside.await;
        stop.cancel();
        done
    };
    let heard = async {
        let mut took = Vec::new();
        while let Some(ended) = callers.join_next().await {
            took.extend(ended.map_err(|e| format!("a caller's task: {e}"))??);
        }
        Ok::<Vec<u64>, String>(took)
    };
    let (done, mut took) = tokio::select! {
        both = async { tokio::try_join!(work, heard) } => both?,
        Some(ended) = bots.join_next() => return Err(ended.unwrap_or_else(|e| format!("a bot's task: {e}"))),
    };
    let commits_within_ms = slowest(&before, &commits(&mut looker).await?);
    bots.shutdown().await;
    took.sort_unstable();
    let at = |percent| percentile(&took, percent) as f64 / 1e6;
    Ok((done, Steady { asked: took.len(), p50_ms: at(50.0), p99_ms: at(99.0), max_ms: at(100.0), commits_within_ms }))
}

/// How many commits took at most so many seconds, as the relay counts them.
async fn commits(connection: &mut Connection) -> Result<Vec<(f64, u64)>, String> {
    let (_, text) = connection.get("/metrics").await?;
    let text = String::from_utf8_lossy(&text);
    let buckets = text.lines().filter_map(|line| line.strip_prefix("hermes_bridge_store_commit_seconds_bucket{le=\"")?.split_once("\"} "));
    let parsed: Vec<_> = buckets.filter_map(|(le, count)| Some((le.parse().ok()?, count.parse().ok()?))).collect();
    if parsed.is_empty() { Err("the relay does not count its commits".to_owned()) } else { Ok(parsed) }
}

/// The step, in milliseconds, within which all commits between these two looks were.
fn slowest(before: &[(f64, u64)], after: &[(f64, u64)]) -> Option<f64> {
    let grown = |n: usize| after[n].1 - before[n].1;
    let all = grown(after.len() - 1);
    (0..after.len()).find(|n| grown(*n) == all).map(|n| after[n].0 * 1e3).filter(|ms| ms.is_finite())
}

async fn caller(mut connection: Connection, from: Agent, bot: String, first: Instant, stop: CancellationToken) -> Result<Vec<u64>, String> {
    let every = Duration::from_secs(1) * u32::try_from(CALLERS).unwrap_or(1) / RATE;
    // No question is ever asked twice.
    let salt = getrandom::u64().map_err(|e| format!("random bytes: {e}"))?;
    let (mut took, mut due, mut id) = (Vec::new(), first, 0);
    loop {
        tokio::select! {
            () = sleep_until(due.into()) => {}
            () = stop.cancelled() => return Ok(took),
        }
        id += 1;
        let nonce = salt.wrapping_add(id);
        let reply = limited("an answer", connection.call(script::ask_body(id, &bot, nonce, BYTES))).await?;
        let checked = check::check_answer(id, &reply.payload, nonce, &bot, &from.name, BYTES);
        checked.map_err(|failure| format!("ask of {} to {bot}: {failure}", from.name))?;
        took.push(nanos(reply.at - due));
        due += every;
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::slowest;

    #[test]
    fn the_slowest_commit_is_within_the_first_step_that_has_them_all() {
        let before = [(0.001, 5), (0.01, 6), (f64::INFINITY, 6)];
        assert_eq!(slowest(&before, &[(0.001, 9), (0.01, 12), (f64::INFINITY, 12)]), Some(10.0));
        assert_eq!(slowest(&before, &[(0.001, 9), (0.01, 12), (f64::INFINITY, 13)]), None);
        assert_eq!(slowest(&before, &[(0.001, 9), (0.01, 10), (f64::INFINITY, 10)]), Some(1.0));
    }
}
