//! The log as XML: one entry a line, in segments that each open with a snapshot of the farm. Format: `docs/log.md`;
//! schema: `logs/schema/starfarm-log-1.xsd`. What is made of a log lives elsewhere.

mod encode;
mod error;
mod folder;
mod item;
mod leftover;
mod open;
mod reader;
mod sense;
mod source;
mod text;
mod utc;
mod validate;
mod writer;

use starfarm_events::TEXT_BYTES_MAX;

pub use error::{Fault, LogError, Place};
pub use item::{Closing, Item, Note, NoteKind, Opening};
pub use open::{Log, open};
pub use reader::LogReader;
pub(crate) use utc::parse as utc_us;
pub use utc::{Utc, duration};
pub use validate::{Validation, validate};
pub use writer::{Limits, LogWriter};

/// The namespace of all elements.
pub const NAMESPACE: &str = "urn:starfarm:log:1";
/// The version of the format.
pub const VERSION: u32 = 1;
/// An element that is longer is no entry of a log: [`TEXT_BYTES_MAX`] and the number of fields bound ours far below.
pub const ELEMENT_BYTES_MAX: usize = 1 << 20;
// Thirty texts, six characters of the file for each byte.
const _: () = assert!(30 * 6 * TEXT_BYTES_MAX < ELEMENT_BYTES_MAX);
/// A snapshot that is larger is no farm's: room for half a million nodes.
pub const SNAPSHOT_BYTES_MAX: u64 = 256 << 20;

/// The XML schema of a closed segment.
pub fn schema() -> &'static str {
    include_str!("../schema/starfarm-log-1.xsd")
}
