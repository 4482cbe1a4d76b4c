//! Jobs whose units a program names while they run: what is known of them so far. The program itself, and what it says, is
//! the rim's business; here a batch is a list of contents by their hashes.

use starfarm_protocol::ids::JobId;
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::record::GrownChunk;

/// The units of a job as far as its program has named them.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Growth {
    pub(crate) chunks: Vec<GrownChunk>,
    /// `ends[i]` is the end of chunk i.
    pub(crate) ends: Vec<u128>,
    /// What the program said last, as JSON.
    pub(crate) state: String,
    /// More units may follow.
    pub(crate) is_open: bool,
    /// What the units cost that were measured lately.
    pub(crate) measured_cost: f64,
}

impl Default for Growth {
    fn default() -> Self {
        let state = "null".to_owned();
        Self { chunks: Vec::new(), ends: Vec::new(), state, is_open: true, measured_cost: 0.0 }
    }
}

impl Growth {
    /// Units behind those that it had; their new end. None where no number counts them.
    pub(crate) fn units_with(&self, chunks: &[GrownChunk]) -> Option<u128> {
        let before = self.ends.last().copied().unwrap_or(0);
        chunks.iter().try_fold(before, |end, chunk| end.checked_add(chunk.units.into()))
    }

    /// Has these units, too.
    pub(crate) fn take(&mut self, chunks: &[GrownChunk], state: &str, end: bool) {
        for chunk in chunks {
            let before = self.ends.last().copied().unwrap_or(0);
            self.chunks.push(*chunk);
            self.ends.push(before + u128::from(chunk.units));
        }
        self.is_open = !end;
        self.state = if end { "null".to_owned() } else { state.to_owned() };
    }

    pub(crate) fn chunk_of(&self, unit: u128) -> Option<usize> {
        Some(self.ends.partition_point(|end| *end <= unit)).filter(|at| *at < self.chunks.len())
    }

    /// What `unit` costs beside the others; of one that is not known yet, what the last known one does.
    pub(crate) fn cost(&self, unit: u128) -> f64 {
        let chunk = self.chunk_of(unit).map_or_else(|| self.chunks.last(), |at| self.chunks.get(at));
        chunk.map_or(1.0, |chunk| chunk.cost as f64 / 1e6)
    }

    /// No more units follow.
    pub(crate) fn close(&mut self) {
        self.is_open = false;
        self.state = "null".to_owned();
    }

    /// A result of units from `unit` on was measured.
    pub(crate) fn measured(&mut self, unit: u128) {
        let cost = self.cost(unit);
        self.measured_cost = if self.measured_cost == 0.0 {
            cost
        } else {
            self.measured_cost + (cost - self.measured_cost) / 4.0
        };
    }

    /// The record that a checkpoint has of it.
    pub(crate) fn record(&self, job: JobId) -> Record {
        Record::Grown { job, chunks: self.chunks.clone(), state: self.state.clone(), end: !self.is_open }
    }
}
