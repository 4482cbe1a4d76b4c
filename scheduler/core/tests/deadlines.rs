//! Nodes that leave by themselves get what is over before that, told as scripts. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, check, config};
use expect_test::expect;
use starfarm_protocol::admin::Subject;
use starfarm_protocol::ids::JobId;

/// Node b has shown that a unit of job 1 takes a second.
const A_SECOND_EACH: &str = "join b slots 1 queue 2\n ack b\n ran b 0+1 ok ms 1000\n ack b";

#[test]
fn while_nobody_knows_how_long_units_take_each_slot_gets_one_task_and_nothing_ahead() {
    check(
        "submit 100 command units 5\n join a slots 2 queue 8 left 60000\n ack a\n left a 100
         ran a 0+5 ok,ok,ok,ok,ok ms 20000",
        expect![[r#"
            0: job 1 submitted: 100 units
            0: node a joined: 2 slots, boot 0000000000000001
            0: node a leaves by itself in 60 s
            0: to a: welcome epoch 1
            0: job 1 running
            0: to a: offer job 1: 1=0+5 2=5+5
        "#]],
    );
}

#[test]
fn tasks_are_cut_so_that_they_are_over_in_time() {
    let script = |left: &str| {
        let mut bench = Bench::new(config());
        bench.run(&format!("submit 1000 command target 8\n {A_SECOND_EACH}"));
        bench.run(&format!("join a slots 1 queue 8 {left}"));
        let offers = bench.run("ack a");
        let held = bench.farm.picture(bench.now_us).held;
        let units = held
            .iter()
            .filter(|held| held.node.as_deref() == Some("a"))
            .map(|held| held.hi - held.lo)
            .sum::<u128>();
        (units, offers)
    };
    assert!(script("").0 > 8, "work ahead");
    assert!(script("left 3000").0 <= 3, "{:?}", script("left 3000"));
    assert_eq!(script("left 900").0, 0);
}

#[test]
fn tasks_of_a_size_that_the_user_named_are_not_begun_when_they_would_not_be_over() {
    let mut bench = Bench::new(config());
    bench.run("submit 100 command units 5\n join b slots 1 queue 2\n ack b\n ran b 0+5 ok,ok,ok,ok,ok ms 5000\n ack b");
    let story =
        bench.run("join a slots 2 queue 8 left 4900\n tasks a\n join c slots 2 queue 8 left 10500\n tasks c");
    expect![[r#"
        0: node a joined: 2 slots, boot 0000000000000001
        0: node a leaves by itself in 5 s
        0: to a: welcome epoch 1
        0: a has 0 tasks
        0: node c joined: 2 slots, boot 0000000000000001
        0: node c leaves by itself in 10 s
        0: to c: welcome epoch 1; offer job 1: 4=15+5 5=20+5 6=25+5 7=30+5
        0: c has 4 tasks
    "#]]
    .assert_eq(&story);
    let told = bench.farm.explain(&Subject::Node("a".into()), bench.now_us).unwrap();
    expect!["Work(NoTime { left_us: 4900000 })"].assert_eq(&format!("{:?}", told.reasons[told.verdict]));
    // With nobody else there the job waits, and says what for.
    bench.run("bye b\n bye c");
    let told = bench.farm.explain(&Subject::Job(JobId(1)), bench.now_us).unwrap();
    expect!["Job(NoTime)"].assert_eq(&format!("{:?}", told.reasons[told.verdict]));
    assert!(bench.run("join d slots 1").contains("to d: welcome epoch 1; offer job 1"));
}

/// What came back of a task would else be given whole, up to twice the size of a new one.
#[test]
fn what_came_back_is_cut_as_well() {
    let mut bench = Bench::new(config());
    bench.run(&format!("submit 1000 command target 8\n {A_SECOND_EACH}\n bye b"));
    assert!(bench.run("tasks b").contains("0 tasks"));
    let offers = bench.run("join a slots 1 queue 8 left 5000");
    // In gq are 1+1, and from 2 on tasks of eight.
    assert!(offers.contains("offer job 1: ") && !offers.contains("+8"), "{offers}");
    let held = bench.farm.picture(bench.now_us).held;
    assert!(held.iter().all(|held| held.hi - held.lo <= 5), "{held:?}");
}

#[test]
fn nobody_gets_a_copy_that_would_not_be_over_in_time() {
    let copied = |left: &str| {
        let mut bench = Bench::new(config());
        bench.run(
            "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
             join b slots 1\n ack b\n done b 10+10\n ack a\n done a 20+10\n beat a 0+10\n at 20\n bye b",
        );
        bench.run(&format!("join c slots 1 queue 8 {left}\n live 6000 a 0+10 c none")).contains("copy of")
    };
    assert_eq!([copied(""), copied("left 9000"), copied("left 2500")], [true, true, false]);
}

/// It is no death, no refusal, and nothing that somebody who hoards would do.
#[test]
fn a_node_that_leaves_in_time_is_not_blamed_and_its_units_lose_no_retry() {
    let mut bench = Bench::new(config());
    bench.run("submit 9000 command units 1 retries 0\n join a slots 70 queue 100 left 600000\n ack a");
    let held = bench.farm.picture(bench.now_us).held;
    let (lo, hi) = (held[0].lo, held[0].hi);
    assert!(hi - lo >= 70, "it has more than what makes a node suspicious: {lo} {hi}");
    bench.run("left a 20000 work 0\n beat a none draining");
    for unit in lo..hi {
        bench.run(&format!("return a {unit}+1"));
    }
    bench.run("beat a none draining\n beat a none draining\n beat a none draining");
    let story = bench.run("bye a\n nodes\n show 1");
    assert!(!story.contains("quarantined"), "{story}");
    let jobs = bench.farm.jobs(bench.now_us);
    assert_eq!((jobs[0].units_failed.0, jobs[0].units_pending.0), (0, 9_000));
    // The same machine in its next allocation, at once.
    assert!(bench.run("join a boot 2 slots 70 queue 100").contains("offer job 1"));
}

#[test]
fn another_incarnation_has_no_deadline_unless_it_says_so() {
    let mut bench = Bench::new(config());
    bench.run(&format!("submit 1000 command target 8\n {A_SECOND_EACH}"));
    let left = |bench: &mut Bench| bench.farm.nodes(bench.now_us)[0].time_left_seconds;
    bench.run("join a slots 1 left 3000\n at 1000");
    assert_eq!(left(&mut bench), Some(2.0));
    bench.run("left a 10000 work 5000");
    assert_eq!(left(&mut bench), Some(10.0));
    bench.run("join a boot 2 slots 1");
    assert_eq!(left(&mut bench), None);
    // Numbers beyond sense are no harm.
    bench.run(&format!("left a {} work 0", u64::MAX / 1_000));
    assert!(left(&mut bench).is_some());
}
