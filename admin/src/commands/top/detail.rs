//! One job or one node, with all that is known of it, as lines to scroll through; or the posts of the tree.

use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use starfarm_events::UNIT_COLOURS;
use starfarm_protocol::admin::{JobInfo, NodeInfo, Spread, Subject};

use super::app::{App, View, Whole};
use super::columns::{Paint, UNIT_SIGNS, bar, load_bar};
use super::layout::Rows;
use crate::commands::explain::{SIZES, SIZES_NARROW, Said};
use crate::commands::{job, nodes, tree, usage};
use crate::human::printable;
use crate::output::Style;
use crate::output::table::{Cell, Table};

/// Width of a fact's name.
const NAME_WIDTH: usize = 17;
/// Width of a slot's load.
const LOAD_WIDTH: u16 = 25;

/// What is open, line by line; nothing where nothing is.
pub(super) fn lines(app: &App) -> Vec<Line<'static>> {
    let View::Open(subject, _) = &app.view else { return Vec::new() };
    let whole = app.whole.as_ref();
    let paint = Paint(app.color);
    let mut lines = match subject {
        Subject::Job(id) => {
            // The table's job is there at once, the whole one with the next picture.
            match whole.and_then(|whole| whole.job.as_ref()).or_else(|| app.job_of(*id)) {
                Some(job) => of_job(job, paint, app.size.0),
                None => vec![format!("job {} is gone", id.0).into()],
            }
        }
        Subject::Node(name) => match app.node_of(name) {
            Some(node) => of_node(node, app, paint),
            None => vec![format!("node {} is gone", printable(name)).into()],
        },
    };
    if let Some(Whole { line: Some(line), .. }) = whole {
        // Below the state too: this is what changes from second to second.
        let at = lines.len().min(3);
        let room = usize::from(app.size.0).saturating_sub(NAME_WIDTH + 2);
        let late = usage::of_late(line, room).into_iter();
        lines.splice(at..at, late.map(|(name, value)| paint.fact(name, value)));
    }
    if let Some(Whole { why: Some(why), .. }) = whole {
        // The answer stands where a person looks first, below the state; what it rests on at the end.
        lines.insert(lines.len().min(3), paint.fact("why", Cell::new(&why.verdict)));
        lines.extend(reasons(why, paint, app.size.0));
    }
    lines.into_iter().flat_map(|line| wrapped(line, usize::from(app.size.0))).collect()
}

/// The tree: a line in short and the headings, and then the posts; or why there is none.
pub(super) fn tree(app: &App) -> (Vec<Line<'static>>, Vec<Line<'static>>) {
    let width = usize::from(app.size.0);
    match &app.tree {
        None => (vec!["waiting for the tree".into()], Vec::new()),
        Some(Err(why)) => (wrapped(printable(why).into(), width), Vec::new()),
        Some(Ok(tree)) => {
            let style = Style { columns: Some(width), ..Style::PLAIN };
            let [headings, posts @ ..] = &tree::rows(tree, style)[..] else { return Default::default() };
            let short = Span::styled(tree::in_short(tree), Modifier::BOLD).into();
            let headings = Span::styled(headings.clone(), Modifier::DIM).into();
            (vec![short, headings], posts.iter().cloned().map(Line::from).collect())
        }
    }
}

/// Lines that are out of sight below, where so many are above.
pub(super) fn below(app: &App, above: usize) -> usize {
    let rows = Rows::of(app);
    let (count, room) = match &app.view {
        View::Tree(_) => (tree(app).1.len(), rows.posts()),
        View::Open(..) | View::Tables => (lines(app).len(), rows.body()),
    };
    count.saturating_sub(above + usize::from(room))
}

/// A line on as many as it needs. Its last span is what goes on, below its own begin.
pub(super) fn wrapped(mut line: Line<'static>, width: usize) -> Vec<Line<'static>> {
    if line.width() <= width {
        return vec![line];
    }
    let Some(last) = line.spans.pop() else { return Vec::new() };
    let indent = line.width();
    // Names of nodes are not taken apart at their hyphens; what is longer than a line, such as a hash, is.
    let options = textwrap::Options::new(width.saturating_sub(indent).max(1))
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    let pieces = textwrap::wrap(&last.content, options).into_iter();
    let below = |piece| Line::from_iter([Span::raw(" ".repeat(indent)), piece]);
    let mut lines: Vec<_> = pieces.map(|piece| below(Span::styled(piece.into_owned(), last.style))).collect();
    if let Some(first) = lines.first_mut() {
        first.spans.splice(..1, line.spans);
    }
    lines
}

impl Paint {
    fn fact(self, name: &str, value: Cell) -> Line<'static> {
        Line::from_iter([Span::raw(format!("{name:NAME_WIDTH$}  ")), self.cell(value)])
    }
}

fn heading(words: &'static str) -> [Line<'static>; 2] {
    [Line::default(), Span::styled(words, Modifier::BOLD).into()]
}

fn of_job(job: &JobInfo, paint: Paint, width: u16) -> Vec<Line<'static>> {
    let figures = job::figures(job);
    let classes = figures.iter().position(|(name, _)| *name == "  done").expect("a job has done units");
    let mut lines: Vec<_> = figures.into_iter().map(|(name, value)| paint.fact(name, value)).collect();
    for ((line, sign), colour) in lines[classes..].iter_mut().zip(UNIT_SIGNS).zip(UNIT_COLOURS) {
        line.spans[0].content = line.spans[0].content[1..].to_owned().into();
        line.spans.insert(0, Span::styled(sign.to_string(), paint.style(Some(colour))));
    }
    lines.insert(classes, bar(job, paint, width));
    if let Some(usage) = job.usage.as_ref().filter(|usage| !usage.named.is_empty()) {
        lines.extend(heading("Figures of its programs, by unit: min / avg / max"));
        let figure = |(name, spread): (&String, &Spread)| {
            let words = [spread.min, spread.avg, spread.max].map(usage::plain).join(" / ");
            (name.clone(), words)
        };
        lines.extend(named(usage.named.iter().map(figure)));
    }
    lines.extend(job::troubles(job).lines().map(|line| Line::from(line.to_owned())));
    lines
}

fn of_node(node: &NodeInfo, app: &App, paint: Paint) -> Vec<Line<'static>> {
    let figures = nodes::figures(node).into_iter();
    let lines = figures.flat_map(|(name, value)| match name {
        "load" => loads(node, paint, app.size.0),
        name => vec![paint.fact(name, value)],
    });
    let mut lines: Vec<_> = lines.collect();
    let alarms = app.alarms().iter().filter(|alarm| alarm.node == node.name).map(|alarm| {
        let text =
            Span::styled(format!("{}: {}", alarm.level, printable(&alarm.text)), paint.alarm(alarm.level));
        Line::from_iter([Span::raw(format!("{:NAME_WIDTH$}  ", "alarm")), text])
    });
    let at = lines.len().min(2);
    lines.splice(at..at, alarms);
    if let Some(usage) = node.usage.as_ref().filter(|usage| !usage.named.is_empty()) {
        lines.extend(heading("Figures of its services"));
        let figure = |(name, number): (&String, &f64)| (name.clone(), usage::plain(*number));
        lines.extend(named(usage.named.iter().map(figure)));
    }
    lines
}

/// Figures that have names of their own, a line each.
fn named(figures: impl Iterator<Item = (String, String)>) -> Vec<Line<'static>> {
    let line = |(name, value)| Line::from(format!("{name:NAME_WIDTH$}  {value}"));
    figures.map(line).collect()
}

/// Each slot's load, or that of all where the node told no more.
fn loads(node: &NodeInfo, paint: Paint, width: u16) -> Vec<Line<'static>> {
    let load_of = |name: &str, of: &str, load| {
        let mut line = Line::from(format!("{name:NAME_WIDTH$}  {of}"));
        let room = width.saturating_sub(line.width() as u16);
        line.spans.extend(load_bar(Some(load), paint, LOAD_WIDTH.min(room)).spans);
        line
    };
    match node.load_mean() {
        Some(mean) if node.load.len() < node.slots as usize => {
            vec![load_of("load", &format!("mean of {} slots: ", node.slots), mean)]
        }
        _ => {
            let slots = node.load.iter().zip(1..);
            slots
                .map(|(load, slot)| load_of(&format!("  load of slot {slot}"), "", *load as f64 / 1e3))
                .collect()
        }
    }
}

fn reasons(why: &Said, paint: Paint, width: u16) -> Vec<Line<'static>> {
    let mut lines = heading("Why").to_vec();
    let reason = |text: &str| Line::from_iter([Span::raw("- "), Span::raw(printable(text))]);
    lines.extend(why.reasons.iter().map(|said| reason(&said.text)));
    if !why.sizes.is_empty() {
        lines.extend(heading("Size of the next task"));
        let style = Style { columns: Some(width.into()), ..Style::PLAIN };
        let sizes = Table::of(&why.sizes, &SIZES[..SIZES_NARROW]).render(style);
        lines.extend(sizes.lines().map(|line| Line::from(line.to_owned())));
    }
    if !why.facts.is_empty() {
        lines.extend(heading("Also"));
        lines.extend(why.facts.iter().map(|known| paint.fact(&known.name, Cell::new(&known.value))));
    }
    lines
}
