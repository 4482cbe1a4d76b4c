//! Real worker processes against a fake scheduler: however a running task is taken away, what was finished of
//! it is reported, the rest is given back, and nothing comes twice.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod fake;

use fake::{Fake, Process, Shared};
use rustix::process::Signal;
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::running::RECORD_BYTES;
use starfarm_protocol::spec::{Algorithm, CommandWork, HexBytes, JobSpec, SearchWork, Space, Stop, Work};
use starfarm_protocol::wire::{Cancel, HitEntry, Outcome};

/// Units of the task that is taken away: of a search far more than it can do, of a command ten.
const SEARCHED: u64 = 26_u64.pow(8);
const COMMANDS: u64 = 10;
/// The unit of a command that does not end by itself.
const LONG_UNIT: u64 = 3;

/// MD5 of "aaaaaaab", the second candidate.
fn search(fake: &Fake) -> ContentHash {
    let positions = vec![HexBytes((b'a'..=b'z').collect()); 8];
    let target = starfarm_protocol::ids::from_hex("2125ea8b81bc0ab7a16e47ca82c06735").unwrap();
    let work = SearchWork {
        algorithm: Algorithm::Md5,
        targets: vec![HexBytes(target)],
        stop: Stop::Never,
        needs: None,
    };
    fake.spec(&JobSpec { space: Space::Chars { positions, min: 8 }, work: Work::Search(work) })
}

/// Quick units but for one, which runs until the file `go` is there.
fn commands(fake: &Fake) -> ContentHash {
    let script = format!(
        "test $1 != {LONG_UNIT} || {{ echo > {0}/long; while ! test -e {0}/go; do sleep 0.02; done; }}",
        fake.dir.display()
    );
    let program = ["sh", "-c", &script, "sh", "{}"].map(str::to_owned).into();
    let work = CommandWork { program, ..CommandWork::default() };
    fake.spec(&JobSpec { space: Space::Range { from: 0, to: 100, step: 1 }, work: Work::Command(work) })
}

/// Starts a worker that searches.
fn searching() -> (Fake, Process) {
    let fake = Fake::start();
    let spec = search(&fake);
    let worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, SEARCHED);
    // Sooner than the first part is due.
    let running = fake.dir.join("a").join(fake.farm.to_string()).join("running");
    // Behind the record of the machine's start.
    let is_noted = |bytes: Vec<u8>| bytes.iter().skip(RECORD_BYTES).any(|byte| *byte != 0);
    fake.until("the search to run", |_| std::fs::read(&running).is_ok_and(is_noted));
    (fake, worker)
}

/// Starts a worker that has done the units before the long one and runs that.
fn commanding() -> (Fake, Process) {
    let fake = Fake::start();
    let spec = commands(&fake);
    let worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, COMMANDS);
    fake.until("the long unit to run", |_| fake.dir.join("long").exists());
    (fake, worker)
}

fn let_the_long_unit_end(fake: &Fake) {
    std::fs::write(fake.dir.join("go"), "").unwrap();
}

/// Units that are done from the task's first one on. They and those given back must tile the task.
#[track_caller]
fn done_of(fake: &Fake, units: u64) -> u64 {
    fake.until("all units to be accounted for", |shared| {
        shared.results.iter().map(|result| result.units).sum::<u64>() >= units
    });
    let mut results = fake.lock().results.clone();
    results.sort_by_key(|result| result.lo);
    let (mut next, mut done) = (0, 0);
    for result in &results {
        assert_eq!(result.lo, u128::from(next), "parts tile the task: {results:?}");
        next += result.units;
        match result.outcome {
            Outcome::Done => done += result.units,
            Outcome::Returned => {}
            Outcome::Refused => panic!("{result:?}"),
        }
        assert!(result.outcome != Outcome::Done || done == next, "nothing is done behind what is given back");
    }
    assert_eq!(next, units);
    done
}

fn done(shared: &Shared) -> u64 {
    shared.results.iter().filter(|r| r.outcome == Outcome::Done).map(|r| r.units).sum()
}

fn hits(fake: &Fake) -> Vec<u128> {
    let shared = fake.lock();
    let hit = |lo: u128, body: &[u8]| {
        HitEntry::read_all(body)
            .unwrap()
            .into_iter()
            .map(move |hit| lo + u128::from(hit.offset))
            .collect::<Vec<_>>()
    };
    shared.results.iter().filter(|r| r.outcome == Outcome::Done).flat_map(|r| hit(r.lo, &r.body)).collect()
}

#[test]
fn a_cancelled_search_reports_what_it_has_searched() {
    let (fake, _worker) = searching();
    fake.revoke(1, Cancel::Graceful);
    assert!(done_of(&fake, SEARCHED) > 0);
    assert_eq!(hits(&fake), [1]);
}

#[test]
fn a_killed_search_reports_what_it_has_searched() {
    let (fake, _worker) = searching();
    fake.revoke(1, Cancel::Forced);
    assert!(done_of(&fake, SEARCHED) > 0);
    assert_eq!(hits(&fake), [1]);
}

#[test]
fn a_drained_worker_reports_what_its_search_has_searched() {
    let (fake, mut worker) = searching();
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().0, Some(0));
    assert!(done_of(&fake, SEARCHED) > 0);
    assert_eq!(hits(&fake), [1]);
}

/// The second signal leaves no time to deliver: what is done goes into the spool.
#[test]
fn a_worker_that_is_stopped_at_once_keeps_what_its_search_has_searched_for_its_next_start() {
    let (fake, mut worker) = searching();
    fake.go_away();
    worker.signal(Signal::TERM);
    worker.signal(Signal::TERM);
    let (code, said) = worker.end();
    assert!(matches!(code, Some(0 | 130)), "{code:?} {said}");
    fake.restart();
    let _worker = fake.worker("a", &["--slots", "1"]);
    fake.until("what was searched", |shared| {
        shared.results.iter().any(|r| r.outcome == Outcome::Done && r.lo == 0 && r.units > 0)
    });
    assert_eq!(hits(&fake), [1]);
}

#[test]
fn a_unit_that_takes_long_does_not_hold_back_those_before_it() {
    let (fake, _worker) = commanding();
    fake.until("the units before", |shared| done(shared) == LONG_UNIT);
}

#[test]
fn a_cancelled_command_finishes_its_unit_and_reports_it() {
    let (fake, _worker) = commanding();
    fake.revoke(1, Cancel::Graceful);
    fake.until("the cancel to be heard", |shared| shared.beat.number > shared.revoked_at + 1);
    let_the_long_unit_end(&fake);
    assert_eq!(done_of(&fake, COMMANDS), LONG_UNIT + 1);
}

#[test]
fn a_killed_command_reports_the_units_before_the_one_that_ran() {
    let (fake, _worker) = commanding();
    fake.revoke(1, Cancel::Forced);
    assert_eq!(done_of(&fake, COMMANDS), LONG_UNIT);
}

#[test]
fn a_drained_worker_finishes_its_unit_and_reports_it() {
    let (fake, mut worker) = commanding();
    worker.signal(Signal::TERM);
    fake.until("the drain to be known", |shared| shared.beat.draining);
    let_the_long_unit_end(&fake);
    assert_eq!(worker.end().0, Some(0));
    assert_eq!(done_of(&fake, COMMANDS), LONG_UNIT + 1);
}

#[test]
fn a_worker_that_is_stopped_at_once_has_reported_the_units_before_the_one_that_ran() {
    let (fake, mut worker) = commanding();
    worker.signal(Signal::TERM);
    fake.until("the drain to be known", |shared| shared.beat.draining);
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().0, Some(130));
    let _worker = fake.worker("a", &["--slots", "1"]);
    fake.until("the units before", |shared| done(shared) == LONG_UNIT);
}

/// The scheduler is away for all of the drain, so that nothing can be acknowledged.
#[test]
fn what_a_drained_worker_cannot_deliver_is_delivered_by_its_next_incarnation() {
    let (fake, mut worker) = commanding();
    fake.go_away();
    worker.signal(Signal::TERM);
    let_the_long_unit_end(&fake);
    let (code, said) = worker.end();
    assert_eq!(code, Some(0), "{said}");
    fake.restart();
    let _worker = fake.worker("a", &["--slots", "1"]);
    fake.until("the done units", |shared| done(shared) > LONG_UNIT);
}
