//! What the kernel says of this process, where there is a /proc.

/// Name, kind, help and value of each figure.
pub(super) fn figures() -> Vec<(&'static str, &'static str, &'static str, f64)> {
    let mut all = Vec::new();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name before it may hold anything, brackets too.
    let fields: Vec<f64> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().map(|f| f.parse().unwrap_or(0.0)).collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let (ticks, page) = (rustix::param::clock_ticks_per_second() as f64, rustix::param::page_size() as f64);
    if let (Some(user), Some(system)) = (field(14), field(15)) {
        all.push(("process_cpu_seconds_total", "counter", "Processor time used.", (user + system) / ticks));
    }
    if let Some(pages) = field(24) {
        all.push(("process_resident_memory_bytes", "gauge", "Resident memory.", pages * page));
    }
    if let (Some(after_boot), Some(boot)) = (field(22), boot()) {
        all.push(("process_start_time_seconds", "gauge", "When the process started, in seconds since 1970.", boot + after_boot / ticks));
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        // One of them is the reading itself.
        all.push(("process_open_fds", "gauge", "Open file descriptors.", open.count().saturating_sub(1) as f64));
    }
    all
}

fn boot() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}
