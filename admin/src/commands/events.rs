//! `starfarm events`: what happened on the farm, as lines. The XML log has all of it, for ever; these are the last
//! thousand lines, and those that come.

use std::thread::sleep;
use std::time::Duration;

use starfarm_logs::Utc;
use starfarm_protocol::admin::{EventLine, Request};

use super::Context;
use crate::cli::Events;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::human;
use crate::output::table::{Cell, Column, left, right};
use crate::output::{Format, Printer, Record, say};

/// How often is looked for more.
const PERIOD: Duration = Duration::from_millis(500);

impl Record for EventLine {
    const ONE: &'static str = "event";
    const MANY: &'static str = "events";
    const COLUMNS: &'static [Column<Self>] = &[
        right("number", |line| Cell::new(line.number.to_string())),
        left("time", |line| Cell::new(Utc(line.at_us).to_string())),
        left("what happened", |line| Cell::new(human::printable(&line.text))),
    ];

    fn quiet(&self) -> String {
        human::printable(&self.text)
    }
}

/// Up to where all was printed.
#[derive(Debug, Default)]
struct Seen {
    /// The scheduler's incarnation: each numbers anew.
    epoch: u64,
    events: u64,
    /// None before the first look: what went before nobody asked for.
    tasks: Option<u64>,
}

pub(crate) fn run(context: &mut Context, events: &Events) -> Result<(), Failure> {
    let mut client = context.connect()?;
    warn_of_the_future(&mut client, events.after)?;
    if !events.follow {
        let (lines, _) = client.events(&Request::Events { after: events.after, take: u64::MAX })?;
        return context.printer.list(&lines);
    }
    let mut seen = Seen { epoch: client.status()?.epoch, events: events.after, tasks: None };
    loop {
        match look(&mut client, &mut seen, events.tasks) {
            Ok((lines, words)) => {
                words.iter().for_each(|words| say(words));
                lines.iter().try_for_each(|line| print(&mut context.printer, line))?;
                context.printer.flush()?;
            }
            Err(failure) if failure.exit == Exit::Unreachable => {
                say(&format!("{}; trying again", failure.message));
                let (connected, epoch) = again(context);
                client = connected;
                seen.renew(epoch);
            }
            Err(failure) => return Err(failure),
        }
        sleep(PERIOD);
    }
}

/// Nothing has that number yet: whoever waits for what comes after it would miss all before.
fn warn_of_the_future(client: &mut Client, after: u64) -> Result<(), Failure> {
    if after == 0 {
        return Ok(());
    }
    let (lines, _) = client.events(&Request::Events { after: 0, take: u64::MAX })?;
    let newest = lines.last().map_or(0, |line| line.number);
    if after > newest {
        say(&format!("the newest line is number {newest}: a scheduler numbers anew at each start"));
    }
    Ok(())
}

impl Seen {
    /// The scheduler of `epoch` answers.
    fn renew(&mut self, epoch: u64) {
        if epoch != self.epoch {
            say(&format!("the scheduler was started again, epoch {epoch}: its lines begin with number 1"));
            *self = Self { epoch, ..Self::default() };
        }
    }
}

/// A connection, whenever there is one again, and the epoch of who answers.
fn again(context: &Context) -> (Client, u64) {
    loop {
        sleep(PERIOD);
        if let Ok(mut client) = context.connect()
            && let Ok(status) = client.status()
        {
            return (client, status.epoch);
        }
    }
}

/// What came since the last look, in order of time, and what a person should know of what is missing.
fn look(client: &mut Client, seen: &mut Seen, tasks: bool) -> Result<(Vec<EventLine>, Vec<String>), Failure> {
    let mut words = Vec::new();
    let (mut lines, missed) = client.events(&Request::Events { after: seen.events, take: u64::MAX })?;
    // Nobody expects all lines of old by the first look.
    if missed > 0 && seen.events > 0 {
        words.push(format!("{missed} lines between are gone; the log has them: `starfarm log replay`"));
    }
    seen.events = lines.last().map_or(seen.events, |line| line.number);
    if tasks {
        let take = if seen.tasks.is_some() { u64::MAX } else { 0 };
        let after = seen.tasks.unwrap_or(0);
        let (more, missed) = client.events(&Request::TaskEvents { after, take })?;
        if missed > 0 && seen.tasks.is_some() {
            words.push(format!("{missed} more tasks were sent and came back than are shown one by one"));
        }
        seen.tasks = Some(after + more.len() as u64 + missed);
        lines.extend(more.into_iter().map(|line| EventLine { number: 0, ..line }));
        lines.sort_by_key(|line| line.at_us);
    }
    Ok((lines, words))
}

fn print(printer: &mut Printer, line: &EventLine) -> Result<(), Failure> {
    match printer.format {
        Format::Table => printer.line(&format!("{}  {}", Utc(line.at_us), human::printable(&line.text))),
        Format::Json | Format::Jsonl => printer.line_of(EventLine::ONE, line),
        Format::Quiet => printer.line(&line.quiet()),
    }
}
