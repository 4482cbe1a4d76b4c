//! A farm behind a bad network: a seeded proxy stands between the workers and the scheduler.
#![allow(clippy::unwrap_used)]

use md5::{Digest, Md5};
use serde_json::Value;
use starfarm_chaos::{Direction, Faults, Proxy};
use starfarm_e2e::{Farm, each_done_once, units, until};

/// Units of the search below, five to a task.
const UNITS: u32 = 100_000;

/// A farm whose two workers reach it by a proxy.
fn farm_behind(seed: u64) -> (Proxy, Farm) {
    let mut farm = Farm::start();
    let proxy = Proxy::start(farm.address(), seed).unwrap();
    let join = farm.join_file_at("worker.join", proxy.address());
    for name in ["w1", "w2"] {
        farm.add_worker_by(name, &join, &["--slots", "1"]);
    }
    farm.until_nodes_up(2);
    (proxy, farm)
}

/// 20 000 tasks of five units each, with planted targets.
fn small_tasks(farm: &Farm) -> String {
    let targets = planted().map(|unit| format!("{:x}", Md5::digest(format!("{unit:05}"))));
    let text = format!(
        "[space]\nkind = \"chars\"\nmask = \"?d?d?d?d?d\"\n[task]\nexecutor = \"search\"\nalgorithm = \"md5\"\n\
         targets = {:?}\nstop = \"never\"\nunits_per_task = 5\n",
        targets.collect::<Vec<_>>()
    );
    farm.submit_text(&text)
}

fn planted() -> impl Iterator<Item = u32> {
    (0..UNITS).step_by(997)
}

/// Waits for the job's end; every unit is counted once and every planted target found once.
fn require_exact(farm: &Farm, id: &str) {
    farm.wait(id).exits(0);
    let job = farm.job(id);
    for (key, value) in [("units_done", UNITS), ("units_failed", 0), ("units_abandoned", 0), ("units_out", 0)]
    {
        assert_eq!(job[key], value.to_string(), "{key} of {job}");
    }
    // Whoever counted a repeat would credit a node with it.
    let nodes = farm.ask(&["nodes"])["nodes"].take();
    let credited = nodes.as_array().unwrap().iter().map(|node| number(node, "units_done")).sum::<u64>();
    assert_eq!(credited, u64::from(UNITS), "{nodes}");
    assert!(units(&farm.results(id)["hits"]).into_iter().eq(planted().map(u128::from)), "each hit once");
}

fn number(object: &Value, key: &str) -> u64 {
    object[key].as_str().unwrap().parse().unwrap()
}

fn count(status: &Value, key: &str) -> u64 {
    status[key].as_u64().unwrap()
}

#[test]
fn loss_duplication_delay_and_reordering_change_nothing() {
    let (proxy, farm) = farm_behind(1);
    let bad = Faults { loss: 0.2, duplication: 0.05, delay_us: 300, jitter_us: 1_000, ..Faults::NONE };
    proxy.set_all_faults(bad);
    let id = small_tasks(&farm);
    require_exact(&farm, &id);
    let (up, down) = (proxy.counters(Direction::Up), proxy.counters(Direction::Down));
    for counters in [up, down] {
        assert!(counters.lost > 0 && counters.duplicated > 0 && counters.reordered > 0, "{counters}");
    }
    let status = farm.status();
    assert!(count(&status, "results_duplicate") > 0, "repeats are counted as such: {status}");
    assert!(number(&farm.job(&id), "units_duplicate") > 0);
    assert!(count(&status, "results_counted") >= 20_000);
    assert!(count(&status, "datagrams_refused") > 0, "a copy does not open twice");
}

#[test]
fn replayed_datagrams_are_refused_and_change_nothing() {
    let (proxy, farm) = farm_behind(2);
    let before = count(&farm.status(), "datagrams_refused");
    proxy.set_all_faults(Faults { replay: 0.5, ..Faults::NONE });
    let id = small_tasks(&farm);
    require_exact(&farm, &id);
    let replayed = proxy.counters(Direction::Up).replayed;
    assert!(replayed > 10, "{replayed}");
    // Handshakes that are replayed are answered, and lead nowhere.
    until("the replayed ones are refused", || {
        count(&farm.status(), "datagrams_refused") + 8 >= before + replayed
    });
}

#[test]
fn damaged_datagrams_are_refused_and_change_nothing() {
    let (proxy, farm) = farm_behind(3);
    proxy.set_all_faults(Faults { corruption: 0.1, ..Faults::NONE });
    let id = small_tasks(&farm);
    require_exact(&farm, &id);
    let corrupted = proxy.counters(Direction::Up).corrupted;
    assert!(corrupted > 10, "{corrupted}");
    until("the damaged ones are refused", || count(&farm.status(), "datagrams_refused") >= corrupted);
}

/// Offers and results both fill datagrams of the full size.
#[test]
fn a_path_that_swallows_large_datagrams_gets_small_ones_and_the_job_ends() {
    let (proxy, farm) = farm_behind(6);
    proxy.set_all_faults(Faults { swallows_above: 600, ..Faults::NONE });
    let id = small_tasks(&farm);
    require_exact(&farm, &id);
    until("the scheduler sends small ones", || {
        let nodes = farm.ask(&["nodes"])["nodes"].take();
        nodes.as_array().unwrap().iter().any(|node| node["datagram_bytes"] == 548)
    });
    // Its results may have fitted before it knew.
    until("the worker sends small ones", || farm.workers[0].log().contains("at most 548 bytes"));
}

#[test]
fn a_network_that_is_cut_in_one_direction_heals_and_nothing_is_counted_twice() {
    for direction in [Direction::Up, Direction::Down] {
        let (proxy, farm) = farm_behind(4);
        let id = farm.submit(&["--range", "0..200", "--units-per-task", "5", "--", "sleep", "0.01"]);
        until("they work", || farm.job(&id)["units_done"] != "0");
        let before = proxy.counters(direction).cut;
        proxy.set_cut(direction, true);
        until("the cut is felt", || proxy.counters(direction).cut >= before + 5);
        proxy.set_cut(direction, false);
        farm.wait(&id).exits(0);
        each_done_once(&farm.job(&id), &farm.results(&id), 200);
        farm.until_nodes_up(2);
    }
}

#[test]
fn results_that_were_computed_while_the_scheduler_could_not_hear_are_salvaged() {
    let (proxy, farm) = farm_behind(5);
    let log = farm.temp().path().join("ran");
    let script = farm.gated(&log, 5);
    let id = farm.submit(&["--range", "0..60", "--units-per-task", "60", "--", "sh", "-c", &script]);
    let ran = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    until("it runs", || ran() > 5);
    proxy.set_cut(Direction::Up, true);
    farm.open_gate();
    until("all has run", || ran() >= 60);
    assert_ne!(farm.job(&id)["units_done"], "60");
    proxy.set_cut(Direction::Up, false);
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 60);
    assert_eq!(ran(), 60, "nothing is computed again");
}
