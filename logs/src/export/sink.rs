//! What every format is written by.

use std::io;

use crate::Item;

/// What writes a format.
pub(super) trait Sink {
    /// Writes what comes of an item.
    fn item(&mut self, item: &Item) -> io::Result<()>;
}
