//! The link keys of posts. No two posts have one: whoever told another's key as its own would be vouched for in its place.

use std::collections::BTreeMap;

use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::orders::PostId;

/// Which post has which key; posts that have another by now may be among them.
#[derive(Default)]
pub(super) struct Keys(BTreeMap<PublicKey, PostId>);

impl Keys {
    /// The post that was the last to have this key.
    pub(super) fn of(&self, key: &PublicKey) -> Option<PostId> {
        self.0.get(key).copied()
    }

    pub(super) fn put(&mut self, key: PublicKey, post: PostId) {
        self.0.insert(key, post);
    }

    /// Forgets those of which this does not hold any more.
    pub(super) fn tidy(&mut self, holds: impl Fn(&PublicKey, PostId) -> bool) {
        self.0.retain(|key, post| holds(key, *post));
    }
}
