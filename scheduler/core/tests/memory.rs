//! How much memory a farm takes. A process of its own: the test is alone in this file, since `cargo test` runs those of one
//! file beside each other in one process.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

use starfarm_protocol::ids::{Boot, ContentHash, Epoch, FarmId, JobId, NodeId};
use starfarm_protocol::spec::Stop;
use starfarm_scheduler_core::limits::HITS_KEPT;
use starfarm_scheduler_core::{Config, Deeds, JobFacts, MaxFailures, Record, Restoring, Sizing, WorkFacts};

/// KiB of memory that this process has.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// All of them in memory are some 50 MiB a million.
#[test]
fn a_search_that_found_two_million_keeps_a_few_mebibytes_of_them() {
    const HITS: u128 = 2_000_000;
    let (job, node, work) = (JobId(1), NodeId(0), WorkFacts::search(Stop::Never, 1));
    let facts = JobFacts {
        job,
        spec: ContentHash([1; 32]),
        name: "keys".into(),
        user: "ada".into(),
        units: HITS,
        work,
        sizing: Sizing::Units(1),
        max_failures: MaxFailures::Never,
        speculative: false,
        at_us: 1,
    };
    let fresh = || Restoring::new(Config::new(FarmId([9; 16]), Epoch(1)), 1);
    let mut restoring = fresh();
    let first = Record::Node { node, name: "a".into(), boot: Boot(1) };
    for record in [first, Record::Submitted(facts), Record::Leased { job, mark: HITS }] {
        restoring.apply(&record).unwrap();
    }
    let before = resident_kib();
    for lo in (0..HITS).step_by(1_000) {
        let hits = (lo..lo + 1_000).map(|unit| (unit, 0)).collect();
        restoring.apply(&Record::Done { job, node, pieces: vec![(lo, lo + 1_000)], hits }).unwrap();
    }
    let mut farm = restoring.finish(2_003, 1);
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KiB");
    assert_eq!((farm.job(job, 0).unwrap().hits, farm.hits(job).len()), (2_000_000, HITS_KEPT.running));
    let (_, records) = farm.snapshot(&mut Deeds::default());
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    let bytes = bytes.len();
    assert!(records.len() < 40 && bytes < 400_000, "{} records, {bytes} bytes", records.len());
    let mut restoring = fresh();
    records.iter().for_each(|record| restoring.apply(record).unwrap());
    let again = restoring.finish(2_003, 1);
    assert!(again.durable_state() == farm.durable_state());
    again.check_all().unwrap();
    assert_eq!((again.job(job, 0).unwrap().hits, again.hits(job)), (2_000_000, farm.hits(job)));
}
