//! Pictures of letters: lines of little bars, a row for a node, an axis of time. They can be read without colours.

use std::ops::Range;

use starfarm_events::NodeState;
use starfarm_logs::Utc;
use starfarm_logs::replay::{NodeLine, Report, Shown};
use unicode_truncate::{Alignment, UnicodeTruncateStr};
use unicode_width::UnicodeWidthStr;

use crate::human;
use crate::output::table::{COLOUR_END, colour_begin};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const SECOND_US: u64 = 1_000_000;

/// The bins that a column of a picture stands for: one at least.
fn bins(column: usize, columns: usize, count: usize) -> Range<usize> {
    let from = column * count / columns;
    from..((column + 1) * count / columns).max(from + 1)
}

/// A line of bars from zero to the largest value; blank where nothing is known. What is above zero is never shown
/// as zero.
pub(in crate::commands) fn bars(values: &[f32], columns: usize) -> String {
    let largest = largest(values);
    let bar = |value: f32| match value {
        value if value > 0.0 && largest > 0.0 => BARS[1 + (value / largest * 6.0).round().min(6.0) as usize],
        _ => BARS[0],
    };
    let means = (0..columns).map(|column| mean(&values[bins(column, columns, values.len())]));
    means.map(|value| value.map_or(' ', bar)).collect()
}

/// The largest value that is known; 0 where none is.
pub(super) fn largest(values: &[f32]) -> f32 {
    values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f32::max)
}

pub(super) fn mean(values: &[f32]) -> Option<f32> {
    let known = values.iter().filter(|value| value.is_finite());
    let (sum, count) =
        known.fold((0.0_f64, 0_u32), |(sum, count), value| (sum + f64::from(*value), count + 1));
    (count > 0).then(|| (sum / f64::from(count)) as f32)
}

/// A glyph, and the word whose colour it has.
type Dot = (char, &'static str);

/// What the glyphs of a node's row stand for.
pub(super) const LEGEND: [(&str, &str); 7] = [
    ("░▒▓█", "busy"),
    ("·", "idle"),
    ("d", "draining"),
    ("q", "quarantined"),
    ("s", "suspect"),
    ("X", "lost"),
    ("-", "nothing known"),
];

fn dot(shown: Shown, share: f64) -> Dot {
    match shown {
        Shown::State(NodeState::Lost) => ('X', "lost"),
        Shown::State(NodeState::Suspect) => ('s', "suspect"),
        Shown::State(NodeState::Quarantined) => ('q', "quarantined"),
        Shown::State(NodeState::Draining) => ('d', "draining"),
        Shown::Gone => (' ', ""),
        Shown::Unknown => ('-', ""),
        Shown::State(NodeState::Up) | Shown::Idle(_) => match share {
            0.75.. => ('█', "busy"),
            0.5.. => ('▓', "busy"),
            0.25.. => ('▒', "busy"),
            0.02.. => ('░', "busy"),
            // It has tasks, and no result of them has come.
            _ if shown == Shown::State(NodeState::Up) => ('░', "busy"),
            _ => ('·', "idle"),
        },
    }
}

/// A node's row: the worst state of each column, and how busy it was.
pub(super) fn row(report: &Report, node: &NodeLine, columns: usize, color: bool) -> String {
    let dots = (0..columns).map(|column| {
        let bins = bins(column, columns, report.bins);
        let severity = |shown: &&Shown| shown.severity();
        let worst = node.worst[bins.clone()].iter().max_by_key(severity).copied().unwrap_or(Shown::Gone);
        let busy_us: f32 = node.busy_bins[bins.clone()].iter().sum();
        let room_us: f32 = node.room_bins[bins].iter().sum();
        dot(worst, f64::from(busy_us / room_us.max(1.0)))
    });
    paint(dots, color)
}

fn paint(dots: impl Iterator<Item = Dot>, color: bool) -> String {
    let (mut text, mut last) = (String::new(), "");
    for (glyph, word) in dots {
        if color && word != last {
            text.push_str(COLOUR_END);
            text.extend(starfarm_events::colour(word).map(colour_begin));
            last = word;
        }
        text.push(glyph);
    }
    if !last.is_empty() {
        text.push_str(COLOUR_END);
    }
    text
}

/// The legend of nodes' rows.
pub(super) fn legend(color: bool) -> String {
    let part = |(glyphs, words): &(&str, &'static str)| {
        format!("{} {words}", paint(glyphs.chars().map(|glyph| (glyph, *words)), color))
    };
    LEGEND.iter().map(part).collect::<Vec<_>>().join("  ")
}

/// A moment as short as the span allows: the day where there are several, seconds where there are few minutes.
pub(super) fn clock(at_us: u64, span_us: u64) -> String {
    let text = Utc(at_us).to_string();
    let (day, time) = text.split_once('T').unwrap_or(("", &text));
    let cut = |text: &str, from: usize, to: usize| text.get(from..to).unwrap_or_default().to_owned();
    match span_us / SECOND_US {
        0..1_200 => cut(time, 0, 8),
        1_200..172_800 => cut(time, 0, 5),
        _ => format!("{} {}", cut(day, 5, 10), cut(time, 0, 5)),
    }
}

/// A line of moments under a picture.
pub(super) fn axis(report: &Report, columns: usize) -> String {
    let span_us = report.to_us - report.from_us;
    let drawn_us = report.axis.width_us.saturating_mul(report.bins as u64);
    let label = |column: usize| {
        let after_us = u128::from(drawn_us) * column as u128 / columns as u128;
        clock(report.from_us.saturating_add(after_us as u64), span_us)
    };
    let step = (label(0).len() + 6).max(columns / 5);
    let mut line = String::new();
    for column in (0..columns).step_by(step) {
        let label = format!("╵{}", label(column));
        if column + label.width() <= columns {
            line.push_str(&" ".repeat(column - line.width()));
            line.push_str(&label);
        }
    }
    line
}

/// Text in so many columns, cut or filled up.
pub(super) fn fit(text: &str, columns: usize) -> String {
    human::fitted(text, columns).unicode_pad(columns, Alignment::Left, false).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_what_is_known() {
        let nan = f32::NAN;
        assert_eq!(bars(&[0.0, 0.001, 5.0, 10.0, nan], 5), "▁▂▅█ ");
        assert_eq!(bars(&[nan, 2.0, 4.0, 4.0], 2), "▅█", "means of what is known");
        assert_eq!(bars(&[1.0], 3), "███", "fewer bins than columns");
        assert_eq!(bars(&[0.0, 0.0], 2), "▁▁");
    }

    #[test]
    fn glyphs_differ_without_colours() {
        let all: Vec<char> = Shown::all().map(|shown| dot(shown, 0.0).0).collect();
        let troubles: std::collections::BTreeSet<char> =
            Shown::all().filter(|shown| !shown.is_well()).map(|shown| dot(shown, 1.0).0).collect();
        assert_eq!(troubles.len(), 6, "{troubles:?}");
        let said: String = LEGEND.iter().map(|(glyphs, _)| *glyphs).collect();
        assert!(all.iter().filter(|glyph| **glyph != ' ').all(|glyph| said.contains(*glyph)), "{all:?}");
    }

    #[test]
    fn colours_change_no_letter() {
        let dots = [('X', "lost"), ('X', "lost"), ('-', ""), ('█', "busy")];
        assert_eq!(paint(dots.into_iter(), false), "XX-█");
        assert_eq!(
            paint(dots.into_iter(), true),
            "\u{1b}[0m\u{1b}[38;5;166mXX\u{1b}[0m-\u{1b}[0m\u{1b}[38;5;36m█\u{1b}[0m"
        );
    }

    #[test]
    fn names_are_cut_by_what_is_seen() {
        assert_eq!(fit("größe", 7), "größe  ");
        assert_eq!(fit("größer", 4), "grö…");
        assert_eq!(fit("日本語", 4), "日… ");
    }
}
