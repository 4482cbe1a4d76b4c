//! Why a task has the size that it has.

use starfarm_protocol::units::Units;
use std::fmt::Write;

use expect_test::{Expect, expect};
use starfarm_protocol::admin::Subject;
use starfarm_protocol::ids::JobId;

use super::common::{Bench, config};
use super::explained;

fn or_none(units: Option<Units>) -> String {
    units.map_or("none".to_owned(), |units| units.to_string())
}

/// How the size of the next task was chosen: a line for each job and node.
fn check_sizes(script: &str, subject: &str, expected: Expect) {
    let mut text = String::new();
    for size in &explained(script, subject).sizes {
        writeln!(
            text,
            "job {} on {}: {} by {}; {} units/s{}, {:?} s make {}; grown {}, tail {}, lambda {}",
            size.job.0,
            size.node,
            size.units,
            size.rule.word(),
            size.units_per_s,
            if size.measured { " there" } else { "" },
            size.target_seconds,
            or_none(size.target_units),
            or_none(size.growth_units_max),
            or_none(size.tail_units_max),
            size.units_max
        )
        .unwrap();
    }
    expected.assert_eq(&text);
}

#[test]
fn a_first_size_then_steps_then_the_target_then_the_tail() {
    let join = "submit 100000000 search 1 never\n join a slots 2 queue 8\n ack a";
    check_sizes(
        join,
        "job 1",
        expect![[r#"
            job 1 on a: 65536 by first; 0 units/s, Some(8.0) s make none; grown none, tail 24934464, lambda 131071
        "#]],
    );
    check_sizes(
        &format!("{join}\n done a 0+65536 ms 1"),
        "job 1",
        expect![[r#"
            job 1 on a: 1048576 by growth; 65536000 units/s there, Some(8.0) s make 524288000; grown 1048576, tail 24672320, lambda 2097151
        "#]],
    );
    check_sizes(
        &format!("{join}\n done a 0+65536 ms 1000"),
        "job 1",
        expect![[r#"
            job 1 on a: 524288 by target; 65536 units/s there, Some(8.0) s make 524288; grown 1048576, tail 24279104, lambda 1048575
        "#]],
    );
    let short = "submit 1000000 search 1 never\n join a slots 1 queue 8\n ack a\n done a 0+65536 ms 1000";
    check_sizes(
        short,
        "node a",
        expect![[r#"
            job 1 on a: 217232 by tail; 65536 units/s there, Some(8.0) s make 524288; grown 1048576, tail 217232, lambda 434463
        "#]],
    );
}

#[test]
fn a_size_that_the_user_named_and_a_node_that_is_new() {
    check_sizes(
        "submit 1000 units 10\n join a slots 1\n ack a\n done a 0+10 ms 2000\n join b slots 4",
        "job 1",
        expect![[r#"
            job 1 on b: 10 by fixed; 5 units/s, None s make none; grown none, tail none, lambda 10
            job 1 on a: 10 by fixed; 5 units/s there, None s make none; grown none, tail none, lambda 10
        "#]],
    );
}

/// What explains is what decides: the next task has the size that was told.
#[test]
fn the_size_that_is_told_is_the_size_that_is_given() {
    let mut bench = Bench::new(config());
    bench.run("submit 100000000 search 1 never\n join a slots 1 queue 8\n ack a\n done a 0+65536 ms 1000");
    bench.run("pause 1\n return a 65536+65536\n resume 1");
    let explanation = bench.farm.explain(&Subject::Job(JobId(1)), bench.now_us).unwrap();
    let story = bench.run("ack a\n done a 65536+65536 ms 1000\n done a 131072+524288 ms 8000");
    let told = &explanation.sizes[0].units;
    assert!(story.contains(&format!("+{told}")), "{told} units: {story}");
}
