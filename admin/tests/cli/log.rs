//! `starfarm log`, as a user or a script sees it, over logs that the real writer wrote. What a replay finds is
//! tested where it is found.

use starfarm_protocol::job::JobState;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use starfarm_events::{Event, JobInfo, NodeInfo, NodeState, Outcome, Sample, Snapshot};
use starfarm_logs::{Limits, LogWriter};
use starfarm_protocol::ids::{Boot, Epoch, FarmId, JobId};
use starfarm_protocol::journal::record::JobTotals;
use starfarm_protocol::units::Units;

use crate::program::Folder;
use crate::schemas::Schemas;

/// 2026-11-21, 12:00 UTC.
const NOON_US: u64 = 1_795_262_400_000_000;

fn at(seconds: u64) -> u64 {
    NOON_US + seconds * 1_000_000
}

fn picture() -> Snapshot {
    let node = |name: &str| NodeInfo {
        name: name.into(),
        boot: Some(Boot(1)),
        joined_us: NOON_US,
        heard_us: Some(NOON_US),
        slots: 2,
        tasks: 4,
        tasks_queued: 2,
        power: 1.5,
        load: vec![900, 300],
        system: Some("lab Linux 6.12".into()),
        cores: Some(2),
        ..NodeInfo::default()
    };
    let job = JobInfo {
        id: JobId(1),
        name: "keys".into(),
        user: "ada".into(),
        state: JobState::Running,
        units_total: Units(1_000),
        units_out: Units(80),
        units_pending: Units(920),
        totals: JobTotals {
            submitted_us: NOON_US,
            started_us: Some(NOON_US),
            dispatched: 8,
            ..JobTotals::default()
        },
        ..JobInfo::default()
    };
    let sample = Sample { nodes_up: 2, nodes: 2, slots: 4, dq: 8, jq: 1, ..Sample::default() };
    Snapshot { sample, jobs: vec![job], nodes: ["a", "b\u{1b}[2J"].map(node).into(), held: Vec::new() }
}

/// A log of ten minutes: node a computes all the time, the other one is lost after two. Says where its folder is.
fn write_log(folder: &Folder) -> PathBuf {
    let dir = folder.path().join("log");
    let mut writer = LogWriter::open(&dir, FarmId([9; 16]), Epoch(1), Limits::default()).unwrap();
    writer.begin(at(0), at(0), 0, &picture()).unwrap();
    let lost = "b\u{1b}[2J";
    for second in (10..=600).step_by(10) {
        let lo = u128::from(second);
        let tasks = Event::Tasks {
            node: "a".into(),
            job: JobId(1),
            lo,
            hi: lo + 10,
            results: 2,
            outcome: Outcome::Counted,
            given_us: None,
            begun_us: at(second - 10),
            ended_us: at(second),
            busy_us: 20_000_000,
        };
        writer.event(at(second), &tasks).unwrap();
        if second == 120 {
            let state = Event::NodeState { node: lost.into(), state: NodeState::Lost, why: None };
            writer.event(at(second), &Event::NodeLost { node: lost.into(), tasks: 4 }).unwrap();
            writer.event(at(second), &state).unwrap();
        }
        writer.event(at(second), &Event::Sampled(picture().sample)).unwrap();
    }
    writer.close(at(600), at(600)).unwrap();
    dir
}

fn segment(folder: &Folder) -> PathBuf {
    fs::read_dir(folder.path().join("log")).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn a_replay_in_the_terminal() {
    let folder = Folder::new();
    write_log(&folder);
    let text = folder.run("log replay FARM/log").with(0);
    assert!(!text.contains('\u{1b}'), "neither colours nor what a node is called");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.lines().count() <= 50, "{text}");
    for words in [
        "log complete",
        "10 min 00 s",
        "keys",
        ", 120 results\n",
        "12:02:00  node b\\u{1b}[2J lost: 4 tasks back to gq",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    let share =
        |row: &str, glyph| row.matches(glyph).count() as f64 / row.matches(['█', '░', 'X']).count() as f64;
    assert!(share(&row("a "), '█') > 0.99, "{text}");
    // Lost from 2 of 10 minutes on: the picture says it to a column.
    assert!((share(&row("b\\u"), 'X') - 0.8).abs() < 0.03, "{text}");
    let colored = folder.run("--color always log replay FARM/log").with(0);
    assert!(colored.contains("\u{1b}[38;5;166mX"));
}

#[test]
fn documents_of_a_log_keep_to_their_schemas() {
    let (folder, schemas) = (Folder::new(), Schemas::load());
    write_log(&folder);
    for (command, schema) in [
        ("log replay FARM/log", "log-replay"),
        ("log replay FARM/log --at 12:03", "log-state"),
        ("log validate FARM/log", "log-validation"),
    ] {
        let json = folder.run(&format!("--output json {command}")).with(0);
        schemas.check(schema, &json);
        schemas.check(schema, &folder.run(&format!("--output jsonl {command}")).with(0));
        assert_eq!(folder.run(&format!("--output quiet {command}")).with(0), "");
    }
}

#[test]
fn the_state_at_a_moment() {
    let folder = Folder::new();
    write_log(&folder);
    let at = |time: &str| -> Value {
        let line = format!("--output json log replay FARM/log --at {time}");
        serde_json::from_str(&folder.run(&line).with(0)).unwrap()
    };
    for (time, state) in
        [("12:01:59", "up"), ("+2m", "lost"), ("2026-11-21T12:09:00Z", "lost"), ("23:00", "lost")]
    {
        assert_eq!(at(time)["nodes"][1]["state"], state, "{time}");
    }
    assert_eq!(at("23:00")["at"], "2026-11-21T12:10:00.000000Z");
    let table = folder.run("log replay FARM/log --at 12:03").with(0);
    assert!(table.contains("lost") && table.contains("60 %") && !table.contains('\u{1b}'), "{table}");
    let early = folder.run("log replay FARM/log --at 11:00").failed_with(2);
    assert!(early.contains("begins at 2026-11-21T12:00:00"), "{early}");
    assert!(folder.run("log replay FARM/log --at soon").stderr.contains("+2h30m"));
    assert_eq!(folder.run("log replay FARM/log --from +5m --to +1m").code, Some(2));
}

#[test]
fn a_page_stands_in_its_place_whole_or_not_at_all() {
    let folder = Folder::new();
    let log = write_log(&folder);
    let page = folder.path().join("page.html");
    fs::write(&page, "what was there").unwrap();
    let ended = folder.run("log replay FARM/log --html FARM/page.html");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:?}");
    assert!(fs::read_to_string(&page).unwrap().contains("starfarm-report/1"));
    assert!(folder.run("log replay FARM/log --html FARM/page.html --text").with(0).contains("log complete"));
    let segment = segment(&folder);
    let before = fs::read(&segment).unwrap();
    let onto = format!("log replay FARM/log --html {}", segment.display());
    assert!(folder.run(&onto).failed_with(2).contains("part of the log itself"));
    assert!(folder.run("log replay FARM/log --html FARM/log").failed_with(2).contains("is a directory"));
    assert!(folder.run("log replay FARM/log --html -").failed_with(2).contains("`-` is no file"));
    assert!(
        folder.run("log export FARM/log --format tsv --out /dev/null").failed_with(2).contains("name a file")
    );
    assert!(
        folder
            .run("log export FARM/log --format tsv --out FARM/no/where")
            .failed_with(2)
            .contains("cannot write")
    );
    assert_eq!(fs::read(&segment).unwrap(), before);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".part")), "{left:?}");
    assert_eq!(fs::read_dir(log).unwrap().count(), 1);
}

#[test]
fn a_log_that_is_cut_is_shown_to_the_cut() {
    let folder = Folder::new();
    write_log(&folder);
    let segment = segment(&folder);
    let text = fs::read_to_string(&segment).unwrap();
    fs::write(&segment, &text[..text.len() / 2]).unwrap();
    let ended = folder.run("log replay FARM/log");
    assert_eq!(ended.stderr, "", "it is told once");
    let shown = ended.with(0);
    assert!(shown.contains("log not complete") && shown.matches("note: ").count() == 1, "{shown}");
    for elsewhere in ["--output quiet log replay FARM/log", "log replay FARM/log --at 23:00"] {
        let said = folder.run(elsewhere).stderr;
        assert!(said.starts_with("starfarm: ") && said.contains("line"), "{elsewhere}: {said}");
    }
    let json: Value = serde_json::from_str(&folder.run("--output json log replay FARM/log").with(0)).unwrap();
    assert_eq!(json["complete"], false);
    let ended = folder.run("log export FARM/log --format jsonl");
    assert!(!ended.stderr.is_empty());
    let last: Value = serde_json::from_str(ended.with(0).lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "note");
    assert_eq!(folder.run("log validate FARM/log").code, Some(2));
}

#[test]
fn what_is_no_log_is_told() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("empty")).unwrap();
    fs::create_dir(folder.path().join("begun")).unwrap();
    fs::write(folder.path().join("begun/00000001-000001.xml.part"), "").unwrap();
    for command in ["replay", "export --format tsv", "export --format jsonl", "replay --at 12:00"] {
        let said = folder.run(&format!("log {command} FARM/begun")).failed_with(2);
        assert!(said.contains("the log is empty"), "{command}: {said}");
    }
    fs::write(folder.path().join("garbage.xml"), b"\x00\xff garbage").unwrap();
    fs::write(folder.path().join("bomb.xml"), "<!DOCTYPE a [<!ENTITY b \"c\">]><log/>").unwrap();
    fs::write(folder.path().join("other.xml"), "<log xmlns=\"urn:starfarm:log:9\" version=\"9\"/>").unwrap();
    for what in ["empty", "garbage.xml", "bomb.xml", "other.xml", "nowhere"] {
        for command in ["replay", "validate", "export --format tsv", "replay --at 12:00"] {
            let ended = folder.run(&format!("log {command} FARM/{what}"));
            assert_eq!(ended.code, Some(2), "{command} {what}: {ended:?}");
            assert!(
                ended.stderr.starts_with("starfarm: ") && ended.stderr.len() > 40,
                "{command} {what}: {ended:?}"
            );
        }
    }
}

#[test]
fn exports_go_where_they_are_sent() {
    let folder = Folder::new();
    write_log(&folder);
    let rows = folder.run("log export FARM/log --format tsv").with(0);
    assert_eq!((rows.lines().count(), rows.lines().nth(1).unwrap().split('\t').nth(1)), (61, Some("a")));
    assert_eq!(folder.run("log export FARM/log --format tsv --out FARM/rows.tsv").with(0), "");
    assert_eq!(fs::read_to_string(folder.path().join("rows.tsv")).unwrap(), rows);
    folder.run("log export FARM/log --format perfetto --out FARM/trace").with(0);
    assert_eq!(fs::read(folder.path().join("trace")).unwrap()[0], 0x0a, "a packet of a trace");
    let schema = folder.run("log schema").with(0);
    assert!(schema.contains("urn:starfarm:log:1") && schema.ends_with('\n'));
    let mut command = folder.command("log export FARM/log --format jsonl");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(
        (child.wait().unwrap().code(), said.as_str()),
        (Some(0), ""),
        "a reader that leaves is no error"
    );
}
