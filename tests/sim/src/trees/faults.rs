//! What befalls a simulated tree: by chance, until the faults stop.

use std::collections::BTreeSet;

use starfarm_overlay_core::front::Settings;
use starfarm_overlay_core::plan::Strategy;
use starfarm_overlay_core::plan::fuzzy::Weights;
use starfarm_protocol::ids::JobId;
use starfarm_protocol::link::{Scope, Table, Wish};

use super::agenda::{Mend, What};
use super::model::SECOND_US;
use super::wires::Who;
use super::world::Trees;
use crate::violation::Broken;

/// The longest that something lasts.
const LASTS_US: u64 = 20 * SECOND_US;
/// A scheduler's clock is set back by up to so much at its start.
const BACK_US: u64 = 5 * SECOND_US;
/// Jobs that run at one time.
const JOBS: usize = 3;

impl Trees {
    /// The next fault, and when the one after it comes.
    pub(super) fn fault(&mut self) -> Result<(), Broken> {
        if self.now_us >= self.quiet_us {
            self.mend_all();
            return Ok(());
        }
        let wait_us = 1 + self.random.below(2 * self.model.fault_every_us);
        self.agenda.at(self.now_us + wait_us, What::Fault);
        self.tally.faults += 1;
        match self.random.below(12) {
            0 | 1 => self.kill(|agent| agent > 0),
            2 => self.kill(|_| true),
            3 => {
                let number = self.any_node();
                self.end_worker(number);
                self.mend_later(Mend::Worker(number));
            }
            4 => self.power_off(),
            5 => self.part(),
            6 => self.stall(),
            7 => self.break_link()?,
            8 => {
                self.end_scheduler();
                self.mend_later(Mend::Scheduler);
            }
            9 => self.form(),
            _ => self.come_or_go(),
        }
        Ok(())
    }

    fn any_node(&mut self) -> usize {
        self.random.below(self.nodes.len() as u64) as usize
    }

    fn lasts_us(&mut self) -> u64 {
        1 + self.random.below(LASTS_US)
    }

    fn mend_later(&mut self, mend: Mend) {
        let at_us = (self.now_us + self.lasts_us()).min(self.quiet_us);
        self.agenda.at(at_us, What::Mend(mend));
    }

    /// One agent dies whose level is such.
    fn kill(&mut self, fits: impl Fn(u8) -> bool) {
        let fit: Vec<Who> =
            self.agents.values().filter(|agent| fits(agent.level)).map(|agent| agent.who).collect();
        if let Some(who) = fit.get(self.random.below(fit.len() as u64) as usize) {
            self.end_agent(*who, true);
        }
    }

    /// A machine goes out, and nobody hears of it.
    fn power_off(&mut self) {
        let host = self.random.below(self.scheduler_host() as u64) as usize;
        if self.hosts[host].is_on {
            self.hosts[host].is_on = false;
            self.cut(host, None);
            (0..self.nodes.len())
                .filter(|number| self.nodes[*number].host == host)
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|number| self.end_worker(number));
            self.mend_later(Mend::Power(host));
        }
    }

    /// Machines fall apart into two groups.
    fn part(&mut self) {
        let share = 1 + self.random.below(4);
        for host in 0..self.hosts.len() {
            self.hosts[host].group = u32::from(self.random.below(4) < share);
            self.cut(host, None);
        }
        self.mend_later(Mend::Partition);
    }

    /// Nothing passes by a link for a while.
    fn stall(&mut self) {
        let draw = self.random.draw();
        let until_us = self.now_us + self.lasts_us() / 2;
        if let Some(wire) = self.wires.nth(draw).and_then(|link| self.wires.get(link)) {
            wire.stalled_us = until_us.min(self.quiet_us);
            let hosts = wire.ends.each_ref().map(|end| end.host);
            hosts.into_iter().for_each(|host| self.cut(host, Some(until_us)));
        }
    }

    /// A link ends at both ends.
    fn break_link(&mut self) -> Result<(), Broken> {
        let Some(link) = self.wires.nth(self.random.draw()) else { return Ok(()) };
        for side in 0..2 {
            self.hang_up(link, side)?;
        }
        Ok(())
    }

    /// The tree is to have another shape.
    fn form(&mut self) {
        let strategy =
            if self.random.below(2) == 0 { Strategy::Average } else { Strategy::Fuzzy(Weights::default()) };
        let fanout = 2 + self.random.below(u64::from(self.model.fanout) * 2) as u32;
        if let Some(root) = &mut self.root {
            root.forest.form(Settings { strategy, fanout, topology: None }, root.clock.shows(self.now_us));
        }
    }

    /// A node leaves for good, or one that is not there joins.
    fn come_or_go(&mut self) {
        let number = self.any_node();
        if self.nodes[number].is_away {
            self.start_worker(number);
        } else if self.random.below(2) == 0 {
            self.end_worker(number);
            self.nodes[number].is_away = true;
        }
    }

    pub(super) fn mend(&mut self, mend: Mend) {
        match mend {
            Mend::Worker(number) if !self.nodes[number].is_away => self.start_worker(number),
            Mend::Worker(_) => {}
            Mend::Power(host) => {
                self.hosts[host].is_on = true;
                self.mend_host(host);
                for number in 0..self.nodes.len() {
                    if self.nodes[number].host == host && !self.nodes[number].is_away {
                        self.start_worker(number);
                    }
                }
            }
            Mend::Partition => {
                for host in 0..self.hosts.len() {
                    self.hosts[host].group = 0;
                    self.mend_host(host);
                }
            }
            Mend::Scheduler => {
                let behind_us = if self.random.below(3) == 0 { self.random.below(BACK_US) } else { 0 };
                self.start_scheduler(behind_us);
            }
        }
    }

    /// The faults stop.
    fn mend_all(&mut self) {
        self.mend(Mend::Partition);
        (0..self.scheduler_host()).for_each(|host| self.mend(Mend::Power(host)));
        self.start_scheduler(0);
        let away: BTreeSet<_> = (0..self.nodes.len()).filter(|number| self.nodes[*number].is_away).collect();
        // One job ends now, so that it is seen to go.
        if let Some(job) = self.jobs.keys().next().copied() {
            self.end_job(job);
        }
        for number in (0..self.nodes.len()).filter(|number| !away.contains(number)) {
            self.start_worker(number);
        }
    }

    /// Jobs start and end, and wishes change.
    pub(super) fn change(&mut self) {
        if self.now_us >= self.quiet_us {
            return;
        }
        self.agenda.at(self.now_us + 1 + self.random.below(10 * SECOND_US), What::Change);
        if self.jobs.len() >= JOBS {
            let nth = self.random.below(JOBS as u64) as usize;
            let job = *self.jobs.keys().nth(nth).expect("there are so many");
            self.end_job(job);
        }
        self.started += 1;
        let job = JobId(self.started);
        let up: Vec<_> = (0..self.nodes.len()).filter(|number| self.nodes[*number].is_up).collect();
        let on: BTreeSet<_> = up.into_iter().filter(|_| self.random.below(3) > 0).collect();
        for number in &on {
            let units = 1 + self.random.below(4);
            self.nodes[*number].units.borrow_mut().insert(job, units);
        }
        self.jobs.insert(job, on);
        if self.random.below(2) == 0 {
            self.own_trees.insert(job);
        }
        if self.random.below(4) == 0 {
            let period_us = [SECOND_US / 2, SECOND_US, 2 * SECOND_US][self.random.below(3) as usize];
            let wishes = vec![Wish { scope: Scope::All, period_us, metrics: 0 }];
            self.table = Table { version: self.table.version + 1, wishes };
        }
    }

    fn end_job(&mut self, job: JobId) {
        self.own_trees.remove(&job);
        for number in self.jobs.remove(&job).unwrap_or_default() {
            self.nodes[number].units.borrow_mut().remove(&job);
        }
    }
}
