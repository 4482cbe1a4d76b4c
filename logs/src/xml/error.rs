//! Why a log cannot be read, where, and what to do.

use std::fmt;
use std::io;

use super::{ELEMENT_BYTES_MAX, NAMESPACE, SNAPSHOT_BYTES_MAX, VERSION};

/// A place in a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
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
#[derive(Debug)]
pub struct LogError {
    /// Where.
    pub place: Place,
    /// Why.
    pub fault: Fault,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.fault)
    }
}

impl std::error::Error for LogError {}

/// What is wrong with a log.
#[derive(Debug)]
#[allow(missing_docs, reason = "the variants say what their fields are")]
pub enum Fault {
    /// The file cannot be read.
    Io(io::Error),
    /// A folder without a log.
    NoSegments,
    /// Not a log of starfarm at all.
    NotALog,
    /// Another format.
    Version { namespace: String, version: String },
    /// Its bytes stand for characters otherwise than in UTF-8.
    Encoding(String),
    /// It declares a document type.
    Doctype,
    /// It uses an entity that XML does not define.
    Entity(String),
    /// An element is longer than any of ours.
    TooLong,
    /// Elements are nested deeper than any of ours.
    TooDeep,
    /// A snapshot is larger than any farm's.
    SnapshotTooLarge,
    /// It is not well-formed.
    Malformed(String),
    /// A segment of another farm than those before it in the same folder.
    OtherFarm { found: String, before: String },
    /// It breaks the schema; only a validation minds.
    Invalid(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Io(e) => write!(f, "cannot be read: {e}"),
            Fault::NoSegments => {
                f.write_str("no log is here; name the directory that the scheduler logs to, or one file of it")
            }
            Fault::NotALog => {
                f.write_str("this is no log of starfarm; its segments are named like 00000001-000001.xml")
            }
            Fault::Version { namespace, version } => write!(
                f,
                "this log is `{}` version `{}`, and this program reads `{NAMESPACE}` version {VERSION}: \
                 use the starfarm that wrote it",
                namespace.escape_debug(),
                version.escape_debug()
            ),
            Fault::Encoding(encoding) => {
                write!(f, "it is encoded as `{}`; convert it to UTF-8", encoding.escape_debug())
            }
            Fault::Doctype => {
                f.write_str("it declares a document type, as no log of starfarm does; remove the declaration if you trust it")
            }
            Fault::Entity(name) => write!(
                f,
                "it uses the entity `{}`; a log has none but amp, lt, gt, quot, apos and numbered characters",
                starfarm_events::shown(name)
            ),
            Fault::TooLong => write!(
                f,
                "what begins here is longer than {ELEMENT_BYTES_MAX} bytes, as no entry of a log is; \
                 the file is damaged or no log"
            ),
            Fault::TooDeep => f.write_str("elements are nested as in no log; the file is damaged or no log"),
            Fault::SnapshotTooLarge => write!(
                f,
                "a snapshot is larger than {} MiB, as no farm's is; the file is damaged or no log",
                SNAPSHOT_BYTES_MAX >> 20
            ),
            Fault::Malformed(what) => write!(
                f,
                "not well-formed: {}; the file is damaged here. Move it away to read the other segments",
                on_a_line(what)
            ),
            Fault::OtherFarm { found, before } => write!(
                f,
                "it is of farm {}, those before it are of farm {}; keep the logs of two farms in two directories",
                found.escape_debug(),
                before.escape_debug()
            ),
            Fault::Invalid(what) => write!(f, "not valid: {what}"),
        }
    }
}

/// What quotes the file: without what would move a terminal's cursor, and no longer than can be read.
fn on_a_line(what: &str) -> String {
    let plain = |char: char| if char.is_control() { '\u{fffd}' } else { char };
    what.chars().take(200).map(plain).collect()
}
