//! A content of lines, each the value of one unit.

use std::sync::Arc;

/// A content, and where its lines end.
pub(crate) struct Lines {
    content: Arc<[u8]>,
    /// Offset of each `\n`.
    ends: Vec<usize>,
}

impl Lines {
    pub(crate) fn new(content: Arc<[u8]>) -> Self {
        let ends = content.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
        Self { content, ends }
    }

    /// How many there are; bytes after the last `\n` make one that nobody counts.
    pub(crate) fn count(&self) -> u128 {
        self.ends.len() as u128 + u128::from(!self.content.ends_with(b"\n"))
    }

    /// One that ends with `\n`, without it.
    pub(crate) fn line(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before] + 1);
        &self.content[start..self.ends[number]]
    }
}
