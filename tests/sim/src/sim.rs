//! The simulation: what is true, the loop over events, and what must hold when. What happens at each end
//! lies in `at_farm` and `at_worker`, what befalls them in `trouble`.

use starfarm_events::Event;
use starfarm_protocol::ids::Epoch;
use starfarm_scheduler_core::{JobState, NodeState, limits};

use crate::agenda::{Agenda, What};
use crate::chronicle::Chronicle;
use crate::job::Job;
use crate::machine::{Machine, Process};
use crate::narrow::Paths;
use crate::network::Network;
use crate::orders::Orders;
use crate::plan::{Plan, us};
use crate::random::Random;
use crate::reign;
use crate::scenario::Scenario;
use crate::seat::Seat;
use crate::slot::Report;
use crate::tally::{LogHash, Tally};
use crate::violation::{Broken, Violation, rule};
use crate::wiretap::Wiretap;

/// Ticks at one instant after which a core is said to spin.
pub(crate) const SPINS_MAX: u32 = 100;
/// After the last job and the last fault, this many heartbeats pass before all must be at rest: on a bad
/// network handshakes are up to 30 s apart and several may be lost.
const REST_HEARTBEATS: u64 = 180;

/// A run of a scenario.
#[derive(Debug)]
pub struct Sim {
    pub(crate) scenario: Scenario,
    pub(crate) now_us: u64,
    pub(crate) agenda: Agenda,
    pub(crate) network: Network,
    pub(crate) paths: Paths,
    /// The scheduler.
    pub(crate) farm: Seat,
    /// A second one, which does not count.
    pub(crate) other: Option<Box<Seat>>,
    /// The scheduler while something happens to the second one.
    pub(crate) parked: Option<Box<Seat>>,
    /// Machines whose datagrams go to the second one.
    pub(crate) astray: Vec<bool>,
    /// The epoch of each scheduler that ever started.
    pub(crate) reigns: Vec<Epoch>,
    /// Records up to this one were durable in the right scheduler: users were answered.
    pub(crate) answered: u64,
    pub(crate) orders: Orders,
    /// What disks lose and clocks show.
    pub(crate) fate: Random,
    pub(crate) machines: Vec<Machine>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) plan: Plan,
    pub(crate) planned: usize,
    pub(crate) wiretap: Wiretap,
    pub(crate) tally: Tally,
    pub(crate) log: LogHash,
    /// The farm's log, from its first turn on, where one is wanted.
    pub(crate) chronicle: Option<Chronicle>,
    /// Jobs that have not ended, those to be submitted included.
    pub(crate) unfinished: usize,
    /// When the last job ended.
    pub(crate) ended_us: u64,
    /// Scratch of `at_worker`.
    pub(crate) deeds: Vec<starfarm_worker_core::Deed>,
    /// See `deeds`.
    pub(crate) reports: Vec<Report>,
    /// Says what happens on stderr.
    pub(crate) verbose: bool,
}

impl Sim {
    /// Puts a scenario up. The seed decides everything that is left open.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut drawn = Random::stream(seed, 1);
        let plan = Plan::draw(scenario, &mut drawn);
        let groups = scenario.nodes.iter().flat_map(|g| std::iter::repeat_n(g, g.count as usize));
        let machines: Vec<_> = (100..)
            .zip(groups)
            .map(|(purpose, group)| Machine::new(group, Random::stream(seed, purpose)))
            .collect();
        let jobs: Vec<_> = scenario.jobs.iter().map(|model| Job::new(model, &mut drawn)).collect();
        let mut sim = Self {
            now_us: 0,
            agenda: Agenda::default(),
            network: Network::new(&scenario.network, machines.len(), Random::stream(seed, 2)),
            paths: if plan.has_narrow { Paths::new(machines.len()) } else { Paths::default() },
            farm: reign::first(scenario, plan.needs_disk, machines.len()),
            other: None,
            parked: None,
            astray: vec![false; machines.len()],
            reigns: vec![Epoch(1)],
            answered: 0,
            orders: Orders::default(),
            fate: reign::fate(seed),
            wiretap: Wiretap::new(machines.len()),
            unfinished: jobs.len(),
            machines,
            jobs,
            plan,
            planned: 0,
            tally: Tally::default(),
            log: LogHash(seed),
            chronicle: None,
            ended_us: 0,
            deeds: Vec::new(),
            reports: Vec::new(),
            verbose: false,
            scenario: scenario.clone(),
        };
        sim.plan_next();
        if scenario.sample_s.is_some() {
            sim.agenda.at(0, What::Sample);
        }
        sim
    }

    /// Says every event of the farm on stderr, too.
    pub fn verbose(mut self) -> Self {
        self.verbose = true;
        self
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn run(mut self) -> Result<Tally, Violation> {
        let result = self.go();
        let at_us = self.now_us;
        result.map_err(|(rule, found)| Violation { rule, at_us, found })?;
        Ok(self.tally)
    }

    fn go(&mut self) -> Result<(), Broken> {
        let until_us = self.scenario.until_s.map_or(u64::MAX, us);
        let late_us = self.scenario.expect.end_by_s.map_or(u64::MAX, us);
        let rest_us = self.scenario.settings.heartbeat_us * REST_HEARTBEATS;
        while let Some((at_us, what)) = self.agenda.next() {
            if at_us > until_us {
                break;
            }
            if self.unfinished == 0 && at_us > self.ended_us.max(self.plan.quiet_us) + rest_us {
                self.at_rest()?;
                break;
            }
            if self.unfinished > 0 && at_us > late_us {
                return Err(("every job ends in time", self.stuck()));
            }
            self.now_us = at_us;
            self.tally.events += 1;
            self.happen(what)?;
        }
        self.finish()
    }

    fn happen(&mut self, what: What) -> Result<(), Broken> {
        match what {
            What::Arrive(machine, parcel) => self.arrive(machine, parcel),
            What::Serve(reign, machine, parcel) => self.serve(reign, machine, parcel),
            What::Deliver(machine, parcel) => self.deliver(machine, parcel),
            What::Durable(reign, sequence) => self.at_seat(reign, |sim| sim.durable(sequence)),
            What::FarmTick(reign) => self.at_seat(reign, Self::farm_tick),
            What::WorkerTick(machine) => self.worker_tick(machine),
            What::Step(machine, slot, step) => self.step(machine, slot, step),
            What::Session(machine, life, reign) => self.session(machine, life, reign),
            What::Hint(machine, life, reign) => self.hint(machine, life, reign),
            What::Reign => self.reign(),
            What::Dethrone(reign) => {
                self.dethrone(reign);
                Ok(())
            }
            What::Wake(machine, life) => self.wake(machine, life),
            What::Plan => self.blow(),
            What::Sample => self.sample(),
        }
    }

    fn sample(&mut self) -> Result<(), Broken> {
        let (now_us, farm_us) = (self.now_us, self.farm_us());
        let up = self.farm.farm.nodes(farm_us).iter().filter(|node| node.state == NodeState::Up).count();
        self.tally.up.push((now_us / 1_000_000, up));
        for expected in &self.scenario.expect.up {
            let inside = (us(expected.from_s)..=us(expected.to_s)).contains(&now_us);
            rule(!inside || (expected.min..=expected.max).contains(&up), "nodes up as expected", || {
                format!("{up} are up, expected {} to {}", expected.min, expected.max)
            })?;
        }
        let period_us = us(self.scenario.sample_s.unwrap_or(60.0)).max(1);
        self.agenda.at(now_us + period_us, What::Sample);
        Ok(())
    }

    /// Checks that cost something, every now and then.
    pub(crate) fn check_deeply(&mut self) -> Result<(), Broken> {
        let farm = &self.farm.farm;
        farm.check_all().map_err(|found| ("state and place agree", found))?;
        for job in &self.jobs {
            if let Some(view) = job.id.and_then(|id| farm.job(id)) {
                job.agrees(&view)?;
            }
        }
        let farm_us = self.farm_us();
        let status = farm.status(farm_us);
        let [gq, dq] = &mut self.tally.queues_max;
        (*gq, *dq) = ((*gq).max(status.gq), (*dq).max(status.dq));
        for node in self.farm.farm.nodes(farm_us) {
            let machine = &self.machines[node.id.0 as usize];
            let window = (machine.group.queue_tasks_max as usize).max(usize::from(machine.group.slots) + 1);
            // What a node gets back after it was thought lost comes on top of its window.
            rule(node.tasks <= 2 * window, "a node holds no more than its window", || {
                format!("node {}: {} tasks, window at most {window}", node.name, node.tasks)
            })?;
        }
        // What came back from nodes comes on top of what refill may cut.
        let bound = limits::GQ_TASKS_MAX + self.tally.queues_max[1] + self.machines.len();
        rule(status.gq <= bound, "gq is bounded", || format!("{} tasks, bound {bound}", status.gq))
    }

    /// Everything has ended and nothing befalls the farm any more.
    fn at_rest(&mut self) -> Result<(), Broken> {
        let status = self.farm.farm.status(self.farm_us());
        rule(status.gq + status.dq == 0, "at rest no task is left", || {
            format!("gq {}, dq {}", status.gq, status.dq)
        })?;
        for (number, machine) in self.machines.iter().enumerate() {
            if machine.process != Process::Up || self.network.is_cut(number as u32) {
                continue;
            }
            let worker = &machine.worker;
            let left = (worker.queued_tasks(), worker.unacknowledged_results());
            let idle = worker.idle_slots() == machine.slots.len();
            rule(left == (0, 0) && idle, "at rest a worker holds nothing", || {
                let (idle, welcomed) = (worker.idle_slots(), worker.is_welcomed());
                format!("node {number}: queued, unacknowledged: {left:?}; {idle} idle, welcomed {welcomed}")
            })?;
        }
        Ok(())
    }

    fn stuck(&self) -> String {
        let status = self.farm.farm.status(self.farm_us());
        let unfinished = self.farm.farm.jobs().into_iter().filter(|job| !job.state.ended());
        let jobs: Vec<_> = unfinished
            .map(|j| {
                let state = j.state.word();
                let (done, failed, out, pending) = (j.done, j.failed, j.out, j.pending);
                format!("job {} {state}: {done} done, {failed} failed, {out} out, {pending} pending", j.id.0)
            })
            .collect();
        format!("gq {}, dq {}; {}", status.gq, status.dq, jobs.join("; "))
    }

    fn finish(&mut self) -> Result<(), Broken> {
        self.check_deeply()?;
        self.audit()?;
        let now_us = self.now_us;
        self.tally.simulated_us = now_us;
        self.tally.log = self.log.0;
        self.close_log()?;
        if self.unfinished > 0 {
            self.utilise();
        }
        for machine in &mut self.machines {
            if machine.process != Process::Down {
                machine.die(now_us);
            }
            let totals = machine.totals;
            self.tally.refused_offers += totals.refused_offers;
            self.tally.results_repeated += totals.resent;
            self.tally.handshakes += totals.handshakes;
            let broken = totals.malformed + totals.stray_parts;
            rule(broken == 0, "no worker saw nonsense", || format!("{totals:?}"))?;
        }
        let totals = self.farm.farm.status(self.farm_us()).totals;
        (self.tally.resent, self.tally.offers_repeated) = (totals.resent, totals.offers_repeated);
        for job in self.farm.farm.jobs() {
            self.tally.dispatched += job.totals.dispatched;
            self.tally.duplicate_units += job.totals.duplicate_units;
            self.tally.copies += job.totals.copies;
        }
        self.came_out()
    }

    /// Notes which share of their time the slots have computed so far.
    pub(crate) fn utilise(&mut self) {
        let (mut busy_us, mut available_us) = (0, 0);
        for machine in &mut self.machines {
            machine.account(self.now_us);
            let running = machine.slots.iter().map(|slot| slot.busy_us).sum::<u64>();
            busy_us += machine.busy_us + if machine.process == Process::Down { 0 } else { running };
            available_us += machine.totals.available_us;
        }
        self.tally.slots_us = available_us;
        self.tally.utilisation = busy_us as f64 / available_us.max(1) as f64;
    }

    /// What the scenario expects.
    fn came_out(&self) -> Result<(), Broken> {
        let (expect, tally) = (&self.scenario.expect, &self.tally);
        for (place, job) in self.jobs.iter().enumerate() {
            let word = job.state.map_or("queued", JobState::word);
            let ended = self.scenario.until_s.is_none();
            let wanted = expect.jobs.as_ref().and_then(|states| states.get(place)).map(String::as_str);
            let wanted = wanted.unwrap_or(if ended { "finished" } else { word });
            rule(word == wanted, "jobs end as expected", || {
                format!("job {}: {word}, not {wanted}", place + 1)
            })?;
        }
        if self.scenario.law.is_some() {
            let sizes = &tally.sizes;
            rule(sizes.lawful(), "the law of sizes", || format!("{sizes:?} of the target"))?;
        }
        let refused_max = expect.refused_offers_max.unwrap_or(u64::MAX);
        rule(tally.refused_offers <= refused_max, "windows fit the queues", || {
            format!("workers refused {} offers", tally.refused_offers)
        })?;
        let duplicate_max = expect.duplicate_units_max.map_or(u128::MAX, u128::from);
        rule(tally.duplicate_units <= duplicate_max, "little is computed twice", || {
            format!("{} units were", tally.duplicate_units)
        })?;
        let least = [
            ("copies", tally.copies, expect.copies_min),
            ("hangs", tally.hangs, expect.hangs_min),
            ("restarts", tally.restarts, expect.restarts_min),
            ("superseded", tally.superseded, expect.superseded_min),
        ];
        for (what, found, least) in least {
            rule(found >= least.unwrap_or(0), "what the scenario is about happens", || {
                format!("{what}: {found}, {least:?} expected")
            })?;
        }
        let load =
            tally.bytes.into_iter().max().unwrap_or(0) as f64 * 8e6 / tally.simulated_us.max(1) as f64 / 1e9;
        rule(load < 0.05, "the network load stays below 5 % of 1 Gbit/s", || {
            format!("{:.3} %", load * 100.0)
        })?;
        let least = expect.utilisation_min.unwrap_or(0.0);
        rule(tally.utilisation >= least, "slots are kept busy", || {
            format!("{:.4} of their time, {least} expected", tally.utilisation)
        })
    }

    pub(crate) fn say(&mut self, event: &Event) {
        if self.verbose {
            eprintln!("{:>14.6} {event}", self.now_us as f64 / 1e6);
        }
    }
}
