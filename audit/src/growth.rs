//! Jobs whose units a program names: what its records say of them.

use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::journal::record::GrownChunk;

/// What is known of the units of such a job.
#[derive(Debug)]
pub(crate) struct Growth {
    /// The contents that have their values.
    pub(crate) contents: Vec<ContentHash>,
    /// More units may follow.
    pub(crate) is_open: bool,
}

impl Growth {
    /// That of a job of `units` units: of none, where it has all of them from the start.
    pub(crate) fn of(units: u128) -> Option<Self> {
        (units == 0).then_some(Self { contents: Vec::new(), is_open: true })
    }

    /// Units of `chunks` follow; how many they are. None where they cannot be.
    pub(crate) fn grow(&mut self, chunks: &[GrownChunk], end: bool) -> Option<u128> {
        if !self.is_open || chunks.iter().any(|chunk| chunk.units == 0) {
            return None;
        }
        self.is_open = !end;
        self.contents.extend(chunks.iter().map(|chunk| chunk.hash));
        Some(chunks.iter().map(|chunk| u128::from(chunk.units)).sum())
    }
}
