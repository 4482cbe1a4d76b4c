//! How long units may take, and what becomes of those that a disk does not hold.

use super::*;
use crate::run::executor::testing::parts_on;
use crate::run::room::Room;
use starfarm_decomposers::NoChunks;
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::spec::Input;
use starfarm_protocol::wire::{FailReason, Outcome};

fn run(end: End) -> UnitRun {
    let nothing = Captured::default();
    UnitRun {
        end,
        duration: Duration::from_millis(3),
        cpu: Duration::ZERO,
        stdout: nothing.clone(),
        stderr: nothing,
    }
}

#[test]
fn a_unit_hangs_after_its_time_and_thirty_times_what_others_took() {
    let work = |timeout_ms, hang_ms| CommandWork {
        program: vec!["true".into()],
        timeout_ms,
        hang_ms,
        ..CommandWork::default()
    };
    let space = Space::Frames { first: 1, last: 9 };
    let command =
        |timeout_ms, hang_ms| Command::new(&work(timeout_ms, hang_ms), &space, Arc::new(NoChunks)).unwrap();
    let ms = |ms| Some(Duration::from_millis(ms));
    assert_eq!(command(None, None).time_limit(1), None);
    assert_eq!(command(Some(50), Some(20)).time_limit(1), ms(20), "nothing was learnt: the key alone");
    let learnt = command(Some(50), Some(20));
    learnt.learn(&run(End::Exit(0)), 1);
    learnt.learn(&run(End::Exit(1)), 1);
    assert_eq!(learnt.time_limit(1), ms(50), "30 x 3 ms is beyond the time limit");
    let learnt = command(None, Some(20));
    learnt.learn(&run(End::Exit(0)), 1);
    assert_eq!(learnt.time_limit(1), ms(90), "units take 3 ms here");
}

/// Of a job of ten units, whose runs are of one each or of a whole task: what becomes of them where `large` have inputs
/// beyond the whole disk, as first unit, number and reason; or why the node refused the rest.
fn ran(per: Per, large: &[u64]) -> (Vec<(u128, Option<FailReason>)>, Option<String>) {
    ran_of(10, per, large)
}

fn ran_of(units: u64, per: Per, large: &[u64]) -> (Vec<(u128, Option<FailReason>)>, Option<String>) {
    let inputs = (0..units).map(|unit| Input {
        path: unit.to_string(),
        parts: large.contains(&unit).then(|| ContentHash::of(&unit.to_le_bytes())).into_iter().collect(),
        bytes: if large.contains(&unit) { 5_000 } else { 0 },
        executable: false,
        of_units: true,
    });
    let work = CommandWork {
        program: vec!["true".into()],
        inputs: inputs.collect(),
        unit_inputs: vec!["{}".into()],
        per,
        ..CommandWork::default()
    };
    let space = Space::Range { from: 0, to: units as i64, step: 1 };
    let command = Command::new(&work, &space, Arc::new(NoChunks)).unwrap();
    let (mut ran, mut refused) = (Vec::new(), None);
    for part in parts_on(|_| Ok((900, 1_000)), &command, 0, units) {
        if part.outcome == Outcome::Refused {
            refused = Some(String::from_utf8(part.body).unwrap());
            continue;
        }
        let mut unit = part.lo;
        for outcome in CommandUnit::read_all(&part.body).unwrap() {
            ran.push((unit, outcome.failed));
            unit += u128::from(outcome.units);
        }
    }
    (ran, refused)
}

/// The node refused the job, and was asked again with the same unit, while all others waited.
#[test]
fn units_that_the_disk_does_not_hold_stand_in_the_way_of_no_other() {
    let room = Some(FailReason::Room);
    let all = |large: &[u128]| (0..10).map(|unit| (unit, room.filter(|_| large.contains(&unit)))).collect();
    for large in [vec![3], vec![0, 1, 2, 3], vec![0, 1, 3, 4, 6, 7, 8, 9]] {
        let units: Vec<u128> = large.iter().map(|&unit| unit.into()).collect();
        assert_eq!(ran(Per::Unit, &large), (all(&units), None));
    }
    // What runs together is cut until it fits.
    let runs = [(0, None), (3, room), (4, None), (5, None)];
    let (ran_so, refused) = ran(Per::Task, &[3]);
    assert_eq!((&ran_so[..4], refused), (&runs[..], None));
    // A disk that holds so few is too small for the job.
    let (units, refused) = ran_of(300, Per::Unit, &(2..300).collect::<Vec<_>>());
    assert_eq!(units.len(), 2 + TOO_LARGE_MAX);
    assert!(refused.unwrap().contains("the input `257` of 5000 bytes cannot be kept"));
}

/// Each waited for all slots to end, and ran again alone, as often as programs fail.
#[test]
fn programs_that_fail_alone_as_well_are_not_taken_to_have_failed_of_a_tight_disk() {
    let work =
        CommandWork { program: vec!["false".into()], outputs: vec!["{}".into()], ..CommandWork::default() };
    let command = Command::new(&work, &Space::Range { from: 0, to: 9, step: 1 }, Arc::new(NoChunks)).unwrap();
    let dir = crate::testing::TempDir::new();
    let store = Store::open(&dir.0, 0).unwrap().on(|_| Ok((900 << 20, 10 << 30)));
    let (room, cancel) = (Room::default(), CancelFlag::new().unwrap());
    // Whether a unit runs again that fails beside others; alone, it ends so.
    let runs_again = |end: fn() -> End| {
        let mut place = room.place();
        let others = room.stake();
        let stake = place.enter(&cancel, || Ok(())).unwrap();
        place.has_inputs();
        let again = command.had_room(&run(End::Exit(1)), &mut place, &store).is_err();
        drop((stake, others));
        if again && place.again() {
            let _stake = place.enter(&cancel, || Ok(())).unwrap();
            command.had_room(&run(end()), &mut place, &store).unwrap();
        }
        again
    };
    let (fails, passes) = (|| End::Exit(1), || End::Exit(0));
    let ends = [fails, fails, passes, fails, fails, fails, passes];
    assert_eq!(ends.map(runs_again), [true, true, true, true, true, true, false]);
    let mut place = room.place();
    let _stakes = (room.stake(), place.enter(&cancel, || Ok(())).unwrap());
    room.note_full();
    assert!(command.had_room(&run(End::Exit(1)), &mut place, &store).is_err(), "that is another thing");
    assert!(command.had_room(&run(End::Timeout), &mut place, &store).is_ok());
}
