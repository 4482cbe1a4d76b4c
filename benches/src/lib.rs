//! What several measuring programs share.

pub mod bare;
pub mod tree;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use starfarm_e2e::{Daemon, Pid};

/// Threads that programs are run on, as many as the machines have cores that the figures are for.
pub const THREADS: usize = 2;

/// Calls a second when `THREADS` threads share `count` calls of `one`.
pub fn rate(count: usize, one: &(impl Fn() + Sync)) -> f64 {
    let taken = AtomicUsize::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while taken.fetch_add(1, Ordering::Relaxed) < count {
                    one();
                }
            });
        }
    });
    count as f64 / start.elapsed().as_secs_f64()
}

/// The median; 0 of nothing.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// A line of a daemon's `/proc/PID/status`, in KiB.
pub fn kib(daemon: &Daemon, key: &str) -> i64 {
    let path = format!("/proc/{}/status", daemon.pid().as_raw_nonzero());
    let status = std::fs::read_to_string(path).expect("the daemon runs");
    let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("Linux prints this line");
    line.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
}

/// Seconds that those threads of a process have run whose names are `of` these. Clock ticks would miss most of what runs for a
/// millisecond.
pub fn cpu_seconds(pid: Pid, of: impl Fn(&str) -> bool) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).expect("it runs");
    let ran_ns = |thread: std::io::Result<std::fs::DirEntry>| {
        // A thread may end meanwhile.
        let folder = thread.ok()?.path();
        let name = std::fs::read_to_string(folder.join("comm")).ok()?;
        let text = std::fs::read_to_string(folder.join("schedstat")).ok()?;
        if of(name.trim()) { text.split(' ').next()?.parse::<f64>().ok() } else { None }
    };
    threads.filter_map(ran_ns).sum::<f64>() / 1e9
}
