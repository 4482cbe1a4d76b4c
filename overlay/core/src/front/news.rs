//! What becomes of posts, as the front hears of it: for a log, so that whoever looks on knows why a picture had a gap. Nothing
//! in the tree goes by it, and whoever does not fetch it in time misses some.

use std::collections::BTreeMap;

use starfarm_protocol::admin::PostLoss;
use starfarm_protocol::orders::{PostId, PostKind};

/// News that wait at most: those of a tree of some thousand posts that is planned anew. More are counted.
const NEWS_MAX: usize = 16_384;
/// The same is told of a post so often in a row, and then once in so long: a post may end and come back at once, but whoever
/// does so all the time fills a log with it.
const IN_A_ROW: u64 = 30;
const APART_US: u64 = 1_000_000;

/// Something befell a post.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PostNews {
    /// It has told that it has a parent, for the first time since its process started.
    Up {
        /// The post.
        post: PostId,
        /// What it is for.
        kind: PostKind,
        /// The name of the node that has it.
        node: String,
        /// Whose child it is.
        parent: PostId,
    },
    /// It has another parent than before: it was taken in, has gone back, or was moved.
    Adopted {
        /// The post.
        post: PostId,
        /// What it is for.
        kind: PostKind,
        /// The name of the node that has it.
        node: String,
        /// Whose child it is now.
        parent: PostId,
    },
    /// It is not there any more, or its process is not.
    Lost {
        /// The post.
        post: PostId,
        /// What it was for.
        kind: PostKind,
        /// The name of the node that had it.
        node: String,
        /// Why.
        why: PostLoss,
    },
}

impl PostNews {
    /// What befell which post.
    fn about(&self) -> (PostId, u8) {
        match self {
            Self::Up { post, .. } => (*post, 0),
            Self::Adopted { post, .. } => (*post, 1),
            Self::Lost { post, .. } => (*post, 2),
        }
    }
}

/// News that wait, and how many there was no room for.
#[derive(Default)]
pub(super) struct News {
    waiting: Vec<PostNews>,
    missed: u64,
    /// What was told of each post lately, and when it would have been told last if all of it was [`APART_US`] apart.
    told_us: BTreeMap<(PostId, u8), u64>,
}

impl News {
    pub(super) fn push(&mut self, news: PostNews) {
        if self.waiting.len() < NEWS_MAX {
            self.waiting.push(news);
        } else {
            self.missed += 1;
        }
    }

    /// What waits, and how much more there was no room for; then nothing does. Of a post that befalls the same again and again
    /// only some is told: a node could fill a log with it.
    pub(super) fn take(&mut self, now_us: u64) -> (Vec<PostNews>, u64) {
        // Of a clock that was set back nothing is kept.
        let latest_us = now_us + IN_A_ROW * APART_US;
        self.told_us.retain(|_, at_us| *at_us > now_us && *at_us <= latest_us);
        let mut missed = std::mem::take(&mut self.missed);
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|news| {
            let at_us = self.told_us.entry(news.about()).or_insert(now_us);
            let is_told = *at_us + APART_US <= latest_us;
            *at_us += if is_told { APART_US } else { 0 };
            missed += u64::from(!is_told);
            is_told
        });
        (waiting, missed)
    }
}
