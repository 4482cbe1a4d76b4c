//! The screen at three sizes, kept as text.

use expect_test::expect_file;

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

#[test]
fn it_can_be_drawn_at_any_size() {
    let mut seat = Seat::new(false, 80, 24);
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
