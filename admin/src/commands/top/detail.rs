//! One job or one node, with all that is known of it, as lines to scroll through.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use starfarm_events::UNIT_COLOURS;
use starfarm_protocol::admin::{JobInfo, NodeInfo, SizeInfo, Subject};
use starfarm_protocol::state::NodeState;
use starfarm_protocol::units::Units;

use super::app::{App, View, Whole};
use super::columns::{Paint, UNIT_SIGNS, bar, load_bar};
use crate::commands::explain::Said;
use crate::commands::job::troubles;
use crate::commands::nodes;
use crate::human::{count, last_heard, printable, seconds, seconds_if_known, share, units};

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
            Some(node) => of_node(node, paint, app.size.0),
            None => vec![format!("node {} is gone", printable(name)).into()],
        },
    };
    if let Some(Whole { why: Some(why), .. }) = whole {
        // The answer stands where a person looks first, what it rests on at the end.
        lines.insert(lines.len().min(2), fact("why", &why.verdict));
        lines.extend(reasons(why));
    }
    lines.into_iter().flat_map(|line| wrapped(line, usize::from(app.size.0))).collect()
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

fn fact(name: &str, value: impl Into<String>) -> Line<'static> {
    styled(name, value, Style::new())
}

fn styled(name: &str, value: impl Into<String>, style: Style) -> Line<'static> {
    let value: String = value.into();
    Line::from_iter([Span::raw(format!("{name:NAME_WIDTH$}  ")), Span::styled(printable(&value), style)])
}

fn heading(words: &'static str) -> [Line<'static>; 2] {
    [Line::default(), Span::styled(words, Modifier::BOLD).into()]
}

fn of_job(job: &JobInfo, paint: Paint, width: u16) -> Vec<Line<'static>> {
    let mut lines = vec![
        fact("job", format!("{}  {}", job.id.0, job.name)),
        styled("state", job.state.word(), paint.word(job.state.word())),
        fact("user", &job.user),
        fact("specification", job.spec.to_string()),
        bar(job, paint, width),
    ];
    let parts = [job.units_done, job.units_failed, job.units_out, job.units_pending, job.units_abandoned];
    let names = ["done", "failed", "out, at nodes", "pending", "abandoned"];
    for (((part, name), sign), colour) in parts.into_iter().zip(names).zip(UNIT_SIGNS).zip(UNIT_COLOURS) {
        let value = format!("{}  ({})", units(part), share(part, job.units_total));
        let mut line = fact(&format!("  {name}"), value);
        line.spans[0] = Span::raw(format!(" {name:width$}  ", width = NAME_WIDTH - 2));
        line.spans.insert(0, Span::styled(sign.to_string(), paint.word(colour.word)));
        lines.push(line);
    }
    lines.extend([
        fact("units", units(job.units_total)),
        fact("duplicate", units(Units(job.totals.duplicate_units))),
        fact("hits", count(job.hits as f64)),
        fact("units per second", count(job.units_per_s)),
        fact("left", seconds_if_known(job.eta_seconds)),
        fact("age", seconds(job.age_seconds)),
        fact("run time", seconds_if_known(job.run_seconds)),
        fact("tasks cut", format!("{}, {} units each", job.totals.decomposed, count(job.task_units_mean))),
        fact("tasks given out", format!("{}, {} resent", job.totals.dispatched, job.totals.resent)),
        fact("certificate", certificate(job)),
    ]);
    for refusal in &job.refused_by {
        lines.push(fact("refused by", format!("{}: {}", refusal.node, refusal.why)));
    }
    lines.extend(troubles(job).lines().map(|line| Line::from(line.to_owned())));
    lines
}

/// What the job's certificate says, in words.
fn certificate(job: &JobInfo) -> String {
    let (done, failed, total) = (job.units_done.0, job.units_failed.0, job.units_total.0);
    let verdict = match job.state {
        state if !state.ended() => return "when it has ended".to_owned(),
        _ if done == total => "complete",
        _ if done + failed == total => "complete, with failures",
        _ => "ended early",
    };
    format!("{verdict}; `starfarm audit DIR --job {}` proves it from the files", job.id.0)
}

fn of_node(node: &NodeInfo, paint: Paint, width: u16) -> Vec<Line<'static>> {
    let number = |number: u64| count(number as f64);
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let state = styled("state", nodes::state_words(node), paint.word(node.state.word()));
    let mut lines = vec![fact("node", &node.name), state];
    if !node.why.is_empty() {
        lines.push(fact("quarantined for", &node.why));
    }
    let accelerators = match node.accelerators.as_deref() {
        None => "-",
        Some("") => "none",
        Some(models) => models,
    };
    // What a lost node does now is not known, and one that computes does not idle.
    let idle = match node.idle_us {
        us if us > 0 && node.state != NodeState::Lost => format!(", idle for {}", seconds(us as f64 / 1e6)),
        _ => String::new(),
    };
    let cores = node.cores.map_or_else(|| "-".to_owned(), |cores| cores.to_string());
    lines.extend([
        fact("last heard", last_heard(node.silent_seconds)),
        fact("joined", format!("{} ago", seconds(node.joined_seconds))),
        fact("system", or_dash(&node.system)),
        fact("processor", format!("{}, {cores} cores", or_dash(&node.cpu))),
        fact("memory", nodes::memory(node).unwrap_or_else(|| "-".to_owned())),
        fact("accelerators", accelerators),
        fact("slots", format!("{}{idle}", node.slots)),
    ]);
    lines.extend(loads(node, paint, width));
    lines.extend([
        fact("tasks held", format!("{}, {} of them in its own queue", node.tasks, node.tasks_queued)),
        fact("speed", format!("{} standard tasks a period (power)", count(node.power))),
        fact("tasks done", number(node.tasks_done)),
        fact("units done", units(node.units_done)),
        fact("speed-ups", number(node.speed_ups)),
        fact("slow-downs", number(node.slow_downs)),
        fact("offers repeated", number(node.offers_repeated)),
    ]);
    lines
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

fn reasons(why: &Said) -> Vec<Line<'static>> {
    let mut lines = heading("Why").to_vec();
    lines.extend(
        why.reasons
            .iter()
            .map(|reason| Line::from_iter([Span::raw("- "), Span::raw(printable(&reason.text))])),
    );
    if !why.sizes.is_empty() {
        lines.extend(heading("Size of the next task"));
        lines.extend(why.sizes.iter().map(size));
    }
    if !why.facts.is_empty() {
        lines.extend(heading("Also"));
        lines.extend(why.facts.iter().map(|known| fact(&printable(&known.name), &known.value)));
    }
    lines
}

fn size(size: &SizeInfo) -> Line<'static> {
    let per_s = count(size.units_per_s);
    let speed = match size.measured {
        _ if size.units_per_s == 0.0 => "measured nowhere".to_owned(),
        true => format!("{per_s} units/s of a slot, measured there"),
        false => format!("{per_s} units/s of a slot, measured elsewhere"),
    };
    let plural = if size.units == 1 { "" } else { "s" };
    format!(
        "job {} on {}: {} unit{plural} by rule `{}`, {speed}",
        size.job.0,
        printable(&size.node),
        units(size.units),
        size.rule.word(),
    )
    .into()
}
