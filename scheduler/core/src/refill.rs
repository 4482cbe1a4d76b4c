//! Refill: what a task's size should be on a node, and cutting tasks of that size from a job's fresh
//! space into gq. Tasks are cut when a node has room for them, not long before: a size chosen early is
//! chosen from old news.

use starfarm_protocol::admin::Rule;
use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::journal::Record;
use starfarm_protocol::resources::Resources;

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::{Job, Sizing};
use crate::limits::{
    GQ_TASKS_MAX, GROWTH_MAX, LEASES_A_COMMIT, PREFETCH_TASKS_MIN, PREFETCH_US, TAIL_FLOOR_US, TAIL_SHARE,
};
use crate::node::{Ahead, Window};
use crate::queues::Class;
use crate::seat::Seat;
use crate::start::Start;

/// Room below this share of the window is left to grow, so that tasks travel together.
const ROOM_SHARE: usize = 8;

/// Size of the next task on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ideal {
    /// Its units.
    pub(crate) units: u64,
    /// Its computing time in microseconds; 0 where no rate is known yet.
    pub(crate) us: f64,
    /// What was measured so far is too little for a task of the full size: the next result tells more, so
    /// few such tasks should wait at the node.
    pub(crate) learning: bool,
    /// What decided its units.
    pub(crate) rule: Rule,
    /// Units per second of a slot that it goes by; 0 where no rate is known.
    pub(crate) units_per_s: f64,
    /// That rate was measured there, and is not the mean of others.
    pub(crate) measured: bool,
    /// Units that take the target time; 0 where no rate is known, or the user named the units.
    pub(crate) target: u64,
    /// The most that what was done so far leads to; likewise.
    pub(crate) grown: u64,
    /// The most near the job's end; `u64::MAX` where the user named the units.
    pub(crate) tail: u64,
    /// The most that is over before the node leaves; `u64::MAX` where it stays.
    pub(crate) in_time: u64,
}

/// Of what came back to gq, up to so many units go out as one task where the ideal has `ideal`. More of them are cut,
/// so that the rest makes a task as well.
pub(crate) fn whole_units(job: &Job, ideal: &Ideal) -> u64 {
    let whole = match job.facts.sizing {
        Sizing::Units(units) => units.max(1),
        Sizing::TargetUs(_) if job.learns_start() => ideal.units.saturating_mul(2),
        Sizing::TargetUs(_) => ideal.units.saturating_mul(2).max(2) - 1,
    };
    whole.min(ideal.in_time)
}

impl Job {
    /// Units that a slot of `seat` does in so long, by what was measured there, else by the mean of such slots; 0 where
    /// nothing was.
    pub(crate) fn units_within(&self, seat: Seat, us: u64) -> f64 {
        let by_start = self.start_on(seat).units_within(us);
        by_start.unwrap_or_else(|| self.rate_on(seat) * us as f64 / 1e6) * self.ease()
    }

    /// Microseconds that a slot of `seat` needs for so many units in one task; likewise.
    pub(crate) fn takes_us(&self, seat: Seat, units: f64) -> f64 {
        let (units, rate) = (units / self.ease(), self.rate_on(seat));
        self.start_on(seat).takes_us(units).unwrap_or(if rate > 0.0 { units * 1e6 / rate } else { 0.0 })
    }

    /// What a task should take at `seat` by the clock; none where the user named its units.
    pub(crate) fn task_us(&self, seat: Seat) -> Option<u64> {
        match self.facts.sizing {
            Sizing::TargetUs(us) => Some(self.start_on(seat).target_us(us)),
            Sizing::Units(_) => None,
        }
    }

    /// Nothing is known of its runs, whose starts may take longer than their units: the first ones are of unlike sizes, so
    /// that two of them tell.
    fn learns_start(&self) -> bool {
        let by_time = matches!(self.facts.sizing, Sizing::TargetUs(_));
        by_time && self.facts.work.is_whole_run() && self.rates.are_unknown()
    }

    /// What starting takes at `seat`, as far as runs there tell.
    pub(crate) fn start_on(&self, seat: Seat) -> Start {
        self.rates.get(seat).map_or_else(Start::default, |rate| rate.start)
    }
}

impl Farm {
    /// The size that a task of `job` should have at `seat`: what takes the target time there by its measured rate, less near
    /// the job's end.
    pub(crate) fn ideal(&self, job: &Job, seat: Seat) -> Ideal {
        let first = job.facts.work.first_units;
        let (rate, largest, measured) = match job.rates.get(seat) {
            Some(rate) => (rate.units_per_s * job.ease(), rate.largest, true),
            None => (job.rate_on(seat) * job.ease(), first, false),
        };
        let (is_whole_run, start) = (job.facts.work.is_whole_run(), job.start_on(seat));
        let knows_start = !is_whole_run || start.us().is_some();
        // The mean of the others says little of a node that may be fifty times slower: held ahead, that
        // would be fifty times too much.
        let sized = |units: u64, rule, (target, grown, tail)| {
            let us = job.takes_us(seat, units as f64);
            let learning = !measured
                || matches!(rule, Rule::First | Rule::Growth)
                || rule != Rule::Fixed && !knows_start;
            Ideal {
                units,
                us,
                learning,
                rule,
                units_per_s: rate,
                measured,
                target,
                grown,
                tail,
                in_time: u64::MAX,
            }
        };
        if let Sizing::Units(units) = job.facts.sizing {
            return sized(units.max(1), Rule::Fixed, (0, 0, u64::MAX));
        }
        let within = |us: u64| job.units_within(seat, us).clamp(1.0, u64::MAX as f64 / 4.0) as u64;
        if rate == 0.0 {
            let tail = self.tail_units(job, first);
            return sized(tail.min(first).max(1), Rule::First, (0, 0, tail));
        }
        // The tail has the last word, so what keeps it from being dust goes by what the node has done, not by what it says
        // of its speed alone; and a unit that is a program is no dust. A run near the end has as many starts as any other, but
        // no more than a slot's share of all that is not done.
        let floor = match job.facts.work.programs && job.facts.work.on.cores {
            true if is_whole_run => within(start.target_us(TAIL_FLOOR_US)).min(self.share_of_rest(job)),
            true => 1,
            // A unit of a kernel on a device is no more than one of a search.
            false => within(TAIL_FLOOR_US).min(largest.max(first)),
        };
        let least = if is_whole_run { start.least_units() } else { 1 };
        let target = within(job.task_us(seat).unwrap_or(0)).max(least);
        let tail = self.tail_units(job, floor);
        let runs = self.places(job, seat.kind, self.nodes.at(seat.node).has_of(seat.kind));
        let learnt =
            job.rates.get(seat).map_or(0, |rate| rate.learnt(u16::try_from(runs).unwrap_or(u16::MAX)));
        let grown = largest.max(first).max(learnt).saturating_mul(GROWTH_MAX);
        let wanted = target.min(tail).max(1);
        let rule = match wanted {
            wanted if wanted > grown => Rule::Growth,
            wanted if wanted < target => Rule::Tail,
            _ => Rule::Target,
        };
        sized(wanted.min(grown), rule, (target, grown, tail))
    }

    /// As [`Farm::ideal`], and over before the node leaves; none where nothing of the job is.
    pub(crate) fn next_task(&self, job: &Job, seat: Seat, now_us: u64) -> Option<Ideal> {
        let ideal = self.ideal(job, seat);
        let Some(free_us) = self.free_us(seat, ideal.us, now_us) else { return Some(ideal) };
        if free_us < TAIL_FLOOR_US {
            return None;
        }
        if ideal.units_per_s == 0.0 {
            return Some(ideal);
        }
        let in_time = job.units_within(seat, free_us) as u64;
        if ideal.units <= in_time {
            return Some(Ideal { in_time, ..ideal });
        }
        let can_be_cut = matches!(job.facts.sizing, Sizing::TargetUs(_)) && in_time > 0;
        let us = job.takes_us(seat, in_time as f64);
        can_be_cut.then_some(Ideal { units: in_time, us, in_time, rule: Rule::TimeLeft, ..ideal })
    }

    /// Some slots of node `id` that could run the job have the time for a task of it.
    pub(crate) fn has_time_for_one(&self, job: &Job, id: NodeId, now_us: u64) -> bool {
        let could = self.nodes.seats(id).filter(|seat| job.could_run_at(*seat, &self.nodes));
        could.into_iter().any(|seat| self.next_task(job, seat, now_us).is_some())
    }

    /// How much of `job` a node may hold beside what it runs, if its next task is `ideal`.
    pub(crate) fn ahead(&self, job: &Job, ideal: &Ideal) -> Ahead {
        let by_start = job.facts.work.is_whole_run() && ideal.rule != Rule::Fixed;
        let two_each = 2 * u128::from(self.live_places(job)) * u128::from(ideal.units);
        match ideal.learning {
            _ if by_start && (ideal.learning || self.scarce(job) || job.pending() < two_each) => {
                Ahead::Nothing
            }
            true => Ahead::Least,
            false if self.scarce(job) => Ahead::Scarce,
            false => Ahead::Full,
        }
    }

    /// Tasks that `seat` may hold, if the next ones are of `job` and `ideal`. Near the end of the job that is its share of
    /// what is left, or what it did within such a time, whichever is more: its speed is its own word.
    pub(crate) fn window(&self, job: &Job, seat: Seat, ideal: &Ideal, now_us: u64) -> Window {
        let node = self.nodes.at(seat.node);
        let mut window = node.window(seat.kind, now_us, ideal.us, self.ahead(job, ideal));
        let slots = u64::from(node.slots_of(seat.kind));
        let share = job.pending() / u128::from(self.live_places(job));
        let share = share.saturating_mul(u128::from(slots));
        let did = job.rates.get(seat).map_or(0, |rate| rate.pace.lately());
        let most = share.max(u128::from(did)) / u128::from(ideal.units);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        window.tasks = window.tasks.min(most.max((PREFETCH_TASKS_MIN * slots) as usize));
        window.tasks = window.tasks.min(self.tasks_in_time(seat, ideal.us, now_us));
        window
    }

    /// Tasks of `job`, the next of them `ideal`, that `seat` has room for where it may have `most` of all jobs; 0 too where
    /// there is so little room that it is left to grow.
    pub(crate) fn room(&self, job: &Job, seat: Seat, ideal: &Ideal, most: usize, now_us: u64) -> usize {
        self.room_within(job, seat, ideal, self.nodes.at(seat.node).has_of(seat.kind), most, now_us)
    }

    /// As [`Farm::room`], where the job may use `within` of what is there.
    pub(crate) fn room_within(
        &self,
        job: &Job,
        seat: Seat,
        ideal: &Ideal,
        within: Resources,
        most: usize,
        now_us: u64,
    ) -> usize {
        let (node, held) = (self.nodes.at(seat.node), self.in_the_way(job, seat, within));
        let places = self.places(job, seat.kind, within);
        let slots = usize::from(node.slots_of(seat.kind)).max(1);
        // A window has tasks for each slot.
        let window =
            self.window(job, seat, ideal, now_us).tasks.saturating_mul(places).div_ceil(slots).min(most);
        let room = window.saturating_sub(held);
        let little = room < window / ROOM_SHARE && held > places;
        if little { 0 } else { room }
    }

    /// Near the end tasks shrink, so that the last ones end together: a share of what is left a slot, but
    /// at least `floor`.
    pub(crate) fn tail_units(&self, job: &Job, floor: u64) -> u64 {
        let share = job.pending().div_ceil(TAIL_SHARE * u128::from(self.live_places(job)));
        u64::try_from(share).unwrap_or(u64::MAX).max(floor)
    }

    /// Units of `job` that are not done, for each slot that it may have.
    fn share_of_rest(&self, job: &Job) -> u64 {
        let rest = job.pending() + job.units.coverage().count(Class::Out);
        u64::try_from(rest.div_ceil(u128::from(self.live_places(job)))).unwrap_or(u64::MAX).max(1)
    }

    /// There is so little left of `job` that what one node holds ahead others will miss.
    fn scarce(&self, job: &Job) -> bool {
        (job.pending() as f64) < self.told_speed(job) * (2 * PREFETCH_US) as f64 / 1e6
    }

    /// Cuts up to `tasks` tasks, the first of `size` units, from the fresh space of a job into gq.
    pub(crate) fn refill(&mut self, id: JobId, mut size: u64, tasks: usize, deeds: &mut Deeds) {
        assert!(size > 0 && tasks > 0, "tasks with units are asked for");
        let share = TAIL_SHARE * u128::from(self.live_places(self.jobs.at(id)));
        let job = self.jobs.at_mut(id);
        let (first, units) = (job.units.coverage().cursor(), job.facts.units);
        let (by_time, leased) = (matches!(job.facts.sizing, Sizing::TargetUs(_)), job.lease.durable());
        let (first_size, is_whole_run) = (size, job.facts.work.is_whole_run());
        let (learns_start, two_each) = (job.learns_start(), u128::from(size) * share);
        let (mut at, mut wanted) = (first, first);
        let ends = std::iter::from_fn(|| {
            if at == units {
                return None;
            }
            wanted = at.saturating_add(u128::from(size)).min(units);
            if wanted > leased {
                return None;
            }
            at = wanted;
            if learns_start {
                // As long as every slot can have as much: a unit may last for hours.
                let doubles = size == first_size && units - at >= two_each;
                size = if doubles { first_size.saturating_mul(2) } else { first_size };
            } else if by_time && !is_whole_run {
                // The rest shrinks while we cut: so must the next task.
                let left = u64::try_from((units - at) / share).unwrap_or(u64::MAX);
                size = size.min(left).max(1.max(size / 2));
            }
            Some(at)
        });
        let cut = self.queues.cut(&mut job.units, ends.take(tasks.min(GQ_TASKS_MAX)));
        let cut_units = job.units.coverage().cursor() - first;
        assert!(cut == 0 || first + cut_units <= leased, "nothing is cut beyond what is leased");
        assert!(u128::from(cut) <= cut_units, "each task has a unit");
        job.totals.decomposed += cut;
        job.totals.decomposed_units += cut_units;
        self.telemetry.totals.decomposed += cut;
        self.telemetry.totals.decomposed_units += cut_units;
        self.lease(id, wanted, size, deeds);
        if leased == 0 {
            self.lease_followers(deeds);
        }
    }

    /// Sees to it that the lease of a job reaches well beyond `wanted`.
    pub(crate) fn lease(&mut self, id: JobId, wanted: u128, size: u64, deeds: &mut Deeds) {
        let job = self.jobs.at_mut(id);
        assert!(job.active(), "what is not given out needs no lease");
        if let Some(mark) = job.lease.next(wanted, size, job.facts.units) {
            let sequence = self.commit(Record::Leased { job: id, mark }, deeds);
            self.commits.lease(sequence, id, mark);
        }
    }

    /// The first lease of a job, of which nothing was given out yet.
    pub(crate) fn lease_first(&mut self, id: JobId, deeds: &mut Deeds) {
        let facts = &self.jobs.at(id).facts;
        let size = match facts.sizing {
            Sizing::Units(units) => units.max(1),
            Sizing::TargetUs(_) => facts.work.first_units,
        };
        self.lease(id, u128::from(size), size, deeds);
    }

    /// Jobs that have their turn soon get their first leases in one commit: small ones behind one another would wait
    /// for a commit each.
    pub(crate) fn lease_followers(&mut self, deeds: &mut Deeds) {
        let unleased = self.jobs.open().filter(|job| job.active() && job.lease.mark() == 0);
        let followers: Vec<JobId> = unleased.take(LEASES_A_COMMIT).map(|job| job.facts.job).collect();
        followers.into_iter().for_each(|id| self.lease_first(id, deeds));
    }

    /// Leases whose records are durable now can be used.
    pub(crate) fn lease_durable(&mut self) {
        while let Some((job, mark)) = self.commits.next_lease() {
            if let Some(job) = self.jobs.get_mut(job) {
                job.lease.settle(mark);
                // Its units waited before: the list of open jobs has it.
                self.agenda.work_came = true;
            }
        }
    }
}
