//! Honest nodes beside wicked ones and beside units that kill, told as scripts: what they computed counts, and nothing is held
//! against them. In these stories a unit is a hit of target 1 where 10 divides it. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::Bench;
use common::truth::knows_tens;
use expect_test::{Expect, expect};
use starfarm_scheduler_core::Verdict;

/// The last lines of a story, and how many results of node a could not count.
fn check_after(before: &str, script: &str, expected: Expect) {
    let mut bench = Bench::new(knows_tens());
    bench.run(before);
    let story = bench.run(script);
    let worthless: Vec<String> = bench
        .farm
        .nodes(bench.now_us)
        .iter()
        .map(|node| format!("{}: {} worthless\n", node.name, node.results_worthless))
        .collect();
    expected.assert_eq(&(story + &worthless.concat()));
}

#[test]
fn who_computes_what_a_liar_reported_first_is_heard() {
    check_after(
        "submit 30 search 2 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10 hits 10:1\n ack a\n done a 20+10 hits 20:1\n beat a 0+10
         live 2100 a 0+10 b none\n ack b\n beat b 0+10\n tasks b\n done b 0+5 hits 0:1\n join c slots 4\n beat c none\n ack c",
        "done b 5+2 hits 6:0\n show 1\n ack c\n beat a 0+10\n done a 0+10 hits 0:1\n show 1",
        expect![[r#"
            2100: node b quarantined: it reported a hit that is none
            2100: untrue result in job 1: node b, unit 6: it reported a hit that is none
            2100: copy of [5, 10) of job 1 to node c
            2100: to b: ack results [(2, 3)]; withdraw job 1 kill before 6
            2100: to c: offer job 1: 6=0+5 7=10+10 8=5+5
            2100: job 1 is running: done 10, out 20, waiting 0, resent tasks 1, copies 2, hits [(0, 1), (10, 1), (20, 1)], checked 0, untrue at 6: b false_hit
            2100: to a: answer 4
            2100: job 1 is running: done 20, out 10, waiting 0, resent tasks 1, copies 2, hits [(0, 1), (10, 1), (20, 1)], checked 0, untrue at 6: b false_hit
            a: 0 worthless
            b: 0 worthless
            c: 0 worthless
        "#]],
    );
}

#[test]
fn who_computes_the_units_beside_one_that_kills_is_heard() {
    check_after(
        "submit 30 search 2 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10 hits 10:1\n ack a\n done a 20+10 hits 20:1\n beat a 0+10
         live 2100 a 0+10 b none\n ack b\n beat b 0+10\n drain b\n beat a 0+10 running 5\n hello a boot 77 died 5
         drain a\n join c slots 1\n ack c\n return a 0+10\n hello a boot 78\n done c 0+5 hits 0:1\n ack c
         beat c 0+10 running 5\n hello c boot 78 died 5\n drain c\n join d slots 1\n ack d\n beat d 0+10 running 5
         hello d boot 79 died 5",
        "show 1\n beat b 0+10\n done b 0+10 hits 0:1\n show 1",
        expect![[r#"
            2100: job 1 is running: done 25, out 5, waiting 0, resent tasks 6, copies 1, hits [(0, 1), (10, 1), (20, 1)]
            2100: to b: answer 4
            2100: job 1 finished
            2100: to c: withdraw job 1 kill before 13
            2100: to b: ack results [(2, 2)]; withdraw job 1 kill before 13
            2100: job 1 is finished: done 30, out 0, waiting 0, duplicate 5, resent tasks 6, copies 1, hits [(0, 1), (10, 1), (20, 1)]
            a: 0 worthless
            b: 0 worthless
            c: 0 worthless
            d: 0 worthless
        "#]],
    );
}

/// Each of them would have all tasks of the node looked at, whatever it says of them.
#[test]
fn results_over_a_whole_space_are_judged_as_far_as_their_node_may_have_tasks_looked_at() {
    for what in ["return a 0+4000000000 attempt 0", "done a 0+4000000000 body 01 attempt 0"] {
        let mut bench = Bench::new(knows_tens());
        bench.run("submit 1000000 search 2 targets never units 1\n join a slots 1024 queue 4096\n ack a");
        let judged = |bench: &Bench| {
            let verdicts = bench.farm.verdicts();
            [Verdict::Returned, Verdict::Malformed].map(|of| verdicts.count(of)).iter().sum::<u64>()
        };
        let flood = format!("{what}\n").repeat(1_000);
        bench.run(&flood);
        let at_once = judged(&bench);
        assert!((16..300).contains(&at_once), "{what}: {at_once}");
        bench.run(&flood);
        assert_eq!(judged(&bench), at_once, "{what}");
        bench.run(&format!("live 1000 a none\n{flood}"));
        assert!((at_once + 16..at_once + 300).contains(&judged(&bench)), "{what}: {}", judged(&bench));
    }
}
