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
use starfarm_protocol::admin::{Explanation, Subject};
use starfarm_protocol::ids::JobId;

/// What is said of `job N` or of `node NAME` after the script.
fn explained(script: &str, subject: &str) -> Explanation {
    let mut bench = Bench::new(config());
    bench.run(script);
    let subject = match subject.split_once(' ').unwrap() {
        ("job", id) => Subject::Job(JobId(id.parse().unwrap())),
        (_, name) => Subject::Node(name.into()),
    };
    bench.farm.explain(&subject, bench.now_us).unwrap()
}

/// The reasons, the one that decides behind a star.
fn told(explanation: &Explanation) -> String {
    let mut text = String::new();
    for (place, reason) in explanation.reasons.iter().enumerate() {
        let mark = if place == explanation.verdict { '*' } else { '-' };
        writeln!(text, "{mark} {reason:?}").unwrap();
    }
    text
}

fn check(script: &str, subject: &str, expected: Expect) {
    expected.assert_eq(&told(&explained(script, subject)));
}

#[test]
fn what_is_not_there_is_not_explained() {
    let mut bench = Bench::new(config());
    bench.run("join a slots 1\n submit 10");
    assert_eq!(bench.farm.explain(&Subject::Job(JobId(2)), bench.now_us), None);
    assert_eq!(bench.farm.explain(&Subject::Node("b".into()), bench.now_us), None);
}
