//! Why a log cannot be read, where, and what to do.

use std::fmt;
use std::io;

use super::{ELEMENT_BYTES_MAX, NAMESPACE, SNAPSHOT_BYTES_MAX, VERSION};

/// A place in a log.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Place {
    /// The file, as its path was given.
    pub file: String,
    /// The line, from 1; 0 for the file as a whole.
    pub line: u64,
    /// Bytes before it.
    pub offset: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.file),
            line => write!(f, "{}, line {line} (byte {})", self.file, self.offset),
        }
    }
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct LogError {
    /// Where.
    pub place: Place,
    /// Why.
    pub fault: Fault,
}

/// What is wrong with a log.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the words of each variant say what it is")]
pub enum Fault {
    #[error("cannot be read: {0}")]
    Io(io::Error),
    #[error("no log is here; name the directory that the scheduler logs to, or one file of it")]
    NoSegments,
    #[error("this is no log of starfarm; its segments are named like 00000001-000001.xml")]
    NotALog,
    /// Another format.
    #[error(
        "this log is `{}` version `{}`, and this program reads `{NAMESPACE}` version {VERSION}: \
         use the starfarm that wrote it",
        namespace.escape_debug(),
        version.escape_debug()
    )]
    Version { namespace: String, version: String },
    /// Its bytes stand for characters otherwise than in UTF-8.
    #[error("it is encoded as `{}`; convert it to UTF-8", .0.escape_debug())]
    Encoding(String),
    #[error(
        "it declares a document type, as no log of starfarm does; remove the declaration if you trust it"
    )]
    Doctype,
    /// It uses an entity that XML does not define.
    #[error(
        "it uses the entity `{}`; a log has none but amp, lt, gt, quot, apos and numbered characters",
        starfarm_events::shown(.0)
    )]
    Entity(String),
    #[error(
        "what begins here is longer than {ELEMENT_BYTES_MAX} bytes, as no entry of a log is; \
         the file is damaged or no log"
    )]
    TooLong,
    #[error("elements are nested as in no log; the file is damaged or no log")]
    TooDeep,
    #[error(
        "a snapshot is larger than {} MiB, as no farm's is; the file is damaged or no log",
        SNAPSHOT_BYTES_MAX >> 20
    )]
    SnapshotTooLarge,
    #[error(
        "not well-formed: {}; the file is damaged here. Move it away to read the other segments",
        on_a_line(.0)
    )]
    Malformed(String),
    /// A segment of another farm than those before it in the same folder.
    #[error(
        "it is of farm {}, those before it are of farm {}; keep the logs of two farms in two directories",
        found.escape_debug(),
        before.escape_debug()
    )]
    OtherFarm { found: String, before: String },
    /// It breaks the schema; only a validation minds.
    #[error("not valid: {0}")]
    Invalid(String),
}

/// What quotes the file: without what would move a terminal's cursor, and no longer than can be read.
fn on_a_line(what: &str) -> String {
    let plain = |char: char| if char.is_control() { '\u{fffd}' } else { char };
    what.chars().take(200).map(plain).collect()
}
