//! Jobs whose runs take several slots, or memory, told as scripts.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, check, config};
use expect_test::expect;
use starfarm_protocol::admin::{Reason, Subject};
use starfarm_protocol::ids::JobId;

/// The reason that decides, and all of them.
fn why(bench: &Bench, subject: &Subject) -> (Reason, String) {
    let told = bench.farm.explain(subject, bench.now_us).unwrap();
    (told.reasons[told.verdict].clone(), format!("{:?}", told.reasons))
}

#[test]
fn a_node_gets_as_many_wide_units_as_run_at_once_and_what_keeps_it_from_waiting() {
    check(
        "submit 100 command units 1 takes 4 memory 2\n join a slots 9 queue 64 memory 100",
        expect![[r#"
            0: job 1 submitted: 100 units
            0: node a joined: 9 slots, boot 0000000000000001
            0: to a: welcome epoch 1
            0: job 1 running
            0: to a: job 1 takes 4 slots, 2 of memory; offer job 1: 1=0+1 2=1+1 3=2+1 4=3+1
        "#]],
    );
}

#[test]
fn a_node_that_is_too_small_gets_nothing_and_all_say_why() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 8 command units 1 takes 4 memory 10\n join a slots 2 memory 100\n join b slots 4 memory 9",
    );
    bench.run("join c slots 8");
    assert!(bench.run("tasks a\n tasks b\n tasks c").lines().all(|line| line.ends_with("has 0 tasks")));
    let (verdict, all) = why(&bench, &Subject::Job(JobId(1)));
    expect![[r#"
        Job(FitsNowhere { needs: [(Slots, 4), (Memory, 10)] })
        [Job(FitsNowhere { needs: [(Slots, 4), (Memory, 10)] }), Job(TooSmall { node: "a", lack: Lack { resource: Slots, needs: 4, has: 2 } }), Job(TooSmall { node: "b", lack: Lack { resource: Memory, needs: 10, has: 9 } }), Job(TooSmall { node: "c", lack: Lack { resource: Memory, needs: 10, has: 0 } })]"#]].assert_eq(&format!("{verdict:?}\n{all}"));
    let (verdict, all) = why(&bench, &Subject::Node("a".into()));
    expect![[r#"
        Work(TooSmall)
        [Work(TooSmall), Offer(JobId(1), TooSmall { lack: Lack { resource: Slots, needs: 4, has: 2 } })]"#]]
    .assert_eq(&format!("{verdict:?}\n{all}"));
    // A large one takes it; that a small one cannot is still told.
    let story = bench.run("join d slots 4 memory 10");
    assert!(story.contains("job 1 takes 4 slots, 10 of memory; offer job 1"), "{story}");
    assert!(why(&bench, &Subject::Job(JobId(1))).1.contains("TooSmall { node: \"a\""));
}

#[test]
fn a_small_job_behind_fills_what_a_wide_one_leaves_and_no_more() {
    let mut bench = Bench::new(config());
    bench.run("submit 1000 command units 1 takes 4\n submit 1000 command units 1\n join a slots 6 queue 64");
    let held = |bench: &mut Bench, job: u64| {
        let held = bench.farm.picture(bench.now_us).held;
        let of_job = held.iter().filter(|held| held.job == JobId(job));
        of_job.map(|held| held.hi - held.lo).sum::<u128>()
    };
    let (wide, small) = (held(&mut bench, 1), held(&mut bench, 2));
    assert!((1..=3).contains(&wide) && (2..=6).contains(&small), "{wide} wide, {small} small");
    // Where the wide one leaves no gap it goes first.
    bench.run("join b slots 4 queue 64");
    assert_eq!(held(&mut bench, 2), small);
}

/// Long queues of short tasks would else keep a wide job out for ever, since each that ends makes room for one of its kind.
#[test]
fn a_wide_job_gets_its_place_on_a_node_whose_window_small_ones_have_filled() {
    let mut bench = Bench::new(config());
    bench.run("submit 100000 command units 1\n join a slots 4 queue 64\n ack a");
    for unit in 0..40 {
        bench.run(&format!("ran a {unit}+1 ok ms 10\n ack a"));
    }
    let story = bench.run("submit 10 command units 1 takes 4 now\n ran a 40+1 ok ms 10");
    assert!(story.contains("job 2 takes 4 slots, 0 of memory; offer job 2"), "{story}");
}

#[test]
fn what_a_run_takes_outlives_the_scheduler() {
    let mut bench = Bench::new(config());
    bench.run("submit 8 command units 1 takes 4 memory 10\n restart");
    let story = bench.run("join a slots 3 memory 10\n tasks a\n join b slots 4 memory 10");
    assert!(
        story.contains("a has 0 tasks") && story.contains("job 1 takes 4 slots, 10 of memory"),
        "{story}"
    );
}

#[test]
fn another_incarnation_has_the_memory_that_it_tells_of() {
    let mut bench = Bench::new(config());
    bench.run("submit 8 command units 1 memory 10\n join a slots 1 memory 10");
    assert!(bench.run("tasks a").contains("a has 2 tasks"));
    assert!(bench.run("join a boot 2 slots 1\n tasks a").contains("a has 0 tasks"), "it tells of none");
    assert!(bench.run("join a boot 3 slots 1 memory 9\n tasks a").contains("a has 0 tasks"));
    assert!(bench.run("join a boot 4 slots 1 memory 10\n tasks a").contains("a has 2 tasks"));
}

/// A wide unit that kills its machine is alone on its slots: what waited behind it is innocent.
#[test]
fn deaths_are_charged_to_what_fits_beside_each_other() {
    let charged = |takes: u64| {
        let mut bench = Bench::new(config());
        bench.run(&format!(
            "submit 8 command units 1 takes {takes}\n join a slots 4 queue 8\n ack a\n at 30000"
        ));
        let told = bench.farm.explain(&Subject::Job(JobId(1)), bench.now_us).unwrap();
        told.reasons.iter().filter(|reason| format!("{reason:?}").contains("SuspectUnit")).count()
    };
    assert_eq!([charged(4), charged(2)], [1, 2]);
}

/// Slots of nodes without that memory are no places of it: it would seem faster, and its tasks be cut up too early.
#[test]
fn a_job_is_as_fast_as_the_nodes_that_have_what_it_needs() {
    let mut bench = Bench::new(config());
    bench.run("submit 100 command units 1 memory 2\n join a slots 8 memory 4\n join b slots 8\n ack a");
    bench.run("at 1000\n ran a 0+1 ok ms 1000");
    assert_eq!(bench.farm.job(JobId(1), bench.now_us).unwrap().units_per_s, 2.0);
}
