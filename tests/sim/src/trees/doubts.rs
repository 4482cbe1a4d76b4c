//! Silence in a simulated tree: whether it is told in time, and only where something was in the way.

use starfarm_overlay_core::pipe::LinkId;
use starfarm_protocol::link::DEAD_US;
use starfarm_protocol::orders::PostId;

use super::model::SECOND_US;
use super::wires::Who;
use super::world::Trees;
use crate::violation::{Broken, rule};

/// What was in the way of a link shows so long afterwards at most.
const SHOWS_US: u64 = DEAD_US + SECOND_US;

impl Trees {
    /// Nothing passes between this machine and some other, until then; for good where nobody knows until when.
    pub(super) fn cut(&mut self, host: usize, until_us: Option<u64>) {
        let host = &mut self.hosts[host];
        match until_us {
            Some(until_us) => host.stalled_us = host.stalled_us.max(until_us + SHOWS_US),
            None => host.cut_us = u64::MAX,
        }
    }

    /// A machine reaches all others again.
    pub(super) fn mend_host(&mut self, host: usize) {
        if self.hosts[host].is_on && self.hosts[host].group == 0 && self.hosts[host].cut_us == u64::MAX {
            self.hosts[host].cut_us = self.now_us + SHOWS_US;
        }
    }

    /// A process hears nothing of the other end of a link any more.
    pub(super) fn is_no_false_alarm(&mut self, link: LinkId, who: Who) -> Result<(), Broken> {
        let now_us = self.now_us;
        let Some(wire) = self.wires.get(link) else { return Ok(()) };
        let hosts = wire.ends.each_ref().map(|end| end.host);
        let was_cut = hosts.iter().any(|host| {
            let host = &self.hosts[*host];
            host.cut_us.max(host.stalled_us) >= now_us
        });
        rule(was_cut, "no link is silent where nothing was in the way", || format!("{who:?}: {hosts:?}"))
    }

    /// The front hears that nothing is heard of a post.
    pub(super) fn suspect(&mut self, post: PostId) {
        let Some(root) = &mut self.root else { return };
        let (is_linked, now_us) = (root.children.link(post).is_some(), root.clock.shows(self.now_us));
        root.forest.farm_mut().on_suspect(post, is_linked, now_us);
        if let Some(host) = root.forest.front_of(post).host_of(post).filter(|_| !is_linked) {
            self.doubts.entry(host.name.clone()).or_insert(self.now_us);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::model::TreeModel;
    use super::super::node::machine;
    use super::*;

    impl Trees {
        fn run_until(&mut self, until_us: u64) {
            while self.now_us < until_us {
                let (at_us, what) = self.agenda.next().unwrap();
                self.now_us = at_us;
                self.happen(what).unwrap();
                self.settle_wires();
            }
        }
    }

    /// A tree of forty nodes that has been well for a minute.
    fn tree_of_forty(seed: u64) -> Trees {
        let model = TreeModel { nodes: 40, fanout: 4, faults_s: 1_000, ..TreeModel::default() };
        let mut trees = Trees::new(model, seed);
        trees.start_scheduler(0);
        (0..40).for_each(|number| trees.start_worker(number));
        trees.run_until(60 * SECOND_US);
        assert_eq!(trees.root.as_ref().unwrap().forest.farm().depth(), 3);
        assert_eq!(trees.doubts, BTreeMap::new(), "all is well");
        trees
    }

    impl Trees {
        /// The machine of a post.
        fn host_of(&self, post: PostId) -> usize {
            let host = self.root.as_ref().unwrap().forest.farm().host_of(post).map(|host| host.id as usize);
            host.unwrap_or_else(|| self.scheduler_host())
        }

        fn pull(&mut self, host: usize) {
            self.hosts[host].is_on = false;
            self.cut(host, None);
        }
    }

    /// A cable is pulled: whoever is above tells it, however far below the front that was.
    #[test]
    fn the_front_hears_within_six_seconds_that_a_machine_is_silent() {
        for host in [0, 5, 17, 39] {
            let mut trees = tree_of_forty(host as u64);
            trees.pull(host);
            trees.run_until(66 * SECOND_US);
            let doubts: Vec<_> = std::mem::take(&mut trees.doubts).into_iter().collect();
            let [(name, at_us)] = &doubts[..] else { panic!("{host}: {doubts:?}") };
            assert_eq!(*name, machine(host).name);
            assert!((64 * SECOND_US..66 * SECOND_US).contains(at_us), "{host}: {at_us}");
        }
    }

    /// A CP's cable is pulled, and at the same time its parent is cut off from all above: the ring tells it.
    #[test]
    fn the_front_hears_of_a_member_whose_parent_cannot_say_so() {
        let of = tree_of_forty(1);
        let front = of.root.as_ref().unwrap().forest.farm();
        let cps = front.posts().filter(|(_, post)| post.level == 1).filter_map(|(id, post)| {
            let (host, parent) = (of.host_of(id), post.parent?);
            (host != of.host_of(parent)).then_some((host, of.host_of(parent)))
        });
        let cps: Vec<_> = cps.collect();
        assert!(cps.len() >= 8, "{cps:?}");
        for (host, parent) in cps {
            let mut trees = tree_of_forty(1);
            trees.pull(host);
            trees.apart.insert((parent, trees.scheduler_host()));
            trees.cut(parent, None);
            let scheduler = trees.scheduler_host();
            trees.cut(scheduler, None);
            trees.run_until(66 * SECOND_US);
            let names: Vec<_> = trees.doubts.keys().cloned().collect();
            let mut both = [host, parent].map(|host| machine(host).name);
            both.sort_unstable();
            assert_eq!(names, both);
        }
    }

    /// It calls the front, so that it looks well; but whoever has an alarm could not tell it.
    #[test]
    fn a_machine_that_nobody_can_call_loses_the_second_root() {
        for nodes in [3, 12] {
            let model = TreeModel { nodes, faults_s: 1_000, ..TreeModel::default() };
            let mut trees = Trees::new(model, 1);
            [0, 1].iter().for_each(|host: &usize| trees.hosts[*host].is_shut = true);
            trees.start_scheduler(0);
            (0..nodes as usize).for_each(|number| trees.start_worker(number));
            let second = |trees: &Trees| trees.root.as_ref().unwrap().forest.farm().second();
            trees.run_until(4 * SECOND_US);
            let first = second(&trees).unwrap();
            assert!(trees.host_of(first) < 2, "the fault is there");
            trees.run_until(120 * SECOND_US);
            assert!(trees.host_of(second(&trees).unwrap()) >= 2);
            // CPs that nobody reaches are silent, the second root is heard by the front.
            let doubts: Vec<_> = std::mem::take(&mut trees.doubts).into_keys().collect();
            let names = [0, 1].map(|host| machine(host).name);
            assert!(doubts.iter().all(|name| nodes > 3 && names.contains(name)), "{doubts:?}");
            // Then all is well.
            let last = second(&trees);
            trees.run_until(450 * SECOND_US);
            assert_eq!((second(&trees), &trees.doubts), (last, &BTreeMap::new()));
        }
    }
}
