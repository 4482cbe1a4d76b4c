//! What each node is told: its posts, who is above each of them, and who may link with it.

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::sync::Arc;

use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::orders::{
    Ancestor, Descendant, FRONT_LEVEL, Host, PostId, PostKind, PostOrder, SECOND_LEVEL,
};
use starfarm_protocol::seal::{Secret, Vouchers};

use super::known::{Front, Neighbours, Node, Post, Role};
use super::watches::Watches;

/// Posts above another, at most: levels are numbers of 8 bits, and rise.
const LINEAGE_MAX: usize = 255;

impl Front {
    /// Makes the orders of all nodes, and gives those that have changed another number.
    pub(super) fn write_orders(&mut self, now_us: u64) {
        self.tells_anew = false;
        let lineages = self.lineages();
        let below = below(&lineages);
        self.voices.renew(lineages, now_us);
        let mut keys = std::mem::take(&mut self.keys);
        keys.tidy(|key, post| self.post(post).is_some_and(|of| of.key == Some(*key)));
        self.keys = keys;
        let mut vouchers = Vouchers::default();
        let posts = self.posts.iter().map(|(id, post)| (*id, post)).chain(self.roots.iter());
        let all = posts.filter_map(|(id, post)| self.voucher(id, post));
        all.for_each(|(secret, post, key)| vouchers.add(secret, post, key));
        self.vouchers = vouchers;
        let watches = self.ring();
        self.watches = Arc::new(self.neighbours(PostId::FRONT, &watches));
        let mut orders = BTreeMap::<PublicKey, Vec<PostOrder>>::new();
        for (id, post) in &self.posts {
            let below = below.get(id).map_or(&[][..], Vec::as_slice);
            orders.entry(post.node).or_default().push(self.order((*id, post), below, &watches));
        }
        for (id, post) in self.roots.iter() {
            orders.entry(post.node).or_default().push(self.order((id, post), &self.callers_of(id), &watches));
        }
        for (key, node) in &mut self.nodes {
            node.tell(orders.remove(key).unwrap_or_default(), now_us);
        }
    }

    /// The same for one node, by what is known now.
    pub(super) fn write_orders_of(&mut self, node: &PublicKey, now_us: u64) {
        let roots = || self.roots.iter().filter(|(_, post)| post.node == *node);
        let posts = || self.nodes[node].posts.iter().map(|id| (*id, &self.posts[id])).chain(roots());
        // Back ends are watched by their parents alone.
        let watches = if posts().any(|(_, post)| post.level > 0) { self.ring() } else { Watches::default() };
        let orders = posts().map(|(id, post)| {
            let below = match post.level {
                0 => Vec::new(),
                SECOND_LEVEL => self.callers_of(id),
                _ => self.below_of(id),
            };
            self.order((id, post), &below, &watches)
        });
        let orders: Vec<_> = orders.collect();
        let vouchers: Vec<_> = posts().filter_map(|(id, post)| self.voucher(id, post)).collect();
        vouchers.into_iter().for_each(|(secret, post, key)| self.vouchers.add(secret, post, key));
        self.nodes.entry(*node).and_modify(|node| node.tell(orders, now_us));
    }

    /// With what a post links with the front, once it has a place.
    fn voucher(&self, id: PostId, post: &Post) -> Option<(Secret, u64, PublicKey)> {
        let key = post.key.filter(|_| post.parent.is_some())?;
        Some((self.secret(&key, None), id.0, key))
    }

    /// All posts below a CP.
    fn below_of(&self, cp: PostId) -> Vec<PostId> {
        self.posts.keys().filter(|id| self.is_above(cp, **id)).copied().collect()
    }

    /// Those above a post, its parent first, the front left out.
    fn above<'a>(&'a self, post: &Post) -> impl Iterator<Item = (PostId, &'a Post)> + use<'a> {
        let known = |id: PostId| self.posts.get(&id).map(|post| (id, post));
        let first = post.parent.and_then(known);
        std::iter::successors(first, move |(_, post)| post.parent.and_then(known)).take(LINEAGE_MAX)
    }

    /// Whether a CP is above a post, as it is ordered now.
    pub(super) fn is_above(&self, cp: PostId, post: PostId) -> bool {
        self.posts.get(&post).is_some_and(|post| self.above(post).any(|(above, _)| above == cp))
    }

    /// Of each post those above it, its parent first.
    fn lineages(&self) -> BTreeMap<PostId, Vec<PostId>> {
        let above = |post: &Post| self.above(post).map(|(above, _)| above).collect();
        self.posts.iter().map(|(id, post)| (*id, above(post))).collect()
    }

    /// What two posts know of each other: caller, and called; none is the front.
    fn secret(&self, caller: &PublicKey, called: Option<&PublicKey>) -> Secret {
        self.pairs.secret(caller, called.unwrap_or(&self.public))
    }

    fn order(&self, (id, post): (PostId, &Post), below: &[PostId], watches: &Watches) -> PostOrder {
        let apart = self.apart.get(&post.node).filter(|_| post.kind == PostKind::Be);
        let apart = apart.cloned().unwrap_or_default();
        let order = PostOrder { job: self.job, apart, ..PostOrder::new(id, (post.kind, post.level)) };
        let (Some(key), Some(parent)) = (post.key, post.parent) else { return order };
        if parent != PostId::FRONT && !self.posts.contains_key(&parent) {
            // Nobody has told of it yet; what stands may stand.
            return order;
        }
        let own = below.iter().filter(|below| self.posts.get(below).is_some_and(|of| of.parent == Some(id)));
        let children_max = 2 * self.settings.fanout.max(own.count() as u32);
        let second =
            if matches!(post.kind, PostKind::Be | PostKind::Ap) { self.second_for(post) } else { None };
        let reactor = self.reactor().filter(|_| post.level == SECOND_LEVEL);
        let front = self.front_for(&key);
        // One that cannot be reached yet is not named: what is above it takes its children in, until it can.
        let above = self.above(post).filter_map(|above| self.ancestor(above, post));
        let lineage = above.chain([front]).collect();
        let descendant = |below: &PostId| {
            let Post { key: caller, parent, level, .. } = self.post(*below)?;
            let (caller, parent, level) = ((*caller)?, (*parent)?, *level);
            let secret = self.secret(&caller, Some(&key));
            Some(Descendant { post: *below, parent, level, key: caller, secret })
        };
        let below = below.iter().filter_map(descendant).collect();
        let (watched, watchers) = self.neighbours(id, watches);
        PostOrder { lineage, below, children_max, second, reactor, watched, watchers, ..order }
    }

    /// The second root, as a post of this node calls it.
    fn second_for(&self, post: &Post) -> Option<Ancestor> {
        self.ancestor(self.roots.role(Role::Second)?, post)
    }

    /// A post as another calls it; none where that one cannot.
    fn ancestor(&self, above: (PostId, &Post), caller: &Post) -> Option<Ancestor> {
        let host = self.nodes.get(&caller.node).map(|node| &node.host);
        self.called(above, (&caller.key?, host))
    }

    /// The same, as one with that key calls it from that machine.
    fn called(
        &self,
        (post, of): (PostId, &Post),
        (caller, from): (&PublicKey, Option<&Host>),
    ) -> Option<Ancestor> {
        let called = of.key?;
        let is_near = self.nodes.get(&of.node).map(|node| &node.host) == from;
        let reaches = |address: &&SocketAddr| is_near || !address.ip().is_loopback();
        let addresses: Vec<_> = of.addresses.iter().filter(reaches).copied().collect();
        let secret = self.secret(caller, Some(&called));
        (!addresses.is_empty()).then_some(Ancestor { post, addresses, key: called, secret })
    }

    /// The front as one with that key calls it.
    fn front_for(&self, caller: &PublicKey) -> Ancestor {
        let (addresses, key, secret) = (Vec::new(), self.public, self.secret(caller, None));
        Ancestor { post: PostId::FRONT, addresses, key, secret }
    }

    /// Whom a member calls to watch it, and who may call it for that; none where nobody has told its key.
    fn neighbours(&self, id: PostId, watches: &Watches) -> Neighbours {
        let key = |of: PostId| self.post(of).map_or(Some(self.public), |post| post.key);
        // No number is that of two posts, whatever nodes report.
        let own = key(id).expect("whoever is told its neighbours has told its key");
        let host = if id == PostId::FRONT { Some(&self.host) } else { self.host_of(id) };
        let called = |of: &PostId| match self.post(*of) {
            Some(post) => self.called((*of, post), (&own, host)),
            None => Some(self.front_for(&own)),
        };
        let caller = |by: &PostId| {
            let (key, parent) = (key(*by)?, PostId::FRONT);
            let level = self.post(*by).map_or(FRONT_LEVEL, |post| post.level);
            let secret = self.secret(&key, (id != PostId::FRONT).then_some(&own));
            Some(Descendant { post: *by, parent, level, key, secret })
        };
        let (watched, watchers) = watches.of(id);
        (watched.iter().filter_map(called).collect(), watchers.iter().filter_map(caller).collect())
    }

    /// Whom to ring: nodes by name, and the number of their newest orders, where that is another than it was when this was
    /// asked last.
    pub fn take_bells(&mut self) -> Vec<(String, u64)> {
        let rung = self.take_rung().into_iter();
        rung.map(|node| (self.nodes[&node].name.clone(), self.nodes[&node].newest)).collect()
    }

    /// The same nodes.
    pub(crate) fn take_rung(&mut self) -> Vec<PublicKey> {
        let has_news = self.nodes.iter_mut().filter(|(_, node)| node.newest != node.rung);
        let ring = |(key, node): (&PublicKey, &mut Node)| {
            node.rung = node.newest;
            *key
        };
        has_news.map(ring).collect()
    }
}

/// Of each CP all posts below it.
fn below(lineages: &BTreeMap<PostId, Vec<PostId>>) -> BTreeMap<PostId, Vec<PostId>> {
    let mut below = BTreeMap::<_, Vec<_>>::new();
    for (post, lineage) in lineages {
        lineage.iter().for_each(|above| below.entry(*above).or_default().push(*post));
    }
    below
}

impl Node {
    /// These are its orders now.
    fn tell(&mut self, mut orders: Vec<PostOrder>, now_us: u64) {
        orders.sort_unstable_by_key(|order| order.post);
        if self.newest == 0 || self.told != orders {
            self.newest = now_us.max(self.newest + 1);
            self.told = orders;
        }
    }
}
