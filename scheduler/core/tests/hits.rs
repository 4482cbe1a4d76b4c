//! Jobs that find more than is kept in memory, told as scripts: four hits of a job that runs, two of one that has ended.
//! After each line the bench checks that replay equals live, from a checkpoint too.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::truth::knows;
use common::{Bench, config};
use expect_test::{Expect, expect};
use starfarm_protocol::ids::JobId;
use starfarm_scheduler_core::{Bookmark, Config, HitsKept, Record};

/// Hits of target 1 are true at even units.
fn knows_even() -> Config {
    knows(|unit, target| target == 1 && unit.is_multiple_of(2))
}

/// Two nodes; a has done [0, 10) and [10, 20), with five hits each, b has [20, 40). `watch`: pictures are told, too.
fn bench(watch: bool) -> Bench {
    let hits_kept = HitsKept { running: 4, ended: 2 };
    let mut bench = Bench::new(Config { watch, hits_kept, ..knows_even() });
    bench.run(
        "submit 60 search 2 targets never units 10\n join a slots 1\n join b slots 1\n ack a\n ack b
         done a 0+10 hits 0:1,2:1,4:1,6:1,8:1\n done a 10+10 hits 10:1,12:1,14:1,16:1,18:1\n ack a",
    );
    bench
}

fn check(script: &str, expected: Expect) {
    expected.assert_eq(&bench(false).run(script));
}

fn recorded(bench: &Bench) -> Vec<(u128, u32)> {
    let hits = bench.records.iter().filter_map(|record| match record {
        Record::Done { hits, .. } => Some(hits.clone()),
        _ => None,
    });
    hits.flatten().collect()
}

#[test]
fn all_hits_are_counted_and_recorded_and_the_last_are_in_memory() {
    let mut bench = bench(false);
    assert_eq!(bench.farm.hits(JobId(1)), [(12, 1), (14, 1), (16, 1), (18, 1)]);
    assert_eq!(recorded(&bench), Vec::from_iter((0..20).step_by(2).map(|unit| (unit, 1))));
    for how in ["", "checkpoint\n restart", "restart\n checkpoint\n restart"] {
        bench.run(how);
        assert_eq!(bench.farm.job(JobId(1), 0).unwrap().hits, 10, "{how}");
        let page = bench.farm.found_page(JobId(1), 0, 100, Bookmark::default()).unwrap();
        assert_eq!((page.hits, page.paged, page.more), (vec![], Some(10), false), "{how}");
    }
    bench.run("hello a\n hello b\n beat b 20+20\n done b 20+10 hits 20:1,22:1,24:1,26:1,28:1");
    assert_eq!(bench.farm.job(JobId(1), 0).unwrap().hits, 15);
    assert_eq!(bench.farm.hits(JobId(1)), [(22, 1), (24, 1), (26, 1), (28, 1)]);
}

/// Nobody here knows what was found in [0, 10): whoever says something else is neither right nor wrong. In [14, 20) that
/// is known.
#[test]
fn results_below_the_floor_are_not_compared_and_bring_no_hit() {
    let mut bench = bench(false);
    let before = recorded(&bench);
    let story = bench.run("done b 0+10 hits 0:1,2:1\n again a\n done b 0+10\n show 1\n nodes");
    assert_eq!(recorded(&bench), before);
    assert!(story.ends_with("a up, b up\n") && !story.contains("conflict"), "{story}");
    check(
        "done b 14+6 hits 14:1\n show 1\n nodes",
        expect![[r#"
            0: node b quarantined: it reported units as done without a hit that is among them
            0: untrue result in job 1: node b, unit 16: it reported units as done without a hit that is among them
            0: to b: ack results [(1, 1)]; withdraw job 1 kill before 7
            0: job 1 is running: done 20, out 20, waiting 20, resent tasks 2, hits [(12, 1), (14, 1), (16, 1), (18, 1)], checked 0, untrue at 16: b missed_hit
            0: a up, b quarantined (it reported units as done without a hit that is among them)
        "#]],
    );
}

/// A hit of a unit that it was never given is one, and is recorded; its unit is for another node, which names it again.
#[test]
fn a_hit_that_came_before_its_unit_was_done_is_recorded_once() {
    let hits_kept = HitsKept { running: 2, ended: 1 };
    let mut bench = Bench::new(Config { hits_kept, ..knows_even() });
    bench.run(
        "submit 60 search 2 targets never units 10\n join a slots 1\n join b slots 1\n ack a\n ack b
         done b 0+10 hits 0:1,2:1,4:1,6:1,8:1",
    );
    // Three were let go before anybody did their units.
    assert_eq!((recorded(&bench).len(), bench.farm.hits(JobId(1)).len()), (5, 2));
    bench.run("done b 20+10 hits 20:1,22:1,24:1,26:1,28:1\n checkpoint\n restart\n hello a\n beat a 0+20");
    bench.run("done a 0+10 hits 0:1,2:1,4:1,6:1,8:1");
    let mut all = recorded(&bench);
    all.sort_unstable();
    assert_eq!(all, Vec::from_iter((0..10).chain(20..30).step_by(2).map(|unit| (unit, 1))));
    assert_eq!(bench.farm.job(JobId(1), 0).unwrap().hits, 10);
}

/// What a found below the floor is in the journal alone when a turns out to lie: b finds it again, and one more there.
#[test]
fn hits_that_are_found_again_below_the_floor_are_counted_once() {
    let mut bench = bench(false);
    bench.run("done a 0+10 hits 1:1\n done b 20+10\n done b 30+10\n ack b");
    bench.run("checkpoint\n restart\n hello b\n beat b 0+20");
    bench.run("done b 0+10 hits 0:1,2:1,4:1,6:1,8:1\n done b 10+10 hits 10:1,12:1,14:1,16:1,18:1");
    let again: Vec<_> = recorded(&bench).into_iter().skip(10).collect();
    assert_eq!(again, Vec::from_iter((0..12).step_by(2).map(|unit| (unit, 1))), "nobody here knew of these");
    let job = bench.farm.job(JobId(1), 0).unwrap();
    assert_eq!((job.hits, job.units_done.0), (10, 40));
}

/// Its hash is not known here.
#[test]
fn the_certificate_of_such_a_job_is_for_others_to_complete() {
    let mut bench = bench(true);
    bench.run(
        "done b 20+10\n done b 30+10\n ack b\n ack a\n done a 40+10 hits 40:1\n done b 40+10 hits 40:1\n done b 50+10",
    );
    let story = bench.run("done a 50+10\n show 1");
    assert!(story.contains("to certify: "), "{story}");
}

/// What a checkpoint tells of targets.
fn told(bench: &Bench) -> Vec<Record> {
    let of = |record: &Record| matches!(record, Record::HitsPaged { .. } | Record::TargetsHit { .. });
    bench.farm.durable_state().into_iter().filter(of).collect()
}

/// A bit for each target, and nothing where nobody asks: a checkpoint does not grow with what is hit.
#[test]
fn a_checkpoint_tells_of_targets_where_the_search_stops_with_all_of_them() {
    let hits_kept = HitsKept { running: 4, ended: 2 };
    for (stop, bits) in [("never", None), ("all", Some([0b0101_0101, 0b0000_0101]))] {
        let mut bench = Bench::new(Config { hits_kept, ..config() });
        bench.run(&format!("submit 60 search 11 targets {stop} units 10\n join a slots 1\n ack a"));
        bench.run("done a 0+10 hits 0:0,1:2,2:4,3:6,4:8,5:10,6:8,7:6\n ack a");
        let (job, floor) = (JobId(1), (3, 6));
        let paged = Record::HitsPaged { job, floor, count: 8, targets: vec![], again: vec![] };
        let bits = bits.map(|bits| Record::TargetsHit { job, from: 0, bits: bits.into() });
        assert_eq!(told(&bench), Vec::from_iter([paged].into_iter().chain(bits)), "{stop}");
        bench.run("checkpoint\n restart\n hello a\n beat a 10+10");
        let story = bench.run("done a 10+10 hits 10:1,11:3,12:5,13:7,14:9\n show 1");
        assert_eq!(story.contains("job 1 is finished"), stop == "all", "{story}");
    }
}

/// Until kind 72 there were intervals of targets.
#[test]
fn a_checkpoint_of_an_older_version_tells_of_targets_as_well() {
    let hits_kept = HitsKept { running: 4, ended: 2 };
    let mut bench = Bench::new(Config { hits_kept, ..config() });
    bench.run("submit 60 search 3 targets all units 10\n join a slots 1\n ack a");
    let mut restoring = starfarm_scheduler_core::Restoring::new(config(), 0);
    let targets = vec![(0, 1), (2, 3)];
    let paged = Record::HitsPaged { job: JobId(1), floor: (3, 1), count: 8, targets, again: vec![] };
    bench.records.iter().chain([&paged]).for_each(|record| restoring.apply(record).unwrap());
    let hit = Record::TargetsHit { job: JobId(1), from: 0, bits: vec![0b101].into() };
    assert!(restoring.finish(9, 0).durable_state().contains(&hit));
}
