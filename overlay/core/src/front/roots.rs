//! The alarms' own way: a second root on another machine than the front's, which back ends call when they have something to
//! say, and the post that runs a program of the user's when there is an alarm. Neither is in the tree that figures go by.

use starfarm_protocol::admin::PostLoss;
use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::orders::{PostId, PostReport};

use super::known::{Front, Node, Post, Role};

/// One that has not said its key for so long after its node told of it, or of which its node told nothing, goes elsewhere.
const START_US: u64 = 5_000_000;
const UNHEARD_US: u64 = 60_000_000;
/// So long it is not put again where it did not come up, or where nobody could call it.
const STRIKE_US: u64 = 600_000_000;
/// A second root that cannot be called for so long, while it has its link with the front, goes elsewhere. Whoever watches it says
/// it again when it has tried again; what was said longer ago is another story.
const SHUT_US: u64 = 10_000_000;
const STORY_US: u64 = 40_000_000;

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

    /// Somebody says that a post is silent, or cannot be called; `is_linked`: it has its link with the front. A post of the tree
    /// says for itself which parent it has, a second root is called by others only when these have an alarm.
    pub fn on_suspect(&mut self, post: PostId, is_linked: bool, now_us: u64) {
        if self.second() != Some(post) || !is_linked {
            return;
        }
        let before = self.doubted.filter(|(of, _, last_us)| {
            *of == post && last_us + STORY_US > now_us && *last_us >= self.blames_from_us
        });
        self.doubted = Some((post, before.map_or(now_us, |(_, first_us, _)| first_us), now_us));
    }

    /// It could not be called for long, and there is another node where it may be.
    fn is_shut(&self, (id, post): (PostId, &Post), now_us: u64) -> bool {
        let is_long = |(of, first_us, last_us): (PostId, u64, u64)| of == id && first_us + SHUT_US <= last_us;
        let is_other =
            |(key, node): (&PublicKey, &Node)| *key != post.node && self.may_take(Role::Second, node, now_us);
        self.doubted.is_some_and(is_long) && self.nodes.iter().any(is_other)
    }

    /// Takes up one that no post is known by the number of, and that a front before this one has put there, where its node may
    /// have it; whether it did.
    pub(super) fn learn_root(&mut self, node: PublicKey, told: &PostReport, now_us: u64) -> bool {
        let Some(role) = Role::of(told.kind, told.level).filter(|_| self.job.is_none()) else { return false };
        let is_vacant = !self.roots.0.contains_key(&role) && self.collecting.is_some();
        if !is_vacant || !self.may_have(role, &self.nodes[&node]) {
            return false;
        }
        let mut post = Post::new(node, role.kind(), now_us);
        post.parent = Some(PostId::FRONT);
        self.roots.0.insert(role, (told.post, post));
        self.is_heir |= told.post.0 < self.first;
        true
    }

    /// Has both where they can be: those of the farm's tree, as alarms go by no other.
    pub(super) fn settle_roots(&mut self, now_us: u64) {
        let roles = if self.job.is_none() { &Role::ALL[..] } else { &[] };
        for role in roles.iter().copied() {
            self.drop_root_that_fails(role, now_us);
            if self.roots.role(role).is_some() {
                continue;
            }
            let Some(node) = self.node_for(role, now_us) else { continue };
            let (mut post, id) = (Post::new(node, role.kind(), now_us), self.numbers.take());
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
        let is_shut = role == Role::Second && !fails && self.is_shut((id, post), now_us);
        if may_stay && !fails && !is_shut {
            return;
        }
        let (node, is_told, until_us) = (post.node, post.is_told, now_us + STRIKE_US);
        if may_stay && is_shut {
            self.nodes.entry(node).and_modify(|node| node.is_shut_until_us = until_us);
        } else if may_stay && is_told {
            self.nodes.entry(node).and_modify(|node| node.not_before_us = until_us);
        }
        let why = match (may_stay, has_no_address || is_shut) {
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

    /// It may be put there now.
    fn may_take(&self, role: Role, node: &Node, now_us: u64) -> bool {
        let is_shut = role == Role::Second && node.is_shut_until_us > now_us;
        node.is_up() && node.not_before_us <= now_us && !is_shut && self.may_have(role, node)
    }

    /// The second root goes where nothing computes and no CP stands, if there is such a node: so that the two ways share as
    /// little as they can.
    fn node_for(&self, role: Role, now_us: u64) -> Option<PublicKey> {
        let nodes = self.nodes.iter().filter(|(_, node)| self.may_take(role, node, now_us));
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
