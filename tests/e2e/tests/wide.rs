//! Units that take several slots, or memory, with real programs.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use starfarm_e2e::{Farm, TempDir, program, run};

/// Starts and ends of the units of all jobs, as the programs wrote them: what each takes, and whether it starts.
fn most_at_once(log: &Path) -> i64 {
    let (mut now, mut most) = (0, 0);
    for line in fs::read_to_string(log).unwrap().lines() {
        now += line.parse::<i64>().unwrap();
        most = now.max(most);
    }
    assert_eq!(now, 0, "each that started has ended");
    most
}

/// A program that takes `takes` for a moment.
fn taking(log: &Path, takes: i64) -> String {
    let log = log.display();
    format!("echo {takes} >> {log}; sleep 0.05; echo -{takes} >> {log}; echo $STARFARM_SLOTS")
}

#[test]
fn wide_units_and_small_ones_share_a_node_and_never_take_more_than_it_has() {
    let mut farm = Farm::start();
    let large = farm.temp().path().join("large");
    let small = taking(&large, 1);
    let small = farm.submit(&["--range", "0..200", "--units-per-task", "1", "--", "sh", "-c", &small]);
    let wide = taking(&large, 4);
    let wide = ["--range", "0..12", "--unit-slots", "4", "--front", "--", "sh", "-c", &wide];
    let wide = farm.submit(&wide);
    farm.add_worker("w1", &["--slots", "6"]);
    farm.wait(&wide).exits(0);
    farm.wait(&small).exits(0);
    let most = most_at_once(&large);
    assert!((5..=6).contains(&most), "gaps are filled, and no more: {most}");
    let results = farm.results(&wide);
    assert!(
        results["outputs"].as_array().unwrap().iter().all(|of| of["stdout"]["text"] == "4\n"),
        "{results}"
    );
}

#[test]
fn a_small_node_gets_no_wide_unit_and_says_so() {
    let mut farm = Farm::start();
    farm.add_worker("small", &["--slots", "2"]);
    farm.until_nodes_up(1);
    let id = farm.submit(&["--range", "0..8", "--unit-slots", "4", "--", "true"]);
    let told = farm.cli(&["job", "explain", &id]).exits(0).stdout.clone();
    assert!(told.starts_with("Job 1 waits for a node that is large enough."), "{told}");
    assert!(told.contains("A unit needs 4 slots, and node small has 2 slots."), "{told}");
    let note = "waits for a node that has what it needs: `starfarm job explain` says what";
    assert_eq!(farm.job(&id)["note"], note);
    farm.add_worker("large", &["--slots", "4"]);
    farm.wait(&id).exits(0);
    let nodes = farm.ask(&["nodes"]);
    let of = |name: &str| {
        nodes["nodes"].as_array().unwrap().iter().find(|of| of["name"] == name).unwrap()["units_done"].clone()
    };
    assert_eq!((of("small"), of("large")), ("0".into(), "8".into()));
}

#[test]
fn units_start_where_the_memory_that_they_claim_is_free() {
    let mut farm = Farm::start();
    let log = farm.temp().path().join("memory");
    farm.add_worker("w1", &["--slots", "8", "--memory", "5G"]);
    farm.until_nodes_up(1);
    let text = format!(
        "[space]\nkind = \"range\"\nfrom = 0\nto = 20\n[task]\nexecutor = \"command\"\nmemory = \"2GiB\"\n\
         program = [\"sh\", \"-c\", {:?}]\n",
        taking(&log, 2)
    );
    let id = farm.submit_text(&text);
    farm.wait(&id).exits(0);
    assert_eq!(most_at_once(&log), 4, "two at a time");
    let too_much = farm.submit(&["--range", "0..2", "--memory", "6G", "--", "true"]);
    let told = farm.cli(&["job", "explain", &too_much]).exits(0).stdout.clone();
    assert!(told.contains("node w1 has 5.0 GiB of memory."), "{told}");
}

#[test]
fn a_run_that_does_not_fit_on_this_machine_ends_at_once() {
    let dir = TempDir::new();
    let mut command = program("starfarm", dir.path());
    command.args(["run", "--slots", "2", "--unit-slots", "3", "--range", "0..2", "--", "true"]);
    let reply = run(command);
    assert!(reply.code == 2 && reply.stderr.contains("more slots than this machine has"), "{reply:?}");
}
