//! Explanations, a story for each reason: why a job waits, why a node idles or is kept out, why a size was chosen.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod jobs;
mod nodes;
mod sizes;

use std::fmt::Write;

use common::{Bench, config};
use expect_test::Expect;
use starfarm_protocol::admin::Explanation;
use starfarm_protocol::ids::JobId;

/// What is said of `job N` or of `node NAME` after the script.
fn explained(script: &str, subject: &str) -> Explanation {
    let mut bench = Bench::new(config());
    bench.run(script);
    match subject.split_once(' ').unwrap() {
        ("job", id) => bench.farm.explain_job(JobId(id.parse().unwrap()), bench.now_us),
        (_, name) => bench.farm.explain_node(name, bench.now_us),
    }
    .unwrap()
}

/// The verdict, and each reason behind its code.
fn check(script: &str, subject: &str, expected: Expect) {
    let explanation = explained(script, subject);
    let mut text = explanation.verdict + "\n";
    for reason in &explanation.reasons {
        writeln!(text, "{}: {}", reason.code, reason.text).unwrap();
    }
    expected.assert_eq(&text);
}

#[test]
fn what_is_not_there_is_not_explained() {
    let mut bench = Bench::new(config());
    bench.run("join a slots 1\n submit 10");
    assert_eq!(bench.farm.explain_job(JobId(2), bench.now_us), None);
    assert_eq!(bench.farm.explain_node("b", bench.now_us), None);
}
