//! Runs of a program over whole tasks (`per = "task"`): how one goes, drawn when it begins, and a ledger of runs. What a run
//! tells of counts whole or not at all, so it is not enough to know which units were computed: a record must name just what
//! one run told of.

use std::collections::BTreeMap;

use starfarm_protocol::interval::Interval;
use starfarm_protocol::wire::{CommandUnit, FailReason, Outcome, Outputs, ResultEntry, Stream};

use crate::intervals::Intervals;
use crate::random::{Chance, Random};
use crate::scenario::TogetherModel;
use crate::violation::{Broken, rule};

/// What a run over a task comes to if nobody stops it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// It computes all units.
    Passes,
    /// It fails at the unit behind those that it comes through.
    Fails,
    /// Its worker dies of that unit.
    Dies,
}

/// How a run over a task goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Together {
    /// It tells how far it is.
    tells: bool,
    /// So many units of the task it comes through.
    through: u64,
    pub(crate) end: End,
    /// It is stopped as soon as it tells of a first unit.
    pub(crate) asked: bool,
    /// It hangs, and had come through so many units.
    hung_at: Option<u64>,
}

impl Together {
    /// Of a run over so many units. `bad`: the place of the first of them that is its end, and which end.
    pub(crate) fn draw(
        model: TogetherModel,
        units: u64,
        bad: Option<(u64, End)>,
        random: &mut Random,
    ) -> Self {
        let tells = random.happens(Chance::new(model.tells));
        let by_chance = units > 1 && random.happens(Chance::new(model.fails));
        // A unit that is left alone would be the one at fault.
        let by_chance = by_chance.then(|| (random.below(units - 1), End::Fails));
        let first = bad.into_iter().chain(by_chance).min_by_key(|(through, _)| *through);
        let (through, end) = first.unwrap_or((units, End::Passes));
        Self { tells, through, end, asked: false, hung_at: None }
    }

    /// Units that it begins.
    pub(crate) fn begins(&self) -> u64 {
        self.through + u64::from(self.end != End::Passes)
    }

    /// It tells of units sooner or later.
    pub(crate) fn will_tell(&self) -> bool {
        self.tells && self.through > 0 && self.hung_at.is_none()
    }

    /// So many units are known to be done when this share of its time has passed.
    pub(crate) fn told(&self, share: f64) -> u64 {
        let through = self.hung_at.unwrap_or((self.begins() as f64 * share) as u64);
        if self.tells { through.min(self.through) } else { 0 }
    }

    /// It stands still when this share of its time has passed.
    pub(crate) fn hangs(&mut self, share: f64) {
        self.hung_at.get_or_insert((self.begins() as f64 * share) as u64);
    }

    /// What its end makes known to be done, and of what that has failed.
    pub(crate) fn ends(&self, units: u64, hung: bool) -> (u64, Option<FailReason>) {
        match (hung, self.end) {
            (true, _) => (self.told(1.0), Some(FailReason::Timeout)),
            (false, End::Passes) => (units, None),
            (false, _) => (if self.tells { self.through } else { 0 }, Some(FailReason::Exit)),
        }
    }
}

/// Appends to the body of a result what came of units, and what they wrote.
pub(crate) fn write(
    units: u64,
    failed: Option<FailReason>,
    duration_us: u64,
    stdout: Vec<u8>,
    body: &mut Vec<u8>,
) {
    let [stdout, stderr] = [stdout, Vec::new()].map(Stream::Inline);
    let outputs = Outputs { files: None, stdout, stderr };
    let code = match failed {
        None => 0,
        Some(FailReason::Timeout) => 124,
        Some(_) => 1,
    };
    CommandUnit { units, failed, code, duration_us, outputs }.write(body);
}

/// What a run over a task writes of so many units: it names them.
pub(crate) fn stdout(lo: u128, units: u64) -> Vec<u8> {
    format!("{lo}+{units}").into_bytes()
}

/// What a scheduler owes for a result that it acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owes {
    /// A record of each unit.
    Each,
    /// A record of all units, unless some were counted in another cut.
    AllOrNone,
    /// Nothing: the units go out again.
    Nothing,
}

impl Owes {
    /// For a result of a job; `is_together`: its runs are over tasks.
    pub(crate) fn of(is_together: bool, entry: &ResultEntry<'_>) -> Self {
        if entry.outcome != Outcome::Done {
            return Self::Nothing;
        }
        let ran = CommandUnit::read_all(entry.body).unwrap_or_default();
        match &ran[..] {
            [one] if is_together && one.units > 1 && one.failed.is_some() => Self::Nothing,
            [one] if is_together && one.units > 1 => Self::AllOrNone,
            _ => Self::Each,
        }
    }
}

/// The runs of a job.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// What runs told to be done: first unit and end, and whether the run went on behind that.
    passed: BTreeMap<(u128, u128), bool>,
    /// Units that some record has decided, though they may be wanted again.
    decided: Intervals,
    /// Records of parts of runs.
    pub(crate) parts: u64,
    /// Results that passed and count for nothing.
    pub(crate) in_vain: u64,
}

impl Runs {
    /// The results of a run over `at`: its first units, so many, are done, and the others have failed or go back.
    pub(crate) fn results(
        &mut self,
        at: Interval,
        (done, failed): (u64, Option<FailReason>),
        duration_us: u64,
    ) -> Vec<(u128, u64, Vec<u8>)> {
        let end = at.lo + u128::from(done);
        if done > 0 {
            self.passed.insert((at.lo, end), end < at.hi);
        }
        let rest = if failed.is_some() { (at.hi - end) as u64 } else { 0 };
        let told = [(at.lo, done, None, duration_us), (end, rest, failed, 0)];
        let result = |(lo, units, failed, duration_us)| {
            let mut body = Vec::new();
            write(units, failed, duration_us, stdout(lo, units), &mut body);
            (lo, units, body)
        };
        told.into_iter().filter(|told| told.1 > 0).map(result).collect()
    }

    /// A record decides these.
    pub(crate) fn decided(&mut self, lo: u128, hi: u128) {
        self.decided.insert(lo, hi);
    }

    /// A record says what came of units from `unit` on.
    pub(crate) fn on_ran(&mut self, unit: u128, ran: &CommandUnit) -> Result<(), Broken> {
        let at = (unit, unit + u128::from(ran.units));
        if ran.failed.is_some() {
            return rule(ran.units == 1, "a unit fails alone", || format!("{at:?}"));
        }
        let known = self.passed.get(&at);
        rule(known.is_some(), "a result of many units is on record as it was told", || {
            format!("no run has told of {at:?}")
        })?;
        self.parts += u64::from(known == Some(&true));
        rule(
            ran.outputs.stdout == Stream::Inline(stdout(unit, ran.units)),
            "a result has its own output",
            || format!("{at:?}: {:?}", ran.outputs.stdout),
        )
    }

    /// A result that passed is acknowledged, and not all of [lo, hi) is on record.
    pub(crate) fn on_vain(&mut self, lo: u128, hi: u128) -> Result<(), Broken> {
        self.in_vain += 1;
        let overlaps = self.decided.iter().any(|(from, to)| from < hi && lo < to);
        rule(overlaps, "a result counts whole where nothing of it counted before", || {
            format!("that over [{lo}, {hi}) is acknowledged and on no record")
        })
    }

    /// What records said is read anew.
    pub(crate) fn forget_records(&mut self) {
        (self.decided, self.parts) = Default::default();
    }
}
