//! The outputs of a job as they come in, each once: printed, listed in a job log, written into folders. Those that do not
//! count any more are left out.

use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use starfarm_decomposers::Decomposer;
use starfarm_decomposers::template::{Rules, UnitText};
use starfarm_protocol::admin::{JobInfo, OutputInfo};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::spec::{CommandWork, Work};
use starfarm_protocol::unit_set::UnitSet;

use super::files::Folder;
use super::lost::lost;
use super::order::Order;
use super::pages::{Pages, touches};
use super::saving::Saving;
use super::show::{Outputs, bytes};
use super::source::{OfJob, Source, fill};
use super::tree::Tree;
use crate::cli::{Parallel, Wanted};
use crate::client::Client;
use crate::commands::joblog::JobLog;
use crate::failure::Failure;
use crate::jobfile::JobFile;
use crate::output::{Printer, say};

/// How long one look goes on before others have their turn: who waits may be interrupted.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// What is done with each output.
#[derive(Default)]
pub(crate) struct Sinks {
    print: Option<Print>,
    joblog: Option<JobLog>,
    tree: Option<Tree>,
    saving: Option<Saving>,
    /// What is printed, and the files of a folder, come in the order of the units.
    keep_order: bool,
}

/// Outputs on standard output.
enum Print {
    /// What units wrote, byte for byte, standard error likewise.
    Bare,
    /// As results are printed.
    Results(Outputs),
}

impl Sinks {
    /// Those that the flags ask for. The job log goes on where an old one is resumed.
    ///
    /// # Errors
    /// What they write to cannot be made.
    pub(crate) fn open(flags: &Parallel, goes_on: bool, prints: bool) -> Result<Self, Failure> {
        Ok(Self {
            print: prints.then_some(Print::Bare),
            joblog: flags.joblog.as_deref().map(|path| JobLog::open(path, goes_on)).transpose()?,
            tree: flags.results.as_deref().map(Tree::open).transpose()?,
            saving: None,
            keep_order: flags.keep_order,
        })
    }

    /// Outputs as `starfarm results` prints them.
    pub(super) fn results(outputs: Option<Outputs>, keep_order: bool) -> Self {
        let print = outputs.map(Print::Results);
        Self { print, keep_order, ..Self::default() }
    }

    /// Files are written into a folder.
    pub(crate) fn saving(self, folder: Option<Folder>) -> Self {
        Self { saving: folder.map(|folder| Saving::new(folder, None)), ..self }
    }

    /// And streams beside them.
    pub(super) fn saving_all(self, saving: Option<Saving>) -> Self {
        Self { saving, ..self }
    }

    /// What is to be done needs the values of units.
    fn name_units(&self) -> bool {
        self.joblog.is_some() || self.tree.is_some()
    }

    /// It can be done again from the first output on, and comes to the same: files are there once, what is printed is there
    /// twice.
    pub(crate) fn can_begin_anew(&self) -> bool {
        self.print.is_none() && !self.name_units()
    }

    /// There is something to do.
    pub(crate) fn are_any(&self) -> bool {
        self.print.is_some() || self.saving.is_some() || self.name_units()
    }
}

/// What gives units their values.
struct Naming {
    space: Box<dyn Decomposer>,
    work: CommandWork,
}

pub(crate) struct Follower {
    id: JobId,
    naming: Option<Naming>,
    sinks: Sinks,
    order: Option<Order>,
    /// Only these, if not all.
    units: Option<UnitSet>,
    /// Outputs that were looked at.
    seen: u64,
    /// The most that ever were: for the sake of order some are looked at again.
    most: u64,
    /// Units that failed for good and had an output.
    failed: UnitSet,
    /// How often the scheduler had gone away and come back at the last look.
    returns: u32,
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
        Ok(Self { naming: Some(Naming { space, work }), ..Self::of_farm(id, sinks, None) })
    }

    /// Follows a job of which only the farm knows what it is. `units`: only these, if not all.
    pub(super) fn of_farm(id: JobId, sinks: Sinks, units: Option<UnitSet>) -> Self {
        let is_ordered = sinks.keep_order && (sinks.print.is_some() || sinks.saving.is_some());
        let order = is_ordered.then(Order::default);
        Self {
            id,
            naming: None,
            sinks,
            order,
            units,
            seen: 0,
            most: 0,
            failed: UnitSet::default(),
            returns: 0,
        }
    }

    /// Passes on what has come since the last look at `job`, or as much of it as a second allows.
    pub(crate) fn look(
        &mut self,
        client: &mut Client,
        job: &JobInfo,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        if !self.sinks.are_any() {
            return Ok(());
        }
        self.begin_anew_after(client.returns());
        let source = &mut OfJob { client, id: self.id };
        self.read(source, printer, Some(Instant::now() + LOOK_MAX))?;
        self.pass_over(source, job.units_failed.0, printer)
    }

    /// The last look. Of a job that `has_ended` whatever was held back follows; of any other no file does, for its turn will
    /// come.
    pub(crate) fn finish(
        &mut self,
        client: &mut Client,
        printer: &mut Printer,
        has_ended: bool,
    ) -> Result<(), Failure> {
        if !self.sinks.are_any() {
            return Ok(());
        }
        self.begin_anew_after(client.returns());
        self.finish_at(&mut OfJob { client, id: self.id }, printer, has_ended)
    }

    /// Sees to it that the folder has all that there is of a job that has ended, and fails where something cannot be had.
    pub(crate) fn settle(&mut self, client: &mut Client) -> Result<(), Failure> {
        let id = self.id;
        let Some(saving) = &mut self.sinks.saving else { return Ok(()) };
        let job = client.job(id)?;
        if !job.state.ended() {
            return Ok(());
        }
        let all = || UnitSet::from_iter([(0, job.units_total.0)]);
        let units = self.units.clone().unwrap_or_else(all);
        let seen = saving.settle(&mut OfJob { client, id }, &units)?;
        lost(client, id, &seen)
    }

    /// The folder that it writes into, and what it wrote there.
    pub(super) fn saved(&self) -> Option<&Saving> {
        self.sinks.saving.as_ref()
    }

    /// How results were printed.
    pub(super) fn printed(&self) -> Option<&Outputs> {
        match &self.sinks.print {
            Some(Print::Results(outputs)) => Some(outputs),
            _ => None,
        }
    }

    /// Outputs that no result names any more leave their places to others.
    fn begin_anew_after(&mut self, returns: u32) {
        if returns != self.returns {
            let order = self.order.as_ref().map(|_| Order::default());
            (self.order, self.seen, self.most, self.failed) = (order, 0, 0, UnitSet::default());
            self.returns = returns;
        }
    }

    fn read(
        &mut self,
        source: &mut dyn Source,
        printer: &mut Printer,
        until: Option<Instant>,
    ) -> Result<(), Failure> {
        loop {
            let mut seen = self.seen;
            news(source, &mut seen, until, |source, at, output| self.take(source, (at, output), printer))?;
            (self.seen, self.most) = (seen, self.most.max(seen));
            let again = self.order.as_mut().and_then(Order::read_again);
            self.seen = again.unwrap_or(seen);
            if again.is_none() || until.is_some_and(|until| Instant::now() >= until) {
                return printer.flush();
            }
        }
    }

    /// Learns which units failed and leave no output, where others wait for one of these.
    fn pass_over(
        &mut self,
        source: &mut dyn Source,
        failed: u128,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        let Some(order) = &mut self.order else { return Ok(()) };
        if order.silent().is_none_or(|silent| failed <= self.failed.units() + silent) {
            return Ok(());
        }
        let known = &self.failed;
        Pages::new(source, Wanted::default())?.failed(|page| {
            let silent = page.iter().filter(|failed| !known.contains(failed.unit.0));
            silent.for_each(|failed| order.is_silent(failed.unit));
            Ok(())
        })?;
        self.pass_ready(source, printer)?;
        printer.flush()
    }

    fn finish_at(
        &mut self,
        source: &mut dyn Source,
        printer: &mut Printer,
        has_ended: bool,
    ) -> Result<(), Failure> {
        self.read(source, printer, None)?;
        self.pass_over(source, u128::MAX, printer)?;
        let saving = self.sinks.saving.take_if(|_| !has_ended);
        // A unit whose files are not there is not in the log.
        let joblog = self.sinks.joblog.take_if(|_| saving.is_some());
        while let Some(order) = &mut self.order {
            if let Some(output) = order.give_up() {
                self.pass(source, output, printer)?;
            } else if let Some(at) = order.read_again() {
                self.seen = at;
                self.read(source, printer, None)?;
            } else {
                break;
            }
        }
        self.sinks.saving = self.sinks.saving.take().or(saving);
        self.sinks.joblog = self.sinks.joblog.take().or(joblog);
        printer.flush()?;
        let (Some(joblog), Some(naming)) = (&mut self.sinks.joblog, &self.naming) else { return Ok(()) };
        let mut silent = Vec::new();
        Pages::new(source, Wanted::default())?.failed(|page| {
            silent.extend(page.into_iter().filter(|unit| !self.failed.contains(unit.unit.0)));
            Ok(())
        })?;
        for unit in silent {
            let text = naming.text(unit.unit.0)?;
            joblog.lost(unit.node.as_deref(), &text, &naming.command_line(&text), now_us())?;
        }
        Ok(())
    }

    /// The output at this place among all that came in.
    fn take(
        &mut self,
        source: &mut dyn Source,
        (at, output): (u64, OutputInfo),
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        let is_new = at >= self.most;
        if is_new {
            self.note(source, &output)?;
        }
        let Some(order) = &mut self.order else { return self.pass(source, output, printer) };
        if let Some(late) = order.put(at, output, is_new) {
            self.pass(source, late, printer)?;
        }
        self.pass_ready(source, printer)
    }

    fn pass_ready(&mut self, source: &mut dyn Source, printer: &mut Printer) -> Result<(), Failure> {
        while let Some(output) = self.order.as_mut().and_then(Order::next) {
            self.pass(source, output, printer)?;
        }
        Ok(())
    }

    /// What is done in the order in which outputs come in.
    fn note(&mut self, source: &mut dyn Source, output: &OutputInfo) -> Result<(), Failure> {
        let (lo, hi) = (output.unit.0, output.unit.0.saturating_add(output.units.0));
        match output.failed {
            Some(_) => self.failed.insert(lo, hi),
            None => self.failed.remove(lo, hi),
        }
        let (Some(tree), Some(naming)) = (&self.sinks.tree, &self.naming) else { return Ok(()) };
        let mut output = output.clone();
        fill_both(source, &mut output)?;
        let [stdout, stderr] = [&output.stdout, &output.stderr].map(|of| bytes(&of.text, of.hex.as_deref()));
        tree.write(&naming.text(output.unit.0)?, &stdout, &stderr)
    }

    /// What is done in the order that was asked for.
    fn pass(
        &mut self,
        source: &mut dyn Source,
        mut output: OutputInfo,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        if self.units.as_ref().is_some_and(|units| !touches(units, &output)) {
            return Ok(());
        }
        if let Some(saving) = &mut self.sinks.saving {
            saving.take(source, &mut output)?;
        }
        match &mut self.sinks.print {
            Some(Print::Bare) => print(source, &mut output, printer)?,
            Some(Print::Results(outputs)) => {
                fill_both(source, &mut output)?;
                outputs.show(&output, printer)?;
            }
            None => {}
        }
        let (Some(joblog), Some(naming)) = (&mut self.sinks.joblog, &self.naming) else { return Ok(()) };
        // Whoever goes on by the log takes it that the rest was done: all of it is out before.
        printer.flush()?;
        // A row for each unit of the run: whoever goes on by the log leaves out what it has.
        (output.unit.0..output.unit.0.saturating_add(output.units.0)).try_for_each(|unit| {
            let text = naming.text(unit)?;
            joblog.ended(&output, &text, &naming.command_line(&text), now_us())
        })
    }
}

/// Shows `visit` the outputs that came in behind the first `seen`, which counts them, each with its place; or those that can
/// be shown `until` then.
pub(super) fn news(
    source: &mut dyn Source,
    seen: &mut u64,
    until: Option<Instant>,
    mut visit: impl FnMut(&mut dyn Source, u64, OutputInfo) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let is_over = || until.is_some_and(|until| Instant::now() >= until);
    loop {
        let page = source.page(*seen)?;
        let found = page.outputs.len() as u64 + page.outputs_damaged;
        // Where damaged ones lie between the others is not known.
        let may_stop = page.outputs_damaged == 0;
        for (at, output) in (*seen..).zip(page.outputs) {
            if may_stop && is_over() {
                *seen = at;
                return Ok(());
            }
            if !output.superseded {
                visit(source, at, output)?;
            }
        }
        *seen += found;
        if found == 0 || !page.more || is_over() {
            return Ok(());
        }
    }
}

impl Naming {
    fn text(&self, unit: u128) -> Result<UnitText, Failure> {
        UnitText::of(&*self.space, unit).map_err(|error| Failure::usage(error.to_string()))
    }

    /// The command line of a unit, as a person reads it.
    fn command_line(&self, text: &UnitText) -> String {
        let rules = Rules::of(&self.work, &self.space.names());
        let program = &self.work.program;
        let mut words =
            program.iter().map(|word| String::from_utf8_lossy(&rules.word(word).fill(text)).into_owned());
        match self.work.parallel {
            // The line, without the shell.
            true => words.next_back().unwrap_or_default(),
            false => words.collect::<Vec<_>>().join(" "),
        }
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

fn print(source: &mut dyn Source, output: &mut OutputInfo, printer: &mut Printer) -> Result<(), Failure> {
    fill_both(source, output)?;
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
mod tests;
