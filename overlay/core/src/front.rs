//! The front: what the scheduler knows of the posts of its tree, and what it wants. It says to each node which posts it
//! should have, and vouches for them to whom they link with. All of it is soft: a front that starts again learns it from
//! the reports of those who live.
//!
//! Each node has one back end. Where that makes more children than a post takes, there are communication processes (CPs)
//! between them and the front: see `grow`. What is wanted follows from what is known, again and again; nothing waits for a
//! step of its own to come true.

mod attach;
mod follow;
mod grow;
mod keys;
mod known;
mod news;
mod numbers;
mod orders;
mod roots;
mod speak;
mod voices;
mod watches;

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::admin::PostLoss;
use starfarm_protocol::ids::{JobId, PublicKey};
use starfarm_protocol::link::Standing;
use starfarm_protocol::orders::{
    FRONT_LEVEL, HOST_BYTES_MAX, Host, Orders, POSTS_MAX, PostId, PostKind, PostReport, PostState, Report,
};

pub(crate) use known::Node;
pub use known::{FANOUT, Front, Neighbours, NodeFacts, Post, Settings};
pub use news::PostNews;

/// So few posts are planned for whenever somebody calls.
const FEW: usize = 64;
/// A node that so many rolls in a row do not name is not there.
const ROLLS_MISSING: u32 = 10;

impl Front {
    /// A node says what it has, and hears what it should have.
    pub fn on_report(&mut self, node: PublicKey, name: &str, report: &Report, now_us: u64) -> Orders {
        let is_new = !self.nodes.contains_key(&node);
        let known = self.nodes.entry(node).or_default();
        name.clone_into(&mut known.name);
        let host = &report.host.name;
        let host = Host { name: host[..host.floor_char_boundary(HOST_BYTES_MAX)].to_owned(), ..report.host };
        self.dirty |= is_new || known.host != host || known.links != report.links;
        (known.host, known.links, known.reacts) = (host, report.links, report.reacts);
        known.own_trees = report.own_trees;
        if is_new && let Some((first_us, last_us)) = &mut self.collecting {
            *first_us = if *first_us == 0 { now_us } else { *first_us };
            *last_us = now_us;
        }
        let job = self.job;
        for told in report.posts.iter().take(POSTS_MAX).filter(|told| told.job == job) {
            self.learn(node, told, now_us);
        }
        self.want_back_end(node, now_us);
        if self.posts.len() <= FEW {
            self.settle(now_us);
        }
        // Where many call, all is planned for all of them at once, soon.
        if self.dirty {
            self.write_orders_of(&node, now_us);
        }
        let known = self.nodes.get_mut(&node).expect("it was put there");
        Orders { newest: known.newest, posts: known.told.clone() }
    }

    /// Takes up what a node tells of a post.
    fn learn(&mut self, node: PublicKey, told: &PostReport, now_us: u64) {
        if told.state == PostState::Closing {
            // It is on its way to its end: no other has its number.
            return;
        }
        let is_its = match self.post(told.post) {
            Some(post) => (post.node, post.kind, post.level) == (node, told.kind, told.level),
            None => self.learn_new(node, told, now_us),
        };
        if !is_its || told.key.is_some_and(|key| self.is_others(&key, told.post)) {
            return;
        }
        let of_tree = self.posts.get_mut(&told.post);
        let post = of_tree.or_else(|| self.roots.get_mut(told.post)).expect("it was just seen there");
        let (is_new, was_linked) = post.hear(told, now_us);
        self.dirty |= is_new;
        if was_linked {
            self.tell_lost(told.post, PostLoss::ProcessEnded);
        }
        told.key.into_iter().for_each(|key| self.keys.put(key, told.post));
    }

    /// Another post has this link key, or the front.
    fn is_others(&self, key: &PublicKey, post: PostId) -> bool {
        let other = self.keys.of(key).filter(|other| *other != post).and_then(|other| self.post(other));
        *key == self.public || other.is_some_and(|other| other.key == Some(*key))
    }

    /// One of an earlier incarnation of the front lives on: its links hold. A number that was not given yet is nobody's; and once
    /// all is planned, a CP that nobody planned ends.
    fn learn_new(&mut self, node: PublicKey, told: &PostReport, now_us: u64) -> bool {
        if told.post == PostId::FRONT || told.post >= self.numbers.next() {
            return false;
        }
        if self.learn_root(node, told, now_us) {
            return true;
        }
        let is_member = self.is_member(&self.nodes[&node].name);
        let known = self.nodes.get_mut(&node).expect("its report is read");
        let is_cp = matches!(told.kind, PostKind::Cp | PostKind::Ibe) && told.level > 0;
        let has_be = || known.posts.iter().any(|post| self.posts[post].level == 0);
        let is_be = told.kind == PostKind::Be && told.level == 0 && is_member && !has_be();
        let is_wanted = is_be || is_cp && self.collecting.is_some() && told.level < FRONT_LEVEL;
        if is_wanted {
            known.posts.push(told.post);
            let mut post = Post::new(node, (told.kind, told.level), now_us);
            post.parent = told.parent;
            self.posts.insert(told.post, post);
            self.is_heir |= told.post.0 < self.first;
        }
        is_wanted
    }

    /// Each node has a back end, or each that is a member.
    fn want_back_end(&mut self, node: PublicKey, now_us: u64) {
        let known = &self.nodes[&node];
        if self.is_member(&known.name) && !known.posts.iter().any(|post| self.posts[post].level == 0) {
            self.add(node, (PostKind::Be, 0), now_us);
        }
    }

    /// Nothing of a node is wanted any more: it is lost, or was revoked. The posts that it had.
    pub fn forget(&mut self, node: &PublicKey) -> Vec<PostId> {
        let posts = self.nodes.get(node).map(|known| known.posts.clone()).unwrap_or_default();
        posts.iter().for_each(|post| self.remove(*post, PostLoss::NodeGone));
        let roots: Vec<_> =
            self.roots.iter().filter(|(_, post)| post.node == *node).map(|(id, _)| id).collect();
        roots.into_iter().for_each(|root| self.tell_lost(root, PostLoss::NodeGone));
        self.nodes.remove(node);
        posts.into_iter().chain(self.roots.forget(node)).collect()
    }

    /// On these nodes a post of their own tree tells of the units of these jobs from now on, and none of the farm's.
    pub(crate) fn on_apart(&mut self, apart: &BTreeMap<PublicKey, Vec<JobId>>) {
        if self.apart != *apart {
            self.apart.clone_from(apart);
            self.tells_anew = true;
        }
    }

    /// The tree is over: the posts that it had, and what becomes of them, as [`Front::take_news`] tells it.
    pub(crate) fn end(mut self, now_us: u64) -> (Vec<PostId>, (Vec<PostNews>, u64)) {
        let posts: Vec<_> = self.posts.keys().copied().collect();
        posts.iter().for_each(|post| self.remove(*post, PostLoss::JobEnded));
        (posts, self.take_news(now_us))
    }

    /// What the farm knows of its nodes, by name. Who is not named time and again is not there.
    pub fn on_roll(&mut self, roll: &BTreeMap<String, NodeFacts>) {
        for node in self.nodes.values_mut() {
            let facts = roll.get(&node.name).copied();
            node.missing = if facts.is_some() { 0 } else { node.missing.saturating_add(1) };
            // It may have called before the farm was asked.
            if facts.is_none() && node.missing < ROLLS_MISSING {
                continue;
            }
            let facts = facts.unwrap_or_default();
            let of = |facts: &NodeFacts| (facts.is_up, facts.carries_only);
            self.dirty |= node.facts.as_ref().map(of) != Some(of(&facts));
            node.facts = Some(facts);
        }
    }

    /// Of these nodes, those that have not called since it knows of anything.
    pub fn strangers<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let known: BTreeSet<_> = self.nodes.values().map(|node| node.name.as_str()).collect();
        names.filter(|name| !known.contains(name)).collect()
    }

    /// Nodes that are not there.
    pub fn gone(&self) -> impl Iterator<Item = PublicKey> {
        self.nodes.iter().filter(|(_, node)| !node.is_up()).map(|(key, _)| *key)
    }

    /// A post tells by its link how it, or one below it, stands.
    pub fn on_standing(&mut self, standing: Standing, now_us: u64) {
        let of_tree = self.posts.get_mut(&standing.post);
        let Some(post) = of_tree.or_else(|| self.roots.get_mut(standing.post)) else { return };
        let before = post.standing.replace((standing, now_us)).map(|(before, _)| before.parent);
        self.tell_stands(standing, before);
    }

    /// A post has told how it stands; `before` is the parent that it had when it told last.
    fn tell_stands(&mut self, standing: Standing, before: Option<PostId>) {
        if before == Some(standing.parent) {
            return;
        }
        let (post, parent) = (standing.post, standing.parent);
        let kind = self.post(post).expect("it was just seen there").kind;
        let node = self.name_of(post);
        self.news.push(match before {
            None => PostNews::Up { post, kind, node, parent },
            Some(_) => PostNews::Adopted { post, kind, node, parent },
        });
    }

    /// What befell posts since this was asked last, and how much more did that there was no room for.
    pub fn take_news(&mut self, now_us: u64) -> (Vec<PostNews>, u64) {
        self.news.take(now_us)
    }

    /// What this child of the front told of jobs others tell once it has gone: it is a CP, or was taken in for a while.
    pub fn tells_for_others(&self, child: PostId) -> bool {
        self.posts.get(&child).is_none_or(|of| of.level > 0 || of.parent != Some(PostId::FRONT))
    }

    /// The tree is to be so from now on, and is planned anew: all CPs go, and others come.
    pub fn form(&mut self, settings: Settings, now_us: u64) {
        self.settings = settings;
        let cps: Vec<_> = self.posts.iter().filter(|(_, post)| post.level > 0).map(|(id, _)| *id).collect();
        cps.into_iter().for_each(|post| self.remove(post, PostLoss::Replanned));
        self.posts.values_mut().for_each(|post| post.parent = None);
        self.places.clear();
        (self.collecting, self.dirty) = (None, true);
        self.settle(now_us);
    }
}

#[cfg(test)]
pub(crate) mod tests;
