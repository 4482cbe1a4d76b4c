//! The screen at three sizes, kept as text.

use expect_test::expect_file;
use starfarm_protocol::admin::{AlarmInfo, JobUsage, NodeUsage, Spread};
use starfarm_protocol::link::AlarmLevel;

use super::*;
use crate::commands::top::columns::{bar_of, shares};

#[test]
fn the_tables_on_a_usual_terminal() {
    expect_file!["screens/80x24.txt"].assert_eq(&Seat::new(false, 80, 24).screen());
}

#[test]
fn the_tables_on_a_large_terminal() {
    let mut seat = Seat::new(false, 120, 40);
    seat.press("<tab>s");
    expect_file!["screens/120x40.txt"].assert_eq(&seat.screen());
}

#[test]
fn the_tables_on_a_small_terminal() {
    expect_file!["screens/60x15.txt"].assert_eq(&Seat::new(true, 60, 15).screen());
}

#[test]
fn a_job_alone() {
    let mut seat = Seat::new(false, 80, 40);
    seat.press("<enter>");
    seat.sees(Picture { whole: Some(whole(job_4())), ..picture() });
    expect_file!["screens/job.txt"].assert_eq(&seat.screen());
}

#[test]
fn a_node_alone() {
    let mut seat = Seat::new(false, 80, 40);
    seat.press("<tab>s<home><enter>");
    let lab_3 = Subject::Node("lab-3".into());
    seat.sees(Picture { whole: Some(whole(lab_3)), ..picture() });
    expect_file!["screens/node.txt"].assert_eq(&seat.screen());
}

#[test]
fn the_help() {
    let mut seat = Seat::new(false, 80, 24);
    seat.press("?");
    expect_file!["screens/help.txt"].assert_eq(&seat.screen());
}

#[test]
fn the_help_on_a_small_terminal() {
    let mut seat = Seat::new(false, 60, 15);
    seat.press("?");
    expect_file!["screens/help-60x15.txt"].assert_eq(&seat.screen());
    seat.hears(Input::Resize(60, 9));
    seat.shows("… the rest has no room here");
}

fn alarm(node: &str, level: AlarmLevel, text: &str) -> AlarmInfo {
    AlarmInfo {
        id: format!("{node}-disk-1"),
        node: node.into(),
        sensor: "disk".into(),
        level,
        value: None,
        text: text.into(),
        since_seconds: 65.4,
        paths: 1,
        reacted: false,
    }
}

/// A farm with so many alarms: those of `lab-9` first.
fn alarmed(count: usize) -> Picture {
    let of = |at| match at {
        0 => alarm("lab-9", AlarmLevel::Critical, "it is full\u{1b}[2J"),
        at => alarm(&format!("lab-{at}"), AlarmLevel::Warning, "it fills"),
    };
    let mut picture = picture();
    picture.status.alarms = (0..count).map(of).collect();
    for node in &mut picture.status.nodes {
        let own = picture.status.alarms.iter().find(|alarm| alarm.node == node.name);
        node.alarm = own.map(|alarm| alarm.level);
    }
    picture
}

#[test]
fn alarms_that_stand_are_above_all_and_mark_their_nodes() {
    let mut seat = Seat::new(false, 80, 40);
    seat.shows_not("! ");
    seat.sees(alarmed(1));
    seat.shows("\nalarms 1  waiting 12");
    seat.shows("\n! critical lab-9, for 1 min 05 s: it is full\\u{1b}[2J\n");
    seat.shows("\nlab-9  ! up ");
    seat.shows("\nlab-1  up ");
    seat.sees(alarmed(6));
    seat.shows("\n! warning (and 3 more) lab-2, for");
    seat.shows("\nlab-4  ! draining ");
    // Where there is no room for lines, their number is in the head.
    seat.hears(Input::Resize(80, 12));
    seat.shows("alarms 6");
    seat.shows_not("it is full");
    seat.hears(Input::Resize(80, 40));
    seat.app.open(Subject::Node("lab-9".into()));
    seat.shows("alarm              critical: it is full");
    seat.shows_not("it fills");
    seat.app.open(Subject::Node("lab-12".into()));
    seat.shows_not("it is full");
}

#[test]
fn figures_that_programs_give_have_a_line_each_in_what_is_open() {
    let mut seat = Seat::new(false, 80, 60);
    let named = || (0..20).map(|n| (format!("job.figure{n}"), n));
    let mut picture = picture();
    let usage = JobUsage {
        named: named()
            .map(|(name, n)| (name, Spread { min: 0.5, avg: 1.0, max: f64::from(n), sum: 2.0 }))
            .collect(),
        ..JobUsage::default()
    };
    picture.jobs.iter_mut().filter(|job| job.id == JobId(4)).for_each(|job| job.usage = Some(usage.clone()));
    let usage = NodeUsage {
        named: named().map(|(name, n)| (name, f64::from(n) / 2.0)).collect(),
        ..NodeUsage::default()
    };
    for node in &mut picture.status.nodes {
        node.usage = Some(usage.clone()).filter(|_| node.name == "lab-3");
    }
    seat.sees(picture);
    seat.app.open(job_4());
    seat.shows("Figures of its programs, by unit: min / avg / max");
    seat.shows("\njob.figure19       0.5 / 1 / 19\n");
    seat.app.open(Subject::Node("lab-3".into()));
    seat.shows("Figures of its services");
    seat.shows("\njob.figure19       9.5\n");
    seat.app.open(Subject::Node("lab-4".into()));
    seat.shows_not("Figures of its services");
}

#[test]
fn it_can_be_drawn_at_any_size() {
    let mut seat = Seat::new(false, 80, 24);
    seat.sees(alarmed(5));
    for keys in ["", "?", "<esc>/x<enter>", "<tab>", "<tab>", "<tab><esc><enter>", "<down>", "c"] {
        seat.press(keys);
        for (width, height) in
            (0..140).step_by(13).flat_map(|width| (0..45).step_by(2).map(move |height| (width, height)))
        {
            seat.hears(Input::Resize(width, height));
            seat.screen();
        }
    }
}

#[test]
fn colours_are_those_of_the_model_and_none_where_none_are_wanted() {
    let colours = |color: bool| {
        let mut seat = Seat::new(false, 80, 24);
        seat.app.color = color;
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(&seat.app, frame)).unwrap();
        let cells = terminal.backend().buffer().content().to_vec();
        cells.into_iter().filter(|cell| cell.fg != ratatui::style::Color::Reset).collect::<Vec<_>>()
    };
    assert_eq!(colours(false), []);
    let done = starfarm_events::colour("done").unwrap();
    let is_done = |cell: &ratatui::buffer::Cell| cell.symbol() == "█";
    let fg = colours(true).into_iter().find(is_done).unwrap().fg;
    assert_eq!(fg, ratatui::style::Color::Indexed(done.ansi));
}

#[test]
fn a_bar_shows_every_part_and_is_full() {
    assert_eq!(shares([1.0, 0.0, 0.0, 1.0, 0.0], 10), [5, 0, 0, 5, 0]);
    assert_eq!(shares([1e9, 1.0, 1.0, 0.0, 0.0], 10), [8, 1, 1, 0, 0]);
    assert_eq!(shares([0.0; 5], 10), [0; 5]);
    assert_eq!(shares([1.0, 1.0, 1.0, 1.0, 1.0], 3).iter().sum::<u16>(), 3);
    for width in 0..60 {
        for parts in [[1.0, 2.0, 3.0, 4.0, 5.0], [1e30, 0.0, 1.0, 7.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0]] {
            assert_eq!(shares(parts, width).iter().sum::<u16>(), width, "{parts:?}");
        }
    }
    assert_eq!((bar_of(0.5, 4), bar_of(0.0, 4), bar_of(7.0, 2)), ("██".into(), String::new(), "██".into()));
    assert_eq!(bar_of(0.3, 4), "█▎");
}
