//! The plan of a tree: its fuzzy strategy against a second implementation, which computes with fractions.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use starfarm_e2e::has;
use starfarm_overlay_core::plan::fuzzy::{deal, judge};
use starfarm_overlay_core::plan::{Features, Operator, Weights};
use starfarm_protocol::random::SplitMix64;

/// Values of all kinds, breakpoints and their neighbours among them.
fn value(next: &mut impl FnMut(u64) -> u64, most: u64, points: [u64; 4]) -> u64 {
    match next(3) {
        0 => points[next(4) as usize] + next(3) - 1,
        _ => next(most),
    }
}

fn host(next: &mut impl FnMut(u64) -> u64, cards: bool) -> Features {
    Features {
        free_cores: value(next, 6_000, [500, 1_000, 2_000, 4_000]),
        idle: value(next, 1_001, [100, 300, 600, 900]),
        free_memory: value(next, 20_000, [250, 1_000, 4_000, 16_000]),
        link: value(next, 30_000, [100, 1_000, 10_000, 25_000]),
        accelerators_idle: (cards && next(2) == 0).then(|| value(next, 1_001, [100, 300, 600, 900])),
    }
}

#[test]
fn scores_grades_and_deals_are_those_of_the_second_implementation() {
    if !has("python3", "scores_grades_and_deals_are_those_of_the_second_implementation") {
        return;
    }
    let (mut random, mut cases, mut ours) = (SplitMix64(7), String::new(), String::new());
    let mut next = |below| random.below(below);
    for _ in 0..400 {
        let (hosts, cards) = (1 + next(9), next(2) == 0);
        let hosts: Vec<Features> = (0..hosts).map(|_| host(&mut next, cards)).collect();
        let standing: Vec<u32> = hosts.iter().map(|_| next(4) as u32).collect();
        let may_take: Vec<u32> = hosts.iter().map(|_| next(7) as u32).collect();
        let more = next(20) as u32;
        let operator = if next(2) == 0 { Operator::WeightedSum } else { Operator::MaxMin };
        let word = if operator == Operator::MaxMin { "max-min" } else { "sum" };
        write!(cases, "{more} {word}").unwrap();
        for (at, host) in hosts.iter().enumerate() {
            let Features { free_cores, idle, free_memory, link, accelerators_idle } = host;
            let cards = accelerators_idle.map_or("-".to_owned(), |idle| idle.to_string());
            write!(
                cases,
                " {free_cores},{idle},{free_memory},{link},{cards},{},{}",
                standing[at], may_take[at]
            )
            .unwrap();
        }
        cases.push('\n');
        let judged = judge(&hosts, &Weights { operator, ..Weights::default() });
        let dealt = deal(&judged, &standing, &may_take, more);
        let each = judged.iter().zip(dealt).map(|(j, cps)| format!("{},{},{cps}", j.score, j.grade.word()));
        ours += &(each.collect::<Vec<_>>().join(" ") + "\n");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tree/fuzzy.py");
    let mut python = Command::new("python3");
    let mut python = python.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all(cases.as_bytes()).unwrap();
    let theirs = String::from_utf8(python.wait_with_output().unwrap().stdout).unwrap();
    for ((case, ours), theirs) in cases.lines().zip(ours.lines()).zip(theirs.lines()) {
        assert_eq!(ours, theirs, "{case}");
    }
    assert_eq!(theirs.lines().count(), 400);
}
