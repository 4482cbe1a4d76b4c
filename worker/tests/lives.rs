//! Real worker processes against a fake scheduler: how a worker's life begins, is interrupted and ends.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod fake;

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use fake::{Fake, Shared};
use rustix::process::Signal;
use starfarm_protocol::ids::{ContentHash, Epoch, JobId};
use starfarm_protocol::spec::{CommandWork, JobSpec, Space, Work};
use starfarm_protocol::wire::{Hello, Outcome};

fn shell(fake: &Fake, script: &str) -> ContentHash {
    let program = ["sh", "-c", script, "sh", "{}"].map(str::to_owned).into();
    let work = CommandWork { program, ..CommandWork::default() };
    let space = Space::Range { from: 0, to: 1_000, step: 1 };
    fake.spec(&JobSpec { space, work: Work::Command(work) })
}

#[test]
fn a_drain_finishes_the_running_unit_and_gives_the_rest_back() {
    let fake = Fake::start();
    let go = fake.dir.join("go");
    let spec = shell(&fake, &format!("while ! test -e {}; do sleep 0.05; done", go.display()));
    let mut worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, 10);
    fake.offer(1, spec, 10, 10);
    fake.until("a unit to run", |shared| shared.beat.running.len() == 1 && shared.offers.is_empty());
    worker.signal(Signal::TERM);
    fake.until("the drain to be known", |shared| shared.beat.draining);
    std::fs::write(go, "").unwrap();
    let (code, said) = worker.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("draining"), "{said}");
    assert_eq!((fake.units(1, Outcome::Done), fake.units(1, Outcome::Returned)), (1, 19));
    assert_eq!(fake.lock().byes, 1);
}

/// A thousand workers would take all of a scheduler's descriptors.
#[test]
fn a_bulk_stream_that_nobody_needs_is_closed_and_opened_again_for_the_next_task() {
    let fake = Fake::start();
    let _worker = fake.worker("a", &["--slots", "1"]);
    fake.until("the stream is tried", |shared| shared.streams == (1, 0));
    fake.until("it idles for half a minute", |shared| shared.streams == (1, 1));
    let spec = shell(&fake, "true");
    fake.offer(1, spec, 0, 10);
    fake.until("it is opened again", |shared| shared.streams == (2, 1));
    fake.until("its units are done", |shared| !shared.results.is_empty());
}

#[test]
fn a_worker_that_tcp_does_not_reach_says_so_before_any_task_and_runs_nothing() {
    let (fake, tcp) = Fake::start_without_tcp(false);
    let port = fake.address.port();
    drop(tcp);
    let worker = fake.worker("a", &["--slots", "1"]);
    fake.until("it says so", |_| worker.said().contains(&format!("does a firewall block port {port}/tcp?")));
    let spec = shell(&fake, "true");
    fake.offer(1, spec, 0, 10);
    fake.until("the task to be held", |shared| !shared.beat.held.is_empty());
    let number = fake.lock().beat.number;
    fake.until("more heartbeats", |shared| shared.beat.number > number + 2);
    assert!(fake.lock().beat.running.is_empty(), "a unit that waits for its specification does not run");
    fake.open_tcp(std::net::TcpListener::bind(fake.address).unwrap());
    let done = |shared: &Shared| shared.results.iter().map(|result| result.units).sum::<u64>();
    fake.until("the units", |shared| done(shared) == 10);
    assert_eq!(fake.units(1, Outcome::Done), 10);
    fake.until("it says that it works", |_| worker.said().contains("works now"));
    assert!(worker.said().contains("works now"));
}

#[test]
fn a_second_signal_stops_at_once() {
    let fake = Fake::start();
    let spec = shell(&fake, "sleep 1000");
    let mut worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, 10);
    fake.until("a unit to run", |shared| shared.beat.running.len() == 1);
    worker.signal(Signal::INT);
    fake.until("the drain to be known", |shared| shared.beat.draining);
    worker.signal(Signal::INT);
    assert_eq!(worker.end().0, Some(130));
}

#[test]
fn results_that_nobody_acknowledged_are_delivered_by_the_next_incarnation() {
    let fake = Fake::start();
    let spec = shell(&fake, "true");
    fake.lock().deaf = true;
    let mut worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, 20);
    fake.until("the results", |shared| shared.results.iter().map(|r| r.units).sum::<u64>() == 20);
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().0, Some(0));
    fake.lock().results.clear();
    fake.lock().deaf = false;
    let mut worker = fake.worker("a", &["--slots", "1"]);
    fake.until("the results again", |shared| shared.results.iter().map(|r| r.units).sum::<u64>() == 20);
    worker.signal(Signal::TERM);
    let (code, said) = worker.end();
    assert!(code == Some(0) && said.contains("of the last run"), "{said}");
    let mut worker = fake.worker("a", &["--slots", "1"]);
    fake.until("a third incarnation", |shared| shared.hellos.iter().any(|h| h.boot != shared.hellos[0].boot));
    worker.signal(Signal::TERM);
    assert!(!worker.end().1.contains("of the last run"), "what was acknowledged is not spooled again");
}

#[test]
fn a_unit_that_kills_its_worker_is_named_by_the_next_incarnation() {
    let fake = Fake::start();
    let spec = shell(&fake, "test $1 != 3 || kill -9 $PPID; sleep 0.01");
    let mut worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(4, spec, 0, 10);
    assert_eq!(worker.end().0, None, "killed");
    let before = fake.lock().hellos.len();
    let _worker = fake.worker("a", &["--slots", "1"]);
    fake.until("the next hello", |shared| shared.hellos.len() > before);
    assert_eq!(fake.lock().hellos[before].died_running, [(JobId(4), 3)]);
}

/// Whether a process is there and has not ended: one that has may wait for whoever inherits it.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(' ') && !rest.starts_with(" Z"))
}

#[test]
fn programs_of_a_killed_worker_are_ended_and_so_is_what_they_have_sent_away() {
    let fake = Fake::start();
    let (pid, child) = (fake.dir.join("pid"), fake.dir.join("child"));
    let spec = shell(
        &fake,
        &format!(
            "setsid sh -c 'echo $$ > {1}.new; mv {1}.new {1}; exec sleep 1000' & \
             echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000",
            pid.display(),
            child.display()
        ),
    );
    let mut worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, 1);
    fake.until("both programs to run", |_| pid.exists() && child.exists());
    let pids = [pid, child].map(|path| std::fs::read_to_string(path).unwrap());
    assert!(pids.iter().all(|pid| runs(pid)), "{pids:?}");
    worker.signal(Signal::KILL);
    assert_eq!(worker.end().0, None);
    fake.until("both to be gone", |_| !pids.iter().any(|pid| runs(pid)));
}

#[test]
fn a_restarted_scheduler_is_found_again_and_gets_everything_held() {
    let fake = Fake::start();
    let go = fake.dir.join("go");
    let spec = shell(&fake, &format!("while ! test -e {}; do sleep 0.05; done", go.display()));
    let _worker = fake.worker("a", &["--slots", "2"]);
    fake.offer(1, spec, 0, 5);
    fake.until("a unit to run", |shared| shared.beat.running.len() == 1);
    fake.restart();
    std::fs::write(go, "").unwrap();
    fake.until("the results", |shared| shared.results.iter().map(|r| r.units).sum::<u64>() == 5);
    let shared = fake.lock();
    assert!(shared.hellos.len() >= 2);
    assert!(shared.hellos.iter().all(|hello| hello.boot == shared.hellos[0].boot));
}

#[test]
fn a_worker_computes_on_and_keeps_trying_while_nobody_listens_at_the_schedulers_port() {
    let fake = Fake::start();
    let ran = fake.dir.join("ran");
    let spec = shell(&fake, &format!("sleep 0.3; echo >> {}", ran.display()));
    let mut worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, 5);
    fake.until("the task to run", |shared| shared.beat.running.len() == 1);
    fake.go_away();
    fake.until("the task to be done", |_| std::fs::read(&ran).is_ok_and(|lines| lines.len() == 5));
    fake.restart();
    fake.until("the results", |shared| shared.results.iter().map(|r| r.units).sum::<u64>() == 5);
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().0, Some(0));
}

/// Somebody who reads `joined` believes it.
#[test]
fn a_worker_says_when_it_joined_and_not_before_it_was_welcomed() {
    let fake = Fake::start();
    fake.go_away();
    let worker = fake.worker("a", &["--slots", "1"]);
    fake.until("it to say that nobody answers", |_| worker.said().lines().count() > 0);
    assert!(!worker.said().contains("joined farm"), "{}", worker.said());
    fake.restart();
    fake.until("it to join", |_| worker.said().contains("joined farm"));
    assert!(!fake.lock().hellos.is_empty());
    // Each line has the seconds since the start; nobody answered for some of these.
    let times = worker
        .said()
        .lines()
        .map(|line| {
            let (time, words) = line.strip_prefix('[').unwrap().split_once("] starfarm-worker: ").unwrap();
            assert!(!words.is_empty(), "{line}");
            time.trim().parse::<f64>().unwrap()
        })
        .collect::<Vec<_>>();
    assert!(times[0] > 0.5 && times.is_sorted(), "{times:?}");
}

#[test]
fn an_old_scheduler_is_not_obeyed_and_is_told_of_its_successor() {
    let fake = Fake::start();
    fake.restart_as(5);
    let spec = shell(&fake, "true");
    let mut worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, 5);
    fake.until("the results", |shared| shared.results.iter().map(|r| r.units).sum::<u64>() == 5);
    fake.restart_as(3);
    let before = fake.lock().hellos.len();
    fake.offer(1, spec, 5, 5);
    fake.until("two hellos", |shared| shared.hellos.len() >= before + 2);
    worker.signal(Signal::KILL);
    let said = worker.end().1;
    assert_eq!(said.matches("is incarnation 3, but incarnation 5").count(), 1, "{said}");
    let restarted = fake.lock().hellos.len();
    let _worker = fake.worker("a", &["--slots", "1"]);
    fake.until("the next one's hello", |shared| shared.hellos.len() > restarted);
    let told = |hello: &Hello| (hello.known_epoch, hello.known_proof) == (Epoch(5), [5; 16]);
    assert!(fake.lock().hellos[before..].iter().all(told));
    assert_eq!((fake.units(1, Outcome::Done), fake.lock().offers.len()), (5, 1), "nothing is done for it");
    fake.restart_as(6);
    fake.until("the rest", |shared| shared.results.iter().map(|r| r.units).sum::<u64>() == 10);
}

#[test]
fn results_for_one_farm_are_not_offered_to_another_and_are_there_on_coming_back() {
    let (ours, other) = (Fake::start(), Fake::start());
    let spec = shell(&ours, "true");
    ours.lock().deaf = true;
    let mut worker = ours.worker("a", &["--slots", "1"]);
    ours.offer(1, spec, 0, 20);
    ours.until("the results", |shared| shared.results.iter().map(|r| r.units).sum::<u64>() == 20);
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().0, Some(0));
    let state = ours.dir.join("a");
    let mut worker = other.worker_in(state.to_str().unwrap(), "a", &["--slots", "1"]);
    other.until("a heartbeat", |shared| shared.beat.number >= 3);
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().0, Some(0));
    assert!(other.lock().results.is_empty() && other.lock().hellos[0].known_epoch == Epoch(0));
    ours.lock().results.clear();
    ours.lock().deaf = false;
    let _worker = ours.worker("a", &["--slots", "1"]);
    ours.until("the results again", |shared| shared.results.iter().map(|r| r.units).sum::<u64>() == 20);
}

#[test]
fn two_workers_with_one_state_directory_or_one_name_are_told_apart() {
    let fake = Fake::start();
    let first = fake.worker("a", &[]);
    // Both say what they say into one file.
    fake.until("the first", |_| first.said().contains("joined farm"));
    let (code, said) = fake.worker("a", &[]).end();
    assert!(code == Some(6) && said.contains("another worker uses the state directory"), "{code:?} {said}");
    let (code, said) = fake.worker_in("other", "a", &[]).end();
    assert!(code == Some(5) && said.contains("held by another key"), "{code:?} {said}");
}

#[test]
fn a_revoked_key_ends_the_worker_with_a_sentence() {
    let fake = Fake::start();
    let mut worker = fake.worker("a", &[]);
    fake.until("the worker", |shared| !shared.hellos.is_empty());
    let key = fake.lock().keys.holder("a").unwrap();
    fake.lock().keys.revoke_key(&key).unwrap();
    fake.restart();
    let (code, said) = worker.end();
    assert!(code == Some(5) && said.contains("revoked"), "{code:?} {said}");
}

#[test]
fn a_join_file_that_cannot_be_used_is_explained() {
    let fake = Fake::start();
    std::fs::write(fake.dir.join("worker.join"), "{}").unwrap();
    let (code, said) = fake.worker("a", &[]).end();
    assert!(code == Some(2) && said.contains("copy it again"), "{code:?} {said}");
    std::fs::remove_file(fake.dir.join("worker.join")).unwrap();
    let (code, said) = fake.worker("a", &[]).end();
    assert!(code == Some(2) && said.contains("cannot read the join file"), "{code:?} {said}");
}

#[test]
fn a_worker_drains_when_its_parents_pipe_closes() {
    let fake = Fake::start();
    let mut command = Command::new(env!("CARGO_BIN_EXE_starfarm-worker"));
    command.arg("--join").arg(fake.dir.join("worker.join")).args(["--name", "p", "--parent-pipe"]);
    command.arg("--state").arg(fake.dir.join("p")).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"still here").unwrap();
    fake.until("the worker", |shared| !shared.hellos.is_empty());
    drop(child.stdin.take());
    fake.until("the goodbye", |shared| shared.byes == 1);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_program_does_not_outlive_the_farm_that_started_its_worker() {
    let fake = Fake::start();
    let spec = shell(&fake, "sleep 1000");
    let mut command = Command::new(env!("CARGO_BIN_EXE_starfarm-worker"));
    command.arg("--join").arg(fake.dir.join("worker.join")).args(["--name", "p", "--parent-pipe"]);
    command.arg("--state").arg(fake.dir.join("p")).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    fake.offer(1, spec, 0, 1);
    fake.until("a unit to run", |shared| shared.beat.running.len() == 1);
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_worker_shows_a_cookie_to_a_scheduler_under_load() {
    let fake = Fake::start();
    fake.lock().cautious = true;
    fake.restart();
    let _worker = fake.worker("a", &[]);
    fake.until("the worker", |shared| !shared.hellos.is_empty());
}

#[test]
fn a_worker_makes_new_keys_now_and_then_and_loses_nothing() {
    let fake = Fake::start();
    let spec = shell(&fake, "sleep 0.05");
    let _worker = fake.worker("a", &["--slots", "2", "--rekey-seconds", "1"]);
    fake.offer(1, spec, 0, 40);
    fake.offer(1, spec, 40, 40);
    fake.until("three sessions", |shared| shared.hellos.len() >= 3);
    fake.until("all results", |shared| {
        let done = shared.results.iter().filter(|result| result.outcome == Outcome::Done);
        done.flat_map(|result| result.lo..result.lo + u128::from(result.units)).collect::<BTreeSet<_>>().len()
            == 80
    });
    let shared = fake.lock();
    assert!(shared.hellos.iter().all(|hello| hello.boot == shared.hellos[0].boot), "one life, new keys");
}

#[test]
fn a_scheduler_is_found_by_name_too() {
    let fake = Fake::start();
    fake.write_join(format!("localhost:{}", fake.address.port()));
    let _worker = fake.worker("a", &[]);
    fake.until("the worker", |shared| !shared.hellos.is_empty());
}

#[test]
fn without_the_seal_a_worker_works_with_its_like_only() {
    let plain = Fake::start_as(true);
    let spec = shell(&plain, "true");
    let _worker = plain.worker("a", &["--no-seal"]);
    plain.offer(1, spec, 0, 1);
    plain.until("the result", |shared| shared.results.len() == 1);
    let (code, said) = plain.worker("b", &[]).end();
    assert!(code == Some(5) && said.contains("seal"), "{code:?} {said}");
    let (code, said) = Fake::start().worker("a", &["--no-seal"]).end();
    assert!(code == Some(5) && said.contains("seal"), "{code:?} {said}");
    plain.write_join("192.0.2.1:7".to_owned());
    let (code, said) = plain.worker("c", &["--no-seal"]).end();
    assert!(code == Some(2) && said.contains("loopback only"), "{code:?} {said}");
}

#[test]
fn a_refused_worker_leaves_no_program_behind() {
    let fake = Fake::start();
    let pid = fake.dir.join("pid");
    let spec = shell(&fake, &format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000", pid.display()));
    let mut worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, 1);
    fake.until("the program to run", |_| pid.exists());
    let key = fake.lock().keys.holder("a").unwrap();
    fake.lock().keys.revoke_key(&key).unwrap();
    fake.restart();
    assert_eq!(worker.end().0, Some(5));
    let pid = std::fs::read_to_string(pid).unwrap();
    assert!(!std::path::Path::new("/proc").join(pid.trim()).exists(), "{pid} still runs");
}
