//! What the system says of a process.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Clock ticks of `/proc/PID/stat` a second, on each Linux.
const TICKS_A_SECOND: f64 = 100.0;

/// User and system time of a process, in seconds.
pub(super) fn cpu_seconds(pid: i32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which may hold anything, the 12th and the 13th.
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks = behind.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS_A_SECOND
}

/// The most memory that a process ever had resident, in MiB.
pub(super) fn peak_mib(pid: i32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.expect("a process that runs has memory") / 1_024.0
}

/// Runs of the threads of a process: for how long each has run, and waited for a core.
pub(super) struct Runs {
    at: Instant,
    threads: BTreeMap<String, (u64, u64)>,
}

impl Runs {
    pub(super) fn of(pid: i32) -> Self {
        let folders = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let threads = folders.filter_map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            let mut numbers = text.split_whitespace().filter_map(|n| n.parse().ok());
            Some((thread.file_name().to_string_lossy().into_owned(), (numbers.next()?, numbers.next()?)))
        });
        Self { at: Instant::now(), threads: threads.collect() }
    }

    /// The time since then, and how much of it the busiest thread waited for a core.
    pub(super) fn since(pid: i32, before: &Self) -> (Duration, Duration) {
        let now = Self::of(pid);
        let spent = now.threads.iter().filter_map(|(thread, &(ran, waited))| {
            let &(ran_before, waited_before) = before.threads.get(thread)?;
            Some((ran.saturating_sub(ran_before), waited.saturating_sub(waited_before)))
        });
        let (_, waited) = spent.max().unwrap_or_default();
        (now.at - before.at, Duration::from_nanos(waited))
    }
}
