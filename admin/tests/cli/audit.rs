//! `starfarm audit`, as a script sees it, over journals made by hand. What an audit finds is tested where the
//! arithmetic is.

use serde_json::Value;
use starfarm_protocol::ids::{Boot, ContentHash, Epoch, FarmId, JobId, NodeId};
use starfarm_protocol::job::{JobFacts, JobState, MaxFailures, Sizing, WorkFacts};
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::frame::{Frame, Place};
use starfarm_protocol::journal::record::{Ended, JobTotals};
use starfarm_protocol::journal::segment::{Head, Part};

use crate::program::Folder;
use crate::schemas::Schemas;

/// Job 3 of 20 units, of which `done` are done when it ends; job 4, which runs.
fn write_journal(folder: &Folder, done: u128) {
    let node = NodeId(0);
    let facts = |job| JobFacts {
        job: JobId(job),
        spec: ContentHash([7; 32]),
        name: "keys".into(),
        user: "ada".into(),
        units: 20,
        work: WorkFacts::NOTHING,
        sizing: Sizing::Units(5),
        max_failures: MaxFailures::Usual,
        speculative: false,
        at_us: 1_700_000_000_000_000,
    };
    let ended = Ended {
        job: JobId(3),
        state: JobState::Finished,
        done,
        failed: 0,
        abandoned: Vec::new(),
        totals: JobTotals::default(),
    };
    let records = [
        Record::Epoch { epoch: Epoch(1), at_us: 0 },
        Record::Node { node, name: "a".into(), boot: Boot(1) },
        Record::Submitted(facts(3)),
        Record::Submitted(facts(4)),
        Record::Leased { job: JobId(3), mark: 20 },
        Record::Done { job: JobId(3), node, pieces: vec![(0, done)], hits: Vec::new() },
        Record::Ended(ended),
    ];
    let farm = FarmId([9; 16]);
    let mut bytes =
        Head { part: Part::Journal, farm, number: 1, first: 1, last: 0, chain: 0, seal: 0 }.to_bytes();
    let mut place = Place::default();
    for record in records {
        let mut body = Vec::new();
        record.encode(&mut body);
        let sequence = place.sequence + 1;
        Frame { sequence, commit: sequence, epoch: 1, kind: record.kind(), body: &body }
            .write(&mut place, &mut bytes);
    }
    bytes.resize(bytes.len() + 256 * 1024, 0);
    std::fs::create_dir_all(folder.path().join("journal")).unwrap();
    std::fs::write(folder.path().join("journal/00000001.seg"), bytes).unwrap();
}

#[test]
fn an_audit_of_outputs_names_the_contents_that_are_gone_and_ends_with_code_1() {
    let (folder, schemas) = (Folder::new(), Schemas::load());
    write_journal(&folder, 20);
    let text = folder.run("audit FARM --outputs --output json").with(1);
    schemas.check("audit", &text);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["outputs"]["contents"][0]["job"], 3);
    assert_eq!(report["jobs"][0]["verdict"], "complete", "the units count all the same");
    let told = folder.run("audit FARM --outputs --job 4").with(1);
    assert!(told.contains(&format!("CONTENT MISSING: {}, of job 4", "07".repeat(32))), "{told}");
    assert!(told.contains("IT DOES NOT HOLD"), "{told}");
}

#[test]
fn an_audit_that_holds() {
    let (folder, schemas) = (Folder::new(), Schemas::load());
    write_journal(&folder, 20);
    let text = folder.run("audit FARM --output json").with(0);
    schemas.check("audit", &text);
    schemas.check("audit", &folder.run("audit FARM --output jsonl").with(0));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["jobs"][0]["verdict"], "complete");
    assert_eq!(
        (&report["jobs"][1]["verdict"], &report["scheduler_runs"]),
        (&"not_ended".into(), &false.into())
    );
    // Whoever has the certificate can check its hash.
    let canonical = starfarm_audit::canonical(&report["jobs"][0]["certificate"]);
    let hash = ContentHash::of(canonical.as_bytes()).to_string();
    assert_eq!(report["jobs"][0]["certificate_hash"], hash);
    assert_eq!(folder.run("audit FARM --output quiet").with(0), format!("3 {hash}\n"));
    assert!(folder.run("audit FARM").with(0).contains("complete"));
}

#[test]
fn the_farm_of_all_commands_is_audited_where_no_directory_is_given() {
    let folder = Folder::new();
    write_journal(&folder, 20);
    let whole = folder.run("audit FARM").with(0);
    assert_eq!(folder.run("--farm FARM audit").with(0), whole);
    assert_eq!(
        folder.run("--farm FARM/nowhere audit FARM").with(0),
        whole,
        "a directory that is named comes first"
    );
    let told = folder.run("audit").failed_with(2);
    assert!(
        told.contains("which farm? Give its state directory: `starfarm audit DIR`, or --farm DIR"),
        "{told}"
    );
    std::fs::write(folder.path().join("admin.join"), "").unwrap();
    let told = folder.run("--farm FARM/admin.join audit").failed_with(2);
    assert!(told.contains("is a file: give the scheduler's state directory"), "{told}");
}

#[test]
fn an_audit_that_does_not_hold() {
    let (folder, schemas) = (Folder::new(), Schemas::load());
    write_journal(&folder, 19);
    schemas.check("audit", &folder.run("audit FARM --output json").with(1));
    let words = folder.run("audit FARM").with(1);
    assert!(words.contains("job 3, units [19, 20): a gap"), "{words}");
    folder.run("audit FARM --job 3 --job 4").with(1);
    folder.run("audit FARM --job 4").with(0);
    assert!(folder.run("audit FARM --job 5").failed_with(4).contains("no job 5"));
    assert!(folder.run("audit FARM/journal").failed_with(2).contains("has no journal"));
}
