//! Torture: a farm of real processes behind a bad network, whose processes are killed, stopped and started
//! again by a seed while a job runs. At the end everything that can be seen from outside must be exact.
//!
//! | file | holds |
//! | --- | --- |
//! | `plan` | how much is to go wrong, and the faults that follow from a seed |
//! | `stage` | the processes, the network between them, and commands to them |
//! | `work` | the job, and what must have come out of it |
//! | `promise` | commands that were acknowledged, and whether they are in force after a restart |
//! | `director` | the course of a run: what happens when |
//! | `restart` | how long a farm is without its scheduler |
//! | `report` | what is told of a run |
//! | `trees` | the monitoring trees, under kills and under loss |
//!
//! A violation panics with all that is known. Nothing here looks into the farm's files but by `starfarm
//! audit`.

mod director;
mod plan;
mod promise;
mod report;
mod restart;
mod stage;
mod trees;
mod work;

pub use director::run;
pub use plan::{Kind, Plan};
pub use report::{Report, middle};
pub use restart::{RestartReport, Restarts, restarts};
pub use stage::Stage;
pub use trees::{Kills, KillsReport, kills, loss, own_tree};

/// A count of units, which travels as text.
pub(crate) fn number(job: &serde_json::Value, key: &str) -> u64 {
    job[key].as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {key} in {job}"))
}
