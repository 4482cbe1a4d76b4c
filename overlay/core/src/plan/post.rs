//! A process of a tree.

/// What a process of a tree is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// The front end, the root.
    Fe,
    /// A communication process with CPs below it.
    Cp,
    /// A communication process with back ends below it.
    Ibe,
    /// A back end, which measures.
    Be,
}

/// A process of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Post {
    /// What it is.
    pub kind: Kind,
    /// Where it stands, an index into [`super::Plan::hosts`]; none for the front end, which stands with the scheduler.
    pub host: Option<usize>,
    /// Index of its parent in [`super::Plan::posts`]; none for the front end. A parent stands before its children.
    pub parent: Option<usize>,
}
