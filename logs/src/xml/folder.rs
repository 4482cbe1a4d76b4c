//! A folder of segments: their names, and which of them are there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use starfarm_events::Field;

/// What a segment's file is called behind its numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Standing {
    /// Whole, never written again.
    Closed,
    /// Being written, or left behind.
    Part,
    /// Left behind, and not to be repaired.
    Damaged,
}

impl Standing {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Closed, "xml"), (Self::Part, "xml.part"), (Self::Damaged, "xml.damaged")];
}

/// A segment's file. Segments ascend by epoch and number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Segment {
    pub(super) epoch: u64,
    pub(super) number: u64,
    pub(super) standing: Standing,
    pub(super) path: PathBuf,
}

impl Segment {
    /// The file that this segment has in `dir`.
    pub(super) fn of(dir: &Path, epoch: u64, number: u64, standing: Standing) -> Self {
        let suffix = Standing::ALL.iter().find(|(one, _)| *one == standing).map_or("", |(_, suffix)| suffix);
        Self { epoch, number, standing, path: dir.join(format!("{epoch:08}-{number:06}.{suffix}")) }
    }

    /// The same segment, standing otherwise.
    pub(super) fn to(&self, standing: Standing) -> Self {
        Self::of(self.path.parent().unwrap_or(Path::new("")), self.epoch, self.number, standing)
    }

    /// What a path's name says; none if it is not a segment's.
    pub(super) fn from_path(path: PathBuf) -> Option<Self> {
        let (numbers, suffix) = path.file_name()?.to_str()?.split_once('.')?;
        let (epoch, number) = numbers.split_once('-')?;
        let standing = Standing::ALL.iter().find(|(_, ours)| *ours == suffix)?.0;
        Some(Self { epoch: u64::read(Some(epoch))?, number: u64::read(Some(number))?, standing, path })
    }
}

/// All segments in `dir`, in order.
pub(super) fn list(dir: &Path) -> io::Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(dir)? {
        let Some(segment) = Segment::from_path(entry?.path()) else { continue };
        // Whoever opened a named pipe would wait for ever. One that is gone got its other name just now.
        if fs::metadata(&segment.path).is_ok_and(|there| !there.is_file()) {
            let path = segment.path.display();
            return Err(io::Error::other(format!(
                "{path} has the name of a segment and is no file: remove it"
            )));
        }
        segments.push(segment);
    }
    segments.sort();
    Ok(segments)
}

/// Makes what was renamed or removed in `dir` last.
pub(super) fn sync(dir: &Path) -> io::Result<()> {
    fs::File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A named pipe of anybody who may write there held the start up for ever.
    #[test]
    fn what_is_no_file_is_refused_by_its_name() {
        let dir = std::env::temp_dir().join(format!("starfarm-folder-{}", std::process::id()));
        for standing in [Standing::Closed, Standing::Part] {
            let _ = fs::remove_dir_all(&dir);
            let pipe = Segment::of(&dir, 1, 3, standing).path;
            fs::create_dir_all(&pipe).unwrap();
            let told = list(&dir).unwrap_err().to_string();
            assert!(told.contains(pipe.to_str().unwrap()) && told.contains("remove it"), "{told}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn names_sort_as_segments_do_and_come_back() {
        let dir = Path::new("d");
        let ours = [(1, 1), (1, 2), (1, 10), (2, 1), (12, 7)];
        let names: Vec<_> =
            ours.map(|(epoch, number)| Segment::of(dir, epoch, number, Standing::Closed)).into();
        assert!(names.is_sorted() && names.is_sorted_by_key(|segment| segment.path.clone()));
        for one in names {
            assert_eq!(Segment::from_path(one.path.clone()), Some(one.clone()));
            assert_eq!(
                one.to(Standing::Part).path,
                dir.join(format!("{:08}-{:06}.xml.part", one.epoch, one.number))
            );
        }
        for foreign in ["1-1.txt", "x-1.xml", "1.xml", "+1-1.xml", "1-1.xml.gz", ".xml", "-.xml"] {
            assert_eq!(Segment::from_path(dir.join(foreign)), None, "{foreign}");
        }
    }
}
