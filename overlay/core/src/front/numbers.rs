//! The numbers of posts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use starfarm_protocol::orders::PostId;

/// The numbers of posts, which the fronts of all trees of one scheduler share: no two posts have the same.
#[derive(Clone)]
pub(super) struct Numbers(Arc<AtomicU64>);

impl Numbers {
    pub(super) fn from(first: u64) -> Self {
        Self(Arc::new(AtomicU64::new(first)))
    }

    /// One that no post has.
    pub(super) fn take(&self) -> PostId {
        PostId(self.0.fetch_add(1, Ordering::Relaxed))
    }

    /// The one that is taken next.
    pub(super) fn next(&self) -> PostId {
        PostId(self.0.load(Ordering::Relaxed))
    }
}
