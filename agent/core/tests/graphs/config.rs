//! What a file adds to a graph: all of it, or nothing, and what is wrong with it and where.

use starfarm_agent_core::config::{At, Config, EdgeEntry, StageEntry, TimerEntry};
use starfarm_agent_core::{PURE, Runtime, When};

use crate::common::*;

/// Places are counted on: each thing stands a byte behind the one before.
struct Writer(usize);

impl Writer {
    fn at<T>(&mut self, of: T) -> At<T> {
        self.0 += 1;
        At(self.0, of)
    }

    fn text(&mut self, of: &str) -> At<String> {
        self.at(of.to_owned())
    }
}

/// `name:type` and settings `key=value`; `from > to`; `name/period: subscribers`, or `name/+after` or `name/@at` in its place.
fn config(text: &str) -> Config {
    let (mut config, mut writer) = (Config::default(), Writer(0));
    for line in text.split(';').map(str::trim).filter(|line| !line.is_empty()) {
        if let Some((from, to)) = line.split_once(" > ") {
            config.edges.push(EdgeEntry { from: writer.text(from), to: writer.text(to) });
        } else if let Some((timer, rest)) = line.split_once('/') {
            let (period, subscribers) = rest.split_once(':').unwrap();
            let when = match (period.strip_prefix('+'), period.strip_prefix('@')) {
                (Some(us), _) => When::After(us.parse().unwrap()),
                (_, Some(us)) => When::At(us.parse().unwrap()),
                _ => When::Every(period.parse().unwrap()),
            };
            let (name, when) = (writer.text(timer), writer.at(when));
            let subscribers = subscribers.split_whitespace().map(|name| writer.text(name)).collect();
            config.timers.push(TimerEntry { name, when, subscribers });
        } else {
            let mut words = line.split_whitespace();
            let (name, type_name) = words.next().unwrap().split_once(':').unwrap();
            let (name, type_name) = (writer.text(name), writer.text(type_name));
            let set =
                |word: &str| word.split_once('=').map(|(key, value)| (writer.text(key), value.to_owned()));
            let settings = words.filter_map(set).collect();
            config.stages.push(StageEntry { name, type_name, settings });
        }
    }
    config
}

fn graph(runtime: &Runtime) -> (usize, usize, usize) {
    (runtime.stages().len(), runtime.edges().len(), runtime.timers().len())
}

#[test]
fn what_a_file_says_is_made_and_can_be_taken_back() {
    let (mut runtime, seen) = smallest();
    let before = graph(&runtime);
    let config = config(
        "only:filter match=cpu; numbered:prepend post=7; cpu.out-u64 > only.in; only.out > numbered.in; \
         numbered.out > up.more; second/1000000: only",
    );
    let applied = config.apply(&mut runtime, 0).unwrap();
    assert_eq!(graph(&runtime), (before.0 + 2, before.1 + 3, 1));
    every(&mut runtime, "own", SECOND, &["cpu"]);
    run_to(&mut runtime, SECOND);
    assert!(seen.take().iter().any(|line| line.ends_with("1002=7 1=1")), "it is of the post that was set");
    applied.end(&mut runtime, SECOND);
    assert_eq!(graph(&runtime), (before.0, before.1, 1), "the timer `own` is another's");
}

#[test]
fn timers_of_a_file_that_fire_once_go_by_the_farms_clock_once_that_is_known() {
    let (mut runtime, _) = smallest();
    let stages = "at:blackhole; ";
    let config = |timers: &str| config(&format!("{stages}{timers}"));
    // The file is taken up before anybody has told the clock.
    let applied =
        config("later/+5000000: at; moment/@107000000: at; passed/@99000000: at").apply(&mut runtime, 0);
    let applied = applied.unwrap();
    applied.on_clock(&mut runtime, 100 * SECOND);
    assert_eq!(runtime.next_due_us(), Some(105 * SECOND));
    runtime.on_time(105 * SECOND);
    assert_eq!(runtime.next_due_us(), Some(107 * SECOND));
    runtime.on_time(107 * SECOND);
    assert_eq!(runtime.next_due_us(), Some(u64::MAX), "what has passed does not fire");
    assert!(runtime.timers().iter().all(|timer| timer.period_us.is_none()));
    applied.end(&mut runtime, 108 * SECOND);
    // Where the clock is known there is nothing to wait for.
    let applied =
        config("later/+5000000: at; passed/@99000000: at").apply(&mut runtime, 200 * SECOND).unwrap();
    assert_eq!(runtime.next_due_us(), Some(205 * SECOND));
    applied.end(&mut runtime, 200 * SECOND);
    assert_eq!(runtime.next_due_us(), None);
}

#[test]
fn a_file_that_is_half_right_leaves_nothing_behind() {
    let cases = [
        ("a:filter; b:colour", 4, "there is no type of stages `colour`"),
        ("a:filter; a:filter", 3, "another stage is named `a`"),
        ("cpu:filter", 1, "another stage is named `cpu`"),
        ("a:filter match=colour", 3, "`match` is an id's number"),
        ("a:filter color=blue", 3, "`filter` has no setting `color`"),
        ("a:filter; a.out > nobody.in", 4, "there is no stage `nobody`"),
        ("a:filter; nobody.out > a.in", 3, "there is no stage `nobody`"),
        ("a:filter; a > a.in", 3, "write STAGE.OUTPUT"),
        ("a:filter; a.out > a", 4, "write STAGE.INPUT"),
        ("a:filter; a.left > up.in", 3, "`filter` has one output, `out`, not `left`"),
        ("a:filter; a.out > cpu.in", 3, "a sensor has no inputs"),
        ("a:filter; b:filter; a.out > b.in; b.out > a.in", 7, "would close a ring"),
        ("a:filter; cpu.out-u64 > a.in; cpu.out-u64 > a.in", 5, "that edge is there already"),
        ("a:filter; t/0: a", 4, "a period is 0.01 seconds at least"),
        ("a:filter; t/10000: a; t/20000: a", 6, "another timer is named `t`"),
        ("a:filter; own/10000: a", 3, "another timer is named `own`"),
        ("a:filter; t/10000: a nobody", 6, "`nobody` is none"),
        ("a:filter; t/10000: cpu", 5, "`cpu` is none"),
    ];
    for (text, at, why) in cases {
        let (mut runtime, _) = smallest();
        every(&mut runtime, "own", SECOND, &["cpu"]);
        let before = graph(&runtime);
        let wrong = config(text).apply(&mut runtime, 0).unwrap_err();
        assert!(wrong.at == at && wrong.why.contains(why), "{text}: {wrong:?}");
        assert_eq!(graph(&runtime), before, "{text}");
    }
}

#[test]
fn types_are_of_modules_that_the_file_names() {
    let mut of = config("a:filter");
    assert_eq!(of.check_modules(&PURE), Ok(()), "all that are compiled in");
    let mut check = |modules: &[&str]| {
        of.modules =
            Some(modules.iter().enumerate().map(|(n, name)| At(10 + n, (*name).to_owned())).collect());
        of.check_modules(&PURE).map_err(|wrong| (wrong.at, wrong.why))
    };
    assert_eq!(check(&["rate", "filter", "./libpower.so"]), Ok(()));
    let (at, why) = check(&["rate", "colour"]).unwrap_err();
    assert!(at == 11 && why.contains("there is no module `colour`"), "{why}");
    let (at, why) = check(&["rate"]).unwrap_err();
    assert!(at == 2 && why.contains("add that to `modules`"), "{why}");
}
