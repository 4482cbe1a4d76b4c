//! Which units of a job are done, failed or abandoned, by sorting and sweeping: intervals are gathered as they
//! come, and now and then the gathered ones are sorted and merged into those merged before. What lies where
//! something lay before comes out as a clash. Memory goes with the number of joined runs, not of records.

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

impl Class {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Class::Done => "done",
            Class::Failed => "failed",
            Class::Abandoned => "abandoned",
        }
    }
}

/// Units of one class that lie side by side; `hi` is exclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) lo: u128,
    pub(crate) hi: u128,
    pub(crate) class: Class,
}

/// Something that must not be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clash {
    /// These units were of a class and are put into a class again.
    Twice { lo: u128, hi: u128, was: Class, now: Class },
    /// After the end these units were of no class, so nobody may still have had them.
    Stray { lo: u128, hi: u128, now: Class },
    /// These units should have been of this class and are not.
    Not { lo: u128, hi: u128, class: Class },
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
}

impl Tiling {
    /// [lo, hi) is of `class` from now on.
    pub(crate) fn add(&mut self, lo: u128, hi: u128, class: Class, clashes: &mut Vec<Clash>) {
        match self.loose.last_mut() {
            Some(last) if last.class == class && last.hi == lo => last.hi = hi,
            _ => self.loose.push(Run { lo, hi, class }),
        }
        if self.loose.len() >= self.swept.len().max(LOOSE_MIN) {
            self.sweep(clashes);
        }
    }

    /// Sorts and merges what was gathered.
    pub(crate) fn sweep(&mut self, clashes: &mut Vec<Clash>) {
        if self.loose.is_empty() {
            return;
        }
        let mut loose = std::mem::take(&mut self.loose);
        loose.sort_unstable_by_key(|run| run.lo);
        let loose = without_doubles(loose, clashes);
        let swept = std::mem::take(&mut self.swept);
        self.swept = merged(swept, loose, self.ended, clashes);
    }

    /// The end: `abandoned` is what nobody wants any more. Returns the gaps in [0, units).
    pub(crate) fn end(
        &mut self,
        abandoned: &[(u128, u128)],
        units: u128,
        clashes: &mut Vec<Clash>,
    ) -> Vec<(u128, u128)> {
        self.sweep(clashes);
        self.loose.extend(abandoned.iter().map(|&(lo, hi)| Run { lo, hi, class: Class::Abandoned }));
        self.sweep(clashes);
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
    pub(crate) fn retry(&mut self, units: &[(u128, u128)], clashes: &mut Vec<Clash>) {
        self.sweep(clashes);
        self.ended = false;
        let mut again: Vec<Run> =
            units.iter().map(|&(lo, hi)| Run { lo, hi, class: Class::Failed }).collect();
        again.sort_unstable_by_key(|run| run.lo);
        let again = without_doubles(again, clashes);
        let mut kept = Vec::with_capacity(self.swept.len());
        let mut again = again.into_iter().peekable();
        for run in std::mem::take(&mut self.swept) {
            if run.class == Class::Abandoned {
                continue;
            }
            let mut from = run.lo;
            while let Some(wanted) = again.peek_mut() {
                if wanted.lo < from {
                    // In no run, or in one of another class: it had not failed.
                    clashes.push(Clash::Not { lo: wanted.lo, hi: wanted.hi.min(from), class: Class::Failed });
                    if wanted.hi <= from {
                        again.next();
                        continue;
                    }
                    wanted.lo = from;
                }
                if wanted.lo >= run.hi {
                    break;
                }
                let hi = wanted.hi.min(run.hi);
                if run.class == Class::Failed {
                    push(&mut kept, Run { lo: from, hi: wanted.lo, class: run.class });
                } else {
                    push(&mut kept, Run { lo: from, hi, class: run.class });
                    clashes.push(Clash::Not { lo: wanted.lo, hi, class: Class::Failed });
                }
                from = hi;
                if wanted.hi > hi {
                    wanted.lo = hi;
                    break;
                }
                again.next();
            }
            push(&mut kept, Run { lo: from, hi: run.hi, class: run.class });
        }
        clashes.extend(again.map(|run| Clash::Not { lo: run.lo, hi: run.hi, class: Class::Failed }));
        self.swept = kept;
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

/// Sorted runs without what lies in an earlier one.
fn without_doubles(sorted: Vec<Run>, clashes: &mut Vec<Clash>) -> Vec<Run> {
    let mut alone: Vec<Run> = Vec::with_capacity(sorted.len());
    for mut run in sorted {
        if let Some(last) = alone.last()
            && last.hi > run.lo
        {
            let hi = last.hi.min(run.hi);
            clashes.push(Clash::Twice { lo: run.lo, hi, was: last.class, now: run.class });
            run.lo = hi;
        }
        push(&mut alone, run);
    }
    alone
}

/// Two sorted lists without doubles as one.
fn merged(old: Vec<Run>, new: Vec<Run>, ended: bool, clashes: &mut Vec<Clash>) -> Vec<Run> {
    let mut out = Vec::with_capacity(old.len() + new.len());
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    while let Some(&now) = new.peek() {
        let Some(&was) = old.peek().filter(|was| was.lo < now.hi) else {
            new.next();
            arrive(now, ended, &mut out, clashes);
            continue;
        };
        if was.hi <= now.lo {
            old.next();
            push(&mut out, was);
            continue;
        }
        // They overlap. What lies before the overlap goes out first, then the overlap.
        let (from, to) = (was.lo.max(now.lo), was.hi.min(now.hi));
        push(&mut out, Run { hi: from, ..was });
        if now.lo < from {
            arrive(Run { hi: from, ..now }, ended, &mut out, clashes);
        }
        let takes_place = ended && was.class == Class::Abandoned && now.class != Class::Abandoned;
        if takes_place {
            push(&mut out, Run { lo: from, hi: to, class: now.class });
        } else {
            push(&mut out, Run { lo: from, hi: to, class: was.class });
            clashes.push(Clash::Twice { lo: from, hi: to, was: was.class, now: now.class });
        }
        advance(&mut old, to);
        advance(&mut new, to);
    }
    old.for_each(|run| push(&mut out, run));
    out
}

/// A newcomer where nothing was.
fn arrive(run: Run, ended: bool, out: &mut Vec<Run>, clashes: &mut Vec<Clash>) {
    if ended {
        clashes.push(Clash::Stray { lo: run.lo, hi: run.hi, now: run.class });
    }
    push(out, run);
}

/// What lies before `to` of the next run is dealt with.
fn advance(runs: &mut std::iter::Peekable<impl Iterator<Item = Run>>, to: u128) {
    if let Some(run) = runs.peek_mut() {
        run.lo = to;
        if run.hi <= to {
            runs.next();
        }
    }
}

#[cfg(test)]
mod tests;
