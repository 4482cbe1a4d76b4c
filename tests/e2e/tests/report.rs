//! A report in a browser: a farm runs, a worker is killed at a known time, the log becomes a page, and Chromium finds
//! there what was done. What it looks for stands in `dashboard/tests/browser/look.ts`.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use starfarm_e2e::{Farm, Signal, run_within, skip};

const TEST: &str = "a_browser_finds_the_worker_that_was_killed";

/// Chromium starts and draws; on a busy machine that takes its time.
const BROWSER: Duration = Duration::from_secs(240);

/// The log of a farm whose worker `w2` was killed, and when, in microseconds since 1970.
fn farm_that_lost_a_worker() -> (Farm, u128) {
    let mut farm = Farm::with_workers(3, 2);
    let id = farm.submit(&["--range", "0..100000", "--units-per-task", "4", "--", "sleep", "0.05"]);
    farm.until_job(&id, "state", "running");
    // The page tells of whole seconds: some pass in which all is well.
    std::thread::sleep(Duration::from_secs(4));
    let killed_us = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
    farm.workers[1].kill();
    farm.until_node("w2", "lost");
    std::thread::sleep(Duration::from_secs(3));
    farm.cli(&["job", "cancel", &id]).exits(0);
    farm.scheduler.signal(Signal::TERM);
    farm.scheduler.wait();
    (farm, killed_us)
}

/// Keeps what was made, so that a person can look as well; of two runs at once, the later one's.
fn keep(out: &Path) {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    std::fs::create_dir_all(&kept).unwrap();
    for file in std::fs::read_dir(out).unwrap().map(Result::unwrap).filter(|file| file.path().is_file()) {
        std::fs::copy(file.path(), kept.join(file.file_name())).unwrap();
    }
}

#[test]
fn a_browser_finds_the_worker_that_was_killed() {
    let dashboard = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboard");
    if !dashboard.join("dist/report.html").is_file() || !dashboard.join("node_modules").is_dir() {
        return skip("page", TEST, "`cargo xtask dashboard` has not built it");
    }
    let browsers = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    if std::env::var_os("CHROMIUM").is_none() && !browsers.iter().any(|path| Path::new(path).exists()) {
        return skip("chromium", TEST, "it is not installed");
    }
    let (farm, killed_us) = farm_that_lost_a_worker();
    let log = farm.state().join("log");
    let log = log.to_string_lossy();
    farm.cli(&["log", "validate", &log]).exits(0);
    // In a folder of this test alone: another run beside it would write the same page.
    let out = farm.temp().path().join("report");
    std::fs::create_dir(&out).unwrap();
    let page = out.join("report.html");
    farm.cli(&["log", "replay", &log, "--html", &page.to_string_lossy()]).exits(0);

    let mut look = Command::new("npm");
    look.arg("--prefix").arg(dashboard).args(["run", "browser", "--"]);
    look.args([&page, &out]).args(["w2", &killed_us.to_string()]);
    let reply = run_within(look, BROWSER);
    keep(&out);
    assert!(reply.exits(0).stdout.contains("was found"), "{reply:?}");
}
