//! `starfarm monitor follow`: what is new, until somebody stops it: figures, alarms as they begin, change and end, and what programs
//! tell, in order.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use starfarm_events::counted;
use starfarm_logs::Utc;
use starfarm_protocol::admin::{AlarmLine, AlarmPage, Request, Subject, TraceLine, TracePage};

use super::series::{Series, newest};
use crate::cli::{About, Follow, MonitorStream};
use crate::client::Client;
use crate::commands::Context;
use crate::failure::Failure;
use crate::human;
use crate::output::{Format, Printer, Record, say};

/// How often is looked for more.
const LOOK: Duration = Duration::from_millis(100);
/// Waves are at least so far apart.
const APART_S: f64 = 0.05;
/// Lines that are asked for at once.
const LINES: u64 = 1_000;
/// What lines of JSON are called in `schema`.
const ALARM: &str = "alarm-change";
const TRACE: &str = "trace";

pub(super) fn run(context: &mut Context, asked: &Follow) -> Result<(), Failure> {
    let mut client = context.connect()?;
    let mut look = match asked.stream {
        Some(MonitorStream::Alarm) => alarms(asked)?,
        Some(MonitorStream::Trace) => traces(&asked.about),
        Some(MonitorStream::Job | MonitorStream::System) | None => figures(asked),
    };
    loop {
        let has_more = look(&mut client, &mut context.printer)?;
        context.printer.flush()?;
        if !has_more {
            std::thread::sleep(LOOK);
        }
    }
}

/// Prints what is new, and says whether there is more.
type Look<'a> = Box<dyn FnMut(&mut Client, &mut Printer) -> Result<bool, Failure> + 'a>;

fn figures(asked: &Follow) -> Look<'_> {
    let (start, mut told) = (Instant::now(), BTreeMap::<(String, String), f64>::new());
    Box::new(move |client, printer| {
        let mut all = newest(client, &asked.about)?;
        let now_s = start.elapsed().as_secs_f64();
        all.retain(|series| {
            let is_asked = match asked.stream {
                Some(MonitorStream::Job) => series.job.is_some(),
                Some(MonitorStream::System) => series.job.is_none(),
                _ => true,
            };
            let (whose, at_s) = ((series.whose(), series.metric.to_string()), now_s - series.age_seconds);
            let is_new = told.get(&whose).is_none_or(|before| at_s > before + APART_S);
            is_asked && is_new && {
                told.insert(whose, at_s);
                true
            }
        });
        all.iter().try_for_each(|series| figure(printer, series))?;
        Ok(false)
    })
}

fn figure(printer: &mut Printer, series: &Series) -> Result<(), Failure> {
    match printer.format {
        Format::Json | Format::Jsonl => printer.line_of(Series::ONE, series),
        Format::Quiet => printer.line(&series.quiet()),
        Format::Table => {
            let (whose, all) = (series.whose(), series.amount(series.spread.sum));
            printer.line(&format!("{whose:<12} {:<17} {all:>12}  {}", series.metric, series.spread()))
        }
    }
}

fn alarms(asked: &Follow) -> Result<Look<'_>, Failure> {
    if asked.about.job.is_some() {
        return Err(Failure::usage("an alarm is of a machine and not of a job: give --node, or neither"));
    }
    let mut after = 0;
    Ok(Box::new(move |client, printer| {
        let AlarmPage { lines, missed } = client.alarms_after(after)?;
        say_missed(after, missed, "more alarms began, changed or ended");
        for line in &lines {
            after = line.number;
            if asked.about.node.as_ref().is_none_or(|node| *node == line.node) {
                alarm(printer, line)?;
            }
        }
        Ok(false)
    }))
}

fn alarm(printer: &mut Printer, line: &AlarmLine) -> Result<(), Failure> {
    let AlarmLine { at_us, change, id, node, sensor, level, text, .. } = line;
    match printer.format {
        Format::Json | Format::Jsonl => printer.line_of(ALARM, line),
        Format::Quiet => printer.line(&format!("{change} {id}")),
        Format::Table => {
            let (at, node, text) = (Utc(*at_us), human::printable(node), human::printable(text));
            printer
                .line(&format!("{at}  {change:<7}  {level:<8}  {node}  {}: {text}", human::printable(sensor)))
        }
    }
}

fn traces(about: &About) -> Look<'_> {
    let about = match (about.job, &about.node) {
        (Some(job), _) => Some(Subject::Job(job)),
        (None, node) => node.clone().map(Subject::Node),
    };
    let mut after = 0;
    Box::new(move |client, printer| {
        let asked = Request::Trace { after, take: LINES, about: about.clone() };
        let TracePage { lines, missed, last, more } = client.trace(&asked)?;
        say_missed(after, missed, "more events were told, of whatever job,");
        after = last;
        lines.iter().try_for_each(|line| trace(printer, line))?;
        Ok(more)
    })
}

fn trace(printer: &mut Printer, line: &TraceLine) -> Result<(), Failure> {
    let text = human::printable(&line.text);
    match printer.format {
        Format::Json | Format::Jsonl => printer.line_of(TRACE, line),
        Format::Quiet => printer.line(&text),
        Format::Table => {
            let node = line.node.as_deref().map_or_else(|| "?".to_owned(), human::printable);
            if line.lost > 0 {
                let lost = counted(line.lost, "event");
                printer.line(&format!(
                    "({lost} of node {node} lost here: it told more than it may, or was cut off)"
                ))?;
            }
            let job = line.job.map_or_else(|| "?".to_owned(), |job| job.0.to_string());
            let unit = line.unit.map_or_else(String::new, |unit| format!(", unit {}", unit.0));
            printer.line(&format!("{}  {node}  job {job}{unit}: {text}", Utc(line.at_us)))
        }
    }
}

/// Nobody expects all of old by the first look.
fn say_missed(after: u64, missed: u64, what: &str) {
    if after > 0 && missed > 0 {
        say(&format!("{missed} {what} than are kept: they are missing here"));
    }
}
