//! Why something could not be saved, and whether to try again.

use std::io;

use crate::descriptors::are_scarce;

/// Why the disk, or sled and what it holds, cannot be used.
#[derive(PartialEq, Debug)]
pub(crate) struct Trouble {
    pub(crate) words: String,
    /// The disk has no room.
    pub(crate) full: bool,
    /// It is no fault of the disk: the next checkpoint may well be saved.
    pub(crate) passing: bool,
}

impl Trouble {
    /// Of that kind.
    pub(crate) fn passing(words: String) -> Self {
        Self { words, full: false, passing: true }
    }
}

impl From<sled::Error> for Trouble {
    fn from(error: sled::Error) -> Self {
        match error {
            sled::Error::Io(error) => error.into(),
            error => error.to_string().as_str().into(),
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        let full = error.kind() == io::ErrorKind::StorageFull;
        Self { words: error.to_string(), full, passing: are_scarce(&error) }
    }
}

impl From<&str> for Trouble {
    fn from(words: &str) -> Self {
        Self { words: words.to_owned(), full: false, passing: false }
    }
}
