//! The tree's shape: how many CPs there are to be, where, and whose child each post is. The first time, and whenever
//! somebody asks for it, all is planned as [`plan`] has it; from then on as little as possible is changed.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::admin::PostLoss;
use starfarm_protocol::orders::{Host, PostId, PostKind};

use super::attach::heights;
use super::known::{
    COLLECT_US, Front, Machine, Node, Post, QUIET_US, STANDING_COLLECT_US, STANDING_QUIET_US,
};
use crate::plan::shape::Shape;
use crate::plan::{self, Features};

/// A CP that has not said its key for so long goes elsewhere, and so does one that none of its children reaches.
const START_US: u64 = 5_000_000;
const REACH_US: u64 = 10_000_000;
/// One that others reach is not for whoever has not linked with it after so long.
const STRAY_US: u64 = 30_000_000;
/// Nodes that a post avoids, at most: those that it could not reach last.
const AVOIDS_MAX: usize = 8;
/// CPs that go elsewhere at one look, at most.
const FAILED_MAX: usize = 4;
/// So long no CP is put where one did not come up.
const STRIKE_US: u64 = 600_000_000;
/// So long there may be more CPs than there need to be.
const SHRINK_US: u64 = 600_000_000;
/// So often it is looked at where CPs may stand, as long as there are too few.
const LACKS_US: u64 = 60_000_000;
/// How often it is looked at what fails; and a pause between two looks that is longer than that is a fault of our own.
const LOOK_US: u64 = 1_000_000;
const PAUSE_US: u64 = 3_000_000;
/// A CP of which its node has told nothing goes elsewhere after so long.
const UNHEARD_US: u64 = 60_000_000;
/// For each so many posts, so long passes at least between two plans.
const POSTS_A_PAUSE: usize = 64;
const PLAN_PAUSE_US: u64 = 4_000;

impl Front {
    /// Does what is to be done by now. To be called whenever something may have changed, and ten times a second.
    pub fn settle(&mut self, now_us: u64) {
        if let Some((first_us, last_us)) = self.collecting {
            let (quiet_us, collect_us) =
                if self.is_heir { (STANDING_QUIET_US, STANDING_COLLECT_US) } else { (QUIET_US, COLLECT_US) };
            if first_us > 0 && now_us >= (last_us + quiet_us).min(first_us + collect_us) {
                (self.collecting, self.dirty) = (None, true);
            } else {
                self.meanwhile(now_us);
                return;
            }
        }
        if now_us >= self.looked_us + LOOK_US || now_us < self.looked_us {
            // Who could not be heard is not to blame.
            let is_pause = now_us > self.looked_us + PAUSE_US;
            self.blames_from_us = if is_pause { now_us + START_US } else { self.blames_from_us };
            self.looked_us = now_us;
            self.drop_those_that_fail(now_us);
            self.turn_away(now_us);
            self.settle_roots(now_us);
        }
        let shrinks = self.too_many_us.is_some_and(|since_us| since_us + SHRINK_US <= now_us);
        let lacks = self.lacks_us.is_some_and(|at_us| at_us <= now_us);
        if (self.dirty || shrinks || lacks) && now_us >= self.next_plan_us() {
            (self.dirty, self.planned_us) = (false, now_us);
            self.plan(now_us);
            self.write_orders(now_us);
        } else if self.tells_anew && now_us >= self.next_plan_us() {
            self.write_orders(now_us);
        }
    }

    /// Before this time nothing is planned again.
    fn next_plan_us(&self) -> u64 {
        self.planned_us + (self.posts.len() / POSTS_A_PAUSE) as u64 * PLAN_PAUSE_US
    }

    /// As long as nobody knows how many there will be, a few link with the front, and many wait.
    fn meanwhile(&mut self, now_us: u64) {
        if !(self.dirty || self.tells_anew) || now_us < self.next_plan_us() {
            return;
        }
        (self.dirty, self.planned_us) = (false, now_us);
        if self.posts.len() <= self.settings.fanout as usize {
            let waits = |post: &&mut Post| post.parent.is_none();
            self.posts.values_mut().filter(waits).for_each(|post| post.parent = Some(PostId::FRONT));
        }
        self.write_orders(now_us);
    }

    /// CPs that do not come up, that nobody reaches, or whose nodes have gone.
    fn drop_those_that_fail(&mut self, now_us: u64) {
        let out_of_reach = self.out_of_reach(now_us);
        let is_gone = |post: &Post| self.nodes.get(&post.node).is_none_or(|node| !node.is_up());
        let failed_how = |id: &PostId, post: &Post| {
            let is_old = |us| post.since_us + us <= now_us && self.blames_from_us <= now_us;
            let does_not_start =
                post.key.is_none() && is_old(if post.is_told { START_US } else { UNHEARD_US });
            let has_no_address = post.key.is_some() && post.addresses.is_empty();
            let is_alone = has_no_address || is_old(REACH_US) && out_of_reach.contains(id);
            let why = if does_not_start { PostLoss::NotStarted } else { PostLoss::OutOfReach };
            (does_not_start || is_alone).then_some(why)
        };
        let cps = || self.posts.iter().filter(|(_, post)| post.level > 0);
        let gone: Vec<_> = cps().filter(|(_, post)| is_gone(post)).map(|(id, _)| *id).collect();
        let failed: Vec<_> = cps()
            .filter(|(_, post)| !is_gone(post))
            .filter_map(|(id, post)| Some((*id, failed_how(id, post)?, post.node, post.is_told)))
            .collect();
        // Where many fail at once it is not for a fault of theirs.
        for (post, why, node, is_told) in failed.into_iter().take(FAILED_MAX) {
            if is_told {
                self.nodes.entry(node).and_modify(|node| node.not_before_us = now_us + STRIKE_US);
            }
            self.remove(post, why);
        }
        gone.into_iter().for_each(|post| self.remove(post, PostLoss::NodeGone));
    }

    /// CPs that have children on other machines which have links, none of them with it.
    fn out_of_reach(&self, now_us: u64) -> BTreeSet<PostId> {
        let (mut have, mut reached) = (BTreeSet::new(), BTreeSet::new());
        for (id, post) in &self.posts {
            let (Some(parent), Some(now)) = (post.parent, post.parent_now()) else { continue };
            // Whoever is on the same machine reaches it whatever is between machines.
            let is_far = |of: PostId| self.host_of(of) != self.host_of(*id);
            if is_far(now) {
                reached.insert(now);
            }
            if is_far(parent) && post.parent_us + REACH_US <= now_us {
                have.insert(parent);
            }
        }
        have.difference(&reached).copied().collect()
    }

    /// Posts that do not reach the parent which others reach get another one.
    fn turn_away(&mut self, now_us: u64) {
        let is_known = |parent: PostId| self.posts.get(&parent).is_some_and(|of| of.key.is_some());
        let strays = self.posts.iter().filter_map(|(id, post)| {
            let (parent, now) = (post.parent.filter(|parent| is_known(*parent))?, post.parent_now()?);
            let since_us = post.parent_us.max(self.posts[&parent].since_us).max(self.blames_from_us);
            (now != parent && since_us + STRAY_US <= now_us).then_some((*id, self.posts[&parent].node))
        });
        let strays: Vec<_> = strays.take(FAILED_MAX).collect();
        for (id, node) in strays {
            let post = self.posts.get_mut(&id).expect("it was just seen there");
            post.avoids.retain(|(of, until_us)| *of != node && *until_us > now_us);
            post.avoids.truncate(AVOIDS_MAX - 1);
            post.avoids.insert(0, (node, now_us + STRIKE_US));
            (post.parent, self.dirty) = (None, true);
        }
    }

    fn plan(&mut self, now_us: u64) {
        let before: BTreeMap<_, _> = self.posts.iter().map(|(id, post)| (*id, post.parent)).collect();
        let want = match self.settings.topology.clone() {
            Some(topology) => {
                self.follow(&topology, now_us);
                topology.processes.len() as u64 - 1
            }
            None => self.plan_by_strategy(now_us),
        };
        // Nodes that may take none now may take some later, and nobody says so.
        self.lacks_us = (self.cps() < want).then_some(now_us + LACKS_US);
        for (id, post) in &mut self.posts {
            if before.get(id) != Some(&post.parent) {
                post.parent_us = now_us;
            }
        }
    }

    fn cps(&self) -> u64 {
        self.posts.values().filter(|post| post.level > 0).count() as u64
    }

    /// How many CPs there are to be, if there is room for them.
    fn plan_by_strategy(&mut self, now_us: u64) -> u64 {
        let machines = self.machines();
        let hosts = self.hosts(&machines, now_us);
        let wanted = Shape::of(self.level(0).count() as u64, self.settings.fanout);
        let (cps, want) = (self.cps(), wanted.cps());
        let shape = wanted.within(plan::room(&hosts) + cps);
        if cps == 0 && shape.cps() > 0 {
            self.plan_all(&machines, hosts, now_us);
        } else {
            let is_grown = self.grow(&machines, &shape, now_us);
            self.shrink(&shape, now_us);
            self.attach(&shape, is_grown);
        }
        want
    }

    /// All machines that have nodes, by name.
    fn machines(&self) -> BTreeMap<Host, Machine> {
        let mut machines = BTreeMap::<Host, Machine>::new();
        for (key, node) in &self.nodes {
            machines.entry(node.host.clone()).or_default().nodes.push(*key);
        }
        machines
    }

    /// The same as the plan knows them: CPs that are there count as processes that are.
    fn hosts(&self, machines: &BTreeMap<Host, Machine>, now_us: u64) -> Vec<plan::Host> {
        let of = |(host, machine): (&Host, &Machine)| {
            let nodes = || machine.nodes.iter().filter_map(|node| self.nodes.get(node));
            let takes = |node: &&Node| node.takes_cps(self.posts_max(), now_us);
            let room = |node: &Node| self.posts_max().saturating_sub(node.posts.len()) as u32;
            let facts = || nodes().filter_map(|node| node.facts.as_ref());
            plan::Host {
                name: format!("{}\0{:016x}", host.name, host.id),
                backends: nodes().map(|node| node.posts.len() as u32).sum(),
                cps_max: nodes().filter(takes).map(room).sum(),
                carries_only: facts().count() > 0 && facts().all(|facts| facts.carries_only),
                features: facts().next().map_or_else(Features::default, |facts| facts.features),
            }
        };
        machines.iter().map(of).collect()
    }

    /// Nobody carries a CP yet: all of them, and everybody's parent, by the plan.
    fn plan_all(&mut self, machines: &BTreeMap<Host, Machine>, hosts: Vec<plan::Host>, now_us: u64) {
        let machines: Vec<_> = machines.values().collect();
        let plan = plan::plan(hosts, &self.settings.strategy, self.settings.fanout);
        let mut backends: Vec<_> = machines.iter().map(|machine| self.backends_of(machine)).collect();
        let parents: Vec<_> = plan.posts.iter().map(|post| post.parent).collect();
        let mut ids = Vec::new();
        for (post, height) in plan.posts.iter().zip(heights(&parents, 0)) {
            let id = match (post.kind, post.host) {
                (PostKind::Be, Some(host)) => backends[host].next(),
                (kind, Some(host)) => self.add_cp(machines[host], (kind, height), now_us),
                (_, None) => Some(PostId::FRONT),
            };
            ids.push(id);
            let parent = post.parent.and_then(|parent| ids[parent]);
            if let Some(post) = id.and_then(|id| self.posts.get_mut(&id)) {
                post.parent = parent;
            }
        }
    }

    fn backends_of(&self, machine: &Machine) -> std::vec::IntoIter<PostId> {
        let posts = machine.nodes.iter().filter_map(|node| self.nodes.get(node)).flat_map(|node| &node.posts);
        let is_backend = |post: &&PostId| self.posts.get(post).is_some_and(|post| post.level == 0);
        posts.filter(is_backend).copied().collect::<Vec<_>>().into_iter()
    }

    /// Adds CPs where there are fewer than there are to be; whether it did.
    fn grow(&mut self, machines: &BTreeMap<Host, Machine>, shape: &Shape, now_us: u64) -> bool {
        let mut is_grown = false;
        for (level, want) in (1..).zip(shape.levels()) {
            let more = want.saturating_sub(self.level(level).count() as u64);
            if more == 0 {
                continue;
            }
            let hosts = self.hosts(machines, now_us);
            let dealt = plan::more(&hosts, &self.settings.strategy, more as u32);
            let kind = if level == 1 { PostKind::Ibe } else { PostKind::Cp };
            for (machine, count) in machines.values().zip(dealt) {
                for _ in 0..count {
                    is_grown |= self.add_cp(machine, (kind, level), now_us).is_some();
                }
            }
        }
        is_grown
    }

    /// Takes CPs away where there have been more than there need to be for long: of each level those with the fewest children.
    fn shrink(&mut self, shape: &Shape, now_us: u64) {
        let mut spare = Vec::new();
        let levels: BTreeSet<_> =
            self.posts.values().map(|post| post.level).filter(|level| *level > 0).collect();
        for level in levels {
            let want = shape.levels().get(usize::from(level) - 1).copied().unwrap_or_default() as usize;
            let mut all: Vec<_> = self.level(level).map(|(id, _)| (self.children(id), id)).collect();
            all.sort_unstable();
            let more = all.len().saturating_sub(want);
            spare.extend(all.into_iter().take(more).map(|(_, id)| id));
        }
        if spare.is_empty() {
            self.too_many_us = None;
        } else if now_us >= *self.too_many_us.get_or_insert(now_us) + SHRINK_US {
            spare.into_iter().for_each(|post| self.remove(post, PostLoss::Spare));
            (self.too_many_us, self.dirty) = (None, false);
        }
    }

    fn children(&self, of: PostId) -> usize {
        self.posts.values().filter(|post| post.parent == Some(of)).count()
    }

    /// Gives everybody a parent who has none of the next level. After growth nobody has more children than it needs to have.
    fn attach(&mut self, shape: &Shape, is_grown: bool) {
        let top = self.posts.values().map(|post| post.level).max().unwrap_or(0);
        for level in 0..=top {
            let above = (level + 1..=top).find(|above| self.level(*above).next().is_some());
            let Some(above) = above else {
                self.level_mut(level).for_each(|post| post.parent = Some(PostId::FRONT));
                continue;
            };
            let parents: Vec<_> =
                self.level(above).map(|(id, post)| (id, self.nodes[&post.node].host.clone())).collect();
            let needed = self.level(level).count().div_ceil(parents.len());
            // A shape that had no room for more CPs has posts with more children.
            let fan =
                if is_grown || shape.cps() == 0 { needed } else { needed.max(self.settings.fanout as usize) };
            self.attach_level(level, &parents, fan);
        }
    }
}
