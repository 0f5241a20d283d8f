//! The report as a table for people.
//!
//! Owns columns, units and words; computes nothing.

use super::history::{History, Searches};
use super::idle::{IdleBots, Start};
use super::load::Figures;
use super::proc::{Machine, Memory};
use super::report::{Beside, Compared, Ratios, Report, Settings};
use super::steady::Steady;
use super::trust::{LimitsCost, SameTime, Trust};
use super::upkeep::Upkeep;
use std::fmt::Write as _;

const HEAD: &str = "  at once  server              per second   p50 ms   p90 ms   p99 ms   max ms  CPU ms each   RSS MB\n";

impl Report {
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut text);
        text.trim_end().to_owned()
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        machine(out, &self.machine)?;
        let Settings { message_bytes, reply, rounds, window_seconds } = &self.settings;
        let title = format!("Asks: {message_bytes} bytes each way, bots answer by {reply}, median of {rounds} rounds of {window_seconds} s");
        levels(out, &title, &self.asks, "relay/durable floor")?;
        levels(out, "Commits: one fact of half a kilobyte, from the store's queue until it is durable", &self.commits, "relay/durable floor")?;
        if let Some(lists) = &self.list_agents {
            let title = format!("list_agents: {} agents, {} connections", lists.agents.unwrap_or_default(), lists.at_once);
            levels(out, &title, std::slice::from_ref(lists), "relay/floor")?;
        }
        if let Some(bots) = &self.idle_bots {
            idle_bots(out, bots)?;
        }
        if let Some(start) = &self.start {
            starts(out, start)?;
        }
        self.history.as_ref().map_or(Ok(()), |one| history(out, one))?;
        self.upkeep.as_ref().map_or(Ok(()), |one| upkeep(out, one))?;
        self.trust.as_ref().map_or(Ok(()), |one| trust(out, one))
    }
}

fn levels(out: &mut String, title: &str, levels: &[Compared], ratio: &str) -> std::fmt::Result {
    if levels.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    out.push_str(HEAD);
    for (n, level) in levels.iter().enumerate() {
        if n > 0 {
            out.push('\n');
        }
        figures(out, level.at_once, level.median.named())?;
        compared(out, ratio, &level.ratios)?;
    }
    Ok(())
}

fn machine(out: &mut String, machine: &Machine) -> std::fmt::Result {
    let Machine { system, cores, processor, memory_mb, load, sync_ms } = machine;
    let processor = processor.as_deref().unwrap_or("unknown processor");
    write!(out, "{cores} cores ({processor})")?;
    if let Some(mb) = memory_mb {
        write!(out, ", {:.1} GB", *mb as f64 / 1e3)?;
    }
    writeln!(out, ", {system}, load {} before", load.as_deref().unwrap_or("?"))?;
    write!(out, "one append + fdatasync alone: {sync_ms:.2} ms; ")?;
    writeln!(out, "callers share the cores with what they call")
}

fn idle_bots(out: &mut String, bots: &Beside<IdleBots>) -> std::fmt::Result {
    writeln!(out, "\nIdle bots                      connected in s   RSS MB   kB a bot")?;
    for (name, one) in bots.named() {
        let IdleBots { bots, connect_seconds, rss_mb, kb_per_bot } = one;
        write!(out, "{bots:>9}  {name:<19} {connect_seconds:>14.2} ")?;
        writeln!(out, "{} {}", cell(*rss_mb, 8, 1), cell(*kb_per_bot, 10, 1))?;
    }
    Ok(())
}

fn starts(out: &mut String, start: &Beside<Start>) -> std::fmt::Result {
    writeln!(out, "\nStart over empty files         ready after ms   RSS MB at rest")?;
    for (name, Start { ready_ms, idle_rss_mb }) in start.named() {
        writeln!(out, "           {name:<19} {ready_ms:>14.1} {}", cell(*idle_rss_mb, 16, 1))?;
    }
    Ok(())
}

fn history(out: &mut String, history: &History) -> std::fmt::Result {
    let History { exchanges, store_mb, written_per_second, ready_without_index_ms, indexed_per_second, index_mb, .. } = history;
    writeln!(out, "\nA history of {exchanges} exchanges of about a kilobyte: store {store_mb:.0} MB, index {index_mb:.0} MB")?;
    writeln!(out, "  written by the store alone     {written_per_second:>10.0} a second")?;
    writeln!(out, "  ready without an index         {ready_without_index_ms:>10.1} ms")?;
    writeln!(out, "  index built                    {indexed_per_second:>10.0} a second; memory {}", memory(&history.while_building))?;
    let History { ready_after_kill_ms, ready_after_kill_max_ms, .. } = history;
    writeln!(out, "  ready after kill -9            {ready_after_kill_ms:>10.1} ms, at most {ready_after_kill_max_ms:.1}")?;
    writeln!(out, "  memory after the searches      {:>10}", memory(&history.while_serving))?;
    writeln!(out, "\nSearches over HTTP                     asked   p50 ms   p95 ms   max ms")?;
    for Searches { what, asked, p50_ms, p95_ms, max_ms } in &history.searches {
        writeln!(out, "  {what:<35} {asked:>6} {p50_ms:>8.2} {p95_ms:>8.2} {max_ms:>8.2}")?;
    }
    Ok(())
}

fn upkeep(out: &mut String, upkeep: &Upkeep) -> std::fmt::Result {
    let Upkeep { exchanges, store_mb, asks_per_second, quiet, backup, retention } = upkeep;
    writeln!(
        out,
        "\nUpkeep of {exchanges} exchanges of about a kilobyte, store {store_mb:.0} MB, while {asks_per_second} asks a second are answered"
    )?;
    writeln!(
        out,
        "  backup      {:.1} s, {:.0} MB; put back elsewhere it is equal up to position {} of the log:",
        backup.seconds, backup.mb, backup.equal_up_to
    )?;
    writeln!(out, "              {} exchanges, sha256 {}", backup.exchanges, backup.sha256)?;
    writeln!(out, "              memory {}", memory(&backup.memory))?;
    writeln!(out, "  retention   {} exchanges removed in {:.1} s; memory {}", retention.removed, retention.seconds, memory(&retention.memory))?;
    let (before, after) = (retention.mb_before, retention.mb_after);
    writeln!(
        out,
        "  file        {before:.0} MB before, {after:.0} MB after, {:.0} MB after compact ({:.1} s)",
        retention.mb_compacted, retention.compact_seconds
    )?;
    writeln!(out, "\nAsks, from the moment each was due      asked   p50 ms   p99 ms   max ms   commits within ms")?;
    for (what, one) in [("nothing beside", quiet), ("during the backup", &backup.asks), ("during the removal", &retention.asks)] {
        let Steady { asked, p50_ms, p99_ms, max_ms, commits_within_ms } = one;
        writeln!(out, "  {what:<35} {asked:>6} {p50_ms:>8.2} {p99_ms:>8.2} {max_ms:>8.2} {}", cell(*commits_within_ms, 19, 1))?;
    }
    Ok(())
}

fn trust(out: &mut String, trust: &Trust) -> std::fmt::Result {
    writeln!(out, "\nIn turn, medians of {} each     another's us   nobody's us    ratio", trust.pairs)?;
    for SameTime { what, foreign_us, unknown_us, ratio } in &trust.same_time {
        writeln!(out, "  {what:<28} {foreign_us:>12.1} {unknown_us:>13.1} {ratio:>8.3}")?;
    }
    out.push_str("  a wrong token: wrong at its end, wrong at its beginning\n");
    let LimitsCost { askers, on, out_of_reach, ratios, cpu_ratio } = &trust.limits;
    writeln!(out, "\nWhat the limits cost")?;
    out.push_str(HEAD);
    figures(out, *askers, [("limits as they come", on), ("out of reach", out_of_reach)])?;
    compared(out, "as they come/out of", ratios)?;
    writeln!(out, "           CPU ms each, ratio  {}", cell(*cpu_ratio, 10, 2))
}

fn memory(memory: &Memory) -> String {
    let Memory { rss_mb, own_mb, peak_mb } = memory;
    format!("{} MB resident, {} of them its own, {} at the most", cell(*rss_mb, 0, 0), cell(*own_mb, 0, 0), cell(*peak_mb, 0, 0))
}

fn figures<'a>(out: &mut String, at_once: usize, servers: impl IntoIterator<Item = (&'static str, &'a Figures)>) -> std::fmt::Result {
    for (name, one) in servers {
        let Figures { per_second, p50_ms, p90_ms, p99_ms, max_ms, .. } = one;
        write!(out, "{at_once:>9}  {name:<19} {per_second:>10.0} {p50_ms:>8.2} {p90_ms:>8.2} {p99_ms:>8.2} {max_ms:>8.1}")?;
        writeln!(out, " {} {}", cell(one.server_cpu_ms_per_call, 12, 4), cell(one.server_rss_mb, 8, 1))?;
    }
    Ok(())
}

fn compared(out: &mut String, name: &str, ratios: &Option<Ratios>) -> std::fmt::Result {
    let Some(Ratios { per_second, p50, p99 }) = ratios else {
        return Ok(());
    };
    let (rate, p50, p99) = (cell(*per_second, 10, 2), cell(*p50, 8, 2), cell(*p99, 8, 2));
    writeln!(out, "           {name:<19} {rate} {p50} {:>8} {p99}", "")
}

fn cell(value: Option<f64>, width: usize, digits: usize) -> String {
    value.map_or_else(|| format!("{:>width$}", "-"), |value| format!("{value:>width$.digits$}"))
}
