//! What each node is told: its posts, who is above each of them, and who may link with it.

use std::collections::BTreeMap;

use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::orders::{Ancestor, Descendant, PostId, PostOrder};
use starfarm_protocol::seal::{Secret, Vouchers, pair_secret};

use super::known::{Front, Node, Post};

/// Posts above another, at most: levels are numbers of 8 bits, and rise.
const LINEAGE_MAX: usize = 255;

impl Front {
    /// Makes the orders of all nodes, and gives those that have changed another number.
    pub(super) fn write_orders(&mut self, now_us: u64) {
        let below = self.below();
        let mut vouchers = Vouchers::default();
        for (id, post) in &self.posts {
            if let (Some(key), Some(_)) = (post.key, post.parent) {
                vouchers.add(self.secret(&key, None), id.0, key);
            }
        }
        self.vouchers = vouchers;
        let mut orders = BTreeMap::<PublicKey, Vec<PostOrder>>::new();
        for (id, post) in &self.posts {
            let below = below.get(id).map_or(&[][..], Vec::as_slice);
            orders.entry(post.node).or_default().push(self.order(*id, post, below));
        }
        for (key, node) in &mut self.nodes {
            let orders = orders.remove(key).unwrap_or_default();
            if node.newest == 0 || node.told != orders {
                node.newest = now_us.max(node.newest + 1);
                node.told = orders;
            }
        }
    }

    /// Those above a post, its parent first, the front left out.
    fn above(&self, post: &Post) -> Vec<(PostId, &Post)> {
        let mut above = Vec::new();
        let mut next = post.parent;
        while let Some(id) = next
            && let Some(parent) = self.posts.get(&id)
            && above.len() < LINEAGE_MAX
        {
            above.push((id, parent));
            next = parent.parent;
        }
        above
    }

    /// Of each CP all posts below it.
    fn below(&self) -> BTreeMap<PostId, Vec<PostId>> {
        let mut below = BTreeMap::<_, Vec<_>>::new();
        for (id, post) in &self.posts {
            for (above, _) in self.above(post) {
                below.entry(above).or_default().push(*id);
            }
        }
        below
    }

    /// What two posts know of each other: caller, and called; none is the front.
    fn secret(&self, caller: &PublicKey, called: Option<&PublicKey>) -> Secret {
        pair_secret(&self.key, caller, called.unwrap_or(&self.key.public()))
    }

    fn order(&self, id: PostId, post: &Post, below: &[PostId]) -> PostOrder {
        let order = PostOrder {
            post: id,
            kind: post.kind,
            level: post.level,
            lineage: Vec::new(),
            below: Vec::new(),
            children_max: self.settings.fanout.saturating_mul(2),
        };
        let (Some(key), Some(_)) = (post.key, post.parent) else { return order };
        let ancestor = |(above, of): (PostId, &Post)| {
            let called = of.key?;
            let secret = self.secret(&key, Some(&called));
            Some(Ancestor { post: above, addresses: of.addresses.clone(), key: called, secret })
        };
        let front = Ancestor {
            post: PostId::FRONT,
            addresses: Vec::new(),
            key: self.key.public(),
            secret: self.secret(&key, None),
        };
        // One that cannot be reached yet is not named: what is above it takes its children in, until it can.
        let lineage = self.above(post).into_iter().filter_map(ancestor).chain([front]).collect();
        let descendant = |below: &PostId| {
            let Post { key: caller, parent, .. } = self.posts.get(below)?;
            let (caller, parent) = ((*caller)?, (*parent)?);
            Some(Descendant { post: *below, parent, key: caller, secret: self.secret(&caller, Some(&key)) })
        };
        PostOrder { lineage, below: below.iter().filter_map(descendant).collect(), ..order }
    }

    /// Whom to ring: nodes by name, and the number of their newest orders, where that is another than it was when this was
    /// asked last.
    pub fn take_bells(&mut self) -> Vec<(String, u64)> {
        let has_news = |node: &&mut Node| node.newest != node.rung;
        let ring = |node: &mut Node| {
            node.rung = node.newest;
            (node.name.clone(), node.newest)
        };
        self.nodes.values_mut().filter(has_news).map(ring).collect()
    }
}
