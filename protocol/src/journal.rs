//! The journal's bytes: records, the frames that carry them, and segments. No files live here: the
//! scheduler writes them, `starfarm audit` and the simulator read them, all by this one description
//! (`docs/journal.md`).

mod codec;
pub mod frame;
pub mod record;
pub mod segment;
pub mod synced;

pub use record::Record;
