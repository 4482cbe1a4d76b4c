//! The audit: what a farm computed, derived anew from its ledger and journal alone (R7). It reads the same
//! records as the scheduler and shares nothing else with it: no coverage, no counters, no checkpoint. Where
//! the scheduler keeps books as it goes, this sorts and sweeps what was written down. The hits of a search it computes
//! anew. Where it is asked to, it also looks whether the outputs that there must be are on the disk and whole. Nothing is opened for
//! writing and no lock is taken, so it can look at a farm that runs, has stopped or is broken.
//!
//! Here: bytes to verdicts. How a verdict is printed is the command line's matter.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod account;
mod books;
mod certificate;
mod contents;
mod files;
mod growth;
mod hits;
mod merged;
mod outputs;
mod owed;
mod report;
mod tiling;
mod time;
mod trust;

pub use account::Place;
pub use books::Books;
pub use certificate::{Certificate, NodeShare, canonical};
pub use files::directory;
pub use report::{JobReport, LostContent, LostMerged, LostOutput, Outputs, Report, Violation};
pub use trust::TrustShare;
