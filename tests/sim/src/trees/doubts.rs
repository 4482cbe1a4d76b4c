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
        let host = self.root.as_ref().and_then(|root| root.front.host_of(post));
        if let Some(host) = host {
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

    /// A cable is pulled: whoever is above tells it, however far below the front that was.
    #[test]
    fn the_front_hears_within_six_seconds_that_a_machine_is_silent() {
        let model = TreeModel { nodes: 40, fanout: 4, faults_s: 1_000, ..TreeModel::default() };
        for host in [0, 5, 17, 39] {
            let mut trees = Trees::new(model, host as u64);
            trees.start_scheduler(0);
            (0..40).for_each(|number| trees.start_worker(number));
            trees.run_until(60 * SECOND_US);
            assert_eq!(trees.root.as_ref().unwrap().front.depth(), 3);
            assert_eq!(trees.doubts, BTreeMap::new(), "all is well");
            trees.hosts[host].is_on = false;
            trees.cut(host, None);
            trees.run_until(66 * SECOND_US);
            let doubts: Vec<_> = std::mem::take(&mut trees.doubts).into_iter().collect();
            let [(name, at_us)] = &doubts[..] else { panic!("{host}: {doubts:?}") };
            assert_eq!(*name, machine(host).name);
            assert!((64 * SECOND_US..66 * SECOND_US).contains(at_us), "{host}: {at_us}");
        }
    }
}
