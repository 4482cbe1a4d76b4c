//! `starfarm log replay --text`: a whole log on a page or two of a terminal.

use starfarm_events::JobChange;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use starfarm_logs::Utc;
use starfarm_logs::replay::{JobLine, NodeLine, Report};
use unicode_width::UnicodeWidthStr;

use super::plot;
use crate::human;
use crate::output::table::{Cell, Column, Table, left, name, right};
use crate::output::{Document, Style};

/// Nodes, jobs and marks that are shown at most.
const NODES_MAX: usize = 16;
const JOBS_MAX: usize = 12;
const MARKS_MAX: usize = 24;
/// Columns for names, and for the largest value behind a line of bars.
const NAME_COLUMNS_MAX: usize = 16;
const VALUE_COLUMNS: usize = 14;

/// Series that are drawn, with their names; those that a farm can do without only where they are not zero.
const LINES: [(&str, &str, bool); 10] = [
    ("nodes_up", "nodes up", true),
    ("slots_busy", "slots busy", true),
    ("gq", "waiting (gq)", true),
    ("dq", "at nodes (dq)", true),
    ("results_per_s", "results/s", true),
    ("units_per_s", "units/s", true),
    ("speed_ups_per_s", "speed-ups/s", false),
    ("slow_downs_per_s", "slow-downs/s", false),
    ("resent_per_s", "resent/s", false),
    ("offers_repeated_per_s", "repeated/s", false),
];

/// Shares of the time that is known of a node, and whether each has a column in any case. The rest of its time it was
/// up and had tasks.
const SHARES: [(bool, Column<NodeLine>); 5] = [
    (true, right("idle", |node| share(node, node.idle_us.iter().sum()))),
    (false, right("draining", |node| share(node, node.draining_us))),
    (false, right("quarantined", |node| share(node, node.quarantined_us))),
    (true, right("suspect", |node| share(node, node.suspect_us))),
    (true, right("lost", |node| share(node, node.lost_us))),
];

/// A log over time, for so many columns.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct Replayed<'a> {
    pub(super) report: &'a Report,
    #[serde(skip)]
    pub(super) width: usize,
}

impl Document for Replayed<'_> {
    const NAME: &'static str = "log-replay";

    fn table(&self, style: Style) -> String {
        let parts = [
            self.head(),
            self.jobs(style),
            self.nodes(style),
            self.lines(),
            self.node_table(style),
            self.durations(),
            self.marks(),
        ];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

impl Replayed<'_> {
    fn head(&self) -> String {
        let report = self.report;
        let span_us = report.to_us - report.from_us;
        let epochs = match &report.epochs[..] {
            [] => "no epoch".to_owned(),
            [one] => format!("epoch {}", one.epoch),
            [first, .., last] => format!("{} epochs, {} to {}", report.epochs.len(), first.epoch, last.epoch),
        };
        let complete = if report.complete { "complete" } else { "not complete" };
        let mut text = format!(
            "farm {}  {epochs}  log {complete}\n{} to {}  {}\n{}, {}, {}\n",
            human::printable(&report.farm),
            Utc(report.from_us),
            Utc(report.to_us),
            human::seconds(span_us as f64 / 1e6),
            counted(report.totals.nodes, "node"),
            counted(report.totals.slots, "slot"),
            counted(report.totals.results, "result")
        );
        for note in &report.notes {
            let _ = writeln!(text, "note: {}", human::printable(note));
        }
        text
    }

    fn jobs(&self, style: Style) -> String {
        let table = Table::of(
            self.shown_jobs(),
            &[
                right("job", |job| Cell::new(job.job.to_string())),
                name("name", |job| short(&job.name)),
                left("state", |job| Cell::state(job.state().map_or("-", JobChange::word))),
                right("units", |job| Cell::new(human::units(job.units))),
                right("done", |job| Cell::new(human::share(job.done, job.units))),
                right("failed", |job| Cell::new(human::units(job.failed))),
                right("hits", |job| Cell::new(human::count(job.hits as f64))),
                right("took", |job| {
                    let took_us = job.started_us.zip(job.ended_us).map(|(from, to)| to.saturating_sub(from));
                    Cell::new(human::seconds_if_known(took_us.map(|us| us as f64 / 1e6)))
                }),
                left("certificate", |job| {
                    let verdict = job.certificate.as_ref().and_then(|fields| fields.get("verdict")?.as_str());
                    Cell::new(verdict.unwrap_or("-").replace('_', " "))
                }),
            ],
        );
        // A line that stands for many is none of them.
        let jobs = self.report.jobs.iter().filter(|job| job.job > 0).count();
        if jobs == 0 {
            return String::new();
        }
        let left = (jobs as u64 + self.report.jobs_left_out).saturating_sub(JOBS_MAX as u64);
        table.render(style) + &more(left, "jobs")
    }

    /// The jobs to show: those that run or went wrong before the others, and the latest.
    fn shown_jobs(&self) -> Vec<&JobLine> {
        let mut jobs: Vec<&JobLine> = self.report.jobs.iter().filter(|job| job.job > 0).collect();
        jobs.sort_by_key(|job| Reverse((job.telling(), job.job)));
        jobs.truncate(JOBS_MAX);
        jobs
    }

    /// The nodes to show, in the order of their names: those with most trouble, where not all have room.
    fn shown(&self) -> Vec<&NodeLine> {
        let mut order: Vec<(usize, &NodeLine)> = self.report.nodes.iter().enumerate().collect();
        let trouble = |node: &NodeLine| (node.times_lost, node.lost_us, node.suspect_us, node.resent);
        order.sort_by_key(|(_, node)| Reverse(trouble(node)));
        order.truncate(NODES_MAX);
        order.sort_by_key(|(at, _)| *at);
        order.into_iter().map(|(_, node)| node).collect()
    }

    /// Columns for names, and for pictures beside them.
    fn columns(&self) -> (usize, usize) {
        let lines = LINES.iter().map(|(_, name, _)| name.width());
        let names = self.shown().into_iter().map(|node| human::printable(&node.name).width());
        let name = lines.chain(names).max().unwrap_or(0).min(NAME_COLUMNS_MAX);
        (name, self.width - name - VALUE_COLUMNS - 3)
    }

    fn nodes(&self, style: Style) -> String {
        let shown = self.shown();
        if shown.is_empty() {
            return "no nodes\n".to_owned();
        }
        let (name_columns, columns) = self.columns();
        let mut text = String::new();
        for node in &shown {
            let name = plot::fit(&human::printable(&node.name), name_columns);
            let row = plot::row(self.report, node, columns, style.color);
            let used = format!("{:>3.0} % busy", node.utilisation * 100.0);
            let _ = writeln!(text, "{name} ▕{row}▏{used}");
        }
        let _ = writeln!(text, "{} {}", " ".repeat(name_columns + 1), plot::axis(self.report, columns));
        let _ = writeln!(text, "{}", plot::legend(style.color));
        let left = (self.report.nodes.len() - shown.len()) as u64 + self.report.nodes_left_out;
        text + &more(left, "nodes, which had less trouble")
    }

    fn lines(&self) -> String {
        let is_known = |values: &[f32]| values.iter().any(|value| value.is_finite());
        if !LINES.iter().any(|(series, ..)| is_known(self.report.series(series))) {
            return "no figures\n".to_owned();
        }
        let (name_columns, columns) = self.columns();
        let mut text = String::new();
        for (series, name, always) in LINES {
            let values = self.report.series(series);
            let largest = plot::largest(values);
            if values.is_empty() || (largest == 0.0 && !always) {
                continue;
            }
            // Of nodes that are up, a column shows the fewest: one that was lost is to be seen.
            let most = match series {
                "nodes_up" => self.report.totals.nodes_up as f64,
                _ => f64::from(largest),
            };
            let (name, bars) = (plot::fit(name, name_columns), plot::bars(values, columns));
            let _ = writeln!(text, "{name} ▕{bars}▏max {}", human::count(most));
        }
        let _ = writeln!(text, "{} {}", " ".repeat(name_columns + 1), plot::axis(self.report, columns));
        text
    }

    fn node_table(&self, style: Style) -> String {
        let shown = self.shown();
        if shown.is_empty() {
            return String::new();
        }
        // Rare states have a column where there is something in it.
        let shares = SHARES.into_iter().filter(|(always, share)| {
            *always || shown.iter().any(|node| (share.cell)(node) != Cell::new("-"))
        });
        let mut columns = vec![
            left("node", |node: &NodeLine| short(&node.name)),
            right("slots", |node| Cell::new(node.slots.to_string())),
            right("results", |node| Cell::new(human::count(node.results as f64))),
            right("units", |node| Cell::new(human::units(node.units_done))),
        ];
        columns.extend(shares.map(|(_, share)| share));
        columns.extend([
            right("times", |node: &NodeLine| Cell::new(node.times_lost.to_string())),
            right("resent", |node| Cell::new(human::count(node.resent as f64))),
            right("feedback", |node| Cell::new(format!("+{} -{}", node.speed_ups, node.slow_downs))),
        ]);
        Table::of(shown, &columns).render(style)
    }

    fn durations(&self) -> String {
        let mut text = String::new();
        for job in self.shown_jobs().into_iter().filter(|job| job.results > 0) {
            let bins = job.durations.bins();
            let (Some((first, _)), Some((last, _))) = (bins.first(), bins.last()) else { continue };
            let counts: Vec<f32> = bins.iter().map(|(_, count)| *count as f32).collect();
            let _ = writeln!(
                text,
                "durations of job {}: {} {} {}  median about {}, {}",
                job.job,
                human::seconds(*first as f64 / 1e6),
                plot::bars(&counts, counts.len()),
                human::seconds(last.saturating_mul(2) as f64 / 1e6),
                human::seconds(job.median_us.unwrap_or(0) as f64 / 1e6),
                counted(job.results, "result")
            );
        }
        text
    }

    fn marks(&self) -> String {
        let report = self.report;
        let mut kinds: BTreeMap<(bool, &str), Vec<usize>> = BTreeMap::new();
        for (at, mark) in report.marks.iter().enumerate() {
            kinds.entry((!mark.is_telling, mark.kind)).or_default().push(at);
        }
        let mut kinds: Vec<((bool, &str), Vec<usize>)> = kinds.into_iter().collect();
        kinds.sort_by_key(|((is_lesser, _), places)| (*is_lesser, places.len()));
        let mut shown: Vec<usize> = Vec::new();
        let telling = kinds.iter().filter(|((is_lesser, _), _)| !is_lesser).count();
        for (at, (_, places)) in kinds.iter().enumerate() {
            // What tells how the run went comes first; of each kind some, evenly over time, and what rarer kinds do
            // not need is there for the others.
            let others = if at < telling { telling - at } else { kinds.len() - at };
            let room = (MARKS_MAX.saturating_sub(shown.len()) / others).max(1);
            let step = places.len().div_ceil(room).max(1);
            shown.extend(places.iter().step_by(step));
        }
        shown.sort_unstable();
        let span_us = report.to_us - report.from_us;
        let mut text = String::new();
        for mark in shown.iter().map(|at| &report.marks[*at]) {
            let line = format!("{}  {}", plot::clock(mark.at_us, span_us), human::printable(&mark.text));
            text.push_str(&human::fitted(&line, self.width));
            text.push('\n');
        }
        let left_out = report.marks_left_out + (report.marks.len() - shown.len()) as u64;
        if left_out > 0 {
            let _ = writeln!(text, "and {} more", human::count(left_out as f64));
        }
        text
    }
}

fn short(name: &str) -> Cell {
    Cell::new(human::fitted(&human::printable(name), NAME_COLUMNS_MAX))
}

fn share(node: &NodeLine, us: u64) -> Cell {
    match us {
        0 => Cell::new("-"),
        us => Cell::new(format!("{:.1}%", us as f64 / node.known_us as f64 * 100.0)),
    }
}

fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", human::count(count as f64), if count == 1 { "" } else { "s" })
}

fn more(left: u64, what: &str) -> String {
    if left == 0 { String::new() } else { format!("and {left} more {what}\n") }
}
