//! The monitoring trees of a farm of real processes, under kills and under loss.
//!
//! Under kills: agents of all kinds, workers and the scheduler are killed and stopped while two jobs run, one of them with a
//! tree of its own. At the end both trees must be whole, and each unit was done once.
//!
//! Under loss: machines in network namespaces whose cables lose a twentieth each way. Nobody may be taken for silent.

use std::fmt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use starfarm_chaos::Random;

use crate::machines::Machines;
use crate::{Farm, each_done_once, until, until_some};

/// Between two faults, at most.
const PAUSE_MS: u64 = 2_000;
/// A process that is stopped is silent for longer than others wait.
const STOPPED: Duration = Duration::from_secs(7);
/// So long the jobs may take once nothing befalls them any more.
const PATIENCE: Duration = Duration::from_secs(900);
/// Machines of a run under loss.
const MACHINES: u8 = 8;

/// A run under kills.
#[derive(Clone, Copy, Debug)]
pub struct Kills {
    /// Workers of one slot.
    pub workers: usize,
    /// Children of a post.
    pub fanout: usize,
    /// Faults come for so long.
    pub seconds: u64,
    /// The same seed chooses the same faults.
    pub seed: u64,
}

/// What befell the farm, and how it ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct KillsReport {
    /// Agents killed, and stopped for a while.
    pub agents: u32,
    /// See `agents`.
    pub stopped: u32,
    /// Workers killed.
    pub workers: u32,
    /// Schedulers killed.
    pub schedulers: u32,
    /// Units of both jobs.
    pub units: u64,
    /// From the last fault until both trees were whole.
    pub whole: Duration,
}

impl fmt::Display for KillsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { agents, stopped, workers, schedulers, units, whole } = self;
        write!(
            f,
            "killed: {agents} agents, {workers} workers, {schedulers} schedulers; stopped for 7 s: {stopped}; \
             {units} units done once; both trees whole {:.1} s after the last fault; the audit holds",
            whole.as_secs_f64()
        )
    }
}

/// Runs the farm under kills.
///
/// # Panics
/// A tree does not become whole, or a unit was not done once.
pub fn kills(wanted: &Kills) -> KillsReport {
    let Kills { workers, fanout, seconds, seed } = *wanted;
    let mut farm = Farm::start();
    let add = |farm: &mut Farm, n: usize| {
        farm.add_worker(&format!("w{n}"), &["--slots", "1", "--devices", "none"]);
    };
    (0..workers).for_each(|n| add(&mut farm, n));
    farm.until_nodes_up(workers);
    farm.cli(&["tree", "form", "--fanout", &fanout.to_string()]).exits(0);
    // Both jobs last for longer than the faults.
    let units = workers as u64 * (seconds + 10);
    let text = |monitor: &str| {
        format!(
            "[space]\nkind = \"range\"\nfrom = 0\nto = {units}\n[task]\nexecutor = \"command\"\n\
             program = [\"sleep\", \"0.5\"]\n{monitor}"
        )
    };
    let own = farm.submit_text(&text("[monitor]\nperiod = 0.5\ntree = \"own\"\n"));
    let usual = farm.submit_text(&text(""));
    until("the job's tree is there", || own_tree(&farm.ask(&["tree"]), &own) == Some("live".to_owned()));
    let (mut random, mut report) =
        (Random::new(seed), KillsReport { units: 2 * units, ..Default::default() });
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(Duration::from_millis(random.below(PAUSE_MS)));
        match random.below(20) {
            0 => {
                farm.kill_scheduler();
                std::thread::sleep(Duration::from_millis(random.below(3_000)));
                farm.restart_scheduler();
                report.schedulers += 1;
            }
            1..=3 => {
                let nth = random.below(workers as u64) as usize;
                farm.workers[nth].kill();
                std::thread::sleep(Duration::from_millis(random.below(2_000)));
                add(&mut farm, nth);
                farm.workers.swap_remove(nth);
                report.workers += 1;
            }
            4 => {
                let Some(pid) = any_agent(&farm, &mut random) else { continue };
                if rustix::process::kill_process(pid, Signal::STOP).is_ok() {
                    std::thread::sleep(STOPPED);
                    // Its worker may have ended it meanwhile.
                    let _ = rustix::process::kill_process(pid, Signal::CONT);
                    report.stopped += 1;
                }
            }
            _ => {
                let Some(pid) = any_agent(&farm, &mut random) else { continue };
                report.agents += u32::from(rustix::process::kill_process(pid, Signal::KILL).is_ok());
            }
        }
    }
    report.whole = ends_well(&farm, workers, [&own, &usual], units);
    report
}

/// No faults come any more: how long it took until both trees were whole. The first job has one of its own.
fn ends_well(farm: &Farm, workers: usize, jobs: [&str; 2], units: u64) -> Duration {
    let (last, own) = (Instant::now(), jobs[0]);
    until("all nodes are up", || {
        let nodes = farm.ask(&["nodes"])["nodes"].take();
        nodes.as_array().into_iter().flatten().filter(|node| node["state"] == "up").count() == workers
    });
    until("both trees are whole", || is_whole(farm, workers, own));
    let whole = last.elapsed();
    for id in jobs {
        done_once(farm, id, units);
    }
    until("the job's tree goes with it", || own_tree(&farm.ask(&["tree"]), own).is_none());
    farm.cli(&["audit", &farm.state().to_string_lossy()]).exits(0);
    whole
}

/// A job ends some time, and each of its units was done once.
fn done_once(farm: &Farm, id: &str, units: u64) {
    let start = Instant::now();
    while !["finished", "failed", "cancelled"].iter().any(|state| farm.job(id)["state"] == *state) {
        assert!(start.elapsed() < PATIENCE, "{}", farm.job(id));
        std::thread::sleep(Duration::from_secs(1));
    }
    each_done_once(&farm.job(id), &farm.results(id), u128::from(units));
}

/// How far a job's own tree is, if it has one.
pub fn own_tree(tree: &Value, id: &str) -> Option<String> {
    let mut own = tree["own_trees"].as_array().into_iter().flatten();
    let id: u64 = id.parse().expect("a job's id is a number");
    own.find(|of| of["job"] == id).and_then(|of| of["state"].as_str()).map(str::to_owned)
}

/// All posts are where they are to be, and no figure lacks a node.
fn is_whole(farm: &Farm, workers: usize, own: &str) -> bool {
    let tree = farm.ask(&["tree"]);
    let posts = tree["posts"].as_array().into_iter().flatten();
    let back_ends = posts.filter(|post| post["kind"] == "be" && post["job"].is_null()).count();
    let is_over = farm.job(own)["state"] != "running";
    let usage = farm.job(own)["usage"].clone();
    let is_told = usage["from"] == usage["of"] && usage["from"] != 0;
    tree["tree"]["state"] == "live"
        && back_ends == workers
        && (is_over || own_tree(&tree, own).as_deref() == Some("live") && is_told)
}

/// The process of some post.
fn any_agent(farm: &Farm, random: &mut Random) -> Option<rustix::process::Pid> {
    let tree = farm.ask(&["tree"]);
    let posts = tree["posts"].as_array()?.iter().filter(|post| !post["node"].is_null());
    let pids: Vec<_> = posts.filter_map(|post| post["pid"].as_i64()).collect();
    let nth = random.below(pids.len().max(1) as u64) as usize;
    pids.get(nth).and_then(|pid| rustix::process::Pid::from_raw(i32::try_from(*pid).ok()?))
}

/// Runs a farm of eight machines under loss for so long, and says what was seen of it.
///
/// # Panics
/// Somebody was taken for silent, there was an alarm, or a unit was not done once.
pub fn loss(seconds: u64) -> Result<String, String> {
    let machines = Machines::lay(MACHINES)?;
    let mut farm = Farm::start_in(Some(machines.name(0)), machines.address(0, 7117));
    let join = farm.state().join("worker.join");
    (0..MACHINES).for_each(|machine| machines.lose(usize::from(machine), 5));
    let nodes = usize::from(MACHINES) - 1;
    for machine in 1..=nodes {
        farm.add_worker_in(Some(machines.name(machine)), &format!("w{machine}"), &join, &["--slots", "2"]);
    }
    farm.until_nodes_up(nodes);
    farm.cli(&["tree", "form", "--fanout", "2"]).exits(0);
    let units = nodes as u64 * 2 * seconds;
    let id = farm.submit(&["--range", &format!("0..{units}"), "--", "sleep", "1"]);
    let tree = until_some("the tree is live", || {
        Some(farm.ask(&["tree"]))
            .filter(|tree| tree["tree"]["state"] == "live" && farm.job(&id)["usage"]["from"] == nodes)
    });
    let start = Instant::now();
    let mut least = u64::MAX;
    while start.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(Duration::from_secs(1));
        least = least.min(farm.job(&id)["usage"]["from"].as_u64().unwrap_or(0));
    }
    let kinds = ["node_suspect", "node_lost", "alarm", "tree_lost"];
    let seen = kinds.map(|kind| farm.logged(kind).len());
    assert_eq!(seen, [0; 4], "{kinds:?}: nobody was silent, and nothing was wrong");
    let after = farm.ask(&["tree"]);
    let sum = |key: &str| -> u64 {
        let posts = after["posts"].as_array().into_iter().flatten();
        posts.filter_map(|post| post[key].as_u64()).sum()
    };
    let told = ["sent", "received", "late", "dropped", "gaps"].map(|key| format!("{key} {}", sum(key)));
    done_once(&farm, &id, units);
    farm.cli(&["audit", &farm.state().to_string_lossy()]).exits(0);
    let posts = tree["posts"].as_array().map_or(0, Vec::len);
    Ok(format!(
        "{seconds} s at 5 % loss each way, {posts} posts on {MACHINES} machines: no suspicion, no loss, no alarm; \
         figures from {least} of {nodes} nodes at least; messages: {}; {units} units done once, the audit holds",
        told.join(", ")
    ))
}
