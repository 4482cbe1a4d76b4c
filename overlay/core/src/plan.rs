//! Where the communication processes (CPs) of a tree stand, and who is attached to whom. All in integers, so that
//! every machine comes to the same plan; hosts are taken in the order of their names.
//!
//! The ways to place them are those of patent CN103051509 (Beihang University, 2012). Who may stand where, and what a
//! host has, comes in; nothing is asked here.

pub mod attach;
pub mod average;
pub mod fuzzy;
mod post;
pub mod shape;
pub mod topology;

pub use fuzzy::{Features, Grade, Judged, Operator, Weights};
pub use post::Post;

use std::collections::BTreeMap;

use starfarm_protocol::orders::PostKind;

use shape::Shape;
use topology::{Process, Topology};

/// How CPs are dealt to hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// As many processes on each host as on any other, as far as that can be had.
    Average,
    /// By what the hosts are good for.
    Fuzzy(Weights),
}

/// A machine on which posts can stand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Its name, unique among the hosts of a plan.
    pub name: String,
    /// Back ends (BEs) that stand on it: one for each node.
    pub backends: u32,
    /// CPs that it may take at most: 0 where no other machine can open a connection to it.
    pub cps_max: u32,
    /// It only carries posts and computes nothing: CPs go to such hosts alone, where there are any.
    pub carries_only: bool,
    /// What it has to offer.
    pub features: Features,
}

/// A host and what stands on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The host's name.
    pub name: String,
    /// BEs on it.
    pub backends: u32,
    /// CPs placed on it, IBEs among them.
    pub cps: u32,
    /// How good it is for a CP, where that was asked.
    pub judged: Option<Judged>,
}

/// A tree, as it should stand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// By name.
    pub hosts: Vec<Placed>,
    /// The front end first, then level by level, back ends last.
    pub posts: Vec<Post>,
    /// Levels of CPs between the front end and the back ends.
    pub cp_levels: usize,
}

/// Plans a tree over `hosts` with at most `fanout` children a post. Where the hosts may not take as many CPs as that
/// needs, there are as few levels and CPs as they take, and some posts have more children.
///
/// # Panics
/// Where `fanout` is less than 2: no tree gets smaller towards its root then.
pub fn plan(hosts: Vec<Host>, strategy: &Strategy, fanout: u32) -> Plan {
    let mut hosts = hosts;
    hosts.sort_by(|a, b| a.name.cmp(&b.name));
    let backends: u64 = hosts.iter().map(|host| u64::from(host.backends)).sum();
    let may_take = caps(&hosts);
    let shape = Shape::of(backends, fanout).within(room(&hosts));
    let (cps, judged) = deal(&hosts, &may_take, strategy, shape.cps() as u32);
    let standing: Vec<u32> = hosts.iter().map(|host| host.backends).collect();
    let posts = attach::tree(&standing, &cps, &shape);
    let placed = hosts.into_iter().enumerate().map(|(at, host)| Placed {
        name: host.name,
        backends: host.backends,
        cps: cps[at],
        judged: judged.as_ref().map(|judged| judged[at]),
    });
    Plan { hosts: placed.collect(), posts, cp_levels: shape.levels().len() }
}

/// How many CPs each host may take: hosts that compute take none where some carry posts only.
fn caps(hosts: &[Host]) -> Vec<u32> {
    let carries = |host: &Host| host.carries_only && host.cps_max > 0;
    let apart = hosts.iter().any(carries);
    hosts.iter().map(|host| if apart && !carries(host) { 0 } else { host.cps_max }).collect()
}

/// CPs that these hosts take, all together.
pub fn room(hosts: &[Host]) -> u64 {
    caps(hosts).into_iter().map(u64::from).sum()
}

/// How many more CPs each host gets where there are some already: what stands on it counts as back ends.
pub fn more(hosts: &[Host], strategy: &Strategy, count: u32) -> Vec<u32> {
    deal(hosts, &caps(hosts), strategy, count).0
}

fn deal(
    hosts: &[Host],
    may_take: &[u32],
    strategy: &Strategy,
    count: u32,
) -> (Vec<u32>, Option<Vec<Judged>>) {
    let standing: Vec<u32> = hosts.iter().map(|host| host.backends).collect();
    match strategy {
        Strategy::Average => (average::within(&standing, may_take, count), None),
        Strategy::Fuzzy(weights) => {
            let features: Vec<Features> = hosts.iter().map(|host| host.features).collect();
            let judged = fuzzy::judge(&features, weights);
            (fuzzy::deal(&judged, &standing, may_take, count), Some(judged))
        }
    }
}

impl Plan {
    /// The tree as a topology file has it, with the front end on the host `front`; back ends have no place there. The
    /// processes of a host are numbered from 0.
    pub fn topology(&self, front: &str) -> Topology {
        let mut numbers = BTreeMap::<&str, u32>::new();
        let posts = self.posts.iter().filter(|post| post.kind != PostKind::Be);
        let processes = posts.map(|post| {
            let host = post.host.map_or(front, |host| &self.hosts[host].name);
            let next = numbers.entry(host).or_default();
            let id = std::mem::replace(next, *next + 1);
            // Back ends stand last, so that the indexes of all others are the same in both.
            (Process { host: host.to_owned(), id }, post.parent)
        });
        Topology { processes: processes.collect() }
    }
}
