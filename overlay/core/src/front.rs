//! The front: what the scheduler knows of the posts of its tree, and what it wants. It says to each node which posts it
//! should have, and vouches for them to whom they link with. All of it is soft: a front that starts again learns it from
//! the reports of those who live.
//!
//! Today the tree is flat: each node has one back end, whose parent is the front.

use std::collections::BTreeMap;

use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::orders::{
    Ancestor, Orders, POSTS_MAX, PostId, PostKind, PostOrder, PostReport, PostState, Report,
};
use starfarm_protocol::seal::{StaticKey, Vouchers, pair_secret};

/// Posts that a front can number: so many bits are left for them beside its incarnation.
const NUMBER_BITS: u32 = 24;

/// A post, as the front knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Post {
    /// The node that has it.
    pub node: PublicKey,
    /// What it is for.
    pub kind: PostKind,
    /// Whose child it is.
    pub parent: PostId,
    /// How far it is, as its node told last.
    pub state: PostState,
    /// Its process, where it has one.
    pub pid: Option<u32>,
    /// What it links with, once it has told.
    key: Option<PublicKey>,
}

#[derive(Default)]
struct Node {
    name: String,
    /// The number of its newest orders; 0: none were made.
    newest: u64,
    posts: Vec<PostId>,
}

/// The root of a tree.
pub struct Front {
    key: StaticKey,
    /// The number of the next post.
    next: u64,
    nodes: BTreeMap<PublicKey, Node>,
    posts: BTreeMap<PostId, Post>,
    vouchers: Vouchers,
}

impl Front {
    /// A front of the scheduler with this key, in its incarnation of that number: posts of others have other numbers.
    pub fn new(key: StaticKey, epoch: u64) -> Self {
        let next = (epoch << NUMBER_BITS) + 1;
        let (nodes, posts, vouchers) = (BTreeMap::new(), BTreeMap::new(), Vouchers::default());
        Self { key, next, nodes, posts, vouchers }
    }

    /// A node says what it has, and hears what it should have.
    pub fn on_report(&mut self, node: PublicKey, name: &str, report: &Report, now_us: u64) -> Orders {
        let known = self.nodes.entry(node).or_default();
        name.clone_into(&mut known.name);
        let mut changed = known.newest == 0;
        for told in report.posts.iter().take(POSTS_MAX) {
            changed |= self.learn(node, told);
        }
        changed |= self.want_back_end(node);
        let known = self.nodes.get_mut(&node).expect("it was put there");
        if changed {
            known.newest = now_us.max(known.newest + 1);
        }
        let (newest, posts) = (known.newest, known.posts.clone());
        Orders { newest, posts: posts.iter().filter_map(|post| self.order(*post)).collect() }
    }

    /// Takes up what a node tells of a post; whether that changes its orders.
    fn learn(&mut self, node: PublicKey, told: &PostReport) -> bool {
        let known = self.nodes.get_mut(&node).expect("its report is read");
        // One of an earlier incarnation of the front lives on: its links hold.
        if !known.posts.contains(&told.post) {
            let has_one = !known.posts.is_empty();
            if has_one || told.post == PostId::FRONT || self.posts.contains_key(&told.post) {
                return true;
            }
            known.posts.push(told.post);
            let (kind, parent, state) = (PostKind::Be, PostId::FRONT, PostState::Starting);
            self.posts.insert(told.post, Post { node, kind, parent, state, pid: None, key: None });
        }
        let post = self.posts.get_mut(&told.post).expect("its node lists it");
        (post.state, post.pid) = (told.state, told.pid);
        if post.key == told.key {
            return false;
        }
        if std::mem::replace(&mut post.key, told.key).is_some() {
            self.vouchers.remove(told.post.0);
        }
        if let Some(key) = told.key {
            self.vouchers.add(pair_secret(&self.key, &key, &self.key.public()), told.post.0, key);
        }
        true
    }

    /// Each node has a back end.
    fn want_back_end(&mut self, node: PublicKey) -> bool {
        let known = self.nodes.get_mut(&node).expect("its report is read");
        if !known.posts.is_empty() {
            return false;
        }
        let post = PostId(self.next);
        self.next += 1;
        known.posts.push(post);
        let (kind, parent, state) = (PostKind::Be, PostId::FRONT, PostState::Starting);
        self.posts.insert(post, Post { node, kind, parent, state, pid: None, key: None });
        true
    }

    fn order(&self, post: PostId) -> Option<PostOrder> {
        let known = self.posts.get(&post)?;
        let front = |key| {
            let secret = pair_secret(&self.key, &key, &self.key.public());
            Ancestor { post: PostId::FRONT, addresses: Vec::new(), key: self.key.public(), secret }
        };
        Some(PostOrder { post, kind: known.kind, lineage: known.key.map(front).into_iter().collect() })
    }

    /// Nothing of a node is wanted any more: it is lost, or was revoked. The posts that it had.
    pub fn forget(&mut self, node: &PublicKey) -> Vec<PostId> {
        let posts = self.nodes.remove(node).map(|known| known.posts).unwrap_or_default();
        for post in &posts {
            self.posts.remove(post);
            self.vouchers.remove(post.0);
        }
        posts
    }

    /// Whose links it takes.
    pub fn vouchers(&self) -> &Vouchers {
        &self.vouchers
    }

    /// The node of a post, and its name.
    pub fn node_of(&self, post: PostId) -> Option<(PublicKey, &str)> {
        let node = self.posts.get(&post)?.node;
        Some((node, self.nodes.get(&node)?.name.as_str()))
    }

    /// All posts, by number.
    pub fn posts(&self) -> impl Iterator<Item = (PostId, &Post)> {
        self.posts.iter().map(|(post, known)| (*post, known))
    }
}

#[cfg(test)]
mod tests;
