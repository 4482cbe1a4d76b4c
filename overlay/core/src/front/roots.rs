//! The alarms' own way: a second root on another machine than the front's, which back ends call when they have something to
//! say, and the post that runs a program of the user's when there is an alarm. Neither is in the tree that figures go by.

use starfarm_protocol::admin::PostLoss;
use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::orders::{PostId, PostReport};

use super::known::{Front, Node, Post, Role};

/// One that has not said its key for so long after its node told of it, or of which its node told nothing, goes elsewhere.
const START_US: u64 = 5_000_000;
const UNHEARD_US: u64 = 60_000_000;
/// So long it is not put again where it did not come up.
const STRIKE_US: u64 = 600_000_000;

impl Front {
    /// The second root, if there is one.
    pub fn second(&self) -> Option<PostId> {
        self.roots.role(Role::Second).map(|(id, _)| id)
    }

    /// The post that runs a program when there is an alarm, if there is one.
    pub fn reactor(&self) -> Option<PostId> {
        self.roots.role(Role::Reactor).map(|(id, _)| id)
    }

    /// Posts of the alarms' own way.
    pub fn roots(&self) -> impl Iterator<Item = (PostId, &Post)> {
        self.roots.iter()
    }

    /// Takes up one that a front before this one has put there; whether it is one.
    pub(super) fn learn_root(&mut self, node: PublicKey, told: &PostReport, now_us: u64) -> bool {
        let Some(role) = Role::of(told.kind, told.level) else { return false };
        let is_vacant = !self.roots.0.contains_key(&role) && self.collecting.is_some();
        if is_vacant && told.post != PostId::FRONT && told.post.0 < self.next {
            let mut post = Post::new(node, role.kind(), now_us);
            post.parent = Some(PostId::FRONT);
            self.roots.0.insert(role, (told.post, post));
            self.is_heir |= told.post.0 < self.first;
        }
        self.roots.get(told.post).is_some_and(|post| post.node == node)
    }

    /// Has both where they can be.
    pub(super) fn settle_roots(&mut self, now_us: u64) {
        for role in Role::ALL {
            self.drop_root_that_fails(role, now_us);
            if self.roots.role(role).is_some() {
                continue;
            }
            let Some(node) = self.node_for(role, now_us) else { continue };
            let (mut post, id) = (Post::new(node, role.kind(), now_us), self.number());
            post.parent = Some(PostId::FRONT);
            self.roots.0.insert(role, (id, post));
            self.dirty = true;
        }
    }

    fn drop_root_that_fails(&mut self, role: Role, now_us: u64) {
        let Some((id, post)) = self.roots.role(role) else { return };
        let node = self.nodes.get(&post.node);
        let may_stay = node.is_some_and(|node| node.is_up() && self.may_have(role, node));
        let patience_us = if post.is_told { START_US } else { UNHEARD_US };
        let is_late = post.since_us.max(self.blames_from_us) + patience_us <= now_us;
        let has_no_address = role == Role::Second && post.key.is_some() && post.addresses.is_empty();
        let fails = post.key.is_none() && is_late || has_no_address;
        if may_stay && !fails {
            return;
        }
        let (node, is_told) = (post.node, post.is_told);
        if may_stay && is_told {
            self.nodes.entry(node).and_modify(|node| node.not_before_us = now_us + STRIKE_US);
        }
        let why = match (may_stay, has_no_address) {
            (false, _) => PostLoss::NodeGone,
            (true, true) => PostLoss::OutOfReach,
            (true, false) => PostLoss::NotStarted,
        };
        self.tell_lost(id, why);
        self.roots.0.remove(&role);
        (self.dirty, self.lost) = (true, self.lost + 1);
    }

    /// A node has what it takes.
    fn may_have(&self, role: Role, node: &Node) -> bool {
        match role {
            // The front's machine may be the one that is lost.
            Role::Second => node.links && node.host != self.host,
            Role::Reactor => node.reacts,
        }
    }

    /// The second root goes where nothing computes and no CP stands, if there is such a node: so that the two ways share as
    /// little as they can.
    fn node_for(&self, role: Role, now_us: u64) -> Option<PublicKey> {
        let may = |node: &Node| node.is_up() && node.not_before_us <= now_us && self.may_have(role, node);
        let nodes = self.nodes.iter().filter(|(_, node)| may(node));
        let computes = |node: &Node| node.facts.is_none_or(|facts| !facts.carries_only);
        let by = |node: &Node| match role {
            Role::Second => (computes(node), node.posts.len(), node.name.clone()),
            Role::Reactor => (false, 0, node.name.clone()),
        };
        nodes.min_by_key(|(_, node)| by(node)).map(|(key, _)| *key)
    }

    /// Who may call a root: all back ends, and the post that runs a program.
    pub(super) fn callers_of(&self, root: PostId) -> Vec<PostId> {
        if self.second() != Some(root) {
            return Vec::new();
        }
        let back_ends = self.posts.iter().filter(|(_, post)| post.level == 0).map(|(id, _)| *id);
        back_ends.chain(self.reactor()).collect()
    }
}
