//! The columns of both tables: what stands in them, from which width of the screen on, and how they sort.

use starfarm_protocol::job::JobState;
use starfarm_protocol::link::AlarmLevel;
use starfarm_protocol::state::NodeState;
use std::cmp::Ordering;

use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use starfarm_events::{Colour, UNIT_COLOURS, colour};
use starfarm_logs::replay::by_number;
use starfarm_protocol::admin::{JobInfo, NodeInfo};

use crate::commands::{nodes, usage};
use crate::human;
use crate::output::Record;
use crate::output::table::{Align, Cell};

/// Signs for a job's classes of units, so that its bar says the same without colours.
pub(super) const UNIT_SIGNS: [char; 5] = ['█', 'x', '▒', '·', '-'];

/// Colours, where there are any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint(pub(super) bool);

impl Paint {
    pub(super) fn style(self, colour: Option<Colour>) -> Style {
        colour.filter(|_| self.0).map_or(Style::new(), |colour| Style::new().fg(Color::Indexed(colour.ansi)))
    }

    /// The style of a state's word.
    pub(super) fn word(self, word: &str) -> Style {
        self.style(colour(word))
    }

    /// The style of an alarm.
    pub(super) fn alarm(self, level: AlarmLevel) -> Style {
        self.word(match level {
            AlarmLevel::Warning => "suspect",
            AlarmLevel::Critical => "lost",
        })
    }

    /// What stands in a cell, in its colour.
    pub(super) fn cell(self, cell: Cell) -> Span<'static> {
        Span::styled(cell.text, self.style(cell.colour))
    }
}

/// A thing with a row of its own; what a script wants of it tells it from others in the next picture too.
pub(super) trait Row: Record {
    const ON_SCREEN: &'static [Column<Self>];

    /// Place of the column that rows are sorted by at first.
    const FIRST_ORDER: usize;

    /// What a filter looks through.
    fn words(&self) -> String;
}

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
}

const fn words<T>(title: &'static str, width: u16, cell: fn(&T, Paint, u16) -> Line<'static>) -> Column<T> {
    Column { title, align: Align::Left, width, stretches: false, from: 0, cell, order: None }
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

    const fn stretches(self) -> Self {
        Self { stretches: true, ..self }
    }
}

impl Row for JobInfo {
    const ON_SCREEN: &'static [Column<Self>] = &[
        number("id", 4, |job: &JobInfo, _, _| job.id.0.to_string().into()).sorts(|a, b| a.id.cmp(&b.id)),
        words("name", 10, |job: &JobInfo, _, _| human::printable(&job.name).into())
            .sorts(|a, b| by_number(&a.name, &b.name))
            .stretches(),
        words("state", 9, |job: &JobInfo, paint, _| paint.cell(Cell::state(job.state.word())).into())
            .sorts(by_state_of_job),
        words("units", 7, bar).stretches(),
        number("done", 6, |job: &JobInfo, _, _| human::share_of(job.units_done, job).into())
            .sorts(|a, b| share(b).total_cmp(&share(a))),
        number("cpu", 6, |job: &JobInfo, _, _| known(cores_of(job), usage::cores))
            .sorts(|a, b| most(cores_of(a)).total_cmp(&most(cores_of(b))))
            .from(80),
        number("memory", 9, |job: &JobInfo, _, _| known(memory_of(job), usage::memory))
            .sorts(|a, b| most(memory_of(a)).total_cmp(&most(memory_of(b))))
            .from(112),
        number("cards", 7, |job: &JobInfo, _, _| known(cards_of(job), usage::cards))
            .sorts(|a, b| most(cards_of(a)).total_cmp(&most(cards_of(b))))
            .from(128),
        number("failed", 7, |job: &JobInfo, _, _| human::units(job.units_failed).into())
            .sorts(|a, b| b.units_failed.cmp(&a.units_failed))
            .from(72),
        number("hits", 7, |job: &JobInfo, _, _| count(job.hits)).sorts(|a, b| b.hits.cmp(&a.hits)).from(100),
        number("of", 7, |job: &JobInfo, _, _| human::total(job).into())
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
    const FIRST_ORDER: usize = 2;

    fn words(&self) -> String {
        let labels = self.terms.labels.iter().map(|(key, value)| format!(" {key}={value}"));
        format!("{} {} {} {}", self.id.0, self.name, self.state, self.user) + &labels.collect::<String>()
    }
}

impl Row for NodeInfo {
    const ON_SCREEN: &'static [Column<Self>] = &[
        words("name", 10, |node: &NodeInfo, _, _| human::printable(&node.name).into())
            .sorts(|a, b| by_number(&a.name, &b.name))
            .stretches(),
        words("state", 11, |node: &NodeInfo, paint, _| state(node, paint)).sorts(by_state_of_node),
        number("slots", 6, |node: &NodeInfo, _, _| nodes::slots(node).into())
            .sorts(|a, b| b.slots.cmp(&a.slots)),
        words("load", 9, |node: &NodeInfo, paint, width| load_bar(node.load_mean(), paint, width))
            // What is not known is below all loads.
            .sorts(|a, b| b.load_mean().partial_cmp(&a.load_mean()).unwrap_or(Ordering::Equal)),
        number("cpu", 6, |node: &NodeInfo, _, _| {
            known(node.usage.as_ref().and_then(|of| of.cpu_cores), usage::cores)
        })
        .sorts(|a, b| {
            most(a.usage.as_ref().and_then(|of| of.cpu_cores))
                .total_cmp(&most(b.usage.as_ref().and_then(|of| of.cpu_cores)))
        })
        .from(80),
        number("memory", 9, |node: &NodeInfo, _, _| {
            known(node.usage.as_ref().and_then(|of| of.memory_bytes), usage::memory)
        })
        .from(120),
        number("cards", 7, |node: &NodeInfo, _, _| {
            known(node.usage.as_ref().and_then(|of| of.gpu), usage::cards)
        })
        .from(128),
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
    const FIRST_ORDER: usize = 0;

    fn words(&self) -> String {
        format!("{} {}", self.name, self.state)
    }
}

/// A node's state, marked where an alarm of its machine stands.
fn state(node: &NodeInfo, paint: Paint) -> Line<'static> {
    let mark = node.alarm.map(|level| Span::styled("! ", paint.alarm(level)));
    mark.into_iter().chain([paint.cell(nodes::state(node))]).collect()
}

/// A figure in words, if it is known.
fn known(figure: Option<f64>, words: fn(f64) -> String) -> Line<'static> {
    figure.map_or_else(|| "-".to_owned(), words).into()
}

/// The most goes first, what is not known last.
fn most(figure: Option<f64>) -> f64 {
    -figure.unwrap_or(f64::NEG_INFINITY)
}

fn cores_of(job: &JobInfo) -> Option<f64> {
    job.usage.as_ref()?.cpu_cores.map(|cores| cores.sum)
}

fn memory_of(job: &JobInfo) -> Option<f64> {
    job.usage.as_ref()?.memory_bytes.map(|bytes| bytes.sum)
}

fn cards_of(job: &JobInfo) -> Option<f64> {
    job.usage.as_ref()?.gpu.map(|cards| cards.sum)
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
        JobState::Waiting => 3,
        JobState::Finished | JobState::Failed | JobState::Cancelled => 4,
    };
    rank(a).cmp(&rank(b)).then_with(|| if rank(a) < 4 { a.id.cmp(&b.id) } else { b.id.cmp(&a.id) })
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
    let span = |((cells, sign), colour): ((&u16, char), Colour)| {
        Span::styled(sign.to_string().repeat(usize::from(*cells)), paint.style(Some(colour)))
    };
    Line::from_iter(spans.map(span))
}

/// Cells of each part of a bar. A part that is there has one of its own, as far as there is room; the others go by size.
pub(super) fn shares(parts: [f64; 5], width: u16) -> [u16; 5] {
    let total: f64 = parts.iter().sum();
    let there = parts.iter().filter(|part| **part > 0.0).count() as u16;
    let (mut own, by_size) = (there.min(width), f64::from(width.saturating_sub(there)));
    let (mut sum, mut given) = (0.0, 0);
    parts.map(|part| {
        if part <= 0.0 {
            return 0;
        }
        sum += part;
        // All parts up to this one have so many: what rounding takes from one, the next one gets.
        let so_far = (sum / total * by_size).round() as u16;
        let cells = so_far - given + own.min(1);
        (own, given) = (own.saturating_sub(1), so_far);
        cells
    })
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
