//! The tree as people see it.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_overlay_core::front::{Front, Post, Settings};
use starfarm_overlay_core::plan::Strategy;
use starfarm_protocol::admin::{OwnTree, PlaceCps, PostInfo, TreeInfo, TreeSummary};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::link::{Counts, DEAD_US};
use starfarm_protocol::orders::{PostId, PostKind, PostState};

use super::{Known, Tree};

impl Tree {
    /// The tree in short.
    pub(crate) fn summary(&self) -> TreeSummary {
        self.known().summary()
    }

    /// All posts, each behind its parent.
    pub(crate) fn info(&self, now_us: u64) -> TreeInfo {
        let known = self.known();
        let (children, counts) = known.of_front;
        let front = PostInfo {
            post: PostId::FRONT,
            kind: PostKind::Fe,
            node: None,
            host: hostname(),
            parent: None,
            job: None,
            depth: 0,
            state: PostState::Joined,
            children: Some(children),
            pid: Some(std::process::id()),
            sent: Some(counts.sent),
            received: Some(counts.received),
            dropped: Some(counts.dropped),
            late: Some(counts.late),
            gaps: Some(counts.gaps),
        };
        let of_tree = |(job, of): (Option<JobId>, &Front)| -> Vec<_> {
            let info = |(id, depth)| Some(info((job, of), (id, depth), of.post(id)?, now_us));
            in_order(of).into_iter().filter_map(info).collect()
        };
        let own = known.forest.own().map(|(job, of)| (Some(job), of));
        let all = std::iter::once((None, known.forest.farm())).chain(own);
        let posts = std::iter::once(front).chain(all.flat_map(of_tree)).collect();
        let own_trees = known.forest.own().map(|(job, of)| OwnTree {
            job,
            state: of.state(),
            depth: of.depth() as u32,
            posts: of.posts().count() as u64,
        });
        TreeInfo { tree: known.summary(), posts, own_trees: own_trees.collect() }
    }
}

impl Known {
    fn summary(&self) -> TreeSummary {
        let front = self.forest.farm();
        let Settings { strategy, fanout, topology } = front.settings();
        let strategy = match (topology, strategy) {
            (Some(_), _) => PlaceCps::Topology,
            (None, Strategy::Average) => PlaceCps::Average,
            (None, Strategy::Fuzzy(_)) => PlaceCps::Fuzzy,
        };
        let posts = front.posts();
        let dropped =
            posts.filter_map(|(_, post)| post.standing).map(|(standing, _)| standing.counts.dropped);
        TreeSummary {
            state: front.state(),
            strategy,
            fanout: *fanout,
            depth: front.depth() as u32,
            posts: front.posts().chain(front.roots()).count() as u64 + 1,
            lost: front.lost(),
            dropped: dropped.sum(),
        }
    }
}

/// All posts, each behind its parent, and how deep they are. Those whose parents are not known come last.
fn in_order(front: &Front) -> Vec<(PostId, u32)> {
    let mut below = BTreeMap::<PostId, Vec<PostId>>::new();
    for (id, post) in front.posts().chain(front.roots()) {
        below.entry(parent_of(post)).or_default().push(id);
    }
    let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
    let mut visit = |from: PostId, depth: u32| {
        let mut next = vec![(from, depth)];
        while let Some((id, depth)) = next.pop() {
            if id != PostId::FRONT {
                if !seen.insert(id) {
                    continue;
                }
                order.push((id, depth));
            }
            let children = below.get(&id).into_iter().flatten().rev();
            next.extend(children.map(|child| (*child, depth + 1)));
        }
    };
    visit(PostId::FRONT, 0);
    front.posts().chain(front.roots()).for_each(|(id, _)| visit(id, 1));
    order
}

/// This machine's name.
fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Where it is, or else where it should be.
fn parent_of(post: &Post) -> PostId {
    post.parent_now().or(post.parent).unwrap_or(PostId::FRONT)
}

fn info(
    (job, front): (Option<JobId>, &Front),
    (id, depth): (PostId, u32),
    post: &Post,
    now_us: u64,
) -> PostInfo {
    let standing = post.standing.map(|(standing, _)| standing);
    let count = |of: fn(&Counts) -> u64| standing.map(|standing| of(&standing.counts));
    PostInfo {
        post: id,
        kind: post.kind,
        node: front.node_of(id).map(|(_, name)| name.to_owned()),
        host: front.host_of(id).map(|host| host.name.clone()).unwrap_or_default(),
        parent: post.parent_now(),
        job,
        depth,
        state: match post.standing {
            // What it says by its link is newer than what its node told.
            Some((_, at_us)) if at_us + DEAD_US > now_us => PostState::Joined,
            Some(_) if post.state == PostState::Joined => PostState::Orphan,
            _ => post.state,
        },
        children: standing.map(|standing| standing.children),
        pid: post.pid,
        sent: count(|counts| counts.sent),
        received: count(|counts| counts.received),
        dropped: count(|counts| counts.dropped),
        late: count(|counts| counts.late),
        gaps: count(|counts| counts.gaps),
    }
}
