//! One merge: the outputs of a job's units, in their order, go into what makes one result of them. Memory does not grow with
//! the job: outputs are read one by one, and long ones in pieces.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use starfarm_net::remove_all;
use starfarm_protocol::admin::{MergeOutcome, MergedFile};
use starfarm_protocol::archive::{self, ArchiveError};
use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::outputs::Stored;
use starfarm_protocol::spec::{Fold, Merge, is_inside};
use starfarm_protocol::unit_set::UnitSet;
use starfarm_protocol::wire::{Files, Stream};

use super::fold::Folding;
use super::goes_on::GoesOn;
use super::merges::Merges;
use super::program;
use crate::host_program::{Stopped, created};
use crate::store::blobs::Blobs;
use crate::store::disk::{sync_folder, unnamed};
use crate::store::outputs::{InOrder, OutputStore};

/// Bytes of a content that are read at once.
const PIECE_BYTES: usize = 256 << 10;

/// Where the results of a job are.
pub(crate) struct Results<'a> {
    pub(crate) job: JobId,
    /// Units whose results must be there.
    pub(crate) done: UnitSet,
    pub(crate) outputs: &'a Mutex<OutputStore>,
    pub(crate) blobs: &'a Mutex<Blobs>,
}

/// Why a merge came to nothing, in words.
#[derive(Debug)]
struct Failed(String);

impl From<io::Error> for Failed {
    fn from(e: io::Error) -> Self {
        Self(e.to_string())
    }
}

impl From<ArchiveError> for Failed {
    fn from(e: ArchiveError) -> Self {
        Self(e.to_string())
    }
}

/// Merges the results of a job that ended at `ended_us`.
pub(crate) fn merge(
    merges: &Merges,
    results: &Results<'_>,
    (how, ended_us): (&Merge, u64),
    stopped: Stopped<'_>,
) -> MergeOutcome {
    let begun = Instant::now();
    let made = made(merges, results, how, stopped);
    let work = merges.path(results.job, "work");
    let cleared = cleared(&work);
    let (why, output, files) = match made.and_then(|made| cleared.map(|()| made)) {
        Ok((output, files)) => (String::new(), Some(output), files),
        Err(Failed(why)) => {
            // What there is of it is of no use, and may be why there is no room.
            let _ = fs::remove_file(merges.path(results.job, "output"));
            let _ = remove_all(&merges.path(results.job, "files"));
            (why, None, Vec::new())
        }
    };
    MergeOutcome { ended_us, why, seconds: begun.elapsed().as_secs_f64(), output, files }
}

/// What lay there is gone.
fn cleared(path: &Path) -> Result<(), Failed> {
    remove_all(path).map_err(|e| Failed(format!("{} cannot be removed: {e}", path.display())))
}

fn made(
    merges: &Merges,
    results: &Results<'_>,
    how: &Merge,
    stopped: Stopped<'_>,
) -> Result<(MergedFile, Vec<MergedFile>), Failed> {
    let dir = merges.dir()?;
    merges.is_no_result(results.job)?;
    let output = merges.path(results.job, "output");
    let kept = merges.path(results.job, "files");
    cleared(&kept)?;
    let snapshot =
        results.outputs.lock().expect("a panic under the lock ends the process").snapshot(results.job)?;
    let goes_on = GoesOn::new(stopped);
    let in_order = InOrder::of(&snapshot, dir, || goes_on.after_one(0))?;
    let files = match how {
        Merge::Fold(Fold::Concat) => {
            results.concat(&in_order, &output, &goes_on)?;
            Vec::new()
        }
        Merge::Fold(fold) => {
            results.fold(&in_order, *fold, &output, &goes_on)?;
            Vec::new()
        }
        Merge::Program(of) => {
            let work = merges.path(results.job, "work");
            cleared(&work)?;
            fs::create_dir(&work)?;
            results.unpack_all(&in_order, &work, &goes_on)?;
            let stdin = |to: &mut dyn Write| {
                let broken = |_| String::new();
                let goes_on = GoesOn::new(stopped);
                // A program that does not read it all has what it wants.
                let write = |_, piece: &[u8]| to.write_all(piece).map_err(broken);
                match results.each(&in_order, &goes_on, write, |_| Ok(())) {
                    Err(Failed(why)) if !why.is_empty() => Err(why),
                    _ => Ok(()),
                }
            };
            program::run(of, &work, &output, stdin, stopped).map_err(Failed)?;
            // A program may not notice that the disk took no more.
            goes_on.look()?;
            keep(&of.outputs, (&work, &kept), &goes_on)?
        }
    };
    Ok((described(&output, "", &goes_on)?, files))
}

impl Results<'_> {
    /// Writes all standard outputs into the file `output`.
    fn concat(&self, in_order: &InOrder, output: &Path, goes_on: &GoesOn<'_>) -> Result<(), Failed> {
        let mut file = BufWriter::new(created(output).map_err(Failed)?);
        let write = |_, piece: &[u8]| {
            file.write_all(piece).map_err(|e| format!("{} cannot be written: {e}", output.display()))
        };
        self.each(in_order, goes_on, write, |_| Ok(()))?;
        Ok(file.flush()?)
    }

    /// Writes what comes of all lines of all standard outputs into the file `output`.
    fn fold(
        &self,
        in_order: &InOrder,
        fold: Fold,
        output: &Path,
        goes_on: &GoesOn<'_>,
    ) -> Result<(), Failed> {
        let folding = RefCell::new(Folding::new(fold));
        let named = |unit: u128| move |why: String| format!("unit {unit} wrote what cannot be merged: {why}");
        self.each(
            in_order,
            goes_on,
            |unit, piece| folding.borrow_mut().piece(piece).map_err(named(unit)),
            |stored| folding.borrow_mut().unit_ends().map_err(named(stored.unit)),
        )?;
        let result = folding.into_inner().result().map_err(Failed)?;
        Ok(created(output).map_err(Failed)?.write_all(result.as_ref())?)
    }

    /// Puts the files of all units into `dir`.
    fn unpack_all(&self, in_order: &InOrder, dir: &Path, goes_on: &GoesOn<'_>) -> Result<(), Failed> {
        let unpack = |stored: &Stored| {
            let mut files = stored.outcome.outputs.files.iter();
            files.try_for_each(|files| self.unpack(files, dir, goes_on)).map_err(|Failed(why)| why)
        };
        self.each(in_order, goes_on, |_, _| Ok(()), unpack)
    }

    /// Shows `piece` what units wrote to standard output, unit by unit in their order, and `unit` each unit after that; as
    /// long as it `goes_on`.
    fn each(
        &self,
        in_order: &InOrder,
        goes_on: &GoesOn<'_>,
        mut piece: impl FnMut(u128, &[u8]) -> Result<(), String>,
        mut unit: impl FnMut(&Stored) -> Result<(), String>,
    ) -> Result<(), Failed> {
        let mut left = self.done.clone();
        in_order.each(|stored| {
            left.remove(stored.unit, stored.end());
            match &stored.outcome.outputs.stdout {
                Stream::Inline(bytes) => {
                    goes_on.after_one(bytes.len())?;
                    piece(stored.unit, bytes).map_err(Failed)?;
                }
                Stream::Uploaded { kept, total, .. } if kept < total => {
                    return Err(Failed(format!(
                        "unit {} wrote {total} bytes, of which {kept} were kept: raise `output_limit`, and submit the job anew",
                        stored.unit
                    )));
                }
                Stream::Uploaded { hash, kept, .. } => {
                    let piece = |bytes: &[u8]| piece(stored.unit, bytes).map_err(Failed);
                    self.content((hash, *kept), goes_on, piece)?;
                }
            }
            unit(&stored).map_err(Failed)
        })?;
        match left.iter().next() {
            None => Ok(()),
            Some((lo, _)) => Err(Failed(format!(
                "outputs of {} units are missing, that of unit {lo} first: `starfarm job retry --missing-outputs {}` runs \
                 them again",
                left.units(),
                self.job.0
            ))),
        }
    }

    /// Shows `piece` a content, in pieces.
    fn content(
        &self,
        (hash, bytes): (&ContentHash, u64),
        goes_on: &GoesOn<'_>,
        mut piece: impl FnMut(&[u8]) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let (mut hasher, mut at) = (blake3::Hasher::new(), 0);
        while at < bytes {
            let read = self.blobs.lock().expect("a panic under the lock ends the process").read(
                hash,
                at,
                PIECE_BYTES,
            )?;
            let read = read.filter(|read| !read.is_empty());
            let read =
                read.ok_or_else(|| Failed(format!("the content {hash} is missing on the scheduler's disk")))?;
            goes_on.after_one(read.len())?;
            hasher.update(&read);
            at += read.len() as u64;
            piece(&read)?;
        }
        match ContentHash(*hasher.finalize().as_bytes()) == *hash {
            true => Ok(()),
            false => Err(Failed(format!("the content {hash} is damaged on the scheduler's disk"))),
        }
    }

    /// Puts the files of a unit into `dir`.
    fn unpack(&self, files: &Files, dir: &Path, goes_on: &GoesOn<'_>) -> Result<(), Failed> {
        let mut archive = unnamed(dir)?;
        self.content((&files.hash, files.bytes), goes_on, |piece| Ok(archive.write_all(piece)?))?;
        archive.rewind()?;
        archive::each_file(&mut archive, |name, _, content| {
            write_new(&dir.join(name), name, &mut goes_on.reads(content))
        })
    }
}

/// Writes a file of a unit. Where two units made files of one name, neither is the right one.
fn write_new(path: &Path, name: &str, content: &mut impl Read) -> Result<(), Failed> {
    fs::create_dir_all(path.parent().expect("it lies in a folder"))?;
    match File::options().write(true).create_new(true).open(path) {
        Ok(mut file) => Ok(io::copy(content, &mut file).map(drop)?),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            Err(Failed(format!("two units made `{name}`: give their outputs names of their own")))
        }
        Err(e) => Err(e.into()),
    }
}

/// The files that a program made move to where they are kept.
fn keep(
    names: &[String],
    (work, kept): (&Path, &Path),
    goes_on: &GoesOn<'_>,
) -> Result<Vec<MergedFile>, Failed> {
    let mut files = Vec::new();
    for name in names {
        let made = work.join(name);
        let there = fs::symlink_metadata(&made).ok();
        if there.as_ref().is_some_and(|there| there.is_symlink()) {
            return Err(Failed(format!("the program made `{name}` by a link: only files are taken")));
        }
        let is_file = is_inside(name) && there.is_some_and(|there| there.is_file());
        let real = fs::canonicalize(&made)
            .ok()
            .filter(|real| real.starts_with(fs::canonicalize(work).unwrap_or_default()));
        if !is_file || real.is_none() {
            return Err(Failed(format!("the program made no file `{name}`")));
        }
        let to: PathBuf = kept.join(name);
        fs::create_dir_all(to.parent().unwrap_or(kept))?;
        fs::rename(&made, &to)?;
        // Where it lies is durable before the result is told of.
        to.ancestors().take_while(|path| path.starts_with(kept)).try_for_each(sync_folder)?;
        files.push(described(&to, name, goes_on)?);
    }
    Ok(files)
}

/// A file that is durable from now on.
fn described(path: &Path, name: &str, goes_on: &GoesOn<'_>) -> Result<MergedFile, Failed> {
    let file = File::open(path)?;
    file.sync_all()?;
    let mut hasher = blake3::Hasher::new();
    let bytes = hasher.update_reader(goes_on.reads(&file))?.count();
    Ok(MergedFile { name: name.to_owned(), bytes, hash: ContentHash(*hasher.finalize().as_bytes()) })
}
