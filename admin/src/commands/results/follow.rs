//! The outputs of a job as they come in, each once: printed byte for byte, listed in a job log, written into a tree of
//! folders. Those that do not count any more are left out.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use starfarm_decomposers::Decomposer;
use starfarm_decomposers::template::{Rules, UnitText};
use starfarm_protocol::admin::OutputInfo;
use starfarm_protocol::ids::JobId;
use starfarm_protocol::spec::{CommandWork, Work};
use starfarm_protocol::unit_set::UnitSet;

use super::pages::{ORDERED_MAX, Pages, fill};
use super::show::bytes;
use super::source::{OfJob, Source};
use super::tree::Tree;
use crate::cli::{Parallel, Wanted};
use crate::client::Client;
use crate::commands::joblog::JobLog;
use crate::failure::Failure;
use crate::jobfile::JobFile;
use crate::output::{Printer, say};

/// What is done with each output.
#[derive(Default)]
pub(crate) struct Sinks {
    print: Option<Print>,
    joblog: Option<JobLog>,
    tree: Option<Tree>,
}

impl Sinks {
    /// Those that the flags ask for. The job log goes on where an old one is resumed.
    ///
    /// # Errors
    /// What they write to cannot be made.
    pub(crate) fn open(flags: &Parallel, goes_on: bool, prints: bool) -> Result<Self, Failure> {
        Ok(Self {
            print: prints.then(|| Print::new(flags.keep_order)),
            joblog: flags.joblog.as_deref().map(|path| JobLog::open(path, goes_on)).transpose()?,
            tree: flags.results.as_deref().map(Tree::open).transpose()?,
        })
    }

    /// What is to be done needs the values of units.
    fn name_units(&self) -> bool {
        self.joblog.is_some() || self.tree.is_some()
    }

    /// There is something to do.
    pub(crate) fn are_any(&self) -> bool {
        self.print.is_some() || self.joblog.is_some() || self.tree.is_some()
    }
}

/// Standard output of units to ours, standard error likewise.
#[derive(Default)]
struct Print {
    keep_order: bool,
    next: u128,
    /// Outputs that wait for those of units before them.
    held: BTreeMap<u128, OutputInfo>,
}

impl Print {
    fn new(keep_order: bool) -> Self {
        Self { keep_order, ..Self::default() }
    }

    /// What is to be shown now that `output` is here.
    fn next(&mut self, output: OutputInfo) -> Vec<OutputInfo> {
        if !self.keep_order {
            return vec![output];
        }
        self.held.insert(output.unit.0, output);
        if self.held.len() > ORDERED_MAX {
            say(&format!(
                "{ORDERED_MAX} outputs wait for that of unit {}: from here on they come as they came in",
                self.next
            ));
            self.keep_order = false;
            return self.rest();
        }
        let mut ready = Vec::new();
        while let Some(output) = self.held.remove(&self.next) {
            self.next += 1;
            ready.push(output);
        }
        ready
    }

    /// What still waits: the units before have none.
    fn rest(&mut self) -> Vec<OutputInfo> {
        std::mem::take(&mut self.held).into_values().collect()
    }
}

pub(crate) struct Follower {
    id: JobId,
    space: Box<dyn Decomposer>,
    work: CommandWork,
    sinks: Sinks,
    /// Outputs that were looked at.
    seen: u64,
    /// Units that failed for good and had an output.
    failed: UnitSet,
}

impl Follower {
    /// Follows `id`, which is `job` on a farm. A job that runs no programs has no outputs.
    pub(crate) fn new(id: JobId, job: &JobFile, sinks: Sinks) -> Result<Self, Failure> {
        let work = match &job.spec.work {
            Work::Command(command) => command.clone(),
            _ => CommandWork::default(),
        };
        if job.spec.space.grows() && sinks.name_units() {
            return Err(Failure::usage(
                "the values of units that a program names are known to the farm alone: leave out --joblog and --results",
            ));
        }
        let space = job.opened().map_err(Failure::usage)?;
        Ok(Self { id, space, work, sinks, seen: 0, failed: UnitSet::default() })
    }

    /// Passes on what has come since the last look.
    pub(crate) fn look(&mut self, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
        if !self.sinks.are_any() {
            return Ok(());
        }
        self.look_at(&mut OfJob { client, id: self.id }, printer)
    }

    /// The last look, and whatever was held back.
    pub(crate) fn finish(&mut self, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
        if !self.sinks.are_any() {
            return Ok(());
        }
        self.finish_at(&mut OfJob { client, id: self.id }, printer)
    }

    fn look_at(&mut self, source: &mut dyn Source, printer: &mut Printer) -> Result<(), Failure> {
        let mut seen = self.seen;
        news(source, &mut seen, |source, output| self.take(source, output, printer))?;
        self.seen = seen;
        printer.flush()
    }

    fn finish_at(&mut self, source: &mut dyn Source, printer: &mut Printer) -> Result<(), Failure> {
        self.look_at(source, printer)?;
        for output in self.sinks.print.as_mut().map(Print::rest).unwrap_or_default() {
            print(source, output, printer)?;
        }
        printer.flush()?;
        let Some(joblog) = &mut self.sinks.joblog else { return Ok(()) };
        let mut silent = Vec::new();
        Pages::new(source, Wanted::default())?.failed(|page| {
            silent.extend(page.into_iter().filter(|unit| !self.failed.contains(unit.unit.0)));
            Ok(())
        })?;
        for unit in silent {
            let text = text(&*self.space, unit.unit.0)?;
            joblog.lost(
                unit.node.as_deref(),
                &text,
                &command_line(&self.work, &*self.space, &text),
                now_us(),
            )?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        source: &mut dyn Source,
        output: OutputInfo,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        if output.failed.is_some() {
            self.failed.insert(output.unit.0, output.unit.0.saturating_add(1));
        }
        if self.sinks.joblog.is_some() || self.sinks.tree.is_some() {
            let text = text(&*self.space, output.unit.0)?;
            if let Some(joblog) = &mut self.sinks.joblog {
                let command = command_line(&self.work, &*self.space, &text);
                joblog.ended(&output, &text, &command, now_us())?;
            }
            if let Some(tree) = &self.sinks.tree {
                let mut output = output.clone();
                fill_both(source, &mut output)?;
                let [stdout, stderr] =
                    [&output.stdout, &output.stderr].map(|of| bytes(&of.text, of.hex.as_deref()));
                tree.write(&text, &stdout, &stderr)?;
            }
        }
        let ready = self.sinks.print.as_mut().map(|print| print.next(output)).unwrap_or_default();
        ready.into_iter().try_for_each(|output| print(source, output, printer))
    }
}

/// Shows `visit` the outputs that came in behind the first `seen`, which counts them.
pub(super) fn news(
    source: &mut dyn Source,
    seen: &mut u64,
    mut visit: impl FnMut(&mut dyn Source, OutputInfo) -> Result<(), Failure>,
) -> Result<(), Failure> {
    loop {
        let page = source.page(*seen)?;
        let found = page.outputs.len() as u64 + page.outputs_damaged;
        for output in page.outputs.into_iter().filter(|output| !output.superseded) {
            visit(source, output)?;
        }
        *seen += found;
        if found == 0 || !page.more {
            return Ok(());
        }
    }
}

fn text(space: &dyn Decomposer, unit: u128) -> Result<UnitText, Failure> {
    UnitText::of(space, unit).map_err(|error| Failure::usage(error.to_string()))
}

/// The command line of a unit, as a person reads it.
fn command_line(work: &CommandWork, space: &dyn Decomposer, text: &UnitText) -> String {
    let rules = Rules::of(work, &space.names());
    let mut words =
        work.program.iter().map(|word| String::from_utf8_lossy(&rules.word(word).fill(text)).into_owned());
    match work.parallel {
        // The line, without the shell.
        true => words.next_back().unwrap_or_default(),
        false => words.collect::<Vec<_>>().join(" "),
    }
}

fn fill_both(source: &mut dyn Source, output: &mut OutputInfo) -> Result<(), Failure> {
    for stream in [&mut output.stdout, &mut output.stderr] {
        fill(source, stream)?;
        if let Some(what) = stream.lost {
            say(&format!("an output of unit {} is {what} on the scheduler's disk", output.unit));
        }
    }
    Ok(())
}

fn print(source: &mut dyn Source, mut output: OutputInfo, printer: &mut Printer) -> Result<(), Failure> {
    fill_both(source, &mut output)?;
    printer.bytes(&bytes(&output.stdout.text, output.stdout.hex.as_deref()))?;
    let stderr = bytes(&output.stderr.text, output.stderr.hex.as_deref());
    if !stderr.is_empty() {
        printer.flush()?;
        // Whoever closed it does not want to hear more.
        let _ = std::io::stderr().write_all(&stderr);
    }
    Ok(())
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::pages::testing::Fake;
    use super::*;
    use crate::jobfile;
    use crate::output::Format;
    use crate::output::testing::printed;

    fn follower(sinks: Sinks) -> Follower {
        let text = "[space]\nkind = \"range\"\nfrom = 0\nto = 9\n[task]\nexecutor = \"command\"\nprogram = [\"true\"]\n";
        Follower::new(JobId(7), &jobfile::parse(text, "demo.toml", Path::new("")).unwrap(), sinks).unwrap()
    }

    /// What is printed of the first outputs of a fake, and then of all.
    fn printed_in_two_looks(keep_order: bool, first: u64, fake: Fake) -> [String; 2] {
        let mut follower = follower(Sinks { print: Some(Print::new(keep_order)), ..Sinks::default() });
        let (mut fake, all) = (Fake { hidden: fake.outputs - first, ..fake }, fake.outputs);
        let before = printed(Format::Quiet, |printer| follower.look_at(&mut fake, printer));
        assert_eq!(fake.outputs, all);
        fake.hidden = 0;
        let after = printed(Format::Quiet, |printer| follower.finish_at(&mut fake, printer));
        [before, after]
    }

    #[test]
    fn outputs_are_printed_once_as_they_come() {
        let fake = || Fake { backwards: true, ..Fake::new(0, 1, 5) };
        let printed = printed_in_two_looks(false, 3, fake());
        assert_eq!(printed, ["out 4\nout 3\nout 2\n", "out 1\nout 0\n"]);
        let fake = Fake { superseded: vec![3], ..fake() };
        assert_eq!(printed_in_two_looks(false, 3, fake), ["out 4\nout 2\n", "out 1\nout 0\n"]);
    }

    #[test]
    fn in_order_an_output_waits_for_those_before_it() {
        let fake = || Fake::new(0, 0, 5);
        assert_eq!(printed_in_two_looks(true, 2, fake()), ["out 0\nout 1\n", "out 2\nout 3\nout 4\n"]);
        let backwards = Fake { backwards: true, ..fake() };
        assert_eq!(printed_in_two_looks(true, 4, backwards), ["", "out 0\nout 1\nout 2\nout 3\nout 4\n"]);
        // A unit without an output holds the others up no longer than to the end.
        let lacking = Fake { superseded: vec![1], ..fake() };
        assert_eq!(printed_in_two_looks(true, 4, lacking), ["out 0\n", "out 2\nout 3\nout 4\n"]);
    }
}
