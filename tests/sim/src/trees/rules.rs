//! The rules of a tree, judged by what happens and not by what its members know:
//!
//! - T1: a post has one parent, or tries to get one.
//! - T2: no post is above itself, and levels rise towards the front.
//! - T3: nobody has a link for which no front has vouched at both ends.
//! - T5: at rest the figures are those of the jobs that run, and all posts measure as the front's table says.
//! - T6: no message is lost unseen. Each that a post has made was taken by one above it, is kept, or is counted as dropped.
//!   None is taken twice by the same process, and `received + late` of each is what it has taken. What a parent has taken and
//!   not said to have before it died goes to the next one as well.
//! - T7: at rest each member of the ring hears the one that it watches.
//!
//! T4, that no agent's end changes what becomes of a unit, is for real processes to show: agents share nothing with units.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_overlay_core::front::Front;
use starfarm_overlay_core::pipe::LinkId;
use starfarm_overlay_core::plan::shape::Shape;
use starfarm_overlay_core::ring::Ring;
use starfarm_protocol::admin::TreeState;
use starfarm_protocol::link::Stream;
use starfarm_protocol::metric::Metric;
use starfarm_protocol::orders::PostId;

use super::wires::Who;
use super::world::Trees;
use crate::violation::{Broken, rule};

/// Posts above another, at most.
const DEPTH_MAX: usize = 300;

/// T7, of one member.
fn watches(ring: &Ring) -> Result<(), Broken> {
    let (hears, nearest) = (ring.hears(), ring.nearest());
    rule(hears == nearest, "T7: at rest each member hears the one that it watches", || {
        format!("{hears:?}, and not {nearest:?}")
    })
}

impl Trees {
    /// A message of data has come to a post, for the first time.
    pub(super) fn took(&mut self, who: Who, link: LinkId, record: &[u8]) -> Result<(), Broken> {
        let child = self.wires.peer(link, who).expect("a link has two ends");
        let made = self.agents.get(&child).map(|agent| agent.member.sending().counts().0);
        self.tally.taken += 1;
        self.judge.took(who, (child, made), record)
    }

    /// T1, of one agent: at the end of each of its turns.
    pub(super) fn has_parent_or_tries(&mut self, who: Who) -> Result<(), Broken> {
        let agent = &self.agents[&who];
        let Some(post) = agent.member.post() else { return Ok(()) };
        let has = match agent.member.parent_link() {
            Some(link) => self.wires.end(link, who).is_some(),
            None => agent.member.is_calling() || agent.member.due_us().is_some(),
        };
        rule(has, "T1: a post has a parent, or tries to get one", || post.to_string())
    }

    /// T2, of one agent that has another parent now.
    pub(super) fn is_below_no_child(&self, who: Who) -> Result<(), Broken> {
        let (mut at, mut way) = (who, Vec::new());
        while let Some(agent) = self.agents.get(&at) {
            way.push((agent.member.post().unwrap_or(PostId::FRONT), agent.level));
            let rises = way.is_sorted_by(|below, above| below.1 < above.1);
            rule(rises && way.len() < DEPTH_MAX, "T2: levels rise towards the front", || format!("{way:?}"))?;
            let Some(link) = agent.member.parent_link() else { break };
            at = self.wires.peer(link, at).expect("a link has two ends");
        }
        Ok(())
    }

    /// T6, of one agent: what it has made was taken, is kept, or is counted as dropped.
    pub(super) fn balances(&self, who: Who) -> Result<(), Broken> {
        let agent = &self.agents[&who];
        let (made, dropped) = agent.member.sending().counts();
        let first_kept = agent.member.sending().attach(PostId::FRONT, 0).sequences;
        let missing: u64 = Stream::ALL
            .iter()
            .zip(first_kept)
            .map(|(stream, kept)| self.judge.missing(who, *stream, kept))
            .sum();
        let said = || format!("{:?} made {made}, dropped {dropped}, missing {missing}", agent.member.post());
        rule(missing <= dropped, "T6: nothing is lost unseen", said)?;
        let counts = agent.member.children().counts((made, dropped), agent.late.get());
        let takes = self.judge.takes.get(&who).copied().unwrap_or_default();
        // What has come in is looked at in the same turn.
        rule(counts.received + counts.late == takes, "T6: what a post has taken is received or late", || {
            format!("{:?}: {counts:?}, and it has taken {takes}", agent.member.post())
        })
    }

    /// No faults any more, and everything has had its time.
    pub(super) fn at_rest(&mut self) -> Result<(), Broken> {
        let root = self.root.as_ref().expect("a scheduler runs at rest");
        let forest = &root.forest;
        let live: Vec<_> = (0..self.nodes.len()).filter(|number| self.nodes[*number].is_up).collect();
        let farm = forest.farm();
        let back_ends = farm.back_ends().count();
        rule(back_ends == live.len(), "at rest each node has a back end", || {
            format!("{back_ends} for {} nodes", live.len())
        })?;
        let own = || forest.own().map(|(_, front)| front);
        let fronts = || std::iter::once(farm).chain(own());
        for front in fronts().filter(|front| front.posts().count() > 0) {
            rule(front.state() == TreeState::Live, "at rest the trees are live", || {
                format!("{:?}: {}", front.state(), self.orphans(front))
            })?;
            self.fans(front)?;
        }
        self.own_trees_are_right(&live)?;
        let posts = fronts().flat_map(|front| front.posts().chain(front.roots())).count();
        rule(self.agents.len() == posts, "at rest there is a process for each post and no other", || {
            format!("{} for {posts}", self.agents.len())
        })?;
        let mut planned = BTreeMap::<_, usize>::new();
        let all = fronts().flat_map(|front| front.posts());
        all.for_each(|(_, post)| *planned.entry(post.parent).or_default() += 1);
        for (who, agent) in &self.agents {
            let id = agent.member.post();
            let parent = id.and_then(|id| forest.post(id)?.parent);
            let said = || format!("{id:?}: {:?}, and not {parent:?}", agent.member.parent());
            rule(
                id.is_some() && agent.member.parent() == parent,
                "at rest each post has its own parent",
                said,
            )?;
            let planned = planned.get(&id).copied().unwrap_or_default();
            let children = agent.member.children().count();
            rule(children == planned, "at rest a post has the children that it should have", || {
                format!("{id:?}: {children}, and not {planned}")
            })?;
            let holds = agent.member.table() == &root.table;
            rule(holds, "T5: at rest all measure as the table says", || format!("{id:?}"))?;
            self.balances(*who)?;
            watches(&agent.ring)?;
        }
        watches(&root.ring)?;
        self.is_whole(&live)
    }

    /// The jobs that are to have trees have them, with a back end on each node that runs the job, and no others do.
    fn own_trees_are_right(&self, live: &[usize]) -> Result<(), Broken> {
        let forest = &self.root.as_ref().expect("it was asked for").forest;
        let have: BTreeSet<_> = forest.own().map(|(job, _)| job).collect();
        let is_right = have.is_subset(&self.own_trees)
            && self.own_trees.iter().all(|job| have.contains(job) || self.jobs[job].is_empty());
        rule(is_right, "at rest those jobs have trees that are to", || {
            format!("{have:?}, and not {:?}", self.own_trees)
        })?;
        for job in have {
            let on = self.jobs[&job].iter().filter(|number| live.contains(number));
            let lacks: Vec<_> = on.filter(|number| self.post_on(**number, Some(job)).is_none()).collect();
            rule(lacks.is_empty(), "at rest each node of a job is in its tree", || {
                format!("{job:?}: {lacks:?}")
            })?;
        }
        Ok(())
    }

    /// Posts that are not where they should be.
    fn orphans(&self, front: &Front) -> String {
        let astray =
            front.posts().filter(|(_, post)| post.parent.is_none() || post.parent_now() != post.parent);
        let of = |(id, post): (PostId, &starfarm_overlay_core::front::Post)| {
            let agent = self.agents.values().find(|agent| agent.member.post() == Some(id));
            let has = agent.map(|agent| (agent.member.parent(), agent.member.due_us()));
            format!(
                "{id} of {:?} should be below {:?}; {:?}; {has:?}",
                front.node_of(id),
                post.parent,
                post.state
            )
        };
        astray.map(of).take(5).collect::<Vec<_>>().join("; ")
    }

    /// Nobody has more children than the fan-out. A level has fewer CPs than it is to have only where no node may take one.
    fn fans(&self, front: &Front) -> Result<(), Broken> {
        let fanout = front.settings().fanout;
        let count = |level: u8| front.posts().filter(|(_, post)| post.level == level).count() as u64;
        let shape = Shape::of(count(0), fanout);
        let root = self.root.as_ref().expect("it was asked for");
        if (1..).zip(shape.levels()).any(|(level, want)| count(level) < *want) {
            let room = front.nodes_with_room(root.clock.shows(self.now_us));
            return rule(room == 0, "at rest there are as many CPs as there are to be", || {
                format!("{shape:?}, and {room} nodes may take one")
            });
        }
        // Those of which there are too many go after ten minutes; until then there may be one too many above them.
        let cps = front.posts().filter(|(_, post)| post.level > 0).count() as u64;
        if cps > shape.cps() {
            return Ok(());
        }
        let mut fans = BTreeMap::<_, u32>::new();
        front.posts().for_each(|(_, post)| *fans.entry(post.parent).or_default() += 1);
        let worst = fans.into_iter().max_by_key(|(_, children)| *children);
        rule(
            worst.is_none_or(|(_, children)| children <= fanout),
            "at rest nobody has too many children",
            || format!("{worst:?} of {fanout}"),
        )
    }

    /// The picture is that of all nodes and their units.
    fn is_whole(&self, live: &[usize]) -> Result<(), Broken> {
        let root = self.root.as_ref().expect("it was asked for");
        let now_us = root.clock.shows(self.now_us);
        for number in live {
            let post = self.post_on(*number, None).expect("each node has a back end");
            let is_seen = root.picture.machine(post, now_us).is_some();
            rule(is_seen, "at rest the picture has all machines", || {
                let of = self.agents.values().find(|agent| agent.member.post() == Some(post));
                let counts = of.map(|of| (of.member.sending().counts(), of.member.sending().attach(post, 0)));
                let clock_us = of.and_then(|of| of.member.farm_us(of.clock.shows(self.now_us)));
                format!("n{number}, {post}: {counts:?}, {now_us}, {clock_us:?}, {:?}", self.table)
            })?;
        }
        let jobs = root.picture.jobs(now_us);
        for (job, on) in &self.jobs {
            let units: u64 = on.iter().map(|number| self.nodes[*number].units.borrow()[job]).sum();
            let known = jobs.get(job);
            let cpu = |of: &starfarm_agent_core::JobFigures| {
                of.figures.get(&Metric::Cpu).map(|cpu| (cpu.count, cpu.sum))
            };
            let all = on.len() as u64;
            let holds = known.is_some_and(|of| {
                (of.units, of.from, of.of, cpu(of)) == (units, all, all, Some((all, job.0 * all)))
            });
            let is_idle = on.is_empty() && known.is_none();
            rule(holds || is_idle, "at rest the figures of a job are whole", || {
                format!("{job:?}: {known:?} of {all}, {units}")
            })?;
        }
        let strange: Vec<_> = jobs.keys().filter(|job| !self.jobs.contains_key(job)).collect();
        rule(strange.is_empty(), "T5: at rest a job that has ended has no figures", || format!("{strange:?}"))
    }
}
