//! Figures of a whole farm of real processes: one scheduler and one worker with two slots, jobs submitted
//! by the command line.
//!
//! ```sh
//! cargo build --release --bins --workspace
//! target/release/farm_rate true [ROUNDS]    # 10 000 programs against xargs -P2 and a bare loop, by turns
//! target/release/farm_rate sleep [ROUNDS]   # 400 x `sleep 0.1`: how far from the ideal 20 s
//! target/release/farm_rate memory [TASKS]   # a job of 10^18 units at 20 % loss: the scheduler's memory
//! target/release/farm_rate blame [ROUNDS]   # flaky units and bad neighbours, against as many runs that all pass
//! target/release/farm_rate checkpoints [N]  # memory of scheduler and worker over N checkpoints, one after another
//! ```

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use starfarm_benches::{bare, kib, median, rate};
use starfarm_chaos::{Faults, Proxy};
use starfarm_e2e::{Daemon, Farm, TempDir, program, run, until, worker_args};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let count = |default| args.get(1).map_or(default, |n| n.parse().expect("a number"));
    match args.first().map(String::as_str) {
        Some("true") => programs(count(5)),
        Some("sleep") => sleeps(count(3)),
        Some("memory") => memory(count(10_000_000)),
        Some("blame") => blame(count(3)),
        Some("checkpoints") => checkpoints(count(100_000)),
        _ => panic!("usage: farm_rate true|sleep|memory|blame|checkpoints [NUMBER]"),
    }
}

/// Seconds from the job's first task to its end.
fn job_seconds(farm: &Farm, id: &str) -> f64 {
    farm.wait(id).exits(0);
    farm.job(id)["run_seconds"].as_f64().expect("an ended job has run")
}

fn programs(rounds: u64) {
    const PROGRAMS: usize = 10_000;
    let farm = Farm::with_workers(1, 2);
    let (mut ours, mut xargs, mut least) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = Instant::now();
        let id = farm.submit(&["--range", "0..10000", "--", "true"]);
        job_seconds(&farm, &id);
        ours.push(PROGRAMS as f64 / start.elapsed().as_secs_f64());
        let start = Instant::now();
        let mut shell = Command::new("sh");
        shell.args(["-c", "seq 10000 | xargs -P2 -n1 true"]).stdin(Stdio::null());
        assert!(shell.status().expect("a shell").success());
        xargs.push(PROGRAMS as f64 / start.elapsed().as_secs_f64());
        least.push(rate(PROGRAMS, &|| assert_eq!(bare::run("true"), 0)));
    }
    let shares = ours.iter().zip(&least).map(|(ours, bare)| ours / bare).collect();
    println!("`true` x {PROGRAMS} on 2 slots, output kept, submit to end; medians of {rounds} rounds");
    println!("starfarm {:.0}/s, xargs {:.0}/s, bare {:.0}/s", median(ours), median(xargs), median(least));
    println!("share of bare {:.3}", median(shares));
}

fn sleeps(rounds: u64) {
    const IDEAL_SECONDS: f64 = 20.0;
    let farm = Farm::with_workers(1, 2);
    let mut over = Vec::new();
    for _ in 0..rounds {
        let id = farm.submit(&["--range", "0..400", "--", "sleep", "0.1"]);
        over.push((job_seconds(&farm, &id) / IDEAL_SECONDS - 1.0) * 100.0);
    }
    println!("`sleep 0.1` x 400 on 2 slots: {over:.2?} % over the ideal {IDEAL_SECONDS} s");
    println!("median {:.2} %", median(over));
}

/// Units of a task of the memory run: enough hits must lie within TASKS of them.
const TASK_UNITS: u64 = 1_000;
const HITS: u64 = 1_000;

fn memory(tasks: u64) {
    let mut farm = Farm::start();
    let proxy = Proxy::start(farm.address(), 1).expect("loopback has a free port");
    proxy.set_all_faults(Faults { loss: 0.2, ..Faults::NONE });
    let join = farm.join_file_at("worker.join", proxy.address());
    farm.add_worker_by("w1", &join, &["--slots", "2"]);
    farm.until_nodes_up(1);
    // Targets lie evenly in what will be searched, and one at the very end, which is never reached.
    let step = tasks * TASK_UNITS / HITS;
    let digits = |n: u64| format!("{:018}", n);
    let targets: Vec<String> =
        (0..HITS).map(|i| digits(i * step + 7)).chain([digits(999_999_999_999_999_999)]).collect();
    let id = farm.submit_text(&job_file(&targets));
    let done = || farm.job(&id)["units_done"].as_str().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    let start = Instant::now();
    let mut resident = Vec::new();
    for part in 1..=4 {
        while done() < tasks * TASK_UNITS / 4 * part {
            std::thread::sleep(Duration::from_millis(200));
        }
        resident.push(kib(&farm.scheduler, "VmRSS:"));
        println!("{} tasks: {} KiB resident", tasks / 4 * part, resident[resident.len() - 1]);
    }
    let job = farm.job(&id);
    println!("{:.0} s, hits {}, resent {}", start.elapsed().as_secs_f64(), job["hits"], job["tasks_resent"]);
    println!(
        "peak {} KiB, growth in the second half {} KiB",
        kib(&farm.scheduler, "VmHWM:"),
        resident[3] - resident[1]
    );
    farm.cli(&["job", "cancel", &id]).exits(0);
}

fn job_file(candidates: &[String]) -> String {
    let targets: Vec<String> = candidates.iter().map(|text| format!("\"{}\"", md5_hex(text))).collect();
    format!(
        "name = \"memory\"\n[space]\nkind = \"chars\"\nmask = \"{}\"\n[task]\nexecutor = \"search\"\nalgorithm = \"md5\"\n\
         stop = \"never\"\nunits_per_task = {TASK_UNITS}\ntargets = [{}]\n",
        "?d".repeat(18),
        targets.join(", ")
    )
}

fn md5_hex(text: &str) -> String {
    use md5::{Digest, Md5};
    starfarm_protocol::ids::to_hex(&Md5::digest(text.as_bytes()))
}

/// Units of the job with flaky ones: every twentieth fails once, and a block of neighbours at every run.
const BLAME_UNITS: u64 = 3_000;
const BAD: std::ops::Range<u64> = 1_000..1_300;
const RETRIES: u64 = 2;

fn blame(rounds: u64) {
    let farm = Farm::with_workers(3, 1);
    let flaky = (0..BLAME_UNITS).filter(|unit| unit % 20 == 7 && !BAD.contains(unit)).count() as u64;
    let bad = BAD.end - BAD.start;
    let runs = BLAME_UNITS + flaky + bad * RETRIES;
    let mut shares = Vec::new();
    for round in 0..rounds {
        let start = Instant::now();
        let id = farm.submit(&["--range", &format!("0..{runs}"), "--", "sleep", "0.05"]);
        job_seconds(&farm, &id);
        let plain = start.elapsed().as_secs_f64();
        let tried = farm.temp().path().join(format!("tried-{round}-"));
        let script = format!(
            "sleep 0.05; [ $1 -ge {} ] && [ $1 -lt {} ] && exit 1; \
             if [ $(($1 % 20)) = 7 ]; then mkdir {}$1 2>/dev/null && exit 1; fi; exit 0",
            BAD.start,
            BAD.end,
            tried.display()
        );
        let start = Instant::now();
        let units = format!("0..{BLAME_UNITS}");
        let retries = RETRIES.to_string();
        let flags = ["--range", &units, "--retries", &retries, "--max-failures", "never"];
        let id = farm.submit(&[&flags[..], &["--", "sh", "-c", &script, "sh", "{}"]].concat());
        farm.until_job(&id, "units_done", &(BLAME_UNITS - bad).to_string());
        let good = start.elapsed().as_secs_f64();
        farm.wait(&id).exits(1);
        let quarantined = farm.status()["nodes"]
            .as_array()
            .map_or(0, |nodes| nodes.iter().filter(|node| node["state"] == "quarantined").count());
        println!(
            "{runs} runs that pass {plain:.1} s; good units beside bad ones {good:.1} s, {quarantined} in quarantine"
        );
        shares.push(good / plain);
    }
    println!("good units done within {:.3} x of the time of as many runs that pass, median", median(shares));
}

/// A checkpoint after each record, so that one follows the other.
fn checkpoints(count: u64) {
    let dir = TempDir::new();
    let state = dir.path().join("farm");
    let mut scheduler = program("starfarm-scheduler", dir.path());
    scheduler
        .args(["--listen", "127.0.0.1:0", "--no-log", "--checkpoint-records", "1", "--state"])
        .arg(&state);
    let scheduler = Daemon::start("scheduler", scheduler, dir.path());
    let join = state.join("worker.join");
    until("the scheduler is there", || join.exists());
    let mut worker = program("starfarm-worker", dir.path());
    worker.args(worker_args("w1", &join, &dir.path().join("w1"))).args(["--slots", "4"]);
    let worker = Daemon::start("worker", worker, dir.path());
    let mut submit = program("starfarm", dir.path());
    submit.arg("--farm").arg(&state).args(["submit", "--range", "0..1000000000", "--", "sleep", "0.01"]);
    run(submit).exits(0);
    let saved = || {
        let names = std::fs::read_dir(state.join("checkpoint")).into_iter().flatten().flatten();
        names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).max().unwrap_or(0_u64)
    };
    let start = Instant::now();
    let mut resident = Vec::new();
    for part in 1..=10 {
        while saved() < count / 10 * part {
            std::thread::sleep(Duration::from_millis(200));
        }
        let [ours, its] = [&scheduler, &worker].map(|daemon| kib(daemon, "VmRSS:"));
        println!("{} checkpoints: scheduler {ours} KiB, worker {its} KiB", saved());
        resident.push((ours, its));
    }
    let ((ours, its), (first, second)) = (resident[9], resident[0]);
    println!(
        "{:.0} s; since the first tenth scheduler {:+} KiB, worker {:+} KiB",
        start.elapsed().as_secs_f64(),
        ours - first,
        its - second
    );
}
