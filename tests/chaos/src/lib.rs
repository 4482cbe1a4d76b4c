//! A bad network on purpose: a proxy that stands between workers and their scheduler and, by a seed,
//! loses, repeats, delays, reorders, replays and damages datagrams, or cuts one direction or TCP streams.
//!
//! | file | holds |
//! | --- | --- |
//! | `random` | the seeded generator |
//! | `faults` | what is to go wrong, and counters of what went wrong |
//! | `lane` | pure: what becomes of the datagrams of one peer in one direction |
//! | `proxy` | sockets and the thread that moves datagrams by what the lanes say |
//! | `stream` | TCP on the same port: passed, refused, stalled, cut |
//!
//! Not here: anything that knows what the datagrams mean.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod faults;
mod lane;
mod proxy;
mod random;
mod stream;

pub use faults::{Counters, Faults};
pub use lane::{Delivery, Lane};
pub use proxy::{Direction, Proxy};
pub use random::Random;
pub use stream::Tcp;
