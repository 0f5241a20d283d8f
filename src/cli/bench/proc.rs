//! What the operating system knows: CPU time and memory of a process, the machine, open-file limits, chance.
//!
//! Reads only. Where there is no `/proc` the figures are absent, never guessed.

use serde::Serialize;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

/// CPU milliseconds that a process has used so far, user and system.
pub(super) fn cpu_ms(pid: Option<u32>) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid?)).ok()?;
    Some(ticks_in(&stat)? as f64 * 1e3 / ticks_per_second() as f64)
}

/// utime + stime: fields 14 and 15, counted behind the name, which may hold spaces and parentheses.
fn ticks_in(stat: &str) -> Option<u64> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Resident memory in MB (10^6 bytes).
pub(super) fn rss_mb(pid: Option<u32>) -> Option<f64> {
    Memory::of(pid).rss_mb
}

/// What a process has in memory, in MB (10^6 bytes).
#[derive(Serialize)]
pub(super) struct Memory {
    pub rss_mb: Option<f64>,
    /// Without what it only looks at in files, which the system takes back at need.
    pub own_mb: Option<f64>,
    /// The most that was resident at any time.
    pub peak_mb: Option<f64>,
}

impl Memory {
    pub(super) fn of(pid: Option<u32>) -> Self {
        let status = pid.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok()).unwrap_or_default();
        let mb = |key| kilobytes(&status, key).map(|kb| kb as f64 * 1024.0 / 1e6);
        Self { rss_mb: mb("VmRSS:"), own_mb: mb("RssAnon:"), peak_mb: mb("VmHWM:") }
    }
}

/// Bytes of a file, or of all files below a directory.
pub(super) fn size(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::read_dir(path).into_iter().flatten().flatten().map(|entry| size(&entry.path())).sum(),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    }
}

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    line[key.len()..].split_whitespace().next()?.parse().ok()
}

/// The machine that the figures are of.
#[derive(Serialize)]
pub(super) struct Machine {
    pub system: String,
    pub cores: usize,
    pub processor: Option<String>,
    pub memory_mb: Option<u64>,
    pub load: Option<String>,
    /// One append of 512 bytes with its fdatasync, alone: the median.
    pub sync_ms: f64,
}

impl Machine {
    /// Describes this machine; `dir` lies on the disk that is measured.
    pub(super) fn look(dir: &Path) -> Result<Self, String> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let release = read("/proc/sys/kernel/osrelease");
        let cpuinfo = read("/proc/cpuinfo");
        let processor = cpuinfo.lines().find(|line| line.starts_with("model name"));
        Ok(Self {
            system: format!("{} {}", std::env::consts::OS, release.trim()).trim().to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: processor.and_then(|l| l.split_once(": ")).map(|(_, name)| name.to_owned()),
            memory_mb: kilobytes(&read("/proc/meminfo"), "MemTotal:").map(|kb| kb * 1024 / 1_000_000),
            load: read("/proc/loadavg").split_whitespace().next().map(str::to_owned),
            sync_ms: sync_ms(&dir.join("sync-probe")).map_err(|e| format!("disk probe: {e}"))?,
        })
    }
}

fn sync_ms(path: &Path) -> std::io::Result<f64> {
    let mut file = fs::File::create(path)?;
    let mut times = Vec::new();
    let begun = Instant::now();
    while times.len() < 100 && begun.elapsed().as_secs() < 2 {
        let one = Instant::now();
        file.write_all(&[b'.'; 512])?;
        file.sync_data()?;
        times.push(one.elapsed().as_secs_f64() * 1e3);
    }
    fs::remove_file(path)?;
    Ok(super::stats::median(times).unwrap_or(0.0))
}

/// Raises this process's limit of open files as far as it may; children inherit it. The limit then.
pub(super) fn raise_open_files() -> Option<u64> {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        getrlimit(Resource::Nofile).current
    }
    #[cfg(not(unix))]
    None
}

fn ticks_per_second() -> u64 {
    #[cfg(unix)]
    return rustix::param::clock_ticks_per_second();
    #[cfg(not(unix))]
    return 100;
}

/// 256 bits of chance in hex.
pub(super) fn random_hex() -> Result<String, String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| format!("random bytes: {e}"))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 70 30 0 0 20 0 3 0 99 0";
        assert_eq!(ticks_in(stat), Some(100));
        assert_eq!(ticks_in("42 (short) S 1"), None);
        assert_eq!(ticks_in(""), None);
    }

    #[test]
    fn memory_is_read_by_its_key() {
        assert_eq!(kilobytes("VmSize:\t 9 kB\nVmRSS:\t 2048 kB\n", "VmRSS:"), Some(2048));
        assert_eq!(kilobytes("VmSize: 9 kB", "VmRSS:"), None);
    }

    #[test]
    fn two_tokens_differ() {
        let (one, other) = (random_hex().unwrap(), random_hex().unwrap());
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
    }
}
