//! What becomes of posts, as the front hears of it: for a log, so that whoever looks on knows why a picture had a gap. Nothing
//! in the tree goes by it, and whoever does not fetch it in time misses some.

use starfarm_protocol::admin::PostLoss;
use starfarm_protocol::orders::{PostId, PostKind};

/// News that wait at most: those of a tree of some thousand posts that is planned anew. More are counted.
const NEWS_MAX: usize = 16_384;

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

/// News that wait, and how many there was no room for.
#[derive(Default)]
pub(super) struct News {
    waiting: Vec<PostNews>,
    missed: u64,
}

impl News {
    pub(super) fn push(&mut self, news: PostNews) {
        if self.waiting.len() < NEWS_MAX {
            self.waiting.push(news);
        } else {
            self.missed += 1;
        }
    }

    /// What waits, and how much more there was no room for; then nothing does.
    pub(super) fn take(&mut self) -> (Vec<PostNews>, u64) {
        let Self { waiting, missed } = std::mem::take(self);
        (waiting, missed)
    }
}
