//! Contents by their hash: job specifications, pieces of lists, long outputs. One packed file with an index in
//! memory. Who still needs a content is the caller's to know.
//!
//! At a start headers alone are read. A content of an earlier start is hashed when it is first asked for; one that
//! is not what its hash says is treated as absent, so that it can be put again, and named where it is read.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use starfarm_protocol::admin::OutputLoss;
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::packed::{Entry, Found};

use crate::store::disk::{if_there, sync_folder};
use crate::store::packed::PackedFile;
use crate::store::transfers::Incoming;

/// What brings a content of a job file back: it comes again under the same hash.
pub(crate) const AGAIN: &str = "submit the same job file again, which puts it back";

/// Bytes that are hashed at once.
const PIECE_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Blobs {
    file: PackedFile,
    index: HashMap<ContentHash, Content>,
    /// Something was written since the last sync.
    dirty: bool,
}

#[derive(Debug)]
struct Content {
    entry: Entry,
    state: State,
    asked: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not looked at since it was written by an earlier start, or since somebody had doubts.
    Unread,
    Whole,
    Damaged,
}

impl Blobs {
    /// Opens the store in the file at `path`, or makes it, and says what a person should know.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Vec<String>)> {
        let mut file = PackedFile::open(path)?;
        if file.end() == 0 {
            sync_folder(path)?;
        }
        let Scanned { index, mut notes, torn } = scan(&file, path)?;
        match torn {
            Some(0) => {
                let aside = file.set_aside()?;
                notes.push(format!(
                    "{}: nothing in it can be read; it is set aside as {} and may be deleted",
                    path.display(),
                    aside.display()
                ));
            }
            Some(from) => {
                notes.push(format!(
                    "{}: the last {} bytes were not written to their end; they are cut off",
                    path.display(),
                    file.end() - from
                ));
                file.cut(from)?;
            }
            None => {}
        }
        Ok((Self { file, index, dirty: torn.is_some() }, notes))
    }

    /// The store of a farm that nobody runs; nothing in it is changed. Where there is no file, all contents are lost.
    pub(crate) fn look(path: &Path) -> io::Result<Self> {
        let there = if_there(PackedFile::look(path))?;
        let file = there.map_or_else(|| PackedFile::look(Path::new("/dev/null")), Ok)?;
        let Scanned { index, .. } = scan(&file, path)?;
        Ok(Self { file, index, dirty: false })
    }

    /// Keeps a content; says its hash. One that is there already takes no more room. It is durable after
    /// a sync of [`Blobs::unsynced`]'s file.
    pub(crate) fn put(&mut self, content: &[u8]) -> io::Result<ContentHash> {
        let hash = ContentHash::of(content);
        self.add(hash, |file| file.append(hash.0, content))?;
        Ok(hash)
    }

    /// As [`Blobs::put`], for a content that came in piece by piece and is whole; whether it was not there before. `None`:
    /// it does not have its hash, and nothing is kept.
    pub(crate) fn put_incoming(&mut self, incoming: &Incoming) -> io::Result<Option<bool>> {
        if !incoming.is_right() {
            return Ok(None);
        }
        self.add(incoming.hash, |file| file.append_incoming(incoming)).map(Some)
    }

    /// Whether it was not there before.
    fn add(
        &mut self,
        hash: ContentHash,
        append: impl FnOnce(&mut PackedFile) -> io::Result<Entry>,
    ) -> io::Result<bool> {
        if self.whole(&hash)?.is_some() {
            return Ok(false);
        }
        // Before the write: a part of a write that fails may stand there too.
        self.dirty = true;
        let entry = append(&mut self.file)?;
        self.index.insert(hash, Content { entry, state: State::Whole, asked: Instant::now() });
        Ok(true)
    }

    /// The file, where it needs a sync: for the one thread that does so without holding up readers. What was
    /// put before this call is durable after the file's `sync_data`.
    pub(crate) fn unsynced(&mut self) -> Option<Arc<File>> {
        std::mem::take(&mut self.dirty).then(|| self.file.file())
    }

    /// What is put here can be found by the next start.
    ///
    /// # Errors
    /// The file was deleted, or another one took its place.
    pub(crate) fn is_in_place(&self) -> io::Result<()> {
        if self.file.is_in_place()? {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "{} was deleted or replaced while the scheduler ran; specifications and long outputs that it held are lost. Put \
             it back where you can, then start the scheduler again with the same --state: it names the jobs that lack their \
             specification",
            self.file.path().display()
        )))
    }

    /// Bytes of a content; `None` where it is not here, or not whole.
    pub(crate) fn len(&mut self, hash: &ContentHash) -> io::Result<Option<u64>> {
        Ok(self.whole(hash)?.map(|entry| entry.length))
    }

    /// A content of `bytes` bytes is here, whole as far as anybody looked.
    pub(crate) fn has(&mut self, hash: &ContentHash, bytes: u64) -> bool {
        let Some(content) = self.index.get_mut(hash) else { return false };
        content.asked = Instant::now();
        content.state != State::Damaged && content.entry.length == bytes
    }

    /// Up to `max` bytes of a content from `offset`; empty at its end, `None` where it is not here or not whole.
    pub(crate) fn read(
        &mut self,
        hash: &ContentHash,
        offset: u64,
        max: usize,
    ) -> io::Result<Option<Vec<u8>>> {
        self.whole(hash)?.map(|entry| self.file.read(&entry, offset, max)).transpose()
    }

    /// What became of a content that should be here; `None` where it is whole. `anew`: what was found or written before
    /// is not believed.
    pub(crate) fn loss(&mut self, hash: &ContentHash, anew: bool) -> io::Result<Option<OutputLoss>> {
        match self.index.get_mut(hash) {
            None => return Ok(Some(OutputLoss::Missing)),
            Some(content) if anew => content.state = State::Unread,
            Some(_) => {}
        }
        Ok(self.whole(hash)?.is_none().then_some(OutputLoss::Damaged))
    }

    /// Whether a content is here and what its hash says.
    pub(crate) fn is_whole(&mut self, hash: &ContentHash) -> io::Result<bool> {
        Ok(self.whole(hash)?.is_some())
    }

    /// Whether a content is known at all. Its bytes are not looked at.
    pub(crate) fn knows(&self, hash: &ContentHash) -> bool {
        self.index.contains_key(hash)
    }

    /// What is wrong with a content that was looked for and cannot be had.
    pub(crate) fn lack(&self, hash: &ContentHash) -> OutputLoss {
        match self.index.get(hash) {
            Some(content) if content.state == State::Damaged => OutputLoss::Damaged,
            _ => OutputLoss::Missing,
        }
    }

    /// The same, for a person.
    pub(crate) fn lament(&self, hash: &ContentHash) -> String {
        match self.lack(hash) {
            OutputLoss::Damaged => {
                format!("content {hash} is damaged on the scheduler's disk: {AGAIN}")
            }
            OutputLoss::Missing => {
                format!(
                    "content {hash} is not on the scheduler's disk; unless its job was deleted, it is lost: {AGAIN}"
                )
            }
        }
    }

    /// Contents that nobody has put or looked for in the time `lately`, or since the store was opened.
    pub(crate) fn idle_for(&self, lately: Duration) -> HashSet<ContentHash> {
        let now = Instant::now();
        let is_idle = |content: &Content| now.saturating_duration_since(content.asked) >= lately;
        let idle = self.index.iter().filter(|(_, content)| is_idle(content));
        idle.map(|(hash, _)| *hash).collect()
    }

    /// Removes the contents for which `keep` says no, and gives their room back. It is asked with the time since
    /// the content was put or looked for, or the store was opened: what nobody names may be named soon, by the job
    /// it was sent for or the result it belongs to.
    pub(crate) fn retain(&mut self, keep: impl Fn(&ContentHash, Duration) -> bool) -> io::Result<()> {
        let (file, now) = (&self.file, Instant::now());
        let mut outcome = Ok(());
        self.index.retain(|hash, content| {
            let idle = now.saturating_duration_since(content.asked);
            if outcome.is_err() || keep(hash, idle) {
                return true;
            }
            outcome = file.remove(&content.entry);
            outcome.is_err()
        });
        outcome?;
        let end = self.index.values().map(|content| content.entry.end()).max().unwrap_or(0);
        if end < self.file.end() { self.file.cut(end) } else { Ok(()) }
    }

    /// A content's entry, if it is here and what its hash says.
    fn whole(&mut self, hash: &ContentHash) -> io::Result<Option<Entry>> {
        let Some(content) = self.index.get_mut(hash) else { return Ok(None) };
        content.asked = Instant::now();
        if content.state == State::Unread {
            let mut hasher = blake3::Hasher::new();
            let mut offset = 0;
            while offset < content.entry.length {
                let piece = self.file.read(&content.entry, offset, PIECE_BYTES)?;
                hasher.update(&piece);
                offset += piece.len() as u64;
            }
            let right = *hasher.finalize().as_bytes() == hash.0;
            content.state = if right { State::Whole } else { State::Damaged };
        }
        Ok((content.state == State::Whole).then_some(content.entry))
    }
}

struct Scanned {
    index: HashMap<ContentHash, Content>,
    notes: Vec<String>,
    /// From here on nothing can be read.
    torn: Option<u64>,
}

fn scan(file: &PackedFile, path: &Path) -> io::Result<Scanned> {
    let (mut index, mut notes, mut torn) = (HashMap::new(), Vec::new(), None);
    let now = Instant::now();
    for found in file.scan(0) {
        match found? {
            Found::Entry(entry) if entry.gone => {}
            // One that is there twice was damaged where it was first.
            Found::Entry(entry) => {
                let content = Content { entry, state: State::Unread, asked: now };
                index.insert(ContentHash(entry.label), content);
            }
            Found::Damage(from, to) => notes.push(format!(
                "{}: bytes {from} to {to} are damaged; what was there is lost, the rest is kept",
                path.display()
            )),
            Found::Tail(from) => torn = Some(from),
        }
    }
    Ok(Scanned { index, notes, torn })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("starfarm-blobs-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        path
    }

    fn open(path: &Path) -> Blobs {
        let (blobs, notes) = Blobs::open(path).unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        blobs
    }

    #[test]
    fn contents_come_back_in_pieces_and_are_kept_once() {
        let path = scratch("pieces");
        let mut blobs = open(&path);
        let (one, two) = (blobs.put(b"hello").unwrap(), blobs.put(b"world!").unwrap());
        let end = blobs.file.end();
        assert_eq!(blobs.put(b"hello").unwrap(), one);
        for mut blobs in [blobs, open(&path)] {
            assert_eq!(blobs.file.end(), end);
            assert_eq!(blobs.read(&two, 2, 3).unwrap().unwrap(), b"rld");
            assert_eq!(blobs.read(&one, 5, 3).unwrap().unwrap(), b"");
            assert_eq!(blobs.read(&one, 50, 3).unwrap().unwrap(), b"");
            let unknown = ContentHash([0; 32]);
            assert!(blobs.read(&unknown, 0, 1).unwrap().is_none());
            assert_eq!((blobs.len(&two).unwrap(), blobs.len(&unknown).unwrap()), (Some(6), None));
            assert!(blobs.lament(&unknown).ends_with(AGAIN), "{}", blobs.lament(&unknown));
        }
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_content_that_came_in_pieces_is_kept_once_and_only_with_its_hash() {
        let path = scratch("incoming");
        let mut blobs = open(&path);
        let content: Vec<u8> = (0..3_000_000_u32).map(|i| (i / 7) as u8).collect();
        let hash = ContentHash::of(&content);
        let incoming = |bytes: &[u8]| {
            let mut incoming = Incoming::new(hash, bytes.len() as u64, &std::env::temp_dir()).unwrap();
            bytes.chunks(50_000).for_each(|piece| incoming.take(piece).unwrap());
            incoming
        };
        assert_eq!(blobs.put_incoming(&incoming(&content[1..])).unwrap(), None);
        assert!(blobs.unsynced().is_none() && blobs.file.end() == 0);
        assert_eq!(blobs.put_incoming(&incoming(&content)).unwrap(), Some(true));
        assert!(blobs.unsynced().is_some());
        assert_eq!(blobs.put_incoming(&incoming(&content)).unwrap(), Some(false));
        for mut blobs in [blobs, open(&path)] {
            assert_eq!(blobs.read(&hash, 0, usize::MAX).unwrap().unwrap(), content);
            let entry = blobs.index[&hash].entry;
            assert!(blobs.file.body(&entry).unwrap().is_some(), "its CRC is right");
        }
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_sync_is_due_after_a_put_of_something_new_only() {
        let path = scratch("sync");
        let mut blobs = open(&path);
        assert!(blobs.unsynced().is_none());
        blobs.put(b"one").unwrap();
        assert!(blobs.unsynced().is_some() && blobs.unsynced().is_none());
        blobs.put(b"one").unwrap();
        assert!(blobs.unsynced().is_none());
        blobs.put(b"two").unwrap();
        assert!(blobs.unsynced().is_some());
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_torn_tail_is_cut_off_with_a_note() {
        let path = scratch("torn");
        let mut blobs = open(&path);
        let one = blobs.put(b"one").unwrap();
        let end = blobs.file.end();
        blobs.put(b"another").unwrap();
        let bytes = fs::read(&path).unwrap();
        for length in end + 1..bytes.len() as u64 {
            fs::write(&path, &bytes[..length as usize]).unwrap();
            let (mut blobs, notes) = Blobs::open(&path).unwrap();
            assert!(notes.len() == 1 && notes[0].contains("cut off"), "{notes:?}");
            assert_eq!(blobs.read(&one, 0, 9).unwrap().unwrap(), b"one");
            assert_eq!((blobs.index.len(), fs::metadata(&path).unwrap().len()), (1, end));
        }
        fs::write(&path, b"from another program").unwrap();
        let (_, notes) = Blobs::open(&path).unwrap();
        let aside = path.with_added_extension("damaged-1");
        assert!(notes[0].contains("damaged-1"), "{notes:?}");
        assert_eq!(fs::read(&aside).unwrap(), b"from another program");
        fs::remove_file(aside).unwrap();
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn damage_is_named_hides_one_content_and_is_mended_by_putting_it_again() {
        let path = scratch("damage");
        let contents = [&b"zero"[..], b"one", b"two"];
        let mut blobs = open(&path);
        let hashes = contents.map(|content| blobs.put(content).unwrap());
        let entry = blobs.index[&hashes[1]].entry;
        let bytes = fs::read(&path).unwrap();
        for at in entry.at..entry.end() {
            let mut bytes = bytes.clone();
            bytes[at as usize] ^= 0x11;
            fs::write(&path, bytes).unwrap();
            let (mut blobs, notes) = Blobs::open(&path).unwrap();
            for other in [0, 2] {
                assert_eq!(blobs.read(&hashes[other], 0, 9).unwrap().unwrap(), contents[other], "{at}");
            }
            // Spare bytes of the header, and the CRC of the body, are not looked at.
            let harmless = at >= entry.at + 56 && at < entry.body();
            assert_eq!(blobs.len(&hashes[1]).unwrap().is_some(), harmless, "{at}");
            if !harmless && at >= entry.body() {
                assert!(blobs.lament(&hashes[1]).contains("is damaged"), "{}", blobs.lament(&hashes[1]));
            } else if at < entry.at + 56 {
                assert!(notes.len() == 1 && notes[0].contains("are damaged"), "{notes:?}");
            }
            assert_eq!(blobs.put(b"one").unwrap(), hashes[1]);
            for mut blobs in [blobs, Blobs::open(&path).unwrap().0] {
                assert_eq!(blobs.read(&hashes[1], 0, 9).unwrap().unwrap(), b"one", "{at}");
            }
        }
        fs::remove_file(path).unwrap();
    }

    /// It was found whole, or written by this very start, and the disk has changed it since.
    #[test]
    fn a_content_that_is_damaged_later_is_noticed_by_who_has_doubts_and_can_be_put_again() {
        let path = scratch("later");
        let mut blobs = open(&path);
        let (one, gone) = (blobs.put(b"one").unwrap(), ContentHash([0; 32]));
        let at = blobs.index[&one].entry.body();
        std::os::unix::fs::FileExt::write_all_at(&*blobs.file.file(), b"x", at).unwrap();
        assert_eq!(blobs.loss(&one, false).unwrap(), None, "it was whole");
        assert_eq!(blobs.loss(&one, true).unwrap(), Some(OutputLoss::Damaged));
        assert_eq!(blobs.loss(&gone, true).unwrap(), Some(OutputLoss::Missing));
        assert_eq!(blobs.put(b"one").unwrap(), one);
        for mut blobs in [blobs, Blobs::open(&path).unwrap().0] {
            assert_eq!(blobs.loss(&one, true).unwrap(), None);
            assert_eq!(blobs.read(&one, 0, 9).unwrap().unwrap(), b"one");
        }
        fs::remove_file(path).unwrap();
    }

    /// What was put there would be acknowledged, and nobody could ever find it.
    #[test]
    fn a_file_that_is_deleted_or_replaced_under_the_store_is_told() {
        let path = scratch("unlinked");
        let mut blobs = open(&path);
        blobs.put(b"one").unwrap();
        blobs.is_in_place().unwrap();
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let told = blobs.is_in_place().unwrap_err().to_string();
        assert!(told.contains("deleted or replaced"), "{told}");
        fs::write(&path, bytes).unwrap();
        blobs.is_in_place().unwrap_err();
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_nobody_needs_gives_its_room_back() {
        let path = scratch("retain");
        let mut blobs = open(&path);
        let hashes: Vec<_> = (0..8_u8).map(|i| blobs.put(&vec![i; 1 << 20]).unwrap()).collect();
        let blocks = |blobs: &Blobs| rustix::fs::fstat(&*blobs.file.file()).unwrap().st_blocks / 2_048;
        assert!(blocks(&blobs) >= 8);
        blobs.retain(|_, idle| idle < Duration::from_secs(3_600)).unwrap();
        assert_eq!(blobs.index.len(), 8, "all were put just now");
        let hour = Duration::from_secs(3_600);
        blobs.index.values_mut().for_each(|content| content.asked = Instant::now() - hour);
        assert!(
            blobs.len(&hashes[5]).unwrap().is_some() && blobs.put(&vec![1; 1 << 20]).unwrap() == hashes[1]
        );
        blobs.retain(|hash, idle| idle < hour / 2 || *hash == hashes[7]).unwrap();
        assert_eq!(blobs.index.len(), 3, "two were asked for just now");
        blobs.retain(|hash, _| [hashes[1], hashes[5]].contains(hash)).unwrap();
        assert!(blocks(&blobs) <= 2, "{} MiB", blocks(&blobs));
        for mut blobs in [blobs, open(&path)] {
            for (i, hash) in (0_u8..).zip(&hashes) {
                let expected = matches!(i, 1 | 5).then(|| vec![i; 9]);
                assert_eq!(blobs.read(hash, 0, 9).unwrap(), expected);
            }
            // One that comes back has a new place.
            blobs.put(&vec![0; 1 << 20]).unwrap();
            assert_eq!(blobs.read(&hashes[0], 0, 3).unwrap().unwrap(), [0; 3]);
        }
        let mut blobs = open(&path);
        assert_eq!(blobs.len(&hashes[0]).unwrap(), Some(1 << 20));
        blobs.retain(|_, _| false).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        fs::remove_file(path).unwrap();
    }
}
