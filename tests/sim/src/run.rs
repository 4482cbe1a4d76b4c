//! A run: the loop over events, what is asked when everything has ended, and what the scenario expects to come of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use starfarm_protocol::ids::Epoch;
use starfarm_scheduler_core::{JobState, NodeState};

use crate::agenda::{Agenda, What};
use crate::epochs;
use crate::job::Job;
use crate::machine::{Machine, Process};
use crate::narrow::Paths;
use crate::network::Network;
use crate::plan::{Orders, Plan, us};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::sim::Sim;
use crate::tally::{LogHash, Tally};
use crate::violation::{Broken, Violation, rule};
use crate::wicked::{Truth, lies};
use crate::wiretap::Wiretap;

/// After the last job and the last fault, this many heartbeats pass before all must be at rest: on a bad
/// network handshakes are up to 30 s apart and several may be lost.
const REST_HEARTBEATS: u64 = 180;

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
        let pages_hits = scenario.farm.hits_kept.is_some();
        let jobs = scenario.jobs.iter().map(|model| Job::new(model, pages_hits, &mut drawn));
        let jobs: Vec<_> = jobs.collect();
        let scenario = &Scenario { truth: Some(Arc::new(Truth::of(&jobs))), ..scenario.clone() };
        let mut sim = Self {
            now_us: 0,
            agenda: Agenda::default(),
            network: Network::new(&scenario.network, machines.len(), Random::stream(seed, 2)),
            paths: if plan.has_narrow { Paths::new(machines.len()) } else { Paths::default() },
            farm: epochs::first(scenario, plan.needs_disk, machines.len()),
            other: None,
            parked: None,
            astray: vec![false; machines.len()],
            epochs: vec![Epoch(1)],
            answered: 0,
            orders: Orders::default(),
            shaken: 0,
            fate: epochs::fate(seed),
            wiretap: Wiretap::new(machines.iter().map(|machine| lies(&machine.group))),
            unfinished: jobs.len(),
            machines,
            jobs,
            plan,
            planned: 0,
            tally: Tally::default(),
            log: LogHash(seed),
            farm_log: None,
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
            What::Serve(incarnation, machine, parcel) => self.serve(incarnation, machine, parcel),
            What::Deliver(machine, parcel) => self.deliver(machine, parcel),
            What::Durable(incarnation, sequence) => self.at_seat(incarnation, |sim| sim.durable(sequence)),
            What::FarmTick(incarnation) => self.at_seat(incarnation, Self::farm_tick),
            What::WorkerTick(machine) => self.worker_tick(machine),
            What::Step(machine, slot, step) => self.step(machine, slot, step),
            What::Knock(machine, session, back_us) => {
                self.at_seat(session.incarnation, |sim| sim.knock(machine, session, back_us))
            }
            What::Session(machine, session) => self.session(machine, session),
            What::Hint(machine, session) => self.hint(machine, session),
            What::Name(incarnation, batch) => self.at_seat(incarnation, |sim| sim.units_named(batch)),
            What::Restart => self.restart(),
            What::EndSecond(incarnation) => {
                self.end_second(incarnation);
                Ok(())
            }
            What::Wake(machine, life) => self.wake(machine, life),
            What::Booted(machine, life) => {
                self.booted(machine, life);
                Ok(())
            }
            What::DeviceBack(machine, life, slot) => self.device_back(machine, life, slot),
            What::Plan => self.fault(),
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
        for expected in &self.scenario.expect.out {
            let inside = (us(expected.from_s)..=us(expected.to_s)).contains(&now_us) && self.farm.up;
            let job = self.jobs[expected.job - 1].id.filter(|_| inside);
            let out = job.and_then(|id| self.farm.farm.job(id, farm_us)).map(|view| view.units_out.0);
            let fits = |out| (u128::from(expected.min)..=u128::from(expected.max)).contains(&out);
            rule(out.is_none_or(fits), "units out as expected", || format!("{out:?}: {expected:?}"))?;
        }
        let period_us = us(self.scenario.sample_s.unwrap_or(60.0)).max(1);
        self.agenda.at(now_us + period_us, What::Sample);
        Ok(())
    }

    /// Everything has ended and nothing befalls the farm any more.
    fn at_rest(&mut self) -> Result<(), Broken> {
        let [gq, dq] = self.farm.farm.tasks();
        rule(gq + dq == 0, "at rest no task is left", || format!("gq {gq}, dq {dq}"))?;
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
        let [gq, dq] = self.farm.farm.tasks();
        let unfinished = self.farm.farm.jobs(self.farm_us()).into_iter().filter(|job| !job.state.ended());
        let jobs: Vec<_> = unfinished
            .map(|j| {
                let state = j.state.word();
                let (done, failed, out, pending) =
                    (j.units_done, j.units_failed, j.units_out, j.units_pending);
                format!("job {} {state}: {done} done, {failed} failed, {out} out, {pending} pending", j.id.0)
            })
            .collect();
        format!("gq {gq}, dq {dq}; {}", jobs.join("; "))
    }

    fn finish(&mut self) -> Result<(), Broken> {
        self.check_deeply()?;
        self.audit()?;
        let now_us = self.now_us;
        self.tally.simulated_us = now_us;
        self.tally.log = self.log.0;
        let farm_us = self.farm_us();
        self.farm_log.as_mut().map_or(Ok(()), |farm_log| farm_log.close(farm_us))?;
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
        for job in &self.jobs {
            self.tally.parts += job.runs.parts;
            self.tally.in_vain += job.runs.in_vain;
        }
        let status = self.farm.farm.status(farm_us);
        (self.tally.resent, self.tally.offers_repeated) = (status.resent, status.offers_repeated);
        for job in self.farm.farm.jobs(farm_us) {
            self.tally.dispatched += job.totals.dispatched;
            self.tally.duplicate_units += job.totals.duplicate_units;
            self.tally.copies += job.totals.copies;
        }
        self.came_out()
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
        if let Some(named) = &expect.named {
            let named: BTreeSet<String> = named.iter().cloned().collect();
            rule(tally.named == named, "who lies is named, and nobody else", || {
                format!("{:?}", tally.named)
            })?;
        }
        let least = [
            ("copies", tally.copies, expect.copies_min),
            ("parts of runs", tally.parts, expect.parts_min),
            ("hangs", tally.hangs, expect.hangs_min),
            ("restarts", tally.restarts, expect.restarts_min),
            ("superseded", tally.superseded, expect.superseded_min),
            ("stalls", tally.stalls, expect.stalls_min),
            ("late datagrams", tally.late, expect.late_min),
            ("inputs of a turn", tally.batch_max as u64, expect.batch_min.map(|least| least as u64)),
        ];
        for (what, found, least) in least {
            rule(found >= least.unwrap_or(0), "what the scenario is about happens", || {
                format!("{what}: {found}, {least:?} expected")
            })?;
        }
        if let Some([least, most]) = expect.refusals {
            rule(
                (least..=most).contains(&tally.refusals),
                "what nodes refuse is asked of them seldom",
                || format!("{} tasks were refused, {least} to {most} expected", tally.refusals),
            )?;
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
}
