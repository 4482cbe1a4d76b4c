//! Who watches whom: the front, the CPs and the second root are a ring, so that each of them is called by another machine, by
//! a path of its own, whatever becomes of its parent. Back ends are watched by their parents alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use starfarm_protocol::orders::{Host, PostId};

use super::known::{Front, Neighbours, Post, Role};

/// So many before it a member may watch: one, unless those nearer are lost.
const WATCHED_MAX: usize = 3;
/// So far it is looked back for those on other machines.
const BACK_MAX: usize = 64;

/// Of each member of the ring, whom it watches, the nearest first; and who watches it.
#[derive(Default)]
pub(super) struct Watches {
    watched: BTreeMap<PostId, Vec<PostId>>,
    watchers: BTreeMap<PostId, Vec<PostId>>,
}

impl Watches {
    /// Whom a member watches, and who watches it.
    pub(super) fn of(&self, id: PostId) -> (&[PostId], &[PostId]) {
        let [watched, watchers] = [&self.watched, &self.watchers].map(|all| all.get(&id));
        (watched.map_or(&[], Vec::as_slice), watchers.map_or(&[], Vec::as_slice))
    }
}

impl Front {
    /// Whom the front itself watches, and who may link with it for that.
    pub fn watches(&self) -> &Arc<Neighbours> {
        &self.watches
    }

    /// The ring as it is to be. There is one of the farm: who is in a tree of a job's own is on machines that are watched.
    pub(super) fn ring(&self) -> Watches {
        let mut watches = Watches::default();
        let ring = if self.job.is_none() { self.members() } else { Vec::new() };
        for (at, (id, host)) in ring.iter().enumerate() {
            let back = 1..ring.len().min(BACK_MAX);
            let before = || back.clone().map(|back| ring[(at + ring.len() - back) % ring.len()]);
            // A machine that is lost cannot tell of itself.
            let far = || before().filter(|(_, of)| of != host);
            let watched: Vec<_> = if far().next().is_some() {
                far().take(WATCHED_MAX).map(|(id, _)| id).collect()
            } else {
                before().take(WATCHED_MAX).map(|(id, _)| id).collect()
            };
            for of in &watched {
                watches.watchers.entry(*of).or_default().push(*id);
            }
            watches.watched.insert(*id, watched);
        }
        watches
    }

    /// The members in their order, each after the one that it watches, and their machines. As far as it goes no two of one
    /// machine follow each other. The second root is watched from another machine whatever there is: by the first CP, else by the
    /// front.
    fn members(&self) -> Vec<(PostId, &Host)> {
        let takes_part = |post: &Post| {
            let is_placed = |parent| parent == PostId::FRONT || self.posts.contains_key(&parent);
            post.key.is_some() && !post.addresses.is_empty() && post.parent.is_some_and(is_placed)
        };
        let host = |post: &Post| self.nodes.get(&post.node).map(|node| &node.host);
        let second = self.roots.role(Role::Second).filter(|(_, post)| takes_part(post));
        let second = second.and_then(|(id, post)| Some((id, host(post)?)));
        let mut so_far = BTreeMap::<&Host, usize>::new();
        let mut cps = Vec::new();
        for (id, post) in self.posts.iter().filter(|(_, post)| post.level > 0 && takes_part(post)) {
            let Some(host) = host(post) else { continue };
            let nth = so_far.entry(host).or_default();
            cps.push((*nth, second.is_some_and(|(_, of)| of == host), *id, host));
            *nth += 1;
        }
        cps.sort_unstable();
        let is_first = cps.first().is_some_and(|(_, is_near, ..)| !is_near);
        let cps = cps.into_iter().map(|(_, _, id, host)| (id, host));
        let (first, last) = if is_first { (second, None) } else { (None, second) };
        [(PostId::FRONT, &self.host)].into_iter().chain(first).chain(cps).chain(last).collect()
    }
}
