//! What a node may report: units that it was given, in this epoch or, as far as the lease mark allows and the first whole
//! heartbeat of its incarnation says, in an earlier one. Whatever else it reports does not count, and decides nothing for
//! others.

use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::reason::Flaw;
use starfarm_protocol::wire::Held;

use crate::farm::Farm;
use crate::job::{Job, Sizing};
use crate::limits::{CLAIM_DEVICES, CLAIM_SPREAD, CLAIM_TASKS, CLAIM_TIMES, GROWTH_MAX, PREFETCH_US};
use crate::queues::{NOBODY, Task, TaskId};
use crate::runs::Runs;
use crate::seat::Seat;

/// What of a result's interval its node may report.
#[derive(Debug)]
pub(crate) enum Rights {
    /// All that is not decided yet.
    All,
    /// These units, and so many that are not decided it may not.
    Some(Vec<Interval>, u128),
    /// That is known when it has said what it holds of an earlier epoch.
    NotYet,
}

impl Rights {
    /// The node may report `unit` of the interval.
    pub(crate) fn has(&self, unit: u128) -> bool {
        match self {
            Self::All => true,
            Self::Some(parts, _) => parts.iter().any(|at| at.contains(unit)),
            Self::NotYet => false,
        }
    }

    /// So many units that are not decided it may not.
    pub(crate) fn lacks(&self) -> u128 {
        match self {
            Self::Some(_, units) => *units,
            Self::All | Self::NotYet => 0,
        }
    }
}

impl Farm {
    /// What of `at` node `id` may report, where that is not one task of it.
    pub(crate) fn rights(&mut self, id: NodeId, job_id: JobId, at: Interval, now_us: u64) -> Rights {
        self.jobs.at_mut(job_id).late.comes_back(id);
        let (job, node) = (self.jobs.at(job_id), self.nodes.at(id));
        let within = |task_id: TaskId| self.queues.task(task_id).at.within(at);
        let its = |task_id: &TaskId| self.queues.task(*task_id).node == id;
        let tasks: Vec<Interval> = self.queues.of_node_in(id, job_id, at).into_iter().map(within).collect();
        let copies: Vec<TaskId> = self.queues.copies_in(job_id, at).into_iter().filter(its).collect();
        let mut may = Runs::default();
        let late = job.late.within(id, at);
        let mut looks = late.len();
        copies.iter().map(|copy| within(*copy)).chain(late).for_each(|at| may.insert(at, ()));
        // What it computed once and another is to compute again it may repeat: that says nothing. Unless it got a copy of that.
        let mut own = job.checks.first_by(id, at);
        own.retain(|piece| {
            let second = self.queues.holding(job_id, piece.lo).map(|task| task.attempt);
            let is_of_that = |copy: &Task| copy.has(job_id, piece.lo) && second < Some(copy.attempt);
            !copies.iter().any(|copy| is_of_that(self.queues.task(*copy)))
        });
        own.iter().for_each(|at| may.remove(*at));
        tasks.into_iter().for_each(|at| may.insert(at, ()));
        let mut lacks = Runs::default();
        for open in job.units.coverage().open_in(at) {
            lacks.insert(open, ());
            looks += 1;
        }
        may.intervals().into_iter().for_each(|at| lacks.remove(at));
        own.iter().for_each(|at| lacks.remove(*at));
        // What was never cut was given to nobody.
        let beyond = at.hi.saturating_sub(job.units.coverage().cursor().max(at.lo));
        let first = lacks.iter().next().map(|(at, ())| at.lo);
        let rights = match lacks.units() + beyond {
            0 if own.is_empty() => Rights::All,
            0 => Rights::Some(may.intervals(), 0),
            _ if node.may_claim && first.is_some_and(|unit| unit < job.leased_before) => Rights::NotYet,
            units => Rights::Some(may.intervals(), units),
        };
        self.looks_at(id, (looks + own.len()) as u64, now_us);
        rights
    }

    /// So many tasks were looked at for what node `id` says. False where that was more than it may.
    pub(crate) fn looks_at(&mut self, id: NodeId, tasks: u64, now_us: u64) -> bool {
        self.nodes.at_mut(id).allowances.looks.charge(tasks, now_us)
    }

    /// A node loses what it has of `at`: it may still report it.
    pub(crate) fn may_report_later(&mut self, id: NodeId, job: JobId, at: Interval) {
        // Tasks of a deleted job outlive it for some turns.
        let Some(job) = self.jobs.get_mut(job).filter(|_| id != NOBODY) else { return };
        if !(job.state.ended() && job.units.coverage().is_decided()) {
            job.late.add(id, at, job.units.coverage());
        }
    }

    /// What a heartbeat lists and belongs to nobody since this scheduler's start is at its node, as far as one can hold so
    /// much.
    pub(crate) fn claim(&mut self, seat: Seat, held: &Held, now_us: u64) {
        let id = seat.node;
        let most = self.holds_at_most(id, self.jobs.at(held.job));
        let node = self.nodes.at_mut(id);
        let claimed = node.claimed.entry(held.job).or_default();
        let units = &mut self.jobs.at_mut(held.job).units;
        *claimed += self.queues.claim(units, seat, held.at(), most.saturating_sub(*claimed), now_us);
    }

    /// Units of a job that node `id` may hold from before this scheduler's start, by what was measured then: none where it was
    /// not known then. Of a job of which nothing was measured so little is leased that it may be all.
    fn holds_at_most(&self, id: NodeId, job: &Job) -> u128 {
        if !self.nodes.is_of_before(id) {
            return 0;
        }
        let all = self.nodes.seats(id).map(|seat| self.holds_at_most_at(seat, job));
        all.fold(0, u128::saturating_add)
    }

    /// The same of slots of one kind.
    fn holds_at_most_at(&self, seat: Seat, job: &Job) -> u128 {
        let slots = self.nodes.at(seat.node).slots_of(seat.kind);
        // What a checkpoint knows of cores alone may be of devices as well.
        let mean = match job.rates.mean(seat.kind) {
            0.0 if seat.kind.is_device() => job.rates.standard() * CLAIM_DEVICES / CLAIM_SPREAD,
            0.0 => job.rates.standard(),
            mean => mean,
        };
        let task = match job.facts.sizing {
            Sizing::Units(units) => units as f64,
            Sizing::TargetUs(target_us) => mean * CLAIM_SPREAD * target_us as f64 / 1e6,
        };
        let (rate, task) = match job.rates.get(seat) {
            Some(rate) => (rate.units_per_s, task.max(rate.largest as f64) * GROWTH_MAX as f64),
            None if job.rates.are_unknown() => return u128::MAX,
            None => (mean * CLAIM_SPREAD, task),
        };
        let ahead = CLAIM_TIMES * rate * PREFETCH_US as f64 / 1e6;
        let tasks = (CLAIM_TASKS as f64) * task.max(job.facts.work.first_units as f64);
        (f64::from(slots) * (ahead + tasks)) as u128
    }

    /// The first heartbeat of an incarnation lists what it holds: of what an earlier scheduler gave out it may report that.
    pub(crate) fn claim_report(&mut self, id: NodeId, held: &Held) {
        if !self.nodes.at(id).may_claim {
            return;
        }
        let Some(job) = self.jobs.get(held.job) else { return };
        let mut at = held.at().within(Interval::new(0, job.leased_before));
        if at.is_empty() {
            return;
        }
        let known: u128 = job.late.within(id, at).iter().map(|at| at.units()).sum();
        let most = self.holds_at_most(id, job);
        let listed = self.nodes.at_mut(id).listed.entry(held.job).or_default();
        at.hi = at.hi.min(at.lo.saturating_add(known).saturating_add(most.saturating_sub(*listed)));
        *listed += at.units().saturating_sub(known);
        let job = self.jobs.at_mut(held.job);
        job.late.add(id, at, job.units.coverage());
    }
}

impl Farm {
    /// Node `id` says that it has done `at`: that is a piece apart, and it has left as many as it may.
    pub(crate) fn one_piece_too_many(
        &mut self,
        id: NodeId,
        job_id: JobId,
        at: Interval,
        now_us: u64,
    ) -> Option<Flaw> {
        let had = self.in_the_midst_of(id, job_id, at)?;
        let (most, jobs) = (self.config.pieces_max, &self.jobs);
        let coverage = |job| jobs.get(job).map(|job| job.units.coverage());
        let is_left = self.nodes.at_mut(id).pieces.leave((job_id, at.lo), had, most, coverage, now_us);
        (!is_left).then_some(Flaw::Pieces(most))
    }

    /// The task of node `id`, or what it lost, in the midst of which it has done `at`: there are open units before and
    /// behind that. What begins or ends with a task lies apart as well, but there are only as many of these as tasks.
    fn in_the_midst_of(&self, id: NodeId, job_id: JobId, at: Interval) -> Option<Interval> {
        let job = self.jobs.at(job_id);
        let is_open = |unit| job.units.coverage().is_open(unit);
        if at.lo == 0 || !is_open(at.lo - 1) || !is_open(at.lo) || !is_open(at.hi) {
            return None;
        }
        let around = Interval::new(at.lo - 1, at.hi + 1);
        let copies = self.queues.copies_in(job_id, at);
        let tasks = self.queues.of_node_in(id, job_id, at).into_iter().chain(copies);
        let its = tasks.map(|task_id| self.queues.task(task_id)).filter(|task| task.node == id);
        let mut has = its.map(|task| task.at).filter(|task| at.within(*task) == at).peekable();
        if has.peek().is_some() {
            return has.find(|task| around.within(*task) == around);
        }
        job.late.holding(id, around)
    }
}
