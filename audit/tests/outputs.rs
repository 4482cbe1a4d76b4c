//! Outputs beside a journal: lost, damaged, swapped, and written by nobody yet. The audit names the units.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod disk;

use disk::{FARM, JOB, State};
use starfarm_protocol::admin::OutputLoss;
use starfarm_protocol::ids::{ContentHash, FarmId, JobId};
use starfarm_protocol::outputs::{Kind, Owner};

const MISSING: OutputLoss = OutputLoss::Missing;
const DAMAGED: OutputLoss = OutputLoss::Damaged;

/// Six units in three records; the last one wrote much.
fn farm() -> State {
    let state = State::of(&[(1, [0, 1]), (2, [2, 3]), (3, [4, 5])]);
    state.keep(FARM, JOB, &[1, 2, 3]);
    state.retire(9);
    state
}

#[test]
fn outputs_that_are_all_there_hold() {
    let report = farm().audit();
    let outputs = report.outputs.unwrap();
    assert!(report.holds && outputs.lost.is_empty() && outputs.contents.is_empty(), "{outputs:?}");
    assert_eq!((outputs.units.0, outputs.in_journal.0), (6, 0));
    assert!(farm().without_outputs().holds);
}

#[test]
fn a_flipped_byte_is_told_with_its_unit_wherever_it_is() {
    let state = farm();
    let path = state.outputs(JOB);
    let bytes = std::fs::read(&path).unwrap();
    let mut harmless = 0;
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, damaged).unwrap();
        let lost = state.lost();
        harmless += usize::from(lost.is_empty());
        assert!(lost.len() <= 1, "byte {at}: {lost:?}");
        assert!(lost.iter().all(|(_, lo, hi, _)| hi - lo <= 2), "byte {at}: {lost:?}");
    }
    assert_eq!(harmless, 3 * 8, "the spare bytes of three headers");
    std::fs::write(path, bytes).unwrap();
    assert!(state.lost().is_empty());
}

#[test]
fn files_that_are_deleted_cut_or_swapped_are_told() {
    let state = farm();
    let path = state.outputs(JOB);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(state.lost(), [(1, 4, 6, MISSING)]);
    for (farm, job) in [(FARM, JobId(2)), (FarmId([8; 16]), JOB)] {
        std::fs::remove_file(&path).unwrap();
        assert_eq!(state.lost(), [(1, 0, 6, MISSING)]);
        state.keep(farm, job, &[1, 2, 3]);
        std::fs::rename(state.outputs(job), &path).unwrap();
        assert_eq!(state.lost(), [(1, 0, 6, MISSING)], "of another");
    }
}

#[test]
fn what_the_journal_has_beyond_the_files_is_not_missed() {
    let state = State::of(&[(1, [0, 1]), (2, [2, 3]), (3, [4, 5])]);
    state.keep(FARM, JOB, &[1]);
    let waiting = |state: &State| {
        let report = state.audit();
        (report.holds, report.outputs.unwrap().in_journal.0)
    };
    assert_eq!(waiting(&state), (true, 4));
    // What is in the ledger is nowhere but in the files.
    state.retire(state.sequence(2));
    assert_eq!(waiting(&state), (false, 2));
    assert_eq!(state.lost(), [(1, 2, 4, MISSING)]);
    state.retire(state.sequence(1));
    assert_eq!(waiting(&state), (true, 4));
}

#[test]
fn what_is_damaged_in_the_files_and_whole_in_the_journal_is_not_missed() {
    let state = farm();
    let path = state.outputs(JOB);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(state.lost().len(), 1);
    state.retire(0);
    let report = state.audit();
    assert!(report.holds && report.outputs.unwrap().in_journal.0 > 0);
}

#[test]
fn a_long_output_whose_content_is_gone_or_damaged_is_told_by_its_unit() {
    let state = farm();
    let path = state.path("blobs");
    state.flip_last("blobs");
    assert_eq!(state.lost(), [(1, 5, 6, DAMAGED)]);
    let hash = ContentHash::of(&disk::long());
    let contents = state.audit().outputs.unwrap().contents;
    assert!(contents.len() == 1 && contents[0].hash == hash && contents[0].job.is_none());
    std::fs::remove_file(path).unwrap();
    assert_eq!(state.lost(), [(1, 5, 6, MISSING)]);
    let contents = state.audit().outputs.unwrap().contents;
    assert!(contents.iter().any(|lost| lost.job == Some(JOB) && lost.what == MISSING), "its specification");
}

/// The scheduler was stopped before it had written its files: the hash is in the journal only.
#[test]
fn a_long_output_is_looked_at_whether_its_hash_is_in_a_file_or_in_the_journal() {
    let in_journal = State::of(&[(1, [0, 1]), (2, [2, 3]), (3, [4, 5])]);
    for state in [farm(), in_journal] {
        let path = state.path("blobs");
        let bytes = std::fs::read(&path).unwrap();
        let in_journal = state.audit().outputs.unwrap().in_journal;
        let mut harmless = 0;
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(&path, damaged).unwrap();
            let outputs = state.audit().outputs.unwrap();
            assert_eq!(outputs.in_journal, in_journal, "byte {at}");
            let lost = state.lost();
            assert!(lost.is_empty() || matches!(lost[..], [(1, 5, 6, _)]), "byte {at}: {lost:?}");
            assert!(lost.len() == 1 || at < bytes.len() - 600, "byte {at} of it");
            harmless += usize::from(lost.is_empty() && outputs.contents.is_empty());
        }
        assert_eq!(harmless, 2 * 8, "the spare bytes of two headers");
        for end in (0..bytes.len()).step_by(7) {
            std::fs::write(&path, &bytes[..end]).unwrap();
            assert_eq!(state.lost(), [(1, 5, 6, MISSING)], "cut at {end}");
        }
    }
}

#[test]
fn a_content_that_only_the_second_run_names_is_looked_at_though_the_first_is_in_the_file() {
    let state = farm();
    state.rerun_long_and_end(4, &[8; 700]);
    assert_eq!((state.lost(), state.audit().outputs.unwrap().in_journal.0), (vec![], 1));
    state.flip_last("blobs");
    assert_eq!(state.lost(), [(1, 4, 5, DAMAGED)]);
}

#[test]
fn an_audit_of_one_job_counts_the_outputs_of_that_job_alone() {
    let state = farm();
    state.retire(0);
    state.beside(&[8; 700]);
    state.flip_last("blobs");
    let of = |jobs: &[JobId]| {
        let report = state.audit_of(jobs);
        let outputs = report.outputs.unwrap();
        let lost: Vec<_> = outputs.lost.iter().map(|lost| lost.job.0).collect();
        let counts = (outputs.units.0, outputs.in_journal.0, outputs.contents.len());
        let told = report.notes.iter().any(|note| note.contains("in the journal only"));
        assert_eq!(told, counts.1 > 0);
        (report.holds, counts, lost)
    };
    assert_eq!(of(&[]), (false, (7, 1, 1), vec![2]));
    assert_eq!(of(&[JobId(2)]), (false, (1, 1, 1), vec![2]));
    assert_eq!(of(&[JOB]), (true, (6, 0, 0), vec![]));
    assert_eq!(of(&[JOB, JobId(2)]), of(&[]));
}

#[test]
fn units_that_ran_again_count_once_and_their_new_outputs_are_those_that_must_be_there() {
    let state = State::of(&[(1, [0, 1]), (2, [2, 3]), (3, [4, 5])]);
    state.rerun_and_end(&[2, 3]);
    let owner = Owner::new(FARM, JOB);
    let report = state.audit();
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    let certificate = report.jobs[0].certificate.as_ref().unwrap();
    assert_eq!((certificate.units_done.0, certificate.units_again.0), (6, 2));
    let shares: u128 = certificate.nodes.iter().map(|share| share.units.0).sum();
    assert_eq!(shares, 8);
    // The first outputs of both are not what must be there.
    state.keep(FARM, JOB, &[1, 2, 3]);
    state.retire(99);
    assert!(state.lost().is_empty());
    state.append(owner.label(50, Kind::Again, 0, 0), &starfarm_protocol::outputs::intervals_body(&[(2, 4)]));
    assert_eq!(state.lost(), [(1, 2, 4, MISSING)]);
}

/// Without `farm.json` the journal still says whose the notes are.
#[test]
fn outputs_that_are_lost_are_missing_also_where_farm_json_is_gone() {
    let state = farm();
    std::fs::remove_file(state.path("farm.json")).unwrap();
    assert!(state.lost().is_empty());
    std::fs::remove_file(state.outputs(JOB)).unwrap();
    assert_eq!(state.lost(), [(1, 0, 6, MISSING)]);
    std::fs::remove_dir_all(state.path("outputs")).unwrap();
    assert_eq!(state.lost(), [(1, 0, 6, MISSING)]);
}

/// Units 2 and 3 ran again, and by the checkpoint after that their file ends before.
#[test]
fn a_file_that_is_an_older_copy_of_itself_is_recognised_by_the_note_of_units_that_ran_again() {
    let state = State::of(&[(1, [0, 1]), (2, [2, 3]), (3, [4, 5])]);
    state.rerun_and_end(&[2, 3]);
    state.keep(FARM, JOB, &[1, 2, 3]);
    state.retire(99);
    assert!(state.lost().is_empty(), "nothing says that they ran again");
    // As the records have it: three that ran, the end, and then those two are wanted again.
    state.again(FARM, &[(9, (2, 4))]);
    assert_eq!(state.lost(), [(1, 2, 4, MISSING)]);
    // Of records that the journal gives again.
    state.retire(8);
    let report = state.audit();
    assert_eq!((report.holds, report.outputs.unwrap().in_journal.0), (true, 2));
    state.retire(99);
    state.again(FARM, &[(3, (0, 6))]);
    assert!(state.lost().is_empty(), "they were wanted again before they ran");
    // One of another farm.
    state.again(FarmId([8; 16]), &[(9, (2, 4))]);
    let report = state.audit();
    let told = report.violations.iter().any(|wrong| wrong.what.contains("outputs/again is damaged"));
    assert!(told && !report.holds && report.outputs.unwrap().lost.is_empty());
    assert!(state.without_outputs().holds);
}

/// Its unit ran again and wrote something else: it would have been told for ever.
#[test]
fn a_damaged_content_of_a_run_that_does_not_count_is_a_note() {
    let state = farm();
    state.flip_last("blobs");
    assert_eq!(state.lost(), [(1, 5, 6, DAMAGED)]);
    state.rerun_long_and_end(5, &[8; 700]);
    assert!(state.lost().is_empty());
    let report = state.audit();
    let outputs = report.outputs.unwrap();
    assert_eq!((report.holds, outputs.contents.len(), outputs.idle_damaged), (true, 0, 1));
    assert!(
        report.notes.iter().any(|note| note.contains("nothing that counts names them")),
        "{:?}",
        report.notes
    );
}
