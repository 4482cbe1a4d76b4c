//! What the children of a post have told, wave by wave: of each job one sum, and of each machine what it told. A wave of a job
//! is over when all are in who told of it before, when half a period or two seconds have passed since the first was, or when
//! somebody tells of the next. What comes later than that is late, and goes with the next.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use starfarm_protocol::ids::JobId;
use starfarm_protocol::orders::PostId;

use crate::group::{Group, groups};
use crate::ids;
use crate::named::{AMOUNTS_BYTES_MAX, Amounts};
use crate::picture::KNOWN_US;
use crate::stage::{Context, Stage};
use crate::values::{TRIPLES_MAX, Triples};
use crate::words::{Hook, Order, Side, TimerName, When, Who, Word};

/// Jobs, and machines of a child, at most: what is told of more is counted as not taken.
const JOBS_MAX: usize = 10_000;
const MACHINES_MAX: usize = 100_000;
/// Bytes of a message of machines, about: a link takes no more than four times as many.
const MESSAGE_BYTES: usize = 16 << 10;
// What one machine tells, and all that fits beside it, goes by a link.
const _: () = assert!(MESSAGE_BYTES + AMOUNTS_BYTES_MAX < 60 << 10);
/// How often jobs of which nobody tells any more are looked for, in microseconds.
const PRUNE_US: u64 = 5_000_000;
/// A wave waits for those who have not told of it for so long, at most, in microseconds.
const PATIENCE_US_MAX: u64 = 2_000_000;
/// The outputs.
const JOB: usize = 0;
const SYSTEM: usize = 1;
const OUTPUTS: [&str; 2] = ["job", "system"];

/// A stage with one input, `in`, for messages that say first whose they are and when that was measured, and the outputs `job`
/// and `system`.
pub struct Gather {
    period_us: u64,
    /// Of jobs that have their own.
    periods: BTreeMap<JobId, u64>,
    jobs: BTreeMap<JobId, Wave<Group>>,
    machines: Wave<Vec<Group>>,
    /// When it was looked at last what nobody tells of any more.
    pruned_us: u64,
    /// When the stage wants to be told, and by which timer.
    due_us: Option<u64>,
    /// Messages of which something came when its wave was over.
    late: Rc<Cell<u64>>,
    /// How hooks were numbered.
    outputs: [Option<usize>; OUTPUTS.len()],
}

/// What each child told last.
struct Wave<T> {
    parts: BTreeMap<PostId, Part<T>>,
    /// The number of the wave that comes in, and when it is over at the latest.
    open: Option<(u64, u64)>,
    /// The wave that was over last, and the time of its figures.
    closed: u64,
}

struct Part<T> {
    at_us: u64,
    what: T,
}

impl<T> Default for Wave<T> {
    fn default() -> Self {
        Self { parts: BTreeMap::new(), open: None, closed: 0 }
    }
}

impl<T> Wave<T> {
    /// Whether a message of that time finds the wave before still open.
    fn is_next(&self, wave: u64) -> bool {
        self.open.is_some_and(|(open, _)| wave > open)
    }

    /// Takes what a child tells; whether it was late.
    fn take(&mut self, child: PostId, (at_us, wave): (u64, u64), what: T, due_us: u64) -> bool {
        let known = self.parts.get(&child);
        let is_late = wave <= self.closed;
        if known.is_none_or(|known| known.at_us <= at_us) {
            self.parts.insert(child, Part { at_us, what });
        }
        if !is_late && self.open.is_none() {
            self.open = Some((wave, due_us));
        }
        is_late
    }

    /// All who are known have told of this wave.
    fn is_complete(&self, period_us: u64) -> bool {
        let in_it = |open| self.parts.values().all(|part| part.at_us / period_us >= open);
        self.open.is_some_and(|(open, _)| in_it(open))
    }

    /// It is over: its number, if there is one.
    fn close(&mut self) -> Option<u64> {
        let (wave, _) = self.open.take()?;
        self.closed = self.closed.max(wave);
        Some(wave)
    }
}

fn patience_us(period_us: u64) -> u64 {
    (period_us / 2).min(PATIENCE_US_MAX)
}

impl Gather {
    /// Waves of that period, in microseconds. Messages that came when their wave was over are counted in `late`.
    pub fn new(period_us: u64, late: Rc<Cell<u64>>) -> Self {
        Self {
            period_us: period_us.max(1),
            periods: BTreeMap::new(),
            jobs: BTreeMap::new(),
            machines: Wave::default(),
            pruned_us: 0,
            due_us: None,
            late,
            outputs: [None; OUTPUTS.len()],
        }
    }

    fn take(&mut self, child: PostId, group: Vec<Group>, context: &mut Context<'_>) {
        let now_us = context.now_us();
        let (of_jobs, machines): (Vec<_>, Vec<_>) = group.into_iter().partition(|group| group.job.is_some());
        let mut is_late = false;
        for group in of_jobs {
            let job = group.job.expect("machines were set apart");
            let period_us = self.period_of(job);
            let (at_us, wave) = (group.at_us, group.at_us / period_us);
            if self.jobs.len() >= JOBS_MAX && !self.jobs.contains_key(&job) {
                context.not_taken(1);
                continue;
            }
            if self.jobs.entry(job).or_default().is_next(wave) {
                self.close_job(job, context);
            }
            let of_job = self.jobs.entry(job).or_default();
            is_late |= of_job.take(child, (at_us, wave), group, now_us + patience_us(period_us));
            if of_job.is_complete(period_us) {
                self.close_job(job, context);
            }
        }
        if let Some(at_us) = machines.iter().map(|group| group.at_us).max() {
            let wave = at_us / self.period_us;
            if self.machines.is_next(wave) {
                self.close_machines(context);
            }
            let known: usize = self.machines.parts.values().map(|part| part.what.len()).sum();
            if known + machines.len() > MACHINES_MAX {
                context.not_taken(machines.len() as u64);
                return;
            }
            let due_us = now_us + patience_us(self.period_us);
            is_late |= self.machines.take(child, (at_us, wave), machines, due_us);
            if self.machines.is_complete(self.period_us) {
                self.close_machines(context);
            }
        }
        self.late.set(self.late.get() + u64::from(is_late));
        if now_us.saturating_sub(self.pruned_us) >= PRUNE_US {
            self.pruned_us = now_us;
            self.prune(now_us, context);
        }
        self.ask_for_time(context);
    }

    fn period_of(&self, job: JobId) -> u64 {
        self.periods.get(&job).copied().unwrap_or(self.period_us)
    }

    /// `1000000 7=100000`: a period for all, and those of some jobs, in microseconds. Waves that are open are over.
    fn set_periods(&mut self, value: &str, context: &mut Context<'_>) -> Option<()> {
        let number = |text: &str| text.parse().ok().filter(|number: &u64| *number > 0);
        let mut words = value.split(' ');
        let period_us = number(words.next()?)?;
        let of = |word: &str| {
            let (job, period_us) = word.split_once('=')?;
            Some((JobId(job.parse().ok()?), number(period_us)?))
        };
        let periods: BTreeMap<_, _> = words.map(of).collect::<Option<_>>()?;
        let before = |of: &Self, job| of.period_of(job);
        let changed: Vec<_> = self.jobs.keys().copied().map(|job| (job, before(self, job))).collect();
        if self.period_us != period_us {
            self.close_machines(context);
            self.machines.closed = 0;
        }
        for (job, before_us) in changed {
            if before_us != periods.get(&job).copied().unwrap_or(period_us) {
                self.close_job(job, context);
                self.jobs.entry(job).and_modify(|of| of.closed = 0);
            }
        }
        (self.period_us, self.periods) = (period_us, periods);
        Some(())
    }

    /// Has a timer fire when the next wave is over at the latest.
    fn ask_for_time(&mut self, context: &mut Context<'_>) {
        let dues = self.jobs.values().map(|of| of.open).chain([self.machines.open]);
        let due_us = dues.flatten().map(|(_, due_us)| due_us).min();
        if due_us != self.due_us
            && let Some(due_us) = due_us
        {
            let name: TimerName = format!("gather-{}", context.number().0);
            context.order(Order::Timer(name.clone(), When::At(due_us)));
            context.order(Order::Subscribe(name, Who::Number(context.number()), true));
        }
        self.due_us = due_us;
    }

    /// A job's wave is over: the sum of what was told in it, or late in the one before.
    fn close_job(&mut self, job: JobId, context: &mut Context<'_>) {
        let (period_us, output) = (self.period_of(job), self.outputs[JOB]);
        let of = self.jobs.get_mut(&job).expect("whoever ends its wave knows the job");
        let Some(wave) = of.close() else { return };
        let at_us = wave * period_us;
        of.parts.retain(|_, part| part.at_us.saturating_add(KNOWN_US) > at_us);
        let mut sum: Option<Group> = None;
        for part in of.parts.values() {
            let is_over = part.what.is_over();
            let none = || Group { at_us, ..part.what.emptied() };
            let sum = sum.get_or_insert_with(none);
            let mut told = part.what.clone();
            if is_over {
                // What its last units used counts, and nobody there runs it.
                (told.from, told.of) = (0, 0);
            }
            sum.of = sum.of.saturating_add(told.of);
            if part.at_us / period_us + 1 >= wave {
                sum.add(&told);
            }
        }
        of.parts.retain(|_, part| !part.what.is_over());
        let is_over = of.parts.is_empty();
        if is_over {
            self.jobs.remove(&job);
            // That it is over is told by there being nothing.
            sum = sum.map(|sum| Group { named: Amounts::default(), ..sum });
        }
        // It is said once that nobody runs it any more.
        let of_nobody = Group { at_us, job: Some(job), from: 0, of: 0, ..Group::of_nobody() };
        if let Some(output) = output {
            let sum = sum.unwrap_or(of_nobody);
            context.emit(output, |message| sum.put(message));
        }
    }

    /// What all machines told of it, or late of the wave before, in as many messages as that takes.
    fn close_machines(&mut self, context: &mut Context<'_>) {
        let Some(wave) = self.machines.close() else { return };
        let (period_us, output) = (self.period_us, self.outputs[SYSTEM]);
        self.machines.parts.retain(|_, part| part.at_us.saturating_add(KNOWN_US) > wave * period_us);
        let parts = self.machines.parts.values().filter(|part| part.at_us / period_us + 1 >= wave);
        let mut all = parts.flat_map(|part| &part.what).peekable();
        let Some(output) = output else { return };
        while all.peek().is_some() {
            let went = context.emit(output, |message| {
                let (mut triples, mut bytes) = (TRIPLES_MAX, MESSAGE_BYTES);
                // The first one has room for itself, however much it is.
                let mut next = all.next();
                while let Some(group) = next {
                    (triples, bytes) =
                        (triples.saturating_sub(group.triples()), bytes.saturating_sub(group.bytes()));
                    group.put(message);
                    next = all.next_if(|group| group.triples() <= triples && group.bytes() <= bytes);
                }
            });
            if !went {
                return;
            }
        }
    }

    /// Forgets what nobody has told of for long.
    fn prune(&mut self, now_us: u64, context: &mut Context<'_>) {
        for (job, of) in &mut self.jobs {
            let period_us = self.periods.get(job).copied().unwrap_or(self.period_us);
            let known_us = KNOWN_US.max(period_us.saturating_mul(3));
            of.parts.retain(|_, part| part.at_us.saturating_add(known_us) > now_us);
        }
        self.end_those_of_nobody(now_us, context);
    }

    /// It is said once that nobody runs a job any more.
    fn end_those_of_nobody(&mut self, now_us: u64, context: &mut Context<'_>) {
        let of_nobody = |(job, of): (&JobId, &Wave<Group>)| of.parts.is_empty().then_some(*job);
        let gone: Vec<_> = self.jobs.iter().filter_map(of_nobody).collect();
        for job in gone {
            self.jobs.remove(&job);
            let group = Group { at_us: now_us, job: Some(job), from: 0, of: 0, ..Group::of_nobody() };
            if let Some(output) = self.outputs[JOB] {
                context.emit(output, |message| group.put(message));
            }
        }
    }

    /// A post is no child any more: others tell what it told.
    fn forget(&mut self, child: PostId, context: &mut Context<'_>) {
        self.machines.parts.remove(&child);
        self.jobs.values_mut().for_each(|of| drop(of.parts.remove(&child)));
        self.end_those_of_nobody(context.now_us(), context);
    }

    /// The clock goes another way: what was told by the one before says nothing.
    fn begin_anew(&mut self) {
        self.jobs.clear();
        self.machines = Wave::default();
        (self.due_us, self.pruned_us) = (None, 0);
    }
}

impl Stage for Gather {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        match (hook.side, OUTPUTS.iter().position(|name| *name == hook.name)) {
            (Side::Output, Some(at)) => self.outputs[at] = Some(hook.port),
            (Side::Output, None) => return Err("`gather` has the outputs `job` and `system`".into()),
            (Side::Input, _) => {}
        }
        Ok(())
    }

    fn edge_gone(&mut self, hook: Hook<'_>) {
        if hook.side == Side::Output
            && let Some(at) = OUTPUTS.iter().position(|name| *name == hook.name)
        {
            self.outputs[at] = None;
        }
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        let number = |id| values.find(id).and_then(|triple| triple.number());
        let (Some(child), Some(at_us)) = (number(ids::POST).map(PostId), number(ids::AT)) else {
            return context.not_taken(1);
        };
        self.take(child, groups(child, at_us, values, context.now_us()), context);
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::Fired(_) => {
                let now_us = context.now_us();
                let is_due = |open: Option<(u64, u64)>| open.is_some_and(|(_, due_us)| due_us <= now_us);
                let due: Vec<_> =
                    self.jobs.iter().filter(|(_, of)| is_due(of.open)).map(|(job, _)| *job).collect();
                due.into_iter().for_each(|job| self.close_job(job, context));
                if is_due(self.machines.open) {
                    self.close_machines(context);
                }
                self.due_us = None;
                self.ask_for_time(context);
                Ok(())
            }
            Word::Set { key, value } if key == "gone" => {
                let child = value.parse().map_err(|_| format!("`{value}` is no post's number"))?;
                self.forget(PostId(child), context);
                Ok(())
            }
            Word::Set { key, .. } if key == "flush" => {
                let open = self.jobs.iter().filter(|(_, of)| of.open.is_some());
                let open: Vec<_> = open.map(|(job, _)| *job).collect();
                open.into_iter().for_each(|job| self.close_job(job, context));
                self.close_machines(context);
                Ok(())
            }
            Word::Set { key, .. } if key == "anew" => {
                self.begin_anew();
                Ok(())
            }
            Word::Set { key, value } if key == "periods" => {
                let set = self.set_periods(value, context);
                set.ok_or_else(|| format!("`{value}` are no periods such as `1000000 7=100000`"))
            }
            Word::Set { key, .. } => Err(format!(
                "`gather` has the settings `anew`, `flush`, `gone` and `periods`, and not `{key}`"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
