//! The outputs of a job's units that passed, in the order of the units: the last run of each that counts. The file has them
//! as they came, so their places are put in order first.

use std::io;
use std::path::Path;

use starfarm_protocol::outputs::{Kind, Owner, Piece, Stored};
use starfarm_protocol::packed::Found;

use super::kept::Snapshot;
use super::walk::{Step, Walk};
use crate::store::packed::PackedFile;
use crate::store::sorted::{Sorted, Sorter};

/// A unit, the record's sequence, where its batch begins, and which of the batch's outputs it is.
const PLACE_BYTES: usize = 16 + 8 + 8 + 4;

/// Outputs by unit.
pub(crate) struct InOrder {
    owner: Owner,
    file: Option<PackedFile>,
    places: Sorted<PLACE_BYTES>,
}

#[derive(Clone, Copy)]
struct Place {
    unit: u128,
    sequence: u64,
    at: u64,
    index: u32,
}

impl Place {
    fn to_bytes(self) -> [u8; PLACE_BYTES] {
        let mut bytes = [0; PLACE_BYTES];
        bytes[..16].copy_from_slice(&self.unit.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.at.to_be_bytes());
        bytes[32..].copy_from_slice(&self.index.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; PLACE_BYTES]) -> Self {
        let number = |at: usize| u64::from_be_bytes(*bytes[at..].first_chunk().expect("it is longer"));
        let index = u32::from_be_bytes(*bytes[32..].first_chunk().expect("it is longer"));
        let unit = u128::from_be_bytes(*bytes.first_chunk().expect("it is longer"));
        Self { unit, sequence: number(16), at: number(24), index }
    }
}

impl InOrder {
    /// Puts the outputs of a snapshot in order, by files in `dir`. `goes_on` is asked at each step.
    ///
    /// # Errors
    /// A file cannot be read or written, or it does not go on.
    pub(crate) fn of(
        snapshot: &Snapshot,
        dir: &Path,
        mut goes_on: impl FnMut() -> io::Result<()>,
    ) -> io::Result<Self> {
        let (owner, file, again) = snapshot.parts();
        let mut sorter = Sorter::new(dir)?;
        for step in file.iter().flat_map(|file| Walk::new(file.scan(0), owner, 0)) {
            goes_on()?;
            let Step::Batch(entry, batch) = step? else { continue };
            let Some(file) = file.as_ref().filter(|_| batch.kind == Kind::Outputs) else { continue };
            let pieces = file.pieces(&owner, &entry, &batch)?;
            let counting = (0_u32..).zip(pieces).filter_map(|(index, piece)| match piece {
                Piece::Whole(Stored { unit, outcome, .. })
                    if outcome.failed.is_none() && again.last(unit) < batch.sequence =>
                {
                    Some(Place { unit, sequence: batch.sequence, at: entry.at, index }.to_bytes())
                }
                _ => None,
            });
            sorter.add(counting)?;
        }
        let places = sorter.finish(None, goes_on)?;
        Ok(Self { owner, file: file.clone(), places })
    }

    /// Shows `visit` the outputs one by one.
    pub(crate) fn each<E: From<io::Error>>(
        &self,
        mut visit: impl FnMut(Stored) -> Result<(), E>,
    ) -> Result<(), E> {
        // The last run of a unit comes last, and is the one that counts.
        let mut before: Option<Place> = None;
        for page in self.places.pages() {
            for place in page?.iter().map(Place::from_bytes) {
                if let Some(last) = before.replace(place).filter(|last| last.unit != place.unit) {
                    visit(self.read(last)?)?;
                }
            }
        }
        before.map_or(Ok(()), |last| visit(self.read(last)?))
    }

    fn read(&self, place: Place) -> io::Result<Stored> {
        let damaged = || {
            io::Error::other(format!("the output of unit {} is damaged on the scheduler's disk", place.unit))
        };
        let file = self.file.as_ref().ok_or_else(damaged)?;
        let Some(Found::Entry(entry)) = file.scan(place.at).next().transpose()? else {
            return Err(damaged());
        };
        let batch = self.owner.batch(&entry.label).ok_or_else(damaged)?;
        match file.pieces(&self.owner, &entry, &batch)?.into_iter().nth(place.index as usize) {
            Some(Piece::Whole(stored)) if stored.unit == place.unit => Ok(stored),
            _ => Err(damaged()),
        }
    }
}
