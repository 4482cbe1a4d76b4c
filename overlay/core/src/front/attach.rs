//! How posts get parents, however these were chosen: the posts of a level, and who hangs below whom.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::orders::{Host, PostId, PostKind};

use super::known::{Front, Machine, Post};

impl Front {
    /// One more CP on a machine: on the node with the fewest posts.
    pub(super) fn add_cp(&mut self, machine: &Machine, kind: (PostKind, u8), now_us: u64) -> Option<PostId> {
        let takes = |node: &&PublicKey| self.nodes[*node].takes_cps(self.posts_max(), now_us);
        let node = machine.nodes.iter().filter(takes).min_by_key(|node| self.nodes[*node].posts.len());
        node.copied().map(|node| self.add(node, kind, now_us))
    }

    /// CPs of a level.
    pub(super) fn level(&self, level: u8) -> impl Iterator<Item = (PostId, &Post)> {
        self.posts.iter().filter(move |(_, post)| post.level == level).map(|(id, post)| (*id, post))
    }

    pub(super) fn level_mut(&mut self, level: u8) -> impl Iterator<Item = &mut Post> {
        self.posts.values_mut().filter(move |post| post.level == level)
    }

    pub(super) fn attach_level(&mut self, level: u8, parents: &[(PostId, Host)], fan: usize) {
        let mut has: BTreeMap<PostId, usize> = parents.iter().map(|(id, _)| (*id, 0)).collect();
        let mut waiting = Vec::new();
        for (id, post) in self.posts.iter_mut().filter(|(_, post)| post.level == level) {
            match post.parent.and_then(|parent| has.get_mut(&parent)) {
                Some(has) if *has < fan => *has += 1,
                _ => waiting.push(*id),
            }
        }
        // On the same machine first, and then with whoever has fewest.
        for (parent, host) in parents {
            let is_near = |child: &PostId| {
                self.host_of(*child) == Some(host) && !self.posts[child].avoids(&self.posts[parent].node)
            };
            let room = fan.saturating_sub(has[parent]);
            let near: Vec<_> = waiting.iter().filter(|child| is_near(child)).take(room).copied().collect();
            has.entry(*parent).and_modify(|has| *has += near.len());
            for child in near {
                self.posts.entry(child).and_modify(|post| post.parent = Some(*parent));
                waiting.retain(|waits| *waits != child);
            }
        }
        let mut least: BTreeSet<_> = has.into_iter().map(|(parent, has)| (has, parent)).collect();
        for child in waiting {
            let fits = |(_, parent): &&(usize, PostId)| !self.posts[&child].avoids(&self.posts[parent].node);
            let found = least.iter().find(fits).copied();
            if let Some((has, parent)) = found {
                least.remove(&(has, parent));
                least.insert((has + 1, parent));
            }
            // Who reaches none of them reaches the front.
            let parent = found.map_or(PostId::FRONT, |(_, parent)| parent);
            self.posts.entry(child).and_modify(|post| post.parent = Some(parent));
        }
    }
}

/// How far above the lowest each process of a tree is, those having `lowest`; the parents of all are given, each before its
/// children.
pub(super) fn heights(parents: &[Option<usize>], lowest: u8) -> Vec<u8> {
    let mut heights = vec![lowest; parents.len()];
    for (at, parent) in parents.iter().enumerate().rev() {
        if let Some(parent) = *parent {
            heights[parent] = heights[parent].max(heights[at].saturating_add(1));
        }
    }
    heights
}
