//! What is true in a simulated tree, and what holds for all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use starfarm_overlay_core::pipe::{End, LinkId};
use starfarm_overlay_core::posts::News;
use starfarm_protocol::ids::{JobId, PublicKey};
use starfarm_protocol::link::Table;
use starfarm_protocol::orders::{PostId, PostOrder};
use starfarm_protocol::seal::{Secret, StaticKey};

use super::agenda::{Agenda, Place, What};
use super::judge::Judge;
use super::model::{SECOND_US, TreeModel, TreeTally};
use super::node::Node;
use super::post::Agent;
use super::root::Root;
use super::wires::{Who, Wires};
use crate::random::Random;
use crate::tally::LogHash;

/// One datagram in so many is lost.
const LOST_IN: u64 = 20;

pub(super) struct Host {
    pub(super) is_on: bool,
    /// Nobody on another machine can call it.
    pub(super) is_shut: bool,
    /// It reaches those of its own group.
    pub(super) group: u32,
    /// Until then a link of it may have been silent for long: as it was cut off, or a link of it stood still.
    pub(super) cut_us: u64,
    pub(super) stalled_us: u64,
}

/// Something that has happened to a process.
pub(super) enum Happening {
    Turn,
    Close,
    Place(Box<PostOrder>, SocketAddr),
    Up(LinkId),
    Called(LinkId, PostId, PublicKey, Vec<u8>),
    Record(LinkId, Vec<u8>),
    Gone(LinkId, End),
}

/// A run.
pub(super) struct Trees {
    pub(super) now_us: u64,
    pub(super) model: TreeModel,
    pub(super) agenda: Agenda,
    pub(super) wires: Wires,
    pub(super) random: Random,
    pub(super) judge: Judge,
    pub(super) tally: TreeTally,
    pub(super) log: LogHash,
    pub(super) key: StaticKey,
    pub(super) hosts: Vec<Host>,
    /// Machines that do not reach each other: the lower number first.
    pub(super) apart: BTreeSet<(usize, usize)>,
    pub(super) nodes: Vec<Node>,
    pub(super) agents: BTreeMap<Who, Agent>,
    pub(super) listeners: BTreeMap<SocketAddr, Who>,
    /// Processes and schedulers so far.
    pub(super) processes: u64,
    pub(super) incarnation: u32,
    pub(super) root: Option<Root>,
    /// What the front wants of all.
    pub(super) table: Table,
    /// Machines of which fronts heard that they are silent, and when they did first.
    pub(super) doubts: BTreeMap<String, u64>,
    /// Jobs that run, and on which nodes.
    pub(super) jobs: BTreeMap<JobId, BTreeSet<usize>>,
    /// Those of them that are to have a tree of their own.
    pub(super) own_trees: BTreeSet<JobId>,
    pub(super) started: u64,
    /// No fault comes after this.
    pub(super) quiet_us: u64,
}

impl Trees {
    /// Nobody is there yet.
    pub(super) fn new(model: TreeModel, seed: u64) -> Self {
        let nodes = (model.nodes + model.nodes / 2) as usize;
        let hosts = nodes.div_ceil(model.per_host as usize) + 1;
        let host = |_| Host { is_on: true, is_shut: false, group: 0, cut_us: 0, stalled_us: 0 };
        Self {
            now_us: 0,
            model,
            agenda: Agenda::default(),
            wires: Wires::default(),
            random: Random::stream(seed, 1),
            judge: Judge::default(),
            tally: TreeTally::default(),
            log: LogHash(seed),
            key: StaticKey::from_secret(Secret([7; 32])),
            hosts: (0..hosts).map(host).collect(),
            apart: BTreeSet::new(),
            nodes: (0..nodes).map(|number| Node::new(number, number / model.per_host as usize)).collect(),
            agents: BTreeMap::new(),
            listeners: BTreeMap::new(),
            processes: 0,
            incarnation: 0,
            root: None,
            table: Table::default(),
            doubts: BTreeMap::new(),
            jobs: BTreeMap::new(),
            own_trees: BTreeSet::new(),
            started: 0,
            quiet_us: model.faults_s * SECOND_US,
        }
    }

    /// The scheduler's machine is the last one.
    pub(super) fn scheduler_host(&self) -> usize {
        self.hosts.len() - 1
    }

    pub(super) fn reaches(&self, one: usize, other: usize) -> bool {
        let (a, b) = (&self.hosts[one], &self.hosts[other]);
        let is_cut = self.apart.contains(&(one.min(other), one.max(other)));
        a.is_on && b.is_on && !is_cut && (one == other || a.group == b.group)
    }

    pub(super) fn latency(&mut self) -> u64 {
        100 + self.random.below(900)
    }

    pub(super) fn look_us(&self) -> u64 {
        self.model.look_us
    }

    /// The clock of a process, if it lives, and its machine.
    pub(super) fn clock_of(&self, who: Who) -> Option<(u64, usize)> {
        if let Some(agent) = self.agents.get(&who) {
            return Some((agent.clock.shows(self.now_us), self.nodes[agent.place.node].host));
        }
        let root = self.root.as_ref().filter(|root| root.who == who)?;
        Some((root.clock.shows(self.now_us), self.scheduler_host()))
    }

    /// The machine of an agent's address.
    pub(super) fn host_at(&self, address: SocketAddr) -> usize {
        let std::net::IpAddr::V4(ip) = address.ip() else { panic!("addresses here are of one kind") };
        let [_, high, middle, low] = ip.octets();
        usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low)
    }

    /// A process ends; whether its worker sees that.
    pub(super) fn end_agent(&mut self, who: Who, is_seen: bool) {
        let Some(agent) = self.agents.remove(&who) else { return };
        if let Some(address) = agent.address {
            self.listeners.remove(&address);
        }
        self.wires.forget(who);
        self.judge.forget(who);
        if is_seen {
            self.agenda.at(self.now_us + 1_000, What::Tell(agent.place, agent.process, News::Ended));
        }
    }

    /// A worker is in that life.
    pub(super) fn lives(&self, place: Place) -> bool {
        self.nodes[place.node].is_up && self.nodes[place.node].life == place.life
    }

    /// A datagram between the scheduler and that machine is lost.
    pub(super) fn loses(&mut self, host: usize) -> bool {
        self.random.below(LOST_IN) == 0 || !self.reaches(host, self.scheduler_host())
    }

    /// Has the doorbell ring at a node.
    pub(super) fn ring(&mut self, place: Place, newest: u64) {
        let host = self.nodes[place.node].host;
        let is_lost = self.loses(host);
        if newest > 0 && !is_lost {
            let at_us = self.now_us + self.latency();
            self.agenda.at(at_us, What::Bell(place, newest));
        }
    }

    /// The back end of a node that runs, if it does: that of the farm's tree, or of the job's.
    pub(super) fn post_on(&self, number: usize, job: Option<JobId>) -> Option<PostId> {
        let agents = self.nodes[number].agents.values().filter_map(|who| self.agents.get(who));
        agents.filter(|agent| agent.level == 0 && agent.job == job).find_map(|agent| agent.member.post())
    }
}
