//! Power cuts: the scheduler's state lies on a file system in an image file. At a chosen moment the scheduler
//! is stopped and the image copied as it is, with nothing that was not synced; the farm goes on with the
//! copy. What was acknowledged before must be there.
//!
//! | file | holds |
//! | --- | --- |
//! | `disk` | file systems in image files, mounted and always unmounted |
//! | `cut` | the course of a run |
//! | `full` | a disk that fills up |
//! | `transfers` | the same while files come and go, at the scheduler and at a worker |
//!
//! The seal is off, so that acknowledgements can be read on the way; all of it stays on loopback.

mod cut;
mod disk;
mod full;
mod transfers;

pub use cut::{CutReport, Cuts, cut_power};
pub use disk::{Disk, Lack};
pub use full::{FullReport, fill_disk};
pub use transfers::{TransferReport, fill_transfers};
