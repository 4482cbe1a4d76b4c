//! A process of a tree.

use starfarm_protocol::orders::PostKind;

/// A process of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Post {
    /// What it is.
    pub kind: PostKind,
    /// Where it stands, an index into [`super::Plan::hosts`]; none for the front end, which stands with the scheduler.
    pub host: Option<usize>,
    /// Index of its parent in [`super::Plan::posts`]; none for the front end. A parent stands before its children.
    pub parent: Option<usize>,
}
