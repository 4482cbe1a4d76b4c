//! What the monitoring tree decides, pure: no socket, no clock, no chance.
//!
//! | file | holds |
//! | --- | --- |
//! | `plan` | where the processes of a tree stand, and who is attached to whom |
//! | `front` | what the scheduler knows of its tree, and wants of its nodes |
//! | `forest` | the fronts of all trees of a scheduler: the farm's, and those that jobs have of their own |
//! | `sending`, `receiving` | what a post keeps for its parent; what it has heard of its children, and what never came |
//! | `lanes`, `pipe` | what waits to leave by a link; one end of a link, but for its socket |
//! | `place`, `children`, `clock`, `member` | whom a post calls; who calls it; what time it is at the farm; the life of a post among these |
//! | `closing` | the end of a post that nobody wants any more |
//! | `posts`, `calls` | which posts a worker has, and how far they are; when it asks which it should have |
//! | `ring` | who watches whom among the front, the CPs and the second root, beside the tree |
//! | `parts` | what all posts do together: who has not said its part yet |
//!
//! Sockets live in `starfarm-overlay`, what agents measure in `starfarm-agent-core`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod calls;
pub mod children;
mod clock;
pub mod closing;
pub mod forest;
pub mod front;
pub mod lanes;
pub mod member;
pub mod parts;
pub mod pipe;
mod place;
pub mod plan;
pub mod posts;
pub mod receiving;
pub mod ring;
pub mod sending;
