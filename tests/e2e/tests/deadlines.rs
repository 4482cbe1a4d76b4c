//! Workers that leave by themselves, as a batch system wants it: before its end, or when they have nothing to do.
#![allow(clippy::unwrap_used)]

use starfarm_e2e::{Farm, TempDir, program, run, until, worker_args};

/// The first worker's time is over amid a unit that never ends there: another one computes it, and no try is spent.
#[test]
fn a_worker_leaves_before_its_deadline_and_what_it_had_is_computed_by_others() {
    let mut farm = Farm::start();
    farm.add_worker("batch", &["--slots", "1", "--deadline", "6s"]);
    farm.until_node("batch", "up");
    let node = farm.ask(&["node", "show", "batch"]);
    assert!(node["nodes"][0]["time_left_seconds"].as_f64().unwrap() <= 6.0, "{node}");
    let first = farm.temp().path().join("first");
    // The first run of unit 0 goes on for ever.
    let script = format!("mkdir {} && {}; echo done {{}}", first.display(), farm.forever());
    let id = farm.submit(&["--range", "0..20", "--retries", "0", "--", "sh", "-c", &script]);
    until("it runs", || first.exists());
    assert_eq!(farm.workers[0].wait(), 0, "{}", farm.workers[0].log());
    assert!(farm.workers[0].log().contains("the deadline is near"), "{}", farm.workers[0].log());
    farm.until_node("batch", "lost");
    assert_eq!(farm.job(&id)["units_failed"], "0");
    farm.add_worker("other", &["--slots", "2"]);
    farm.wait(&id).exits(0);
    assert_eq!(farm.job(&id)["units_done"], "20");
    // Its next life is no worse for it.
    farm.add_worker("batch", &["--slots", "1"]);
    farm.until_node("batch", "up");
}

#[test]
fn a_worker_with_nothing_to_do_leaves_with_a_farm_and_without_one() {
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "1", "--idle-exit", "2s"]);
    assert_eq!(farm.workers[0].wait(), 0, "{}", farm.workers[0].log());
    farm.until_node("w1", "lost");
    assert_eq!(farm.ask(&["nodes"])["nodes"][0]["left"], true);
    let join = farm.state().join("worker.join");
    farm.kill_scheduler();
    farm.add_worker_by("w2", &join, &["--slots", "1", "--idle-exit", "2s"]);
    assert_eq!(farm.workers[1].wait(), 0, "{}", farm.workers[1].log());
}

#[test]
fn times_and_sizes_that_nobody_can_read_are_refused_with_how_to_write_them() {
    let dir = TempDir::new();
    let worker = |option: &str, value: &str| {
        let mut command = program("starfarm-worker", dir.path());
        command.args(worker_args("w", &dir.path().join("w.join"), &dir.path().join("state")));
        command.args([option, value]);
        run(command)
    };
    for (option, value, says) in [
        ("--deadline", "soon", "1:30:00"),
        ("--deadline", "@1", "has passed"),
        ("--idle-exit", "0", "more than 0"),
        ("--store", "much", "20G"),
    ] {
        let reply = worker(option, value);
        assert!(reply.code == 2 && reply.stderr.contains(says), "{option} {value}: {reply:?}");
    }
}
