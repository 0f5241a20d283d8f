//! A relay with a long history: from start to ready without waiting for the index, building the index, starting again
//! after kill -9, and how long the page's searches take, over HTTP and with their records.
//!
//! Makes the history itself (`past`) and asks what the page asks. Never asks an agent anything.

use super::client::Connection;
use super::past::{COMMONEST, Past};
use super::proc::{self, Memory};
use super::progress;
use super::scratch::Scratch;
use super::server::{Kind, Launcher, Server, data_dir};
use super::stats::{median, percentile};
use crate::core::ids::Millis;
use crate::store::Store;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Ordinary searches; each of the others is asked a tenth as often.
const SEARCHES: usize = 300;
const STARTS: usize = 3;
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// An index that has not grown for so long never will.
const STUCK: Duration = Duration::from_secs(120);

#[derive(Serialize)]
pub(super) struct History {
    pub exchanges: u64,
    pub store_mb: f64,
    /// Exchanges written a second, two facts each, by the store alone.
    pub written_per_second: f64,
    /// From spawn to `/ready` with no index on disk.
    pub ready_without_index_ms: f64,
    pub indexed_per_second: f64,
    pub index_mb: f64,
    pub while_building: Memory,
    /// From spawn to `/ready` after kill -9; the median and the longest.
    pub ready_after_kill_ms: f64,
    pub ready_after_kill_max_ms: f64,
    pub searches: Vec<Searches>,
    pub while_serving: Memory,
}

#[derive(Serialize)]
pub(super) struct Searches {
    pub what: String,
    pub asked: usize,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub max_ms: f64,
}

/// Measures it once, with `exchanges` in the history.
pub(super) async fn measure(launcher: &Launcher, exchanges: u64) -> Result<History, String> {
    let begun = Instant::now();
    let (files, mut past) = filled(launcher, exchanges).await?;
    let data = data_dir(files.path());
    let written_per_second = exchanges as f64 / begun.elapsed().as_secs_f64();

    let server = launcher.start_over(files.clone(), Kind::Relay, 1, 1).await?;
    let ready_without_index_ms = server.ready_ms;
    let begun = Instant::now();
    until_indexed(&server, exchanges).await?;
    let indexed_per_second = exchanges as f64 / begun.elapsed().as_secs_f64();
    let while_building = Memory::of(server.endpoint.pid);
    server.stop().await;

    let mut ready = Vec::new();
    for _ in 0..STARTS {
        let server = launcher.start_over(files.clone(), Kind::Relay, 1, 1).await?;
        ready.push(server.ready_ms);
        server.stop().await;
    }
    let server = launcher.start_over(files.clone(), Kind::Relay, 1, 1).await?;
    until_indexed(&server, exchanges).await?;
    progress("searches over the whole history");
    let searches = searches(&server, &mut past).await?;
    let while_serving = Memory::of(server.endpoint.pid);
    server.stop().await;
    Ok(History {
        exchanges,
        store_mb: size_mb(&data, |name| !name.starts_with("index")),
        written_per_second,
        ready_without_index_ms,
        indexed_per_second,
        index_mb: size_mb(&data, |name| name.starts_with("index")),
        while_building,
        ready_after_kill_max_ms: ready.iter().copied().fold(0.0, f64::max),
        ready_after_kill_ms: median(ready).unwrap_or(0.0),
        searches,
        while_serving,
    })
}

/// Files with so many exchanges in them, over which a relay can be started.
pub(super) async fn filled(launcher: &Launcher, exchanges: u64) -> Result<(Arc<Scratch>, Past), String> {
    let files = Arc::new(Scratch::new(&launcher.parent)?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
    let mut past = Past::new(Millis(u64::try_from(now).unwrap_or(0)), exchanges);
    write(&mut past, &data_dir(files.path()), exchanges).await?;
    Ok((files, past))
}

async fn write(past: &mut Past, data: &Path, exchanges: u64) -> Result<(), String> {
    let store = Store::open(data).map_err(|e| e.to_string())?;
    let step = (exchanges / 10).max(1);
    let mut next = step;
    let written = past.write(&store, exchanges, |told| {
        if told >= next {
            progress(&format!("history: {told} of {exchanges} exchanges written"));
            next += step;
        }
    });
    written.await?;
    tokio::task::spawn_blocking(move || store.close()).await.map(drop).map_err(|e| format!("closing the store: {e}"))
}

/// Waits until a search sees everything. The page's own word for "not yet" is `partial`.
pub(super) async fn until_indexed(server: &Server, exchanges: u64) -> Result<(), String> {
    let mut connection = Connection::open(&server.endpoint, &server.endpoint.askers[0]).await?;
    let (mut seen, mut grown, mut said) = (0, Instant::now(), Instant::now());
    loop {
        let found = ask(&mut connection, "/ui/api/search?q=after%3A2000-01-01").await?;
        let total = found["total"].as_u64().unwrap_or(0);
        if total >= exchanges && found["partial"] != true {
            return Ok(());
        }
        if total > seen {
            (seen, grown) = (total, Instant::now());
        } else if grown.elapsed() > STUCK {
            return Err(format!("the index has {total} of {exchanges} exchanges and grows no more"));
        }
        if said.elapsed() > 10 * LOOK_EVERY {
            progress(&format!("history: {total} of {exchanges} indexed"));
            said = Instant::now();
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn searches(server: &Server, past: &mut Past) -> Result<Vec<Searches>, String> {
    let ordinary: Vec<String> = (0..SEARCHES).map(|n| search(&past.query(n), "")).collect();
    let again = |path: String| vec![path; SEARCHES / 10];
    let all = [
        ("ordinary words", ordinary),
        ("the commonest word, newest first", again(search(COMMONEST, ""))),
        ("the commonest word, best first", again(search(COMMONEST, "&sort=best"))),
        ("the newest page", again(search("", ""))),
        ("the newest page as HTML", again("/ui".to_owned())),
    ];
    let mut connection = Connection::open(&server.endpoint, &server.endpoint.askers[0]).await?;
    let mut rows = Vec::new();
    for (what, paths) in all {
        let mut times = Vec::new();
        for path in &paths {
            let begun = Instant::now();
            get(&mut connection, path).await?;
            times.push(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
        times.sort_unstable();
        let at = |percent| percentile(&times, percent) as f64 / 1e3;
        rows.push(Searches { what: what.to_owned(), asked: times.len(), p50_ms: at(50.0), p95_ms: at(95.0), max_ms: at(100.0) });
    }
    Ok(rows)
}

fn search(text: &str, more: &str) -> String {
    let mut url = reqwest::Url::parse("http://relay/ui/api/search").unwrap_or_else(|_| unreachable!("it is an address"));
    url.query_pairs_mut().append_pair("q", text);
    format!("{}?{}{more}", url.path(), url.query().unwrap_or_default())
}

async fn get(connection: &mut Connection, path: &str) -> Result<Vec<u8>, String> {
    let (status, body) = connection.get(path).await?;
    if status.is_success() { Ok(body) } else { Err(format!("GET {path}: {status} {}", String::from_utf8_lossy(&body))) }
}

async fn ask(connection: &mut Connection, path: &str) -> Result<serde_json::Value, String> {
    serde_json::from_slice(&get(connection, path).await?).map_err(|e| format!("GET {path}: {e}"))
}

/// All files below the entries of `dir` whose names are wanted, in MB (10^6 bytes).
fn size_mb(dir: &Path, wanted: impl Fn(&str) -> bool) -> f64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let chosen = entries.filter(|entry| entry.file_name().to_str().is_some_and(&wanted));
    chosen.map(|entry| proc::size(&entry.path())).sum::<u64>() as f64 / 1e6
}
