//! Links between the posts of a tree: sealed TCP streams, all those of a process on one thread. What is said on them is
//! for `starfarm-overlay-core` and whoever uses this.
//!
//! | file | holds |
//! | --- | --- |
//! | `link` | one link: its handshake and its bytes |
//! | `host` | which machine this is |
//! | `strangers` | who has called and not yet shaken hands |
//! | `reactor` | the thread's loop: what happened on which link |
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod host;
mod link;
mod reactor;
mod strangers;

pub use host::this_host;
pub use mio::Waker;
pub use reactor::{Happening, Reactor, Watch};
pub use starfarm_overlay_core::children::{Children, Said};
pub use starfarm_overlay_core::pipe::{End, LinkId};
pub use strangers::network;
