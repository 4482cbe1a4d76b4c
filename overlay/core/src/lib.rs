//! What the monitoring tree decides, pure: no socket, no clock, no chance.
//!
//! | file | holds |
//! | --- | --- |
//! | `plan` | where the processes of a tree stand, and who is attached to whom |
//! | `front` | what the scheduler knows of its tree, and wants of its nodes |
//! | `sending`, `receiving` | what a post keeps for its parent; what it has heard of its children, and what never came |
//! | `parts` | what all posts do together: who has not said its part yet |
//! | `lanes` | what waits to leave by a link |
//!
//! Sockets live in `starfarm-overlay`, what agents measure in `starfarm-agent-core`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod front;
pub mod lanes;
pub mod parts;
pub mod plan;
pub mod receiving;
pub mod sending;
