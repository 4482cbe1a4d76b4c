//! Questions about the farm, answered as the values that admin commands print. Nothing here changes anything, but for
//! ratings, which age when they are looked at.

use std::ops::Bound::{Excluded, Unbounded};

use starfarm_events::Sample;
use starfarm_protocol::admin::{
    ConflictInfo, DoubtfulInfo, FailedInfo, JobInfo, NeedsInfo, NetworkInfo, NodeInfo, Refusal, StatusInfo,
    TrustInfo, UntrueInfo,
};
use starfarm_protocol::devices::SlotKind;
use starfarm_protocol::ids::{ContentHash, JobId, NodeId};
use starfarm_protocol::limits::DATAGRAM_BYTES_MAX;
use starfarm_protocol::reason::HoldReason;
use starfarm_protocol::resources::{Resource, Resources, cards};
use starfarm_protocol::settings::SETTINGS;
use starfarm_protocol::trust::Untrue;
use starfarm_protocol::unit_set::UnitSet;
use starfarm_protocol::units::Units;
use starfarm_protocol::wire::FailReason;

use crate::device_view::{devices_info, rates_at};
use crate::farm::Farm;
use crate::job::{Body, FailedUnit, Job, JobState};
use crate::links;
use crate::node::Node;
use crate::queues::Class;
use crate::seat::Seat;
use crate::told::{Totals, Verdict, Verdicts};

/// Failed units that come with a job. All of them are in its results.
const FAILURES_SHOWN: usize = 20;

/// A page of what a job found.
#[derive(Clone, PartialEq, Debug)]
pub struct FoundPage {
    /// BLAKE3 of the job's specification.
    pub spec: ContentHash,
    /// Unit and target, by unit.
    pub hits: Vec<(u128, u32)>,
    /// There are so many, and some of them are in the journal alone: they are to be read there, none is here, and `more`
    /// does not speak of them.
    pub paged: Option<u64>,
    /// Units that failed for good, by unit.
    pub failed: Vec<FailedInfo>,
    /// Units that are done and left an outcome each.
    pub outcomes: u128,
    /// Another page follows.
    pub more: bool,
    /// Where that begins.
    pub next: Bookmark,
}

/// Where a page of what a job found begins, as the page before it knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bookmark {
    /// So many of each kind were on the pages before.
    skip: usize,
    /// The last hit and the last failed unit there.
    hit: Option<(u128, u32)>,
    failed: Option<u128>,
}

impl Farm {
    /// All jobs, by number, in short: without what befell single units.
    pub fn jobs(&self, now_us: u64) -> Vec<JobInfo> {
        self.jobs.iter().map(|job| self.job_info(job, now_us)).collect()
    }

    /// Up to `take` jobs from number `from` on, by number, in short.
    pub fn jobs_from(&self, from: JobId, take: usize, now_us: u64) -> Vec<JobInfo> {
        self.jobs.from(from).take(take).map(|job| self.job_info(job, now_us)).collect()
    }

    /// One job, with what befell it.
    pub fn job(&self, id: JobId, now_us: u64) -> Option<JobInfo> {
        let job = self.jobs.get(id)?;
        let conflicts = job.conflicts.iter().map(|(at, node)| ConflictInfo {
            lo: Units(at.lo),
            hi: Units(at.hi),
            node: self.node_name(*node),
        });
        Some(JobInfo {
            failures: self.failures(job.units.failed.page(0, FAILURES_SHOWN)),
            conflicts: conflicts.collect(),
            trust: self.trust_info(job),
            usage: None,
            ..self.job_info(job, now_us)
        })
    }

    /// What came of a job's trust checks; none where it asked for none, and nothing was untrue or is doubtful.
    fn trust_info(&self, job: &Job) -> Option<TrustInfo> {
        let checks = &job.checks;
        let untrue = |untrue: &Untrue| UntrueInfo {
            unit: Units(untrue.unit),
            node: self.node_name(untrue.node),
            why: untrue.why,
            believed: untrue.against.and_then(|id| self.node_name(id)),
            believed_forgotten: untrue.against.is_some_and(|id| self.node_name(id).is_none()),
        };
        let doubtful = |&(node, units): &(NodeId, u128)| DoubtfulInfo {
            node: self.node_name(node),
            units: Units(units),
        };
        let is_told = checks.are_asked_for() || !checks.untrue.is_empty() || !checks.doubtful.is_empty();
        is_told.then(|| TrustInfo {
            check: checks.share,
            units_checked: Units(checks.units_checked),
            planted: checks.planted.len() as u64,
            planted_found: job.planted_found(),
            untrue: checks.untrue.iter().map(untrue).collect(),
            doubtful: checks.doubtful.iter().map(doubtful).collect(),
        })
    }

    /// What all jobs are made from: BLAKE3 of their specifications.
    pub fn specs(&self) -> impl Iterator<Item = ContentHash> + '_ {
        self.jobs.iter().map(|job| job.facts.spec)
    }

    /// Jobs whose units have outcomes, each with what it is made from.
    pub fn specs_with_outcomes(&self) -> impl Iterator<Item = (JobId, ContentHash)> + '_ {
        let with = self.jobs.iter().filter(|job| matches!(job.facts.work.body, Body::Outcomes { .. }));
        with.map(|job| (job.facts.job, job.facts.spec))
    }

    /// What unfinished jobs that run programs are made from: what is put may belong to one of these.
    pub fn specs_of_programs(&self) -> impl Iterator<Item = ContentHash> + '_ {
        self.jobs.queued().filter(|job| job.facts.work.programs).map(|job| job.facts.spec)
    }

    /// What a job is made from: its specification, and the contents with units that a program named.
    pub fn made_from(&self, id: JobId) -> Option<(ContentHash, Vec<ContentHash>)> {
        let job = self.jobs.get(id)?;
        let chunks = job.growth.iter().flat_map(|growth| &growth.chunks);
        Some((job.facts.spec, chunks.map(|chunk| chunk.hash).collect()))
    }

    /// The node of that name, if the farm knows it.
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().find(|(_, node)| &*node.name == name).map(|(id, _)| id)
    }

    /// Units of programs that the node of that name may be running: those that it holds, as many as its slots at most.
    pub fn programs_of(&self, name: &str) -> u64 {
        let Some((id, node)) = self.nodes.iter().find(|(_, node)| &*node.name == name) else { return 0 };
        let (slots, mut units) = (node.all_slots(), 0);
        for task in self.queues.tasks_at(id) {
            let programs = self.jobs.get(task.job).is_some_and(|job| job.facts.work.programs);
            units += if programs { task.at.units() } else { 0 };
            if units >= u128::from(slots) {
                return slots.into();
            }
        }
        units as u64
    }

    /// The name of a node; none for one that was forgotten long ago.
    pub fn node_name(&self, id: NodeId) -> Option<String> {
        self.nodes.name(id).map(|name| name.to_string())
    }

    /// The name of a node that is not forgotten: it has tasks, is to get some, or has refused a job.
    pub(crate) fn name_of(&self, id: NodeId) -> String {
        self.nodes.at(id).name.to_string()
    }

    fn job_info(&self, job: &Job, now_us: u64) -> JobInfo {
        let [done, failed, out, pending, abandoned] = job.classes();
        let totals = &job.totals;
        let (rate, end_us) = (self.speed(job, now_us), totals.ended_us.unwrap_or(now_us));
        assert_eq!(done + failed + out + pending + abandoned, job.facts.units, "each unit is in one class");
        assert!(rate.is_finite() && rate >= 0.0, "a speed is a number");
        let refused = |(seat, refusal): (&Seat, &crate::job::Refusal)| Refusal {
            node: self.name_of(seat.node),
            why: refusal.why.clone(),
        };
        let (waits_for, roomless) = (self.waits_for(job), job.waits_for_room());
        JobInfo {
            id: job.facts.job,
            name: job.facts.name.clone(),
            user: job.facts.user.clone(),
            state: job.state,
            spec: job.facts.spec,
            units_total: Units(job.facts.units),
            grows: job.grows(),
            units_done: Units(done),
            units_failed: Units(failed),
            units_out: Units(out),
            units_pending: Units(pending),
            units_abandoned: Units(abandoned),
            hits: job.hits.count(),
            units_per_s: rate,
            eta_seconds: (rate > 0.0 && !job.grows() && roomless.is_none())
                .then(|| (pending + out) as f64 / rate),
            age_seconds: seconds(now_us.saturating_sub(totals.submitted_us)),
            run_seconds: totals.started_us.map(|started_us| seconds(end_us.saturating_sub(started_us))),
            totals: *totals,
            task_units_mean: mean(totals.decomposed_units, totals.decomposed),
            refused_by: job.refused_by.iter().map(refused).collect(),
            note: match &job.paused_for {
                None if job.state == JobState::Waiting => links::waits_for(&waits_for),
                None if job.state == JobState::Cancelled => {
                    self.broken_by(job).map_or_else(String::new, links::after_failed)
                }
                None if job.active() && self.jobs.lacks_room(job) => HoldReason::NoDisk.to_string(),
                None if job.active() && pending > 0 && self.fits_nowhere(job) => {
                    HoldReason::FitsNowhere.to_string()
                }
                None if let Some(unit) = roomless => {
                    format!("unit {unit} waits for a node whose disk has room for its files")
                }
                reason => reason.as_ref().map_or_else(String::new, ToString::to_string),
            },
            stored_bytes: job.stored.bytes(),
            outputs_cut: 0,
            failures: Vec::new(),
            conflicts: Vec::new(),
            needs: NeedsInfo::of(job.needs()),
            terms: job.terms.clone(),
            waits_for,
            merge: None,
            trust: None,
            usage: None,
            usage_total: None,
        }
    }

    /// Units per second of all live slots, as results say, but not more than was seen. Nothing of an ended or paused job is
    /// computed, however fast it would go.
    pub(crate) fn speed(&self, job: &Job, now_us: u64) -> f64 {
        let [_, _, out, ..] = job.classes();
        let told = self.told_speed(job);
        if job.active() { told.min(job.pace.most(out, now_us)) } else { 0.0 }
    }

    fn failures(&self, failed: Vec<(u128, FailedUnit)>) -> Vec<FailedInfo> {
        failed
            .into_iter()
            .map(|(unit, FailedUnit { reason, code, node })| {
                let (exit_code, signal) = reason.ended_by(code);
                let node = node.and_then(|node| self.node_name(node));
                FailedInfo { unit: Units(unit), reason, exit_code, signal, node }
            })
            .collect()
    }

    /// Hits of a job that are in memory: unit and target, by unit.
    pub fn hits(&self, id: JobId) -> Vec<(u128, u32)> {
        self.jobs.get(id).map_or_else(Vec::new, |job| job.hits.kept().iter().copied().collect())
    }

    /// Units of a job that failed for good, by unit.
    pub fn failed_units(&self, id: JobId) -> Vec<(u128, FailedUnit)> {
        self.jobs.get(id).map_or_else(Vec::new, |job| job.units.failed.page(0, usize::MAX))
    }

    /// Up to `take` hits and failed units of a job from the `skip`th of each on, and whether more follow. Who has read the
    /// page before shows its bookmark: a walk to the `skip`th on each page would make all pages together quadratic.
    pub fn found_page(&self, id: JobId, skip: usize, take: usize, mark: Bookmark) -> Option<FoundPage> {
        let job = self.jobs.get(id)?;
        let end = skip.saturating_add(take);
        let has_outcomes = matches!(job.facts.work.body, Body::Outcomes { .. });
        let failed = &job.units.failed;
        let failed_units = failed.units();
        let kept = job.hits.kept();
        let (hits, failed): (Vec<_>, _) = match mark {
            Bookmark { skip: marked, hit, failed: last } if marked == skip && skip > 0 => {
                let hits = hit.map(|hit| kept.range((Excluded(hit), Unbounded)));
                let failed = last.map_or_else(Vec::new, |unit| failed.page_behind(unit, take));
                (hits.into_iter().flatten().take(take).copied().collect(), failed)
            }
            _ => (kept.iter().skip(skip).take(take).copied().collect(), failed.page(skip, take)),
        };
        let next =
            Bookmark { skip: end, hit: hits.last().copied(), failed: failed.last().map(|failed| failed.0) };
        Some(FoundPage {
            spec: job.facts.spec,
            hits: if job.hits.are_paged() { Vec::new() } else { hits },
            paged: job.hits.are_paged().then_some(job.hits.count()),
            failed: self.failures(failed),
            next,
            outcomes: if has_outcomes { job.units.coverage().count(Class::Done) } else { 0 },
            more: (!job.hits.are_paged() && kept.len() > end) || failed_units > end as u128,
        })
    }

    /// Units of a job that ran to their end and leave outputs, so that these must be there. Of a unit that kills its
    /// workers nobody knows what it wrote.
    pub fn owed_outputs(&self, id: JobId) -> Option<UnitSet> {
        let job = self.jobs.get(id)?;
        let Body::Outcomes { .. } = job.facts.work.body else { return Some(UnitSet::default()) };
        let failed = job.units.failed.iter().filter(|(_, failed)| failed.reason != FailReason::Poison);
        let done = job.units.coverage().intervals(Class::Done);
        Some(done.chain(failed.map(|(at, _)| at)).map(|at| (at.lo, at.hi)).collect())
    }

    /// Intervals that are done, in order.
    pub fn done_intervals(&self, id: JobId) -> Vec<(u128, u128)> {
        let done = |job: &Job| job.units.coverage().intervals(Class::Done).map(|at| (at.lo, at.hi)).collect();
        self.jobs.get(id).map_or_else(Vec::new, done)
    }

    /// All nodes, by index.
    pub fn nodes(&mut self, now_us: u64) -> Vec<NodeInfo> {
        let (queues, jobs) = (&self.queues, &self.jobs);
        let info = |(id, node): (NodeId, &mut Node)| {
            let rates = rates_at(id, queues, jobs);
            let devices = node.all_devices().iter().map(|at| devices_info(id, at, queues, &rates)).collect();
            let runs = node.running.iter().filter_map(|(job, _)| jobs.get(*job)).map(Job::needs);
            let taken = runs.fold(Resources::NONE, Resources::plus);
            let info = node_info(id, node, queues.held_by(id), taken, now_us);
            NodeInfo { rate: rates.get(&SlotKind::CORES).copied(), devices, ..info }
        };
        self.nodes.iter_mut().map(info).collect()
    }

    /// The farm's figures.
    pub fn sample(&mut self, now_us: u64) -> Sample {
        let live = self.nodes.iter_mut().filter(|(_, node)| node.health().live());
        let (power, up) =
            live.fold((0.0, 0_u64), |(sum, up), (_, node)| (sum + node.rating.power(now_us), up + 1));
        Sample {
            gq: self.queues.waiting() as u64,
            dq: self.queues.out() as u64,
            jq: self.jobs.queue_len() as u64,
            dq_oldest_us: self.oldest_us(now_us),
            nodes_up: up,
            nodes: self.nodes.iter().filter(|(_, node)| node.health().is_there()).count() as u64,
            slots: self.nodes.live_slots(),
            power_mean: power / up.max(1) as f64,
            speed_ups: self.telemetry.feedback.0,
            slow_downs: self.telemetry.feedback.1,
            resent: self.telemetry.totals.resent,
            offers_repeated: self.telemetry.totals.offers_repeated,
            decomposed: self.telemetry.totals.decomposed,
            decomposed_units: self.telemetry.totals.decomposed_units,
            dispatched: self.queues.dispatched(),
            results_counted: self.telemetry.verdicts.count(Verdict::Counted)
                + self.telemetry.verdicts.count(Verdict::CountedPartly),
            results_duplicate: self.telemetry.verdicts.count(Verdict::Duplicate),
            datagrams_dropped: self.telemetry.datagrams.0,
            datagrams_refused: self.telemetry.datagrams.1,
            datagrams_in: Some(self.telemetry.traffic[0].datagrams),
            bytes_in: Some(self.telemetry.traffic[0].bytes),
            datagrams_out: Some(self.telemetry.traffic[1].datagrams),
            bytes_out: Some(self.telemetry.traffic[1].bytes),
            messages_malformed: Some(self.nodes.iter().map(|(_, node)| node.totals.malformed).sum()),
        }
    }

    /// Age of the oldest task in dq.
    fn oldest_us(&self, now_us: u64) -> u64 {
        self.queues.tasks().map(|task| now_us.saturating_sub(task.since_us)).max().unwrap_or(0)
    }

    /// The paper's online figures. What the core does not know is for the caller to fill in: how long it runs, datagrams
    /// and events dropped, notes, the keys of nodes, and how large a datagram each is sent.
    pub fn status(&mut self, now_us: u64) -> StatusInfo {
        let (sample, nodes) = (self.sample(now_us), self.nodes(now_us));
        let [received, sent] = self.telemetry.traffic;
        let Totals { feedback, decomposed, decomposed_units, .. } = self.telemetry.totals;
        let current = self.jobs.queued().find(|job| job.active());
        assert!(sample.nodes_up <= sample.nodes, "a node that is up is there");
        StatusInfo {
            farm: self.config.farm.to_string(),
            epoch: self.config.epoch.0,
            up_seconds: 0.0,
            tree: None,
            alarms: Vec::new(),
            gq: sample.gq,
            dq: sample.dq,
            jq: sample.jq,
            jobs_waiting: self
                .jobs
                .followers()
                .filter(|id| self.jobs.at(*id).state == JobState::Waiting)
                .count() as u64,
            resent: sample.resent,
            offers_repeated: sample.offers_repeated,
            dq_oldest_seconds: seconds(sample.dq_oldest_us),
            granularity_seconds: current.and_then(|job| job.facts.sizing.target_seconds()),
            tasks_decomposed: decomposed,
            task_units_mean: mean(decomposed_units, decomposed),
            speed_ups: feedback[1].0,
            slow_downs: feedback[1].1,
            power_mean: sample.power_mean,
            results_counted: sample.results_counted,
            results_duplicate: sample.results_duplicate,
            datagrams_dropped: 0,
            stored_bytes: 0,
            storage_limit: None,
            datagrams_refused: 0,
            messages_malformed: sample.messages_malformed.unwrap_or(0),
            network: NetworkInfo {
                datagrams_in: received.datagrams,
                bytes_in: received.bytes,
                datagrams_out: sent.datagrams,
                bytes_out: sent.bytes,
            },
            log_events_dropped: 0,
            stderr_lines_dropped: 0,
            settings: SETTINGS
                .iter()
                .zip(self.config.settings.values())
                .map(|(of, value)| (of.key.to_owned(), value))
                .collect(),
            notes: Vec::new(),
            nodes,
        }
    }

    /// Tasks in gq and in dq.
    pub fn tasks(&self) -> [usize; 2] {
        [self.queues.waiting(), self.queues.out()]
    }

    /// How often each verdict was given on a result.
    pub fn verdicts(&self) -> Verdicts {
        self.telemetry.verdicts
    }

    /// The job has ended, or never was.
    pub fn has_ended(&self, id: JobId) -> bool {
        self.jobs.unfinished(id).is_none()
    }
}

fn node_info(id: NodeId, node: &mut Node, held: usize, taken: Resources, now_us: u64) -> NodeInfo {
    let facts = node.facts.as_ref();
    NodeInfo {
        id,
        name: node.name.to_string(),
        key: None,
        state: node.health().state(),
        left: node.health().has_left(),
        why: node.why().map_or_else(String::new, |why| why.to_string()),
        drained: node.health().drain.by_person,
        // As watchers were told: to find it out for all nodes takes a walk through all jobs for each.
        idle: node.told.doing.idle(),
        boot: node.health().boot(),
        slots: node.slots(),
        power: node.rating.power(now_us),
        tasks: held as u64,
        tasks_queued: node.queued(),
        tasks_done: node.totals.tasks_done,
        units_done: Units(node.totals.units_done),
        speed_ups: node.totals.speed_ups,
        slow_downs: node.totals.slow_downs,
        offers_repeated: node.totals.offers_repeated,
        malformed: node.totals.malformed,
        results_worthless: node.totals.worthless,
        silent_seconds: (!node.restored).then(|| seconds(now_us.saturating_sub(node.heard_us))),
        heard_us: (!node.restored).then_some(node.heard_us),
        joined_seconds: seconds(now_us.saturating_sub(node.joined_us)),
        joined_us: node.joined_us,
        load: node.loads(),
        idle_us: node.idle_us,
        time_left_seconds: node
            .stay
            .filter(|_| node.health().is_there())
            .map(|stay| seconds(stay.ends_us.saturating_sub(now_us))),
        datagram_bytes: Some(DATAGRAM_BYTES_MAX as u32),
        system: facts.map(|facts| facts.system.clone()),
        cpu: facts.map(|facts| facts.cpu.clone()),
        cores: facts.map(|facts| facts.cores),
        memory_bytes: facts.map(|facts| facts.memory_bytes),
        memory_claimable_bytes: node.beside_slots.of(Resource::Memory),
        gpus: cards(node.beside_slots.of(Resource::Gpus)),
        gpus_taken: cards(taken.of(Resource::Gpus)),
        slots_taken: taken.of(Resource::Slots),
        memory_claimed_bytes: taken.of(Resource::Memory),
        accelerators: facts.map(|facts| facts.accelerators.clone()),
        rate: None,
        devices: Vec::new(),
        cards: node.cards.clone(),
        usage: None,
        alarm: None,
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn mean(units: u128, tasks: u64) -> f64 {
    units as f64 / tasks.max(1) as f64
}
