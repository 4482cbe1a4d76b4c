//! The columns of both tables: what stands in them, from which width of the screen on, and how they sort.

use starfarm_protocol::job::JobState;
use starfarm_protocol::state::NodeState;
use std::cmp::Ordering;

use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use starfarm_events::{UNIT_COLOURS, colour};
use starfarm_logs::replay::by_number;
use starfarm_protocol::admin::{JobInfo, NodeInfo};
use starfarm_protocol::ids::JobId;

use crate::commands::nodes;
use crate::human;
use crate::output::table::Align;

/// Signs for a job's classes of units, so that its bar says the same without colours.
pub(super) const UNIT_SIGNS: [char; 5] = ['█', 'x', '▒', '·', '-'];

/// Colours, where there are any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint(pub(super) bool);

impl Paint {
    /// The style of a state's word.
    pub(super) fn word(self, word: &str) -> Style {
        match colour(word).filter(|_| self.0) {
            Some(colour) => Style::new().fg(Color::Indexed(colour.ansi)),
            None => Style::new(),
        }
    }
}

/// A thing with a row of its own.
pub(super) trait Row {
    /// What makes it the same thing in the next picture.
    type Key: PartialEq + std::fmt::Debug;

    fn key(&self) -> Self::Key;

    /// What a filter looks through.
    fn words(&self) -> String;
}

/// A column.
#[derive(Debug)]
pub(super) struct Column<T> {
    pub(super) title: &'static str,
    pub(super) align: Align,
    /// Columns of the terminal that it takes; those that stretch share what is left, or what is lacking.
    pub(super) width: u16,
    pub(super) stretches: bool,
    /// Only on screens at least this wide.
    pub(super) from: u16,
    /// What stands in it; the last argument is its width.
    pub(super) cell: fn(&T, Paint, u16) -> Line<'static>,
    /// How rows sort by it; none: not at all.
    pub(super) order: Option<fn(&T, &T) -> Ordering>,
    /// Rows are sorted by it at first.
    pub(super) is_first_order: bool,
}

const fn words<T>(title: &'static str, width: u16, cell: fn(&T, Paint, u16) -> Line<'static>) -> Column<T> {
    let align = Align::Left;
    Column { title, align, width, stretches: false, from: 0, cell, order: None, is_first_order: false }
}

const fn number<T>(title: &'static str, width: u16, cell: fn(&T, Paint, u16) -> Line<'static>) -> Column<T> {
    Column { align: Align::Right, ..words(title, width, cell) }
}

impl<T> Column<T> {
    const fn sorts(self, order: fn(&T, &T) -> Ordering) -> Self {
        Self { order: Some(order), ..self }
    }

    const fn from(self, from: u16) -> Self {
        Self { from, ..self }
    }
}

impl Row for JobInfo {
    type Key = JobId;

    fn key(&self) -> JobId {
        self.id
    }

    fn words(&self) -> String {
        format!("{} {} {} {}", self.id.0, self.name, self.state, self.user)
    }
}

impl Row for NodeInfo {
    type Key = String;

    fn key(&self) -> String {
        self.name.clone()
    }

    fn words(&self) -> String {
        format!("{} {}", self.name, self.state)
    }
}

/// Jobs.
pub(super) const JOBS: &[Column<JobInfo>] = &[
    number("id", 4, |job: &JobInfo, _, _| job.id.0.to_string().into()).sorts(|a, b| a.id.cmp(&b.id)),
    Column {
        stretches: true,
        ..words("name", 10, |job: &JobInfo, _, _| human::printable(&job.name).into())
            .sorts(|a, b| by_number(&a.name, &b.name))
    },
    Column {
        is_first_order: true,
        ..words("state", 9, |job: &JobInfo, paint, _| word(job.state.word(), paint)).sorts(by_state_of_job)
    },
    Column { stretches: true, ..words("units", 7, |job: &JobInfo, paint, width| bar(job, paint, width)) },
    number("done", 6, |job: &JobInfo, _, _| human::share(job.units_done, job.units_total).into())
        .sorts(|a, b| share(b).total_cmp(&share(a))),
    number("failed", 7, |job: &JobInfo, _, _| human::units(job.units_failed).into())
        .sorts(|a, b| b.units_failed.cmp(&a.units_failed))
        .from(72),
    number("hits", 7, |job: &JobInfo, _, _| count(job.hits)).sorts(|a, b| b.hits.cmp(&a.hits)).from(100),
    number("of", 7, |job: &JobInfo, _, _| human::units(job.units_total).into())
        .sorts(|a, b| b.units_total.cmp(&a.units_total))
        .from(100),
    number("units/s", 8, |job: &JobInfo, _, _| human::count(job.units_per_s).into())
        .sorts(|a, b| b.units_per_s.total_cmp(&a.units_per_s)),
    number("left", 11, |job: &JobInfo, _, _| human::seconds_if_known(job.eta_seconds).into())
        .sorts(|a, b| eta(a).total_cmp(&eta(b))),
    number("age", 11, |job: &JobInfo, _, _| human::seconds(job.age_seconds).into())
        .sorts(|a, b| a.age_seconds.total_cmp(&b.age_seconds))
        .from(100),
];

/// Nodes.
pub(super) const NODES: &[Column<NodeInfo>] = &[
    Column {
        is_first_order: true,
        stretches: true,
        ..words("name", 10, |node: &NodeInfo, _, _| human::printable(&node.name).into())
            .sorts(|a, b| by_number(&a.name, &b.name))
    },
    words("state", 11, |node: &NodeInfo, paint, _| state(node, paint)).sorts(by_state_of_node),
    number("slots", 6, |node: &NodeInfo, _, _| node.slots.to_string().into())
        .sorts(|a, b| b.slots.cmp(&a.slots)),
    words("load", 9, |node: &NodeInfo, paint, width| load_bar(node.load_mean(), paint, width))
        .sorts(|a, b| load_or_less(b).total_cmp(&load_or_less(a))),
    number("queue", 9, |node: &NodeInfo, _, _| format!("{}/{}", node.tasks, node.tasks_queued).into())
        .sorts(|a, b| b.tasks.cmp(&a.tasks)),
    number("speed", 7, |node: &NodeInfo, _, _| human::count(node.power).into())
        .sorts(|a, b| b.power.total_cmp(&a.power))
        .from(72),
    number("done", 7, |node: &NodeInfo, _, _| count(node.tasks_done))
        .sorts(|a, b| b.tasks_done.cmp(&a.tasks_done))
        .from(72),
    number("units", 7, |node: &NodeInfo, _, _| human::units(node.units_done).into())
        .sorts(|a, b| b.units_done.cmp(&a.units_done))
        .from(100),
    number("faster", 7, |node: &NodeInfo, _, _| count(node.speed_ups))
        .sorts(|a, b| b.speed_ups.cmp(&a.speed_ups))
        .from(110),
    number("slower", 7, |node: &NodeInfo, _, _| count(node.slow_downs))
        .sorts(|a, b| b.slow_downs.cmp(&a.slow_downs))
        .from(110),
    number("silent", 11, |node: &NodeInfo, _, _| silent(node).into())
        .sorts(|a, b| longest(b).total_cmp(&longest(a))),
];

fn word(word: &str, paint: Paint) -> Line<'static> {
    Span::styled(human::printable(word), paint.word(word)).into()
}

/// A node's state in words, and in its colour.
pub(super) fn state(node: &NodeInfo, paint: Paint) -> Line<'static> {
    Span::styled(human::printable(&nodes::state_words(node)), paint.word(node.state.word())).into()
}

fn count(count: u64) -> Line<'static> {
    human::count(count as f64).into()
}

/// Heartbeats come every second: what is less says nothing and would change with each picture.
fn silent(node: &NodeInfo) -> String {
    match node.silent_seconds {
        None => "unknown".to_owned(),
        Some(seconds) if seconds < 2.0 => "-".to_owned(),
        Some(seconds) => human::seconds(seconds.floor()),
    }
}

/// Who was not heard at all was silent for longest.
fn longest(node: &NodeInfo) -> f64 {
    node.silent_seconds.unwrap_or(f64::INFINITY)
}

fn share(job: &JobInfo) -> f64 {
    human::fraction(job.units_done, job.units_total)
}

fn eta(job: &JobInfo) -> f64 {
    job.eta_seconds.unwrap_or(f64::INFINITY)
}

/// What lives first, in the order in which it came; then what has ended, the latest first.
fn by_state_of_job(a: &JobInfo, b: &JobInfo) -> Ordering {
    let rank = |job: &JobInfo| match job.state {
        JobState::Running => 0,
        JobState::Paused => 1,
        JobState::Queued => 2,
        JobState::Finished | JobState::Failed | JobState::Cancelled => 3,
    };
    rank(a).cmp(&rank(b)).then_with(|| if rank(a) < 3 { a.id.cmp(&b.id) } else { b.id.cmp(&a.id) })
}

/// What needs a person first.
fn by_state_of_node(a: &NodeInfo, b: &NodeInfo) -> Ordering {
    let rank = |node: &NodeInfo| match node.state {
        NodeState::Quarantined => 0,
        NodeState::Suspect => 1,
        NodeState::Lost => 2,
        NodeState::Draining => 3,
        NodeState::Up => 4,
    };
    rank(a).cmp(&rank(b))
}

/// A job's units as a stacked bar: the parts in the order and colours of the model, each with its own sign.
pub(super) fn bar(job: &JobInfo, paint: Paint, width: u16) -> Line<'static> {
    let parts = [job.units_done, job.units_failed, job.units_out, job.units_pending, job.units_abandoned];
    let parts = parts.map(|units| units.0 as f64);
    let cells = shares(parts, width);
    let spans = cells.iter().zip(UNIT_SIGNS).zip(UNIT_COLOURS).filter(|((cells, _), _)| **cells > 0);
    let span = |((cells, sign), colour): ((&u16, char), starfarm_events::Colour)| {
        Span::styled(sign.to_string().repeat(usize::from(*cells)), paint.word(colour.word))
    };
    Line::from_iter(spans.map(span))
}

/// Cells of each part of a bar. A part that is there is seen, as far as there is room; the rest goes by size.
pub(super) fn shares(parts: [f64; 5], width: u16) -> [u16; 5] {
    let total: f64 = parts.iter().sum();
    let mut cells = [0; 5];
    if total <= 0.0 {
        return cells;
    }
    let exact = parts.map(|part| part / total * f64::from(width));
    for at in 0..cells.len() {
        cells[at] = (exact[at] as u16).max(u16::from(parts[at] > 0.0));
    }
    // Rounding leaves some cells over, and small parts were given more than is theirs.
    loop {
        let missing = |at: &usize| exact[*at] - f64::from(cells[*at]);
        let is_there = |at: &usize| parts[*at] > 0.0 && cells[*at] > 0;
        let by_missing = |a: &usize, b: &usize| missing(a).total_cmp(&missing(b));
        let at = match cells.iter().sum::<u16>().cmp(&width) {
            Ordering::Equal => return cells,
            Ordering::Less => (0..5).filter(is_there).max_by(by_missing),
            Ordering::Greater => (0..5).filter(is_there).max_by_key(|at| cells[*at]),
        };
        match at {
            Some(at) if cells.iter().sum::<u16>() < width => cells[at] += 1,
            Some(at) => cells[at] -= 1,
            None => return cells,
        }
    }
}

/// Below all loads where it is not known.
fn load_or_less(node: &NodeInfo) -> f64 {
    node.load_mean().unwrap_or(-1.0)
}

/// A load, 0 to 1, as a number and a bar.
pub(super) fn load_bar(load: Option<f64>, paint: Paint, width: u16) -> Line<'static> {
    let Some(load) = load else { return "-".into() };
    // The number makes it readable where blocks are not.
    let number = format!("{:>3.0}% ", load * 100.0);
    let blocks = bar_of(load, width.saturating_sub(number.len() as u16));
    let style = paint.word(if load > 0.0 { "busy" } else { "idle" });
    Line::from_iter([Span::raw(number), Span::styled(blocks, style)])
}

/// A bar in eighths of a cell.
pub(super) fn bar_of(share: f64, width: u16) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share.clamp(0.0, 1.0) * f64::from(width) * 8.0).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS[eighths % 8]);
    }
    bar
}
