//! Figures without load: start to ready, memory at rest, and bots that only stay connected.
//!
//! Starts a server of its own for each figure, so that no other measurement shows in it. Sends nothing after the
//! WebSockets' handshakes.

use super::client::connect_bot;
use super::load::limited;
use super::proc;
use super::server::{Endpoint, Kind, Launcher};
use super::stats::median;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Handshakes under way at once: below any listen queue, above what two cores keep busy.
const AT_ONCE: usize = 64;
const SETTLE: Duration = Duration::from_millis(300);

#[derive(Serialize)]
pub(super) struct Start {
    pub ready_ms: f64,
    pub idle_rss_mb: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct IdleBots {
    pub bots: usize,
    pub connect_seconds: f64,
    pub rss_mb: Option<f64>,
    pub kb_per_bot: Option<f64>,
}

/// Starts `kind` over empty files as often as asked; medians.
pub(super) async fn starts(launcher: &Launcher, kind: Kind, times: usize) -> Result<Start, String> {
    let mut ready = Vec::new();
    let mut memory = Vec::new();
    for _ in 0..times {
        let server = launcher.start(kind, 1, 1).await?;
        ready.push(server.ready_ms);
        tokio::time::sleep(SETTLE).await;
        memory.extend(proc::rss_mb(server.endpoint.pid));
        server.stop().await;
    }
    Ok(Start { ready_ms: median(ready).unwrap_or(0.0), idle_rss_mb: median(memory) })
}

/// Connects `count` bots to a running server and lets them be.
pub(super) async fn bots(endpoint: &Endpoint, count: usize) -> Result<IdleBots, String> {
    let before = proc::rss_mb(endpoint.pid);
    let begun = Instant::now();
    let connecting = stream::iter(0..count).map(|n| connect_bot(endpoint, &endpoint.bots[n % endpoint.bots.len()])).buffer_unordered(AT_ONCE);
    let sockets: Vec<_> = limited("bots to connect", connecting.try_collect()).await?;
    let connect_seconds = begun.elapsed().as_secs_f64();
    tokio::time::sleep(SETTLE).await;
    let rss_mb = proc::rss_mb(endpoint.pid);
    let grown = rss_mb.zip(before).map(|(after, before)| after - before);
    drop(sockets);
    Ok(IdleBots { bots: count, connect_seconds, rss_mb, kb_per_bot: grown.map(|mb| mb * 1e3 / count.max(1) as f64) })
}
