//! Contents by their hash: job specifications, pieces of lists, long outputs. One packed file, with an index that is made at
//! a start and lies on the disk too ([`Index`]). Which outputs name a content is noted beside it ([`Names`]); who else needs
//! one is the caller's to know.
//!
//! At a start headers alone are read. A content of an earlier start is hashed when it is first asked for; one that
//! is not what its hash says is treated as absent, so that it can be put again, and named where it is read.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use starfarm_protocol::admin::OutputLoss;
use starfarm_protocol::ids::{ContentHash, JobId, NodeId};
use starfarm_protocol::packed::{Entry, Found};

use crate::store::disk::{if_there, sync_folder};
use crate::store::holes::{Holes, Waiting};
use crate::store::index::{Content, Index, State};
use crate::store::names::Names;
use crate::store::packed::PackedFile;
use crate::store::table::Home;
use crate::store::transfers::Whole;

/// What brings a content of a job file back: it comes again under the same hash.
pub(crate) const AGAIN: &str = "submit the same job file again, which puts it back";

/// Bytes that are hashed at once.
const PIECE_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Blobs {
    file: PackedFile,
    index: Index,
    holes: Holes,
    /// Which outputs name them.
    pub(crate) names: Names,
    /// Something was written since the last sync.
    dirty: bool,
}

impl Blobs {
    /// Opens the store in the file at `path`, or makes it, and says what a person should know.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Vec<String>)> {
        let mut file = PackedFile::open(path)?;
        if file.end() == 0 {
            sync_folder(path)?;
        }
        let home = Home::Folder(path.parent().unwrap_or(Path::new(".")).to_owned());
        let Scanned { index, holes, mut notes, torn } = scan(&file, path, &home)?;
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
        Ok((Self { file, index, holes, names: Names::new(&home), dirty: torn.is_some() }, notes))
    }

    /// The store of a farm that nobody runs; nothing in it is changed. Where there is no file, all contents are lost.
    pub(crate) fn look(path: &Path) -> io::Result<Self> {
        let there = if_there(PackedFile::look(path))?;
        let file = there.map_or_else(|| PackedFile::look(Path::new("/dev/null")), Ok)?;
        let Scanned { index, holes, .. } = scan(&file, path, &Home::Memory)?;
        Ok(Self { file, index, holes, names: Names::new(&Home::Memory), dirty: false })
    }

    /// Bytes of all contents.
    pub(crate) fn bytes(&self) -> u64 {
        self.index.bytes()
    }

    /// An output of a job names a content.
    pub(crate) fn name(&mut self, job: JobId, hash: &ContentHash) -> io::Result<()> {
        let bytes = self.index.get(hash)?.map_or(0, |content| content.entry.length);
        self.names.name(job, *hash, bytes)
    }

    /// A node offers a content of so many bytes: where it is here already, a result that names it is to follow.
    pub(crate) fn offer(
        &mut self,
        hash: &ContentHash,
        bytes: u64,
        from: NodeId,
        now: Instant,
    ) -> io::Result<()> {
        if self.has(hash, bytes)? {
            self.names.bring(*hash, from, now);
        }
        Ok(())
    }

    /// As [`Blobs::put`], for a content that a job is to be made from: it stays for a while, whoever else gives it up.
    pub(crate) fn put_for_job(&mut self, content: &[u8]) -> io::Result<ContentHash> {
        let hash = self.put(content)?;
        self.keep_for_job(&hash)?;
        Ok(hash)
    }

    /// Whether a content is here and whole: then it stays for a while as one that was just put for a job.
    pub(crate) fn keep_for_job(&mut self, hash: &ContentHash) -> io::Result<bool> {
        let Some(content) = self.whole(hash)? else { return Ok(false) };
        let kept_ms = Some(self.index.now_ms());
        self.index.set(hash, &Content { kept_ms, ..content })?;
        Ok(true)
    }

    /// Keeps a content; says its hash. One that is there already takes no more room. It is durable after
    /// a sync of [`Blobs::unsynced`]'s file.
    pub(crate) fn put(&mut self, content: &[u8]) -> io::Result<ContentHash> {
        self.bring(content, None, Instant::now()).map(|(hash, _)| hash)
    }

    /// As [`Blobs::put`], for one that a node brought, where it is known which: the result that names it is to follow.
    /// Whether it was not there before.
    pub(crate) fn bring(
        &mut self,
        content: &[u8],
        from: Option<NodeId>,
        now: Instant,
    ) -> io::Result<(ContentHash, bool)> {
        let hash = ContentHash::of(content);
        let is_new = self.add(hash, |file| file.append(hash.0, content))?;
        if let Some(node) = from {
            self.names.bring(hash, node, now);
        }
        Ok((hash, is_new))
    }

    /// As [`Blobs::put`], for a content that came in piece by piece; whether it was not there before.
    pub(crate) fn put_incoming(&mut self, incoming: &Whole) -> io::Result<bool> {
        self.add(incoming.hash, |file| file.append_incoming(incoming))
    }

    /// Whether it was not there before.
    fn add(
        &mut self,
        hash: ContentHash,
        append: impl FnOnce(&mut PackedFile) -> io::Result<Entry>,
    ) -> io::Result<bool> {
        if let Some(content) = self.index.get(&hash)?.filter(|content| content.is_going) {
            self.index.set(&hash, &Content { is_going: false, ..content })?;
        }
        if self.whole(&hash)?.is_some() {
            return Ok(false);
        }
        // Before the write: a part of a write that fails may stand there too.
        self.dirty = true;
        let entry = append(&mut self.file)?;
        self.index.set(&hash, &Content::new(entry, State::Whole, self.index.now_ms()))?;
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
        Ok(self.whole(hash)?.map(|content| content.entry.length))
    }

    /// A content of `bytes` bytes is here, whole as far as anybody looked.
    pub(crate) fn has(&mut self, hash: &ContentHash, bytes: u64) -> io::Result<bool> {
        let content = self.index.ask(hash)?;
        Ok(content.is_some_and(|content| {
            content.state != State::Damaged && content.entry.length == bytes && !content.is_going
        }))
    }

    /// Up to `max` bytes of a content from `offset`; empty at its end, `None` where it is not here or not whole.
    pub(crate) fn read(
        &mut self,
        hash: &ContentHash,
        offset: u64,
        max: usize,
    ) -> io::Result<Option<Vec<u8>>> {
        self.whole(hash)?.map(|content| self.file.read(&content.entry, offset, max)).transpose()
    }

    /// What became of a content that should be here; `None` where it is whole. `anew`: what was found or written before
    /// is not believed.
    pub(crate) fn loss(&mut self, hash: &ContentHash, anew: bool) -> io::Result<Option<OutputLoss>> {
        match self.index.get(hash)? {
            None => return Ok(Some(OutputLoss::Missing)),
            Some(content) if anew => self.index.set(hash, &Content { state: State::Unread, ..content })?,
            Some(_) => {}
        }
        Ok(self.whole(hash)?.is_none().then_some(OutputLoss::Damaged))
    }

    /// Whether a content is known at all. Its bytes are not looked at.
    pub(crate) fn knows(&self, hash: &ContentHash) -> io::Result<bool> {
        Ok(self.index.get(hash)?.is_some())
    }

    /// What is wrong with a content that was looked for and cannot be had.
    pub(crate) fn lack(&self, hash: &ContentHash) -> io::Result<OutputLoss> {
        Ok(match self.index.get(hash)? {
            Some(content) if content.state == State::Damaged => OutputLoss::Damaged,
            _ => OutputLoss::Missing,
        })
    }

    /// The same, for a person.
    pub(crate) fn lament(&self, hash: &ContentHash) -> String {
        match self.lack(hash) {
            Ok(OutputLoss::Damaged) => {
                format!("content {hash} is damaged on the scheduler's disk: {AGAIN}")
            }
            Ok(OutputLoss::Missing) => {
                format!(
                    "content {hash} is not on the scheduler's disk; unless its job was deleted, it is lost: {AGAIN}"
                )
            }
            Err(e) => format!("content {hash} cannot be looked for on the scheduler's disk: {e}"),
        }
    }

    /// Removes the contents for which `keep` says no; [`Blobs::give_room_back`] is due then. It is asked with the time since
    /// the content was put or looked for, or the store was opened: what nobody names may be named soon, by the job
    /// it was sent for or the result it belongs to. What outputs name stays in any case. Returns how many it removed.
    pub(crate) fn retain(&mut self, keep: impl Fn(&ContentHash, Duration) -> bool) -> io::Result<usize> {
        let now_ms = self.index.now_ms();
        let mut gone = Vec::new();
        self.index.each(|hash, content| {
            let idle = Duration::from_millis(now_ms.saturating_sub(content.asked_ms));
            if !keep(&hash, idle) {
                gone.push(hash);
            }
            Ok(())
        })?;
        let mut unnamed = Vec::new();
        for hash in gone {
            unnamed.extend((!self.names.is_named(&hash)?).then_some(hash));
        }
        self.remove(&unnamed)?;
        Ok(unnamed.len())
    }

    /// From now on nobody is told that these contents are here, so no new result names them; but for those that outputs
    /// name, or that a result on its way may, or that a job was to be made from in the time `lately`.
    pub(crate) fn let_go(&mut self, hashes: &[ContentHash], lately: Duration) -> io::Result<()> {
        let now_ms = self.index.now_ms();
        for hash in hashes {
            let Some(content) = self.index.get(hash)? else { continue };
            let lately_ms = lately.as_millis() as u64;
            let is_kept = content.kept_ms.is_some_and(|kept_ms| now_ms.saturating_sub(kept_ms) < lately_ms);
            let is_going = !is_kept && !self.names.is_named(hash)? && !self.names.is_awaited(hash);
            self.index.set(hash, &Content { is_going, ..content })?;
        }
        Ok(())
    }

    /// Removes those of these contents that were let go, unless somebody has brought or named them since, or they are
    /// `needed`; [`Blobs::give_room_back`] is due then. Before this, all that was said to be here must be on record. Returns
    /// those that nobody names and that are not needed, and stay all the same: a result or a job may be on its way.
    pub(crate) fn remove_gone(
        &mut self,
        hashes: &[ContentHash],
        needed: &HashSet<ContentHash>,
    ) -> io::Result<Vec<ContentHash>> {
        let (mut gone, mut stay) = (Vec::new(), Vec::new());
        for hash in hashes {
            let Some(content) = self.index.get(hash)? else { continue };
            if content.is_going {
                self.index.set(hash, &Content { is_going: false, ..content })?;
            }
            if !self.names.is_named(hash)? && !needed.contains(hash) {
                if content.is_going { &mut gone } else { &mut stay }.push(*hash);
            }
        }
        self.remove(&gone)?;
        Ok(stay)
    }

    fn remove(&mut self, hashes: &[ContentHash]) -> io::Result<()> {
        let mut entries = Vec::new();
        for hash in hashes {
            entries.extend(self.index.get(hash)?.map(|content| content.entry));
        }
        entries.sort_unstable_by_key(|entry| entry.at);
        entries.dedup_by_key(|entry| entry.at);
        for run in entries.chunk_by(|entry, next| entry.end() == next.at) {
            // What is marked as gone must not be told to be here: a failure leaves a content too many.
            run.iter().try_for_each(|entry| self.index.remove(&ContentHash(entry.label)))?;
            self.holes.make(&mut self.file, run)?;
        }
        Ok(())
    }

    /// Gives the room of removed contents back to the file system. A sync of the file comes first, which holds up nobody.
    pub(crate) fn give_room_back(blobs: &Mutex<Self>) -> io::Result<()> {
        let locked = || blobs.lock().expect("a panic under the lock ends the process");
        let waiting = {
            let blobs = locked();
            blobs.holes.waiting(&blobs.file)
        };
        let Some(synced) = waiting.map(Waiting::sync).transpose()? else { return Ok(()) };
        loop {
            let Self { file, holes, .. } = &mut *locked();
            if holes.give_back(file, &synced)? {
                return Ok(());
            }
        }
    }

    /// A content, if it is here and what its hash says.
    fn whole(&mut self, hash: &ContentHash) -> io::Result<Option<Content>> {
        let Some(mut content) = self.index.ask(hash)?.filter(|content| !content.is_going) else {
            return Ok(None);
        };
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
            self.index.set(hash, &content)?;
        }
        Ok((content.state == State::Whole).then_some(content))
    }
}

struct Scanned {
    index: Index,
    holes: Holes,
    notes: Vec<String>,
    /// From here on nothing can be read.
    torn: Option<u64>,
}

fn scan(file: &PackedFile, path: &Path, home: &Home) -> io::Result<Scanned> {
    let (mut index, mut holes) = (Index::new(home), Holes::new(home));
    let (mut notes, mut torn) = (Vec::new(), None);
    let now_ms = index.now_ms();
    for found in file.scan(0) {
        match found? {
            Found::Entry(entry) if entry.gone => holes.note(&entry),
            // One that is there twice was damaged where it was first.
            Found::Entry(entry) => {
                index.set(&ContentHash(entry.label), &Content::new(entry, State::Unread, now_ms))?;
            }
            Found::Damage(from, to) => notes.push(format!(
                "{}: bytes {from} to {to} are damaged; what was there is lost, the rest is kept",
                path.display()
            )),
            Found::Tail(from) => torn = Some(from),
        }
    }
    Ok(Scanned { index, holes, notes, torn })
}

#[cfg(test)]
mod tests;
