//! What is on the disk, in the state directory: who the farm is, its journal and ledger, its checkpoint, contents and
//! outputs; and the disk under it. What the records mean is the core's; when something is written, the threads'.

pub(crate) mod arrivals;
pub(crate) mod blobs;
pub(crate) mod checkpoint;
pub(crate) mod disk;
mod holes;
mod index;
pub(crate) mod journal;
mod keeper;
mod keeper_main;
pub(crate) mod low_water;
pub(crate) mod names;
pub(crate) mod outputs;
mod packed;
mod sorted;
pub(crate) mod state;
mod table;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod transfers;
pub(crate) mod unnamed;

pub(crate) use keeper::Trouble;
pub use keeper_main::keep_if_asked;
