//! How far a program is that computes many units, as it tells by itself: lines `done N` in a file of its own, each with
//! more units than the one before. `done N BYTES` says as well how much of its standard output belongs to these.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};

/// Bytes of the file's end that are looked at: the last line is in these.
const TAIL_BYTES: u64 = 4096;

/// The file in which a program tells how far it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress(pub PathBuf);

/// What it told last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// Its first units, so many, are done.
    pub units: u64,
    /// So many bytes of its standard output are theirs; none: all that it wrote.
    pub stdout_bytes: Option<u64>,
}

impl Progress {
    /// The last that the program told and that can be, since it has written `stdout_bytes` in all: what lies in a buffer of
    /// its own when it ends is lost, whatever it told of that. None where it told nothing so far, or nothing that can be
    /// understood.
    pub fn told(&self, stdout_bytes: u64) -> Option<Told> {
        // A program may have put anything there: nothing is followed, and nothing waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::open(&self.0, flags, Mode::empty()).ok()?);
        let bytes = file.metadata().ok().filter(|there| there.is_file())?.len();
        file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES))).ok()?;
        let mut tail = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
        last(&String::from_utf8_lossy(&tail), stdout_bytes)
    }
}

/// The last line that is whole and says how far it is, with no more of standard output than there is.
fn last(text: &str, stdout_bytes: u64) -> Option<Told> {
    let (whole, _) = text.rsplit_once('\n')?;
    let is_there = |told: &Told| told.stdout_bytes.is_none_or(|bytes| bytes <= stdout_bytes);
    whole.lines().rev().find_map(|line| told(line).filter(is_there))
}

fn told(line: &str) -> Option<Told> {
    let mut words = line.split_ascii_whitespace();
    let (Some("done"), Some(units)) = (words.next(), words.next()) else { return None };
    let stdout_bytes = words.next().map(str::parse).transpose().ok()?;
    let told = Told { units: units.parse().ok()?, stdout_bytes };
    (words.next().is_none() && told.units > 0).then_some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_line_counts() {
        let all = |units| Some(Told { units, stdout_bytes: None });
        let last = |text| last(text, 1_200);
        assert_eq!(last("done 1\ndone 25\ndone 3"), all(25));
        assert_eq!(last("done 7\n"), all(7));
        let seven = Some(Told { units: 7, stdout_bytes: Some(1_200) });
        assert_eq!(last("done 7 1200\nwhat\n"), seven);
        assert_eq!(last("done 7 1200\ndone 8 1201\n"), seven, "the eighth was not written");
        assert_eq!(last("done 8 1201\n"), None);
        for nothing in ["", "done 7", "done\n", "done x\n", "done 0\n", "7\n", "done 1 2 3\n", "done -1\n"] {
            assert_eq!(last(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn what_is_no_file_tells_nothing() {
        let progress =
            Progress(std::env::temp_dir().join(format!("starfarm-exec-{}-done", std::process::id())));
        assert_eq!(progress.told(0), None);
        std::os::unix::fs::symlink("/proc/self/status", &progress.0).unwrap();
        assert_eq!(progress.told(0), None);
        std::fs::remove_file(&progress.0).unwrap();
        std::fs::write(&progress.0, format!("{}\ndone 9\n", "x".repeat(9_000))).unwrap();
        assert_eq!(progress.told(0), Some(Told { units: 9, stdout_bytes: None }));
        std::fs::remove_file(&progress.0).unwrap();
    }
}
