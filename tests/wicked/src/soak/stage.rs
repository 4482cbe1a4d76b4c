//! The farm, and the course of an attack.

use std::fmt::Write;
use std::time::{Duration, Instant};

use md5::{Digest, Md5};
use serde_json::Value;
use starfarm_e2e::{Daemon, Farm, Pid, program, run, units};

use super::meter::{Runs, cpu_seconds, peak_mib};
use super::row::Row;
use crate::attack::Attack;

/// The farm warms up.
const WARM: Duration = Duration::from_secs(3);
/// Before the attack, and after it.
const QUIET: Duration = Duration::from_secs(10);
/// What the attack leaves behind is over.
const SETTLES: Duration = Duration::from_secs(2);
/// A window is cut into pieces so long, and their median counts: what else the machine does comes and goes.
const PIECE: Duration = Duration::from_millis(2_500);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// Digits of the search's candidates: it has no end.
const DIGITS: usize = 18;
/// Units whose digests are looked for; they lie at the beginning.
const PLANTED: [u128; 3] = [7, 1_234_567, 9_999_990];

/// What a window showed.
#[derive(Default)]
struct Seen {
    /// Units that the honest worker did, per second for which it had a core, and per second, of each piece.
    rates: Vec<f64>,
    plain: Vec<f64>,
    /// Of a core.
    scheduler: f64,
    status_seconds: f64,
    /// When the wicked node was blamed first, and why.
    blamed: Option<(f64, String)>,
}

/// The attack, for so long.
///
/// # Panics
/// The farm does not come up, or goes down.
pub fn soak(attack: Attack, lasts: Duration) -> Row {
    let mut farm = Farm::with_workers(1, 1);
    let id = farm.submit_text(&job(attack));
    std::thread::sleep(WARM);
    let before = watched(&farm, QUIET);
    if attack.is_after_a_restart() {
        farm.kill_scheduler();
        farm.restart_scheduler();
    }
    let mut wicked = begin(&farm, attack, lasts);
    let during = watched(&farm, lasts);
    wicked.wait();
    std::thread::sleep(SETTLES);
    let after = watched(&farm, QUIET);
    let mut wrong = wrong(&farm, attack, &id);
    let resident_mib = peak_mib(raw(farm.scheduler.pid()));
    farm.cli(&["job", "cancel", &id]).exits(0);
    farm.kill_scheduler();
    let mut audit = program("starfarm", farm.temp().path());
    audit.arg("audit").arg(farm.state());
    let audit = run(audit);
    if audit.code != 0 {
        wrong.push(format!("{}: the audit does not hold: {}{}", attack.name(), audit.stdout, audit.stderr));
    }
    let said = wicked.log();
    eprint!("{}: {said}", attack.name());
    let quiet = |of: fn(&Seen) -> &Vec<f64>| median([&of(&before)[..], &of(&after)[..]].concat());
    Row {
        attack,
        messages: sent(&said) / lasts.as_secs_f64(),
        status_seconds: during.status_seconds,
        resident_mib,
        share: median(during.rates) / quiet(|seen| &seen.rates),
        plain_share: median(during.plain) / quiet(|seen| &seen.plain),
        scheduler: (before.scheduler, during.scheduler),
        blamed: during.blamed,
        wrong,
    }
}

/// Datagrams, contents and handshakes of a wicked worker that told what it did: the first and the last two numbers.
fn sent(said: &str) -> f64 {
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers.first().into_iter().chain(numbers.iter().skip(3)).sum()
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The wicked worker, as a process of its own.
fn begin(farm: &Farm, attack: Attack, lasts: Duration) -> Daemon {
    let mut command = program("starfarm-wicked", farm.temp().path());
    command.arg("--join").arg(farm.state().join("worker.join"));
    command.args(["--seconds", &lasts.as_secs().to_string(), &attack.name()]);
    Daemon::start("wicked", command, farm.temp().path())
}

/// A job that does not end: programs for what is done to programs, else a search in tasks of about a third of a
/// millisecond.
fn job(attack: Attack) -> String {
    if attack.is_on_programs() {
        return "[space]\nkind = \"range\"\nfrom = 0\nto = 100000000\nstep = 1\n[task]\nexecutor = \"command\"\n\
                program = [\"sleep\", \"0.01\"]\n"
            .to_owned();
    }
    // One that ends with its first hit has that at its far end.
    let (stop, planted) = match attack {
        Attack::FirstHit => ("first-hit", vec![10_u128.pow(DIGITS as u32) - 1]),
        _ => ("never", PLANTED.to_vec()),
    };
    let digest = |unit: &u128| {
        let bytes = Md5::digest(format!("{unit:0DIGITS$}"));
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    let targets: Vec<String> = planted.iter().map(digest).collect();
    format!(
        "[space]\nkind = \"chars\"\nmask = \"{}\"\n[task]\nexecutor = \"search\"\nalgorithm = \"md5\"\n\
         targets = {targets:?}\nstop = \"{stop}\"\nunits_per_task = 200000\n",
        "?d".repeat(DIGITS)
    )
}

/// A window.
fn watched(farm: &Farm, lasts: Duration) -> Seen {
    let scheduler = raw(farm.scheduler.pid());
    let mut seen = Seen::default();
    let (cpu, start) = (cpu_seconds(scheduler), Instant::now());
    while start.elapsed() < lasts {
        let (did, wall, waited) = piece(farm, start, &mut seen);
        seen.plain.push(did / wall.as_secs_f64());
        seen.rates.push(did / wall.saturating_sub(waited).as_secs_f64());
    }
    seen.scheduler = (cpu_seconds(scheduler) - cpu) / start.elapsed().as_secs_f64();
    seen
}

/// A piece of a window that began at `start`: units that the honest worker did, how long it took, and for how much of that
/// the worker waited for a core.
fn piece(farm: &Farm, start: Instant, seen: &mut Seen) -> (f64, Duration, Duration) {
    let worker = raw(farm.workers[0].pid());
    let (before, runs, began) = (done(farm), Runs::of(worker), Instant::now());
    while began.elapsed() < PIECE {
        let asked = Instant::now();
        farm.status();
        seen.status_seconds = seen.status_seconds.max(asked.elapsed().as_secs_f64());
        if seen.blamed.is_none() {
            seen.blamed = blame(farm).map(|why| (start.elapsed().as_secs_f64(), why));
        }
        std::thread::sleep(LOOK);
    }
    let did = done(farm) - before;
    let (wall, waited) = Runs::since(worker, &runs);
    (did, wall, waited)
}

/// Units that the honest worker has done.
fn done(farm: &Farm) -> f64 {
    let node = node(farm, "w1");
    node["units_done"].as_str().and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no units in {node}"))
}

/// Why the wicked node is blamed; none while it is not.
fn blame(farm: &Farm) -> Option<String> {
    let node = node(farm, "wick");
    let why = node["why"].as_str().unwrap_or_default();
    let count = |field: &str| node[field].as_u64().unwrap_or(0);
    match (why, count("malformed"), count("results_worthless")) {
        ("", 0, 0) => None,
        ("", 0, worthless) => Some(format!("{worthless} worthless results")),
        ("", malformed, _) => Some(format!("{malformed} messages against the rules")),
        (why, _, _) => Some(why.to_owned()),
    }
}

fn node(farm: &Farm, name: &str) -> Value {
    let nodes = farm.ask(&["nodes"])["nodes"].take();
    let mut known = nodes.as_array().into_iter().flatten();
    known.find(|node| node["name"] == name).cloned().unwrap_or_default()
}

/// What must not be, whatever is done to the farm.
fn wrong(farm: &Farm, attack: Attack, id: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut must = |is_so: bool, what: String| {
        if !is_so {
            wrong.push(format!("{}: {what}", attack.name()));
        }
    };
    let honest = node(farm, "w1");
    let blames = ["malformed", "results_worthless"].map(|field| honest[field].as_u64().unwrap_or(0));
    must(honest["state"] == "up" && blames == [0, 0], format!("the honest node is blamed: {honest}"));
    if !attack.is_on_programs() {
        let hits = units(&farm.results(id)["hits"]);
        let right = if attack == Attack::FirstHit { Vec::new() } else { PLANTED.to_vec() };
        must(hits == right, format!("the hits are {hits:?}"));
    }
    for words in [&["nodes"][..], &["node", "show", "wick"], &["node", "show", "w1"], &["job", "show", id]] {
        let told = farm.cli(words);
        must(is_plain(&told.stdout) && is_plain(&told.stderr), format!("{words:?} steers a terminal"));
    }
    must(is_plain(&farm.scheduler.log()), "the scheduler's words steer a terminal".to_owned());
    let state = farm.job(id)["state"].take();
    must(state == "running", format!("the job is {state}"));
    wrong
}

/// Nothing in it steers a terminal.
fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || !c.is_control())
}

fn raw(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}
