//! Links between the posts of a tree: sealed TCP streams, all those of a process on one thread. What is said on them is
//! for `starfarm-overlay-core` and whoever uses this.
//!
//! | file | holds |
//! | --- | --- |
//! | `link` | one link: its handshake, its lanes, its bytes |
//! | `children` | who of those that link is a child, and what they have said |
//! | `host` | which machine this is |
//! | `reactor` | the thread's loop: what happened on which link |
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod children;
mod host;
mod link;
mod reactor;

pub use children::{Children, Said};
pub use host::this_host;
pub use mio::Waker;
pub use reactor::{Happening, LinkId, Reactor, Watch};
