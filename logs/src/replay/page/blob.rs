//! The arrays of a report as the page reads them: one blob of little-endian numbers, and where each array lies in it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::replay::Report;

/// Where an array lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Place {
    /// Type of its elements.
    #[serde(rename = "type")]
    pub(crate) element: &'static str,
    /// First byte, a multiple of 8.
    pub(crate) offset: usize,
    /// Elements.
    pub(crate) length: usize,
}

/// Arrays in one piece.
#[derive(Debug, Default)]
pub(crate) struct Blob {
    pub(crate) bytes: Vec<u8>,
    pub(crate) arrays: BTreeMap<String, Place>,
}

impl Blob {
    /// All arrays of a report.
    pub(crate) fn of(report: &mut Report) -> Self {
        let mut blob = Self::default();
        for (name, values) in &report.series {
            let values = values.iter().map(|value| value.to_le_bytes());
            blob.array(format!("series/{name}"), "f32", values);
        }
        blob.grids(report);
        blob.states(report);
        blob.tasks(report);
        blob
    }

    fn array<const N: usize>(
        &mut self,
        name: impl Into<String>,
        element: &'static str,
        values: impl IntoIterator<Item = [u8; N]>,
    ) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let offset = self.bytes.len();
        values.into_iter().for_each(|value| self.bytes.extend(value));
        let length = (self.bytes.len() - offset) / N;
        self.arrays.insert(name.into(), Place { element, offset, length });
    }

    fn grids(&mut self, report: &Report) {
        let bins = report.bins;
        let busy = report.nodes.iter().flat_map(|node| {
            let share = |(busy_us, room_us): (&f32, &f32)| {
                [(busy_us / room_us.max(1.0) * 255.0).round().min(255.0) as u8]
            };
            node.busy_bins[..bins].iter().zip(&node.room_bins).map(share)
        });
        self.array("grid/busy", "u8", busy);
        let worst =
            report.nodes.iter().flat_map(|node| node.worst[..bins].iter().map(|shown| [shown.code()]));
        self.array("grid/state", "u8", worst);
    }

    fn states(&mut self, report: &Report) {
        let counts = report.nodes.iter().map(|node| node.changes().len());
        self.array("states/offset", "u32", offsets(counts));
        let changes = || report.nodes.iter().flat_map(|node| node.changes());
        let after = |at_us: &u64| (at_us.saturating_sub(report.from_us) as f64).to_le_bytes();
        self.array("states/at", "f64", changes().map(|(at_us, _)| after(at_us)));
        self.array("states/code", "u8", changes().map(|(_, shown)| [shown.code()]));
    }

    fn tasks(&mut self, report: &mut Report) {
        let packed: Vec<&[u8]> = report.nodes.iter_mut().map(|node| node.runs.bytes()).collect();
        self.array("tasks/offset", "u32", offsets(packed.iter().map(|bytes| bytes.len())));
        let bytes = packed.iter().flat_map(|bytes| bytes.iter().map(|byte| [*byte]));
        self.array("tasks/bytes", "u8", bytes);
    }
}

/// Where each of several parts begins, and where the last one ends.
fn offsets(lengths: impl Iterator<Item = usize>) -> impl Iterator<Item = [u8; 4]> {
    let mut sum = 0_u32;
    let ends = lengths.map(move |length| {
        sum = sum.saturating_add(u32::try_from(length).unwrap_or(u32::MAX));
        sum
    });
    std::iter::once(0).chain(ends).map(u32::to_le_bytes)
}
