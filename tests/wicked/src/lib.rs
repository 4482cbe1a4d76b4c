//! A worker that does what a worker must not do: it has a rightful key, and nothing else about it is right. For tests of
//! a scheduler over real sockets, and to try one by hand.
//!
//! | file | holds |
//! | --- | --- |
//! | `member` | sessions with the scheduler: what any worker does |
//! | `hand` | a worker that says what a test tells it to say, for the sentences of `docs/protocol.md` |
//! | `wicked` | the worker: it joins, takes offers and beats like a good one |
//! | `attack` | what it does beside that |
//! | `beside` | what it does by other ways at the same time: contents that it stores, handshakes |
//! | `soak` | each attack at full length, beside an honest worker, and what that costs |

mod attack;
mod beside;
mod hand;
mod member;
pub mod soak;
mod wicked;

pub use attack::Attack;
pub use hand::{Hand, entry, packed, passed};
pub use member::Member;
pub use wicked::{Report, Wicked};
