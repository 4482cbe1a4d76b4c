//! A tree whose CPs stand where a topology file says. Where one cannot stand for a while, those below it hang above it until
//! it can; back ends hang below the leaves.

use std::collections::BTreeMap;

use starfarm_protocol::orders::{FARM_POSTS_MAX, PostId, PostKind};

use super::attach::heights;
use super::known::{Front, Machine};
use crate::plan::topology::Topology;

impl Front {
    /// The first process of a file for which there is no place, by its index, and why, in words.
    pub fn cannot_follow(&self, topology: &Topology) -> Option<(usize, String)> {
        let mut taken = BTreeMap::<&str, usize>::new();
        for (at, (process, _)) in topology.processes.iter().enumerate().skip(1) {
            let host = process.host.as_str();
            let nodes = || self.nodes.values().filter(|node| node.host.name == host);
            if nodes().count() == 0 {
                let why = "no node of the farm is on a host of this name: `starfarm tree` shows their hosts";
                return Some((at, format!("{process}: {why}")));
            }
            // One place of each node is its back end's.
            let room = nodes().filter(|node| node.links).count() * (FARM_POSTS_MAX - 1);
            let taken = taken.entry(host).or_default();
            *taken += 1;
            if *taken > room {
                let why = match room {
                    0 => "its nodes take no connections of others (--no-peers)".to_owned(),
                    _ => format!("its nodes take {room} CPs, and no more"),
                };
                return Some((at, format!("{process}: {why}")));
            }
        }
        None
    }

    /// Each process of the file gets a post, if it has none, and has the parent that it should have: or whoever is above that
    /// one, where it cannot stand.
    pub(super) fn follow(&mut self, topology: &Topology, now_us: u64) {
        let mut places = std::mem::take(&mut self.places);
        places.resize(topology.processes.len(), None);
        places[0] = Some(PostId::FRONT);
        let mut is_grown = false;
        // A leaf is 1 above the back ends.
        let parents: Vec<_> = topology.processes.iter().map(|(_, parent)| *parent).collect();
        for (at, height) in heights(&parents, 1).into_iter().enumerate().skip(1) {
            if places[at].is_none_or(|post| !self.posts.contains_key(&post)) {
                let kind = if height == 1 { PostKind::Ibe } else { PostKind::Cp };
                let machine = self.machine_named(&topology.processes[at].0.host);
                places[at] = self.add_cp(&machine, (kind, height), now_us);
                is_grown |= places[at].is_some();
            }
        }
        let above = |at: usize| parents[at].unwrap_or(0);
        for at in 1..places.len() {
            let up = std::iter::successors(Some(above(at)), |at| Some(above(*at))).find_map(|at| places[at]);
            if let Some(post) = places[at].and_then(|post| self.posts.get_mut(&post)) {
                post.parent = up;
            }
        }
        self.places = places;
        let leaves: Vec<_> =
            self.level(1).map(|(id, post)| (id, self.nodes[&post.node].host.clone())).collect();
        if leaves.is_empty() {
            self.level_mut(0).for_each(|post| post.parent = Some(PostId::FRONT));
            return;
        }
        let needed = self.level(0).count().div_ceil(leaves.len());
        let fan = if is_grown { needed } else { needed.max(self.settings.fanout as usize) };
        self.attach_level(0, &leaves, fan);
    }

    /// The nodes of all machines of that name.
    fn machine_named(&self, host: &str) -> Machine {
        let nodes = self.nodes.iter().filter(|(_, node)| node.host.name == host);
        Machine { nodes: nodes.map(|(key, _)| *key).collect() }
    }
}
