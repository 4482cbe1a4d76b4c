//! Each attack at full length: a real scheduler with an honest worker of one slot and a job that does not end, watched
//! before, during and after the attack. A row tells what the attack cost, and which of its limits it broke.
//!
//! The honest worker's work is compared with what it did before and after the attack in the same farm. All processes share
//! the cores of one machine, and a busy worker that waits for a core because the wicked one runs there says nothing of
//! the scheduler: time for which the slot's thread was runnable and another had its core (`/proc/PID/task/TID/schedstat`)
//! is not counted, in any of the windows. The row has the plain share beside it.

mod meter;
mod row;
mod stage;

pub use row::Row;
pub use stage::soak;
