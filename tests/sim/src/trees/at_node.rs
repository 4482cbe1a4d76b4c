//! Simulated workers: they start and end agents as they are told, call the scheduler, and send the heartbeats that the doorbell
//! comes with.

use std::net::SocketAddr;

use starfarm_overlay_core::posts::{Deed, News, ProcessId, keys};
use starfarm_protocol::ids::{JobId, PublicKey};
use starfarm_protocol::orders::{Orders, Report};

use super::agenda::{Place, What};
use super::clock::Clock;
use super::model::SECOND_US;
use super::node::{Node, SCHEDULER, address};
use super::post::Agent;
use super::wires::Who;
use super::world::Trees;

/// A call of which nothing is heard is given up after this.
const PATIENCE_US: u64 = 5 * SECOND_US;

impl Trees {
    /// Starts the worker of a node that has none.
    pub(super) fn start_worker(&mut self, number: usize) {
        let ahead = self.random.below(400) as i64 - 200;
        let node = &mut self.nodes[number];
        if node.is_up || !self.hosts[node.host].is_on {
            return;
        }
        let place = Place { node: number, life: node.life + 1 };
        *node = Node {
            life: place.life,
            is_up: true,
            is_away: false,
            clock: Clock::new(self.now_us, 0, ahead),
            units: std::mem::take(&mut node.units),
            ..Node::new(number, node.host)
        };
        self.agenda.at(self.now_us + 1 + self.random.below(SECOND_US), What::Heartbeat(place));
    }

    /// A worker dies, and all its agents with it.
    pub(super) fn end_worker(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        node.is_up = false;
        node.units.borrow_mut().clear();
        let agents = std::mem::take(&mut node.agents);
        agents.into_values().for_each(|who| self.end_agent(who, false));
        for of in self.jobs.values_mut() {
            of.remove(&number);
        }
    }

    /// Its clock now.
    fn local(&self, place: Place) -> u64 {
        self.nodes[place.node].clock.shows(self.now_us)
    }

    /// Does what a worker has to do by now.
    pub(super) fn worker(&mut self, place: Place) {
        if !self.lives(place) {
            return;
        }
        let (local_us, mut deeds) = (self.local(place), Vec::new());
        let node = &mut self.nodes[place.node];
        node.posts.start_due(local_us, &mut deeds);
        let calls = node.said.is_none() && node.calls.take_due(node.posts.is_adrift(), local_us);
        self.do_at_node(place, deeds);
        if calls {
            self.call(place);
        }
        let node = &mut self.nodes[place.node];
        let call_us = node.calls.due_us().filter(|_| node.said.is_none());
        let due_us = [call_us, node.posts.due_us()].into_iter().flatten().min();
        let due_us =
            due_us.map_or(u64::MAX, |due_us| node.clock.when(due_us, self.now_us).max(self.now_us + 1));
        if due_us < node.turn_us || node.turn_us <= self.now_us {
            node.turn_us = due_us;
            if due_us < u64::MAX {
                self.agenda.at(due_us, What::Worker(place));
            }
        }
    }

    /// Says to the scheduler what there is.
    fn call(&mut self, place: Place) {
        let node = &mut self.nodes[place.node];
        let report = node.posts.report(node.calls.newest());
        let host = node.host;
        node.said = Some(report.clone());
        let latency_us = self.latency();
        let over = |us| (us, What::Called(place, None));
        let (us, what) = match &self.root {
            Some(root) if self.reaches(host, self.scheduler_host()) => {
                (latency_us, What::Report(place, Box::new(report), root.incarnation))
            }
            None if self.reaches(host, self.scheduler_host()) => over(latency_us),
            _ => over(PATIENCE_US),
        };
        self.agenda.at(self.now_us + us, what);
    }

    /// A report has come to the scheduler.
    pub(super) fn on_report(&mut self, place: Place, report: &Report, incarnation: u32) {
        let node = &self.nodes[place.node];
        let is_reached = self.reaches(node.host, self.scheduler_host());
        let (key, name, now_us) = (node.key, node.name.clone(), self.now_us);
        let latency_us = self.latency();
        let Some(root) = self.root.as_mut().filter(|root| root.incarnation == incarnation && is_reached)
        else {
            self.agenda.at(now_us + PATIENCE_US, What::Called(place, None));
            return;
        };
        let orders = root.forest.on_report(key, &name, report, root.clock.shows(now_us));
        self.judge.on_orders(report, &orders);
        self.agenda.at(now_us + latency_us, What::Called(place, Some(Box::new(orders))));
        self.agenda.at(now_us, What::Wake(incarnation));
    }

    /// A call is over.
    pub(super) fn on_called(&mut self, place: Place, orders: Option<Box<Orders>>) {
        if !self.lives(place) {
            return;
        }
        let (local_us, mut deeds) = (self.local(place), Vec::new());
        let node = &mut self.nodes[place.node];
        let said = node.said.take().expect("one call is made at a time");
        let Some(orders) = orders else {
            node.calls.on_failure(local_us);
            return self.worker(place);
        };
        node.calls.on_orders(orders.newest);
        let ways = (SCHEDULER, address(node.host));
        node.posts.want(orders.posts, ways, local_us, &mut deeds);
        let is_news = keys(&said) != keys(&node.posts.report(node.calls.newest()));
        self.do_at_node(place, deeds);
        if is_news {
            self.call(place);
        }
        self.worker(place);
    }

    fn do_at_node(&mut self, place: Place, deeds: Vec<Deed>) {
        for deed in deeds {
            match deed {
                Deed::Start(_, id, (_, level), job) => {
                    let node = &mut self.nodes[place.node];
                    node.starting.insert(id);
                    node.posts.on_started(id, Some(id.0 as u32));
                    let takes_us = 20_000 + self.random.below(60_000);
                    self.agenda.at(self.now_us + takes_us, What::Runs(place, id, (level, job)));
                }
                Deed::Close(id) => {
                    if let Some(who) = self.nodes[place.node].agents.get(&id) {
                        self.agenda.at(self.now_us, What::Close(*who));
                    }
                }
                Deed::End(id) => {
                    self.nodes[place.node].starting.remove(&id);
                    if let Some(who) = self.nodes[place.node].agents.remove(&id) {
                        self.end_agent(who, false);
                    }
                }
                Deed::Place(id, order, scheduler) => {
                    if let Some(who) = self.nodes[place.node].agents.get(&id) {
                        self.agenda.at(self.now_us, What::Place(*who, order, scheduler));
                    }
                }
            }
        }
    }

    /// A process that was started runs.
    pub(super) fn runs(&mut self, place: Place, id: ProcessId, (level, job): (u8, Option<JobId>)) {
        if !self.lives(place) || !self.nodes[place.node].starting.remove(&id) {
            return;
        }
        self.processes += 1;
        let (who, host) = (Who(self.processes), self.nodes[place.node].host);
        let mut key = [2; 32];
        key[..8].copy_from_slice(&who.0.to_le_bytes());
        let port = (level > 0).then(|| 10_000 + (who.0 % 50_000) as u16);
        let at = port.map(|port| SocketAddr::new(address(host), port));
        let clock = Clock::new(self.now_us, 0, self.random.below(400) as i64 - 200);
        let units = self.nodes[place.node].units.clone();
        let agent = Agent::new((who, place, id), (level, job, PublicKey(key), at), clock, &units);
        self.agents.insert(who, agent);
        self.listeners.extend(at.map(|at| (at, who)));
        self.nodes[place.node].agents.insert(id, who);
        self.agenda.at(self.now_us + self.look_us(), What::Look(who));
        self.hear(place, id, News::Ready(PublicKey(key), port));
    }

    /// An agent tells its worker something.
    pub(super) fn hear(&mut self, place: Place, id: ProcessId, news: News) {
        if !self.lives(place) {
            return;
        }
        let local_us = self.local(place);
        let node = &mut self.nodes[place.node];
        if news == News::Ended {
            node.agents.remove(&id);
        }
        if node.posts.hear(id, news, local_us) {
            node.calls.on_news(local_us);
        }
        self.worker(place);
    }

    /// A worker says by a datagram that it lives, and hears whether there are orders.
    pub(super) fn heartbeat(&mut self, place: Place) {
        if !self.lives(place) {
            return;
        }
        self.agenda.at(self.now_us + SECOND_US, What::Heartbeat(place));
        let (host, local_us) = (self.nodes[place.node].host, self.local(place));
        let is_lost = self.loses(host);
        let node = &mut self.nodes[place.node];
        let Some(root) = self.root.as_mut().filter(|_| !is_lost) else { return };
        let farm = root.farm.entry(node.name.clone()).or_default();
        farm.heard_us = Some(root.clock.shows(self.now_us));
        farm.place = Some(place);
        if node.session != Some(root.incarnation) {
            node.session = Some(root.incarnation);
            farm.orders = 0;
            node.calls.on_session(SCHEDULER, local_us);
            return self.worker(place);
        }
        let orders = farm.orders;
        self.ring(place, orders);
    }

    pub(super) fn on_bell(&mut self, place: Place, newest: u64) {
        let local_us = self.local(place);
        let node = &mut self.nodes[place.node];
        if node.is_up && node.life == place.life && newest != node.bell {
            node.bell = newest;
            node.calls.on_bell(newest, local_us);
        }
        self.worker(place);
    }
}
