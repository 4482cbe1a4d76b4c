//! What becomes of posts, as the front hears of it: for a log, so that whoever looks on knows why a picture had a gap. Nothing
//! in the tree goes by it, and whoever does not fetch it in time misses some.

use starfarm_protocol::admin::PostLoss;
use starfarm_protocol::link::Standing;
use starfarm_protocol::orders::{PostId, PostKind};

use super::known::Front;

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
    fn push(&mut self, news: PostNews) {
        if self.waiting.len() < NEWS_MAX {
            self.waiting.push(news);
        } else {
            self.missed += 1;
        }
    }
}

impl Front {
    /// What befell posts since this was asked last, and how much more did that there was no room for.
    pub fn take_news(&mut self) -> (Vec<PostNews>, u64) {
        let News { waiting, missed } = std::mem::take(&mut self.news);
        (waiting, missed)
    }

    fn name_of(&self, post: PostId) -> String {
        self.node_of(post).map(|(_, name)| name.to_owned()).unwrap_or_default()
    }

    /// A post has told how it stands; `before` is the parent that it had when it told last.
    pub(super) fn tell_stands(&mut self, standing: Standing, before: Option<PostId>) {
        if before == Some(standing.parent) {
            return;
        }
        let (post, parent) = (standing.post, standing.parent);
        let kind = self.posts[&post].kind;
        let node = self.name_of(post);
        self.news.push(match before {
            None => PostNews::Up { post, kind, node, parent },
            Some(_) => PostNews::Adopted { post, kind, node, parent },
        });
    }

    /// A post, or its process, is lost; it is still among the posts.
    pub(super) fn tell_lost(&mut self, post: PostId, why: PostLoss) {
        let (kind, node) = (self.posts[&post].kind, self.name_of(post));
        self.news.push(PostNews::Lost { post, kind, node, why });
    }
}
