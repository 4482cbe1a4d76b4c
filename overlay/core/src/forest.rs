//! All trees of a scheduler: the farm's, and those that jobs have of their own, as `tree = "own"` in their files says. Each has
//! a front, and they share nothing but the numbers of posts: no post of one may link with one of another, or speak of it.
//!
//! A node hears one list of orders, of all of them. A back end of the farm's tree tells of a job's units until the one of the job's
//! tree on its node has a parent, and again once nothing was heard of that one for long: so a tree that does not come up costs no
//! figure. Both hear at once whose turn it is.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::ids::{JobId, JoinKeyId, PublicKey};
use starfarm_protocol::link::{DEAD_US, Standing};
use starfarm_protocol::orders::{OWN_TREES_MAX, Orders, PostId, PostReport, PostState, Report};
use starfarm_protocol::seal::Vouchers;

use crate::closing::CLOSE_US;
use crate::front::{Front, Node, NodeFacts, Post, PostNews, Settings};

/// So long after its end a job keeps its tree: what its last units used is still on its way.
const LINGER_US: u64 = 3_000_000;
/// How often it is looked at whose turn it is; and how soon after a back end was heard of for the first time, so that those of
/// many nodes are heard of at once.
const LOOK_US: u64 = 1_000_000;
const SOON_US: u64 = 100_000;
/// So long a post of a tree that is over has to end by itself, as its worker has it do.
const ENDS_US: u64 = 2 * CLOSE_US;

/// The fronts of all trees.
pub struct Forest {
    farm: Front,
    own: BTreeMap<JobId, Own>,
    /// The jobs that are to have a tree, once the farm has said that; until then each has one whose posts somebody has.
    wanted: Option<BTreeSet<JobId>>,
    /// Nodes of trees that have gone, which are to be rung.
    left: BTreeSet<PublicKey>,
    /// What became of their posts, and how much more there was no room for.
    news: (Vec<PostNews>, u64),
    /// Those posts, and when they must have ended.
    ending: Vec<(PostId, u64)>,
    /// When it is looked at next whose turn it is to tell of which job's units, and whether the trees of jobs have heard what came
    /// of that.
    look_us: u64,
    is_passed_on: bool,
}

/// A job's own tree.
struct Own {
    front: Front,
    /// When the back ends on these nodes told last how they stand.
    told_us: BTreeMap<PublicKey, u64>,
    /// When it was heard that nobody wants it any more.
    ended_us: Option<u64>,
}

impl Forest {
    /// The farm's tree alone.
    pub fn new(farm: Front) -> Self {
        let (own, left, news, ending) = Default::default();
        Self { farm, own, wanted: None, left, news, ending, look_us: 0, is_passed_on: false }
    }

    /// The front of the farm's tree.
    pub fn farm(&self) -> &Front {
        &self.farm
    }

    /// See [`Forest::farm`].
    pub fn farm_mut(&mut self) -> &mut Front {
        &mut self.farm
    }

    /// Those of trees that jobs have of their own.
    pub fn own(&self) -> impl Iterator<Item = (JobId, &Front)> {
        self.own.iter().map(|(job, own)| (*job, &own.front))
    }

    fn fronts(&self) -> impl Iterator<Item = &Front> {
        std::iter::once(&self.farm).chain(self.own.values().map(|own| &own.front))
    }

    fn fronts_mut(&mut self) -> impl Iterator<Item = &mut Front> {
        std::iter::once(&mut self.farm).chain(self.own.values_mut().map(|own| &mut own.front))
    }

    /// The front of the tree that a post is in; the farm's, where no tree has it.
    pub fn front_of(&self, post: PostId) -> &Front {
        self.own.values().map(|own| &own.front).find(|front| front.post(post).is_some()).unwrap_or(&self.farm)
    }

    /// A post, whichever tree it is in.
    pub fn post(&self, post: PostId) -> Option<&Post> {
        self.front_of(post).post(post)
    }

    /// The node of a post, and its name.
    pub fn node_of(&self, post: PostId) -> Option<(PublicKey, &str)> {
        self.front_of(post).node_of(post)
    }

    /// A node says what it has, and hears what it should have.
    pub fn on_report(&mut self, node: PublicKey, name: &str, report: &Report, now_us: u64) -> Orders {
        let report = self.without_others(report);
        let taken = self.take_up(node, name, &report, now_us);
        let (mut newest, mut posts) = (Vec::new(), Vec::new());
        for (job, Own { front, .. }) in &mut self.own {
            if !report.own_trees {
                front.forget(&node);
            } else if front.nodes.contains_key(&node) || front.is_member(name) || taken.contains(job) {
                let orders = front.on_report(node, name, &report, now_us);
                newest.push(orders.newest);
                posts.extend(orders.posts);
            }
        }
        let mut orders = self.farm.on_report(node, name, &report, now_us);
        orders.newest = newest.into_iter().fold(orders.newest, add);
        orders.posts.extend(posts);
        orders
    }

    /// A report without posts whose numbers are those of another tree's posts, and without any that is told of twice.
    fn without_others(&self, report: &Report) -> Report {
        let (mut told, mut posts) = (BTreeSet::new(), report.posts.clone());
        let is_others = |post: &PostReport| {
            self.fronts().any(|front| front.job() != post.job && front.post(post.post).is_some())
        };
        posts.retain(|post| told.insert(post.post) && !is_others(post));
        Report { posts, host: report.host.clone(), ..*report }
    }

    /// Trees that a front before this one has planned, and of which the node has posts, as far as they are still wanted.
    fn take_up(&mut self, node: PublicKey, name: &str, report: &Report, now_us: u64) -> BTreeSet<JobId> {
        let mut taken = BTreeSet::new();
        let earlier =
            report.posts.iter().filter(|post| report.own_trees && self.farm.is_of_earlier(post.post));
        let earlier: Vec<_> = earlier.filter_map(|post| Some((post.job?, post))).collect();
        for (job, post) in earlier {
            if self.wanted.as_ref().is_some_and(|wanted| !wanted.contains(&job)) {
                continue;
            }
            let Some(own) = self.grow(job) else { continue };
            // Others may carry a CP, and run nothing of the job.
            if post.level == 0 {
                own.front.members.get_or_insert_default().insert(name.to_owned());
                if post.state == PostState::Joined {
                    own.told_us.entry(node).or_insert(now_us);
                }
            }
            taken.insert(job);
        }
        taken
    }

    /// The tree of a job, which it gets if there is room; none where there is not.
    fn grow(&mut self, job: JobId) -> Option<&mut Own> {
        if self.own.len() >= OWN_TREES_MAX && !self.own.contains_key(&job) {
            return None;
        }
        let new = || Own { front: self.farm.of_job(job), told_us: BTreeMap::new(), ended_us: None };
        Some(self.own.entry(job).or_insert_with(new))
    }

    /// The farm says which jobs are to have trees of their own, and which nodes run each. Once one runs it, it is in its tree until
    /// that one goes.
    pub fn want(&mut self, jobs: &BTreeMap<JobId, BTreeSet<String>>, now_us: u64) {
        self.wanted = Some(jobs.keys().copied().collect());
        for (job, own) in &mut self.own {
            own.ended_us = if jobs.contains_key(job) { None } else { own.ended_us.or(Some(now_us)) };
        }
        let is_over = |own: &Own| own.ended_us.is_some_and(|ended_us| ended_us + LINGER_US <= now_us);
        let over: Vec<_> = self.own.extract_if(.., |_, own| is_over(own)).collect();
        for (_, own) in over {
            self.left.extend(own.front.nodes.keys());
            let (posts, (news, missed)) = own.front.end(now_us);
            self.ending.extend(posts.into_iter().map(|post| (post, now_us + ENDS_US)));
            self.news.0.extend(news);
            self.news.1 += missed;
            self.look_us = 0;
        }
        for (job, nodes) in jobs.iter().filter(|(_, nodes)| !nodes.is_empty()) {
            let Some(own) = self.grow(*job) else { continue };
            own.front.members.get_or_insert_default().extend(nodes.iter().cloned());
        }
        self.admit(now_us);
    }

    /// Posts of trees that are over, which must have ended by now.
    pub fn take_ended(&mut self, now_us: u64) -> Vec<PostId> {
        self.ending.extract_if(.., |(_, at_us)| *at_us <= now_us).map(|(post, _)| post).collect()
    }

    /// Nodes that are to be in a tree and are not get their posts by what they have told the farm's: members, and those that carry
    /// posts alone.
    fn admit(&mut self, now_us: u64) {
        for Own { front, .. } in self.own.values_mut() {
            let is_in = |node: &Node| {
                let carries = node.facts.is_some_and(|facts| facts.carries_only);
                node.own_trees && node.is_up() && (carries || front.is_member(&node.name))
            };
            let new: Vec<_> = self
                .farm
                .nodes
                .iter()
                .filter(|(key, node)| !front.nodes.contains_key(key) && is_in(node))
                .collect();
            for (key, node) in new {
                front.on_report(*key, &node.name, &node.report(), now_us);
                front.nodes.entry(*key).and_modify(|known| known.facts = node.facts);
            }
        }
    }

    /// Does what is to be done by now. To be called whenever something may have changed, and ten times a second.
    pub fn settle(&mut self, now_us: u64) {
        if now_us >= self.look_us || self.look_us > now_us + LOOK_US {
            self.look_us = now_us + LOOK_US;
            let apart = self.apart(now_us);
            self.farm.on_apart(&apart);
            self.is_passed_on = false;
        }
        self.farm.settle(now_us);
        // Both hear of it by one list of orders.
        let apart = self.farm.apart_as_told().filter(|_| !self.is_passed_on);
        self.is_passed_on |= apart.is_some();
        for (job, Own { front, .. }) in &mut self.own {
            if let Some(apart) = apart {
                let its = apart.iter().filter(|(_, jobs)| jobs.contains(job));
                front.on_apart(&its.map(|(node, _)| (*node, vec![*job])).collect());
            }
            front.settle(now_us);
        }
    }

    /// Of nodes, the jobs of whose units back ends of their own trees tell.
    fn apart(&mut self, now_us: u64) -> BTreeMap<PublicKey, Vec<JobId>> {
        let mut apart = BTreeMap::<PublicKey, Vec<JobId>>::new();
        for (job, own) in &mut self.own {
            // By a clock that was set back they would tell for long.
            own.told_us.retain(|_, at_us| *at_us + DEAD_US > now_us && *at_us <= now_us);
            own.told_us.keys().for_each(|node| apart.entry(*node).or_default().push(*job));
        }
        apart
    }

    /// Whom to ring: nodes by name, and the number of their newest orders.
    pub fn take_bells(&mut self) -> Vec<(String, u64)> {
        let mut rung = std::mem::take(&mut self.left);
        rung.extend(self.fronts_mut().flat_map(Front::take_rung));
        let of = |node: PublicKey| {
            let name = self.farm.nodes.get(&node)?.name.clone();
            let newest = self.fronts().filter_map(|front| front.nodes.get(&node)).map(|node| node.newest);
            Some((name, newest.reduce(add)?))
        };
        rung.into_iter().filter_map(of).collect()
    }

    /// What the farm knows of its nodes, by name.
    pub fn on_roll(&mut self, roll: &BTreeMap<String, NodeFacts>) {
        self.fronts_mut().for_each(|front| front.on_roll(roll));
    }

    /// The nodes that have posts.
    pub fn nodes(&self) -> BTreeSet<PublicKey> {
        self.fronts()
            .flat_map(|front| front.posts().chain(front.roots()))
            .map(|(_, post)| post.node)
            .collect()
    }

    /// Nodes that are not there.
    pub fn gone(&self) -> BTreeSet<PublicKey> {
        self.fronts().flat_map(Front::gone).collect()
    }

    /// Nothing of a node is wanted any more: the posts that it had.
    pub fn forget(&mut self, node: &PublicKey) -> Vec<PostId> {
        self.own.values_mut().for_each(|own| own.told_us.retain(|of, _| of != node));
        self.fronts_mut().flat_map(|front| front.forget(node)).collect()
    }

    /// A post tells by its link how it, or one below it, stands.
    pub fn on_standing(&mut self, standing: Standing, now_us: u64) {
        let own = self.own.values_mut().find(|own| own.front.post(standing.post).is_some());
        let Some(Own { front, told_us, .. }) = own else { return self.farm.on_standing(standing, now_us) };
        front.on_standing(standing, now_us);
        let back_end = front.post(standing.post).filter(|post| post.level == 0);
        if let Some(node) = back_end.map(|post| post.node)
            && told_us.insert(node, now_us).is_none()
        {
            self.look_us = self.look_us.min(now_us + SOON_US);
        }
    }

    /// Whether a child of a front may speak of that post. The child may be in no tree any more, and speaks of it a while longer.
    pub fn may_speak(&self, child: PostId, about: PostId, now_us: u64) -> bool {
        self.front_of(about).may_speak(child, about, now_us)
    }

    /// The same of silence.
    pub fn may_suspect(&self, child: PostId, about: PostId, now_us: u64) -> bool {
        self.front_of(about).may_suspect(child, about, now_us)
    }

    /// What this child of a front told of jobs others tell once it has gone.
    pub fn tells_for_others(&self, child: PostId) -> bool {
        // Of a back end of a job's own tree, that of the farm's on its node.
        self.farm.tells_for_others(child)
    }

    /// Whom a front vouches for by the secret of that id.
    pub fn vouched(&self, id: &JoinKeyId) -> Option<Vouchers> {
        self.fronts().find_map(|front| front.vouchers().only(id))
    }

    /// The trees are to be so from now on, and are planned anew. Where CPs stand by a person's word, it is those of the farm's.
    pub fn form(&mut self, settings: Settings, now_us: u64) {
        let own = Settings { topology: None, ..settings.clone() };
        self.own.values_mut().for_each(|of| of.front.form(own.clone(), now_us));
        self.farm.form(settings, now_us);
    }

    /// What befell posts since this was asked last, and how much more did that there was no room for.
    pub fn take_news(&mut self, now_us: u64) -> (Vec<PostNews>, u64) {
        let (mut news, mut missed) = std::mem::take(&mut self.news);
        for front in self.fronts_mut() {
            let (more, more_missed) = front.take_news(now_us);
            news.extend(more);
            missed += more_missed;
        }
        (news, missed)
    }

    /// Forgets all that it knows, but for how the tree is to be and which numbers were given.
    pub fn renew(&mut self) {
        self.farm.renew();
        (self.own, self.wanted, self.look_us) = (BTreeMap::new(), None, 0);
    }
}

/// The number of orders that are those of two fronts: another than before, if either has another.
fn add(newest: u64, other: u64) -> u64 {
    newest.wrapping_add(other).max(1)
}

#[cfg(test)]
mod tests;
