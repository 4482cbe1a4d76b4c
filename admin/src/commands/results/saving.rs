//! A folder that fills as units are counted: the files that they made, and what they wrote where that has names.

use starfarm_protocol::admin::OutputInfo;
use starfarm_protocol::unit_set::UnitSet;

use super::beneath::There;
use super::files::Folder;
use super::pages::{Pages, Seen};
use super::source::Source;
use super::streams::StreamFiles;
use crate::cli::Wanted;
use crate::failure::Failure;

pub(crate) struct Saving {
    pub(super) folder: Folder,
    streams: Option<StreamFiles>,
    /// Units of which all is in the folder, by our hand.
    written: UnitSet,
    /// Files for what units wrote.
    pub(super) files: u64,
    /// Files that units made.
    pub(super) made: u64,
}

impl Saving {
    pub(super) fn new(folder: Folder, streams: Option<StreamFiles>) -> Self {
        Self { folder, streams, written: UnitSet::default(), files: 0, made: 0 }
    }

    /// Writes what there is of a run that counts. What is lost on the scheduler's disk is left to [`Saving::settle`].
    pub(super) fn take(&mut self, source: &mut dyn Source, output: &mut OutputInfo) -> Result<(), Failure> {
        let (lo, hi) = (output.unit.0, output.unit.0.saturating_add(output.units.0));
        // The unit ran again since: its last run counts.
        let there = if self.written.overlaps(lo, hi) { There::GivesWay } else { There::Stays };
        let mut is_whole = true;
        if let Some(streams) = &self.streams {
            streams.fill(source, output)?;
            self.files += streams.write(&self.folder, output, there)?;
            is_whole = output.stdout.lost.or(output.stderr.lost).is_none();
        }
        for files in &mut output.files {
            files.lost = self.folder.take(source, files, there)?;
            is_whole &= files.lost.is_none();
            // Those of another run are in the places of these.
            if files.lost.is_none() && there == There::Stays {
                self.made += u64::from(files.count);
            }
        }
        match is_whole {
            true => self.written.insert(lo, hi),
            false => self.written.remove(lo, hi),
        }
        Ok(())
    }

    /// Goes through those of `units` that are not in the folder, now that the job has ended, and says what cannot be had.
    pub(super) fn settle(&mut self, source: &mut dyn Source, units: &UnitSet) -> Result<Seen, Failure> {
        let rest = units.without(&self.written);
        if rest.is_empty() {
            return Ok(Seen::default());
        }
        let (folder, streams) = (&self.folder, &self.streams);
        let pages = Pages::new(source, Wanted::default())?.only(Some(rest));
        let files = &mut self.files;
        pages.into_folder(Some(folder)).outputs(|output| {
            if let Some(streams) = streams {
                *files += streams.write(folder, &output, There::Stays)?;
            }
            Ok(())
        })
    }
}
