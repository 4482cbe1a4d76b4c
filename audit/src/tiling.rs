//! Which units of a job are done, failed or abandoned, by sorting and sweeping: intervals are gathered as they
//! come, and now and then the gathered ones are sorted and merged into those merged before. What lies where
//! something lay before comes out as a clash. Memory goes with the number of joined runs, not of records.

use std::fmt;
use std::iter::Peekable;

/// Intervals gathered before a sweep, at least; more where more runs are known, so that all the sweeps
/// together cost no more than a sort.
const LOOSE_MIN: usize = 64 * 1024;

/// What became of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    Done,
    Failed,
    Abandoned,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Done => "done",
            Class::Failed => "failed",
            Class::Abandoned => "abandoned",
        })
    }
}

/// Units of one class that lie side by side; `hi` is exclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) lo: u128,
    pub(crate) hi: u128,
    pub(crate) class: Class,
}

/// Something that must not be, and the units of which it is so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Clash {
    pub(crate) lo: u128,
    pub(crate) hi: u128,
    pub(crate) what: Fault,
}

/// What must not be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// These units were of a class and are put into a class again.
    Twice { was: Class, now: Class },
    /// After the end these units were of no class, so nobody may still have had them.
    Stray { now: Class },
    /// These units are wanted again and had not failed.
    NotFailed,
    /// These units are to run again for their outputs, and had not run.
    NotDecided,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Twice { was: Class::Abandoned, now } => write!(f, "abandoned, and {now} as well"),
            Fault::Twice { was, now: Class::Abandoned } => write!(f, "{was}, and abandoned as well"),
            Fault::Twice { was, now } => write!(f, "counted twice: {was}, and {now} again"),
            Fault::Stray { now } => write!(f, "{now} after the job's end, and not among what was abandoned"),
            Fault::NotDecided => f.write_str("to run again for their outputs, and had not run before"),
            Fault::NotFailed => f.write_str("to be tried again, and had not failed before"),
        }
    }
}

/// The classes of a job's units.
#[derive(Debug, Default)]
pub(crate) struct Tiling {
    /// Ascending, disjoint; neighbours of a class are joined.
    swept: Vec<Run>,
    /// As they came.
    loose: Vec<Run>,
    /// After the end newcomers may take the place of what was abandoned, and no other.
    ended: bool,
    /// What sweeps found, to be taken away by who tells it.
    pub(crate) clashes: Vec<Clash>,
}

impl Tiling {
    /// [lo, hi) is of `class` from now on.
    pub(crate) fn add(&mut self, lo: u128, hi: u128, class: Class) {
        match self.loose.last_mut() {
            Some(last) if last.class == class && last.hi == lo => last.hi = hi,
            _ => self.loose.push(Run { lo, hi, class }),
        }
        if self.loose.len() >= self.swept.len().max(LOOSE_MIN) {
            self.sweep();
        }
    }

    /// Sorts and merges what was gathered.
    pub(crate) fn sweep(&mut self) {
        let loose = without_doubles(std::mem::take(&mut self.loose), &mut self.clashes);
        let (ended, clashes) = (self.ended, &mut self.clashes);
        overlay(&mut self.swept, loose, |was, now| {
            let what = match was {
                None if ended => Fault::Stray { now: now.class },
                None => return Some(now.class),
                Some(Class::Abandoned) if ended && now.class != Class::Abandoned => return Some(now.class),
                Some(was) => Fault::Twice { was, now: now.class },
            };
            clashes.push(Clash { lo: now.lo, hi: now.hi, what });
            was.or(Some(now.class))
        });
    }

    /// The end: `abandoned` is what nobody wants any more. Returns the gaps in [0, units).
    pub(crate) fn end(&mut self, abandoned: &[(u128, u128)], units: u128) -> Vec<(u128, u128)> {
        self.sweep();
        self.loose.extend(abandoned.iter().map(|&(lo, hi)| Run { lo, hi, class: Class::Abandoned }));
        self.sweep();
        self.ended = true;
        let mut gaps = Vec::new();
        let mut next = 0;
        for run in &self.swept {
            if run.lo > next {
                gaps.push((next, run.lo));
            }
            next = run.hi;
        }
        if next < units {
            gaps.push((next, units));
        }
        gaps
    }

    /// Failed units are wanted again, and so is all that was abandoned.
    pub(crate) fn retry(&mut self, units: &[(u128, u128)]) {
        self.again(units, |was| was == Some(Class::Failed), Fault::NotFailed);
    }

    /// Units that ran are wanted again for their outputs, and so is all that was abandoned. How many of them were done.
    pub(crate) fn rerun(&mut self, units: &[(u128, u128)]) -> u128 {
        let before = self.done();
        self.again(units, |was| matches!(was, Some(Class::Done | Class::Failed)), Fault::NotDecided);
        before - self.done()
    }

    fn done(&mut self) -> u128 {
        self.sweep();
        self.count(Class::Done)
    }

    /// Units of which `fits` says that they may be are of no class any more; of others it is a fault.
    fn again(&mut self, units: &[(u128, u128)], fits: impl Fn(Option<Class>) -> bool, fault: Fault) {
        self.sweep();
        self.ended = false;
        self.swept.retain(|run| run.class != Class::Abandoned);
        let again = units.iter().map(|&(lo, hi)| Run { lo, hi, class: Class::Failed }).collect();
        let again = without_doubles(again, &mut self.clashes);
        overlay(&mut self.swept, again, |was, now| {
            if fits(was) {
                return None;
            }
            self.clashes.push(Clash { lo: now.lo, hi: now.hi, what: fault });
            was
        });
    }

    /// All runs, ascending. To be called after a sweep.
    pub(crate) fn runs(&self) -> &[Run] {
        debug_assert!(self.loose.is_empty());
        &self.swept
    }

    /// Units of a class. To be called after a sweep.
    pub(crate) fn count(&self, class: Class) -> u128 {
        self.runs().iter().filter(|run| run.class == class).map(|run| run.hi - run.lo).sum()
    }
}

/// Appends a run, joined to the last one where they touch and are alike; nothing for an empty one.
fn push(runs: &mut Vec<Run>, run: Run) {
    if run.lo >= run.hi {
        return;
    }
    match runs.last_mut() {
        Some(last) if last.class == run.class && last.hi == run.lo => last.hi = run.hi,
        _ => runs.push(run),
    }
}

/// Sorts runs, and takes out of each what lies in an earlier one.
fn without_doubles(mut runs: Vec<Run>, clashes: &mut Vec<Clash>) -> Vec<Run> {
    runs.sort_unstable_by_key(|run| run.lo);
    let mut alone: Vec<Run> = Vec::with_capacity(runs.len());
    for mut run in runs {
        if let Some(last) = alone.last()
            && last.hi > run.lo
        {
            let hi = last.hi.min(run.hi);
            clashes.push(Clash { lo: run.lo, hi, what: Fault::Twice { was: last.class, now: run.class } });
            run.lo = hi;
        }
        push(&mut alone, run);
    }
    alone
}

/// Lays sorted runs without doubles over others. Of each piece of them `meet` says what it becomes, by the class that
/// was there; none for no class.
fn overlay(runs: &mut Vec<Run>, new: Vec<Run>, mut meet: impl FnMut(Option<Class>, Run) -> Option<Class>) {
    if new.is_empty() {
        return;
    }
    let mut out = Vec::with_capacity(runs.len() + new.len());
    let (mut old, mut new) = (std::mem::take(runs).into_iter().peekable(), new.into_iter().peekable());
    while let Some(&now) = new.peek() {
        let was = old.peek().copied().filter(|was| was.lo < now.hi);
        if let Some(was) = was.filter(|was| was.lo < now.lo) {
            let to = was.hi.min(now.lo);
            push(&mut out, Run { hi: to, ..was });
            advance(&mut old, to);
            continue;
        }
        let to = match was {
            Some(was) if was.lo == now.lo => was.hi.min(now.hi),
            Some(was) => was.lo,
            None => now.hi,
        };
        let piece = Run { hi: to, ..now };
        let was = was.filter(|was| was.lo == now.lo).map(|was| was.class);
        if let Some(class) = meet(was, piece) {
            push(&mut out, Run { class, ..piece });
        }
        advance(&mut old, to);
        advance(&mut new, to);
    }
    old.for_each(|run| push(&mut out, run));
    *runs = out;
}

/// What lies before `to` of the next run is dealt with.
fn advance(runs: &mut Peekable<impl Iterator<Item = Run>>, to: u128) {
    if let Some(run) = runs.peek_mut() {
        run.lo = run.lo.max(to);
        if run.hi <= to {
            runs.next();
        }
    }
}

#[cfg(test)]
mod tests;
