//! The job queue and the nodes under a user's hand: order, pause, switch, cancel, delete; drain, forget.
#![allow(clippy::unwrap_used)]

use starfarm_e2e::{Farm, Signal, alive, each_done_once, until, until_some};

fn number(job: &serde_json::Value, key: &str) -> u64 {
    job[key].as_str().unwrap().parse().unwrap()
}

fn until_done(farm: &Farm, id: &str, units: u64) {
    until(&format!("job {id} has {units} units done"), || number(&farm.job(id), "units_done") >= units);
}

/// The process number that a program wrote into a file of its own.
fn pid_in(farm: &Farm, file: &str) -> u32 {
    let path = farm.temp().path().join(file);
    until_some("the program says its number", || std::fs::read_to_string(&path).ok()?.trim().parse().ok())
}

#[test]
fn jobs_run_in_the_order_of_the_queue() {
    let mut farm = Farm::start();
    let log = farm.temp().path().join("order");
    let job = |place: &[&str], name: &str| {
        let script = format!("echo {name} >> {}", log.display());
        let args = [place, &["--range", "0..3", "--", "sh", "-c", &script]].concat();
        farm.submit(&args)
    };
    let ids = [job(&[], "tail"), job(&[], "last"), job(&["--front"], "front"), job(&["--now"], "now")];
    farm.add_worker("w1", &["--slots", "1"]);
    ids.iter().for_each(|id| {
        farm.wait(id).exits(0);
    });
    let mut order: Vec<String> = std::fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(order.len(), 12);
    order.dedup();
    assert_eq!(order, ["now", "front", "tail", "last"]);
}

#[test]
fn a_paused_job_lets_others_run_and_goes_on_where_it_was() {
    let farm = Farm::with_workers(1, 1);
    let script = farm.gated(&farm.temp().path().join("ran"), 10);
    let id = farm.submit(&["--range", "0..60", "--", "sh", "-c", &script]);
    until_done(&farm, &id, 3);
    farm.cli(&["job", "pause", &id]).exits(0);
    farm.open_gate();
    until("nothing of it is out", || farm.job(&id)["units_out"] == "0");
    let paused = farm.job(&id);
    assert_eq!(paused["state"], "paused");
    assert!(number(&paused, "units_done") < 60);
    let other = farm.submit(&["--range", "0..5", "--", "true"]);
    farm.wait(&other).exits(0);
    assert_eq!(farm.job(&id)["units_done"], paused["units_done"], "a paused job stands still");
    farm.cli(&["job", "resume", &id]).exits(0);
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 60);
    farm.cli(&["job", "resume", &id]).exits(6).says(&["has ended"]);
}

#[test]
fn a_job_that_is_switched_to_runs_at_once_and_the_other_later() {
    let farm = Farm::with_workers(1, 1);
    let script = farm.gated(&farm.temp().path().join("ran"), 10);
    let long = farm.submit(&["--range", "0..80", "--", "sh", "-c", &script]);
    until_done(&farm, &long, 2);
    let short = farm.submit(&["--range", "0..4", "--", "true"]);
    farm.cli(&["job", "switch", &short]).exits(0);
    farm.open_gate();
    farm.wait(&short).exits(0);
    assert!(number(&farm.job(&long), "units_done") < 80, "the long one waits");
    farm.wait(&long).exits(0);
    each_done_once(&farm.job(&long), &farm.results(&long), 80);
}

#[test]
fn cancel_ends_programs_that_will_not_end_and_keeps_what_is_done() {
    let farm = Farm::with_workers(1, 2);
    let dir = farm.temp().path().display().to_string();
    // Unit 0 is done at once, unit 1 heeds TERM, unit 2 does not.
    let script = format!(
        "case {{}} in 0) echo kept; exit;; 1) trap 'echo heard > {dir}/heard; exit 3' TERM;; \
         2) trap '' TERM;; esac; echo $$ > {dir}/pid-{{}}; {}",
        farm.forever()
    );
    let id = farm.submit(&["--range", "0..3", "--units-per-task", "1", "--", "sh", "-c", &script]);
    let (heeding, stubborn) = (pid_in(&farm, "pid-1"), pid_in(&farm, "pid-2"));
    until_done(&farm, &id, 1);
    assert!(alive(heeding) && alive(stubborn));
    farm.cli(&["job", "cancel", &id]).exits(0);
    farm.wait(&id).exits(1);
    until("the one that heeds TERM has ended", || !alive(heeding));
    assert!(farm.temp().path().join("heard").exists(), "it got TERM, not KILL");
    until("the stubborn one is killed", || !alive(stubborn));
    let job = farm.job(&id);
    assert_eq!(
        (&job["state"], &job["units_done"], &job["units_abandoned"]),
        (&"cancelled".into(), &"1".into(), &"2".into())
    );
    assert_eq!(farm.results(&id)["outputs"][0]["stdout"]["text"], "kept\n");
    let next = farm.submit(&["--range", "0..4", "--", "true"]);
    farm.wait(&next).exits(0);
}

#[test]
fn only_an_ended_job_is_deleted() {
    let farm = Farm::with_workers(1, 1);
    let id = farm.submit(&["--range", "0..1", "--", "sh", "-c", &farm.forever()]);
    farm.cli(&["job", "delete", &id]).exits(6).says(&["--cancel"]);
    farm.cli(&["job", "cancel", &id]).exits(0);
    farm.cli(&["job", "delete", &id]).exits(0);
    for command in ["show", "cancel", "delete"] {
        farm.cli(&["job", command, &id]).exits(4).says(&["no job"]);
    }
    farm.cli(&["results", &id]).exits(4);
}

#[test]
fn a_drained_node_gets_nothing_new_until_it_is_resumed() {
    let farm = Farm::with_workers(2, 1);
    farm.cli(&["node", "drain", "w1"]).exits(0);
    farm.until_node("w1", "draining");
    let id = farm.submit(&["--range", "0..20", "--", "true"]);
    farm.wait(&id).exits(0);
    let results = farm.results(&id);
    each_done_once(&farm.job(&id), &results, 20);
    assert!(results["outputs"].as_array().unwrap().iter().all(|output| output["node"] == "w2"));
    farm.cli(&["node", "resume", "w1"]).exits(0);
    farm.until_node("w1", "up");
    let id = farm.submit(&["--range", "0..40", "--units-per-task", "1", "--", "sleep", "0.02"]);
    farm.wait(&id).exits(0);
    let results = farm.results(&id);
    assert!(results["outputs"].as_array().unwrap().iter().any(|output| output["node"] == "w1"));
}

#[test]
fn a_worker_that_is_told_to_stop_drains_and_can_then_be_forgotten() {
    let mut farm = Farm::with_workers(2, 1);
    let id = farm.submit(&["--range", "0..60", "--", "sleep", "0.03"]);
    until_done(&farm, &id, 4);
    farm.cli(&["node", "forget", "w1"]).exits(6).says(&["only a lost node"]);
    farm.workers[0].signal(Signal::TERM);
    assert_eq!(farm.workers[0].wait(), 0, "a clean end: {}", farm.workers[0].log());
    farm.until_node("w1", "lost");
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 60);
    farm.cli(&["node", "forget", "w1"]).exits(0);
    assert_eq!(farm.node_state("w1"), "");
    for command in ["show", "drain", "resume", "forget"] {
        farm.cli(&["node", command, "w1"]).exits(4).says(&["no node"]);
    }
}

#[test]
fn submissions_that_resume_at_one_time_are_one_job() {
    let farm = Farm::start();
    let line = ["submit", "--resume", "--output", "quiet", "--range", "0..3", "--", "true", "{}"];
    let ids: Vec<String> = std::thread::scope(|scope| {
        let submit = || farm.cli(&line).exits(0).stdout.clone();
        let together: Vec<_> = (0..8).map(|_| scope.spawn(submit)).collect();
        together.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| id == "1\n"), "{ids:?}");
}
