//! UDP in batches: one system call for up to [`BATCH`] datagrams, both ways, on Linux. Scheduler and
//! worker share it. What the bytes mean, and whether they are sealed, is not known here. Beside that, lines on standard
//! error that nobody waits for, folders that others on the machine cannot read, and removing what programs left.

#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod plain;
mod private;
mod receive;
mod remove;
mod send;
mod socket;
mod stderr;

pub use plain::PlainReceiver;
pub use private::{close, closed, nobody_elses, private_folder, state_folder, unchanged_by_others};
pub use receive::Receiver;
pub use remove::remove_all;
pub use send::Sender;
pub use socket::{bind, keep_alive, receive_buffer_datagrams};
pub use stderr::{lines_dropped, say};

/// Datagrams of one system call.
pub const BATCH: usize = 64;
/// Bytes of a receive buffer: more than any datagram of ours, so that one that is too long shows as such.
pub const BUFFER_BYTES: usize = 2_048;
