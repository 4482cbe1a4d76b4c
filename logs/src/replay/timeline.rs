//! One pass over a log: each item goes in once, in order, and at the end stands a report. What a log says is taken
//! as it comes; nothing in it can make this need more memory, or stop it.

mod bins;
mod changes;
mod grown;
mod jobs;
mod marks;
mod node;
mod nodes;
mod report;
mod runs;
mod series;
mod shown;
mod used;

use starfarm_events::{Event, Outcome, Sample, Snapshot};

use super::items::{Notes, follows};
use crate::{Item, Note, NoteKind, Opening};

pub use bins::{Axis, BINS_MAX};
use grown::Grown;
use jobs::Jobs;
pub use jobs::{DurationBins, JobLine};
pub use marks::Mark;
use marks::Marks;
pub use node::NodeLine;
use node::{TasksOf, sent_back};
pub use nodes::by_number;
use nodes::{NODES_MAX, Nodes};
pub use report::{EpochLine, Report, Totals};
pub(super) use report::{coarsen, run_bytes};
use runs::Run;
pub use series::SERIES;
use series::Series;
pub use shown::Shown;

/// Resolution of runs of results, unless there are too many.
const GRAIN_US: u64 = 1_000;
/// Bytes of packed runs at most.
const RUN_BYTES_MAX: usize = 48 << 20;
/// Cells of a grid at most: nodes times bins.
const CELLS_MAX: usize = 1 << 20;
/// Epochs that are listed at most: schedulers that end as soon as they start make many.
const EPOCHS_MAX: usize = 2_000;

/// A log on its way to a report.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    axis: Axis,
    end_us: Option<u64>,
    /// The farm's clock, as far as the log was read.
    now_us: u64,
    /// The latest moment that the log tells of, wanted or not.
    pub(super) last_us: u64,
    /// Since when the farm was watched without a gap.
    told_us: Option<u64>,
    opening: Option<Opening>,
    /// Number of the log's first segment in its epoch.
    first: u64,
    is_closed: bool,
    is_partial: bool,
    /// Something is missing between here and the next segment.
    is_unsure: bool,
    /// The last segment breaks off.
    is_cut: bool,
    /// The end of the window was passed: nothing more is wanted.
    pub(super) is_over: bool,
    epochs: Vec<EpochLine>,
    series: Series,
    nodes: Nodes,
    jobs: Jobs,
    marks: Marks,
    notes: Notes,
    missing: u64,
    /// Of all nodes.
    results: u64,
    /// Tasks that went back to gq.
    resent: Grown,
    grain_us: u64,
    run_bytes: usize,
}

impl Timeline {
    /// A picture of a log from a moment on, to its end or to `end_us`.
    pub(super) fn new(from_us: u64, end_us: Option<u64>) -> Self {
        Self { axis: Axis::new(from_us), end_us, first: 1, grain_us: GRAIN_US, ..Self::default() }
    }

    /// Takes the next item.
    pub(super) fn feed(&mut self, item: &Item) {
        let before_us = self.now_us;
        if let Some(at_us) = item.at_us() {
            self.last_us = self.last_us.max(at_us);
            // The log is in order: nothing behind a later moment is wanted, even where clocks go back.
            if self.end_us.is_some_and(|end_us| at_us > end_us) {
                self.is_over = true;
                if let Item::Opened(opening) = item
                    && !self.follows(opening)
                {
                    self.leave(before_us);
                }
                return;
            }
            // A clock that goes back stands still here; the reader has noted it.
            self.now_us = self.now_us.max(at_us);
            while self.axis.is_outgrown(self.now_us) {
                self.double();
            }
        }
        if self.jobs.is_crowded() {
            self.thin_jobs();
        }
        match item {
            Item::Opened(opening) => self.open(opening, before_us),
            Item::Snapshot(_, snapshot) => self.snapshot(snapshot),
            Item::Event(_, event) => self.event(event),
            Item::Closed(_) => self.is_closed = true,
            Item::Note(note) => self.note(note),
        }
        self.epoch_goes_on(self.now_us);
    }

    /// The epoch at hand, if it is listed, goes on until then.
    fn epoch_goes_on(&mut self, to_us: u64) {
        let at_hand = self.opening.as_ref().map(|opening| opening.epoch);
        if let Some(line) = self.epochs.last_mut().filter(|line| Some(line.epoch) == at_hand) {
            line.to_us = to_us;
        }
    }

    fn double(&mut self) {
        self.axis.width_us *= 2;
        self.series.double();
        self.nodes.double();
    }

    /// Whether a segment goes on where the last one ended.
    fn follows(&self, opening: &Opening) -> bool {
        self.opening.as_ref().is_some_and(|last| follows(last, opening))
    }

    fn open(&mut self, opening: &Opening, before_us: u64) {
        (self.is_closed, self.is_cut) = (false, false);
        // What is missing before the window is no loss to it.
        self.is_partial |= self.is_unsure && self.counts();
        self.is_unsure = false;
        let follows = self.follows(opening);
        let last = self.opening.replace(opening.clone());
        if last.is_none() && self.counts() {
            self.first = opening.segment;
            self.is_partial |= opening.segment != 1;
        }
        if !follows {
            self.leave(before_us);
            self.told_us = Some(self.now_us);
        }
        let is_new = last.is_none_or(|last| last.epoch != opening.epoch);
        if is_new {
            // Its first segment opens with what it counted since its start.
            let from_zero = opening.segment == 1;
            self.nodes.restart(from_zero);
            self.resent.restart(from_zero);
        }
        if is_new && self.epochs.len() < EPOCHS_MAX {
            let (from_us, to_us) = (self.now_us, self.now_us);
            self.epochs.push(EpochLine { epoch: opening.epoch, from_us, to_us });
        }
        if is_new && self.counts() {
            self.marks.epoch(self.now_us, opening.epoch);
        }
    }

    /// The farm was watched until then.
    fn leave(&mut self, at_us: u64) {
        if let Some(told_us) = self.told_us.take() {
            self.series.end(&self.axis, told_us, at_us);
            self.nodes.leave(&self.axis, at_us);
        }
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.told_us.get_or_insert(self.now_us);
        self.sample(&snapshot.sample);
        self.nodes.snapshot(&self.axis, self.now_us, &snapshot.nodes, self.counts());
        self.jobs.snapshot(self.now_us, &snapshot.jobs);
    }

    /// Whether what happens now lies in the window.
    fn counts(&self) -> bool {
        self.now_us >= self.axis.from_us
    }

    fn event(&mut self, event: &Event) {
        self.told_us.get_or_insert(self.now_us);
        match event {
            Event::Sampled(sample) => self.sample(sample),
            Event::Tasks { .. } => self.tasks(event),
            Event::EventsDropped { events } if self.counts() => {
                self.missing = self.missing.saturating_add(*events);
            }
            _ => {}
        }
        self.resent.add(sent_back(event).into(), self.counts());
        let shift = self.nodes.event(&self.axis, self.now_us, event, self.counts());
        if shift != [0; 3] {
            self.series.shift(&self.axis, self.now_us, shift);
        }
        self.jobs.event(self.now_us, event);
        if self.counts() {
            self.marks.see(self.now_us, event);
        }
    }

    fn sample(&mut self, sample: &Sample) {
        self.series.sample(&self.axis, self.now_us, sample);
        self.resent.report(sample.resent.into(), self.counts());
    }

    fn tasks(&mut self, event: &Event) {
        let Event::Tasks { node, job, lo, hi, results, outcome, begun_us, ended_us, busy_us, .. } = event
        else {
            return;
        };
        // What a worker says of times is held to what can be.
        let ended_us = (*ended_us).min(self.now_us);
        let begun_us = (*begun_us).min(ended_us);
        let units = hi.saturating_sub(*lo);
        let (counts, results, outcome, busy_us) = (self.counts(), *results, *outcome, *busy_us);
        let tasks = TasksOf { outcome, results, units, begun_us, ended_us, busy_us };
        if let Some(line) = self.nodes.get(&self.axis, node) {
            line.results(&self.axis, &tasks, counts);
        }
        if !counts {
            return;
        }
        let (index, job) = self.jobs.get(*job, self.now_us);
        // What was given back was not computed.
        if outcome != Outcome::Returned {
            self.results = self.results.saturating_add(results);
            job.results = job.results.saturating_add(results);
            job.durations.add(busy_us / results.max(1), results);
        }
        // Rates are of time that was watched: what was computed while no scheduler ran is in the sums alone, or all of
        // it would stand at the moment of the return.
        let told_us = self.told_us.unwrap_or(self.now_us);
        let from_us = begun_us.max(told_us);
        let watched = match ended_us.checked_sub(from_us) {
            None => 0.0,
            Some(_) if from_us == begun_us => 1.0,
            Some(watched_us) => watched_us as f64 / (ended_us - begun_us) as f64,
        };
        if matches!(outcome, Outcome::Counted | Outcome::Partly) {
            // How much of its units was new is not told of a result that counts partly.
            let units = if outcome == Outcome::Counted { units as f64 } else { 0.0 };
            let counted = (results as f64 * watched, units * watched);
            self.series.counted(&self.axis, counted, from_us, ended_us);
        }
        let Some(line) = self.nodes.get(&self.axis, node) else { return };
        let before = line.runs.len();
        let (from_us, grain_us) = (self.axis.from_us, self.grain_us);
        let grains = |at_us: u64| match at_us.checked_sub(from_us) {
            Some(after) => (after / grain_us) as i64,
            None => -((from_us - at_us).div_ceil(grain_us) as i64),
        };
        let tag = index as u64 * 8 + outcome as u64;
        line.runs.push(Run { begun: grains(begun_us), ended: grains(ended_us), results, tag });
        self.run_bytes += line.runs.len() - before;
        if self.run_bytes > RUN_BYTES_MAX {
            self.coarsen();
        }
    }

    /// Makes room for more jobs.
    fn thin_jobs(&mut self) {
        if let Some(places) = self.jobs.thin() {
            self.nodes.all.iter_mut().for_each(|line| line.runs.replace_jobs(&places));
            self.run_bytes = run_bytes(&self.nodes.all);
        }
    }

    /// Makes room for more runs.
    fn coarsen(&mut self) {
        while self.run_bytes > RUN_BYTES_MAX / 2 {
            coarsen(&mut self.nodes.all, &mut self.grain_us);
            self.run_bytes = run_bytes(&self.nodes.all);
        }
    }

    fn note(&mut self, note: &Note) {
        self.is_cut |= note.kind == NoteKind::Cut;
        if note.kind.is_loss() {
            self.is_unsure = true;
            self.is_partial |= self.counts();
        }
        self.notes.add(note);
    }

    /// The report.
    pub(super) fn finish(mut self) -> Report {
        let to_us = self.end_us.map_or(self.last_us, |end_us| end_us.min(self.last_us));
        let to_us = to_us.max(self.axis.from_us);
        self.now_us = self.now_us.max(to_us);
        while self.axis.is_outgrown(to_us.saturating_sub(1)) {
            self.double();
        }
        if let Some(told_us) = self.told_us.take() {
            self.series.end(&self.axis, told_us, to_us);
            self.epoch_goes_on(to_us);
        }
        for line in &mut self.nodes.all {
            line.settle(&self.axis, to_us);
            line.finish().enumerate().for_each(|(bin, busy_us)| self.series.busy_us.add(bin, busy_us));
        }
        let count = self.nodes.all.len();
        while self.axis.count(to_us) * count > CELLS_MAX {
            self.double();
        }
        let bins = self.axis.count(to_us);
        self.thin_jobs();
        let (jobs_left_out, (nodes_left_out, other_slots)) = (self.jobs.left_out, self.nodes.others());
        let slots = self.nodes.all.iter().map(|line| u64::from(line.slots)).sum::<u64>() + other_slots;
        let totals = Totals {
            nodes: count as u64 + nodes_left_out,
            nodes_up: self.series.most_up,
            slots,
            results: self.results,
            resent: self.resent.count(),
        };
        let notes = self.all_notes();
        let has_end = self.is_over || self.is_closed;
        self.is_partial |= self.is_unsure;
        let mut nodes = std::mem::take(&mut self.nodes.all);
        nodes.sort_by(|a, b| by_number(&a.name, &b.name));
        let (marks, marks_left_out) = self.marks.finish();
        let from_us = self.axis.from_us;
        self.epochs.retain(|epoch| epoch.to_us >= from_us);
        self.epochs.iter_mut().for_each(|epoch| epoch.from_us = epoch.from_us.max(from_us));
        let (farm, program) = self.opening.map(|opening| (opening.farm, opening.program)).unwrap_or_default();
        Report {
            farm,
            program,
            from_us,
            to_us,
            complete: has_end && !self.is_partial && self.missing == 0,
            notes,
            epochs: self.epochs,
            jobs: self.jobs.finish(),
            nodes,
            jobs_left_out,
            nodes_left_out,
            totals,
            marks,
            marks_left_out,
            axis: self.axis,
            bins,
            grain_us: self.grain_us,
            series: SERIES.iter().map(|name| (*name, self.series.values(&self.axis, name, bins))).collect(),
        }
    }

    /// What the reader noted, and what was left out here.
    fn all_notes(&self) -> Vec<String> {
        let mut notes = self.notes.told();
        if self.missing > 0 {
            notes.push(Event::EventsDropped { events: self.missing }.to_string());
        }
        if self.first != 1 {
            notes.push(format!(
                "the log begins with segment {} of its epoch: those before it were removed to keep room, or are missing",
                self.first
            ));
        }
        if self.epochs.len() == EPOCHS_MAX {
            notes.push(format!("only the first {EPOCHS_MAX} epochs are listed"));
        }
        let (nodes_left_out, _) = self.nodes.others();
        if nodes_left_out > 0 {
            notes.push(format!(
                "only the first {NODES_MAX} nodes are drawn; {nodes_left_out} that came later count in totals alone"
            ));
        }
        if self.jobs.left_out > 0 {
            notes.push(format!(
                "{} jobs have no line of their own, and job 0 stands for them: those that run, went wrong or came last do",
                self.jobs.left_out
            ));
        }
        if self.nodes.least_us > 0 {
            let seconds = self.nodes.least_us / 1_000_000;
            notes.push(format!("states that lasted less than {seconds} s are not drawn: there are too many"));
        }
        if self.opening.is_some() && !self.is_closed && !self.is_cut && !self.is_over {
            notes.push(
                "the last segment is not closed: its scheduler still writes it, or was killed".to_owned(),
            );
        }
        notes
    }
}
