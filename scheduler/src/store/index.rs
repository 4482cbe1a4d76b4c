//! Where each content lies, and what is known of it. On the disk, so that memory does not grow with the number of contents.

use std::io;
use std::time::Instant;

use starfarm_protocol::bytes::{Malformed, Reader};
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::packed::Entry;

use super::table::{Home, Table};

/// Bytes of what is known of a content.
const BYTES: usize = 8 + 8 + 4 + 8 + 8 + 1;
/// A time that has not come.
const NEVER: u64 = u64::MAX;
/// When a content was last asked for is known so well.
const ASKED_MS: u64 = 1_000;

const IS_GOING: u8 = 1 << 7;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Not looked at since it was written by an earlier start, or since somebody had doubts.
    Unread,
    Whole,
    Damaged,
}

const STATES: [State; 3] = [State::Unread, State::Whole, State::Damaged];

/// Times are milliseconds since the index was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Content {
    pub(crate) entry: Entry,
    pub(crate) state: State,
    pub(crate) asked_ms: u64,
    /// When a job was last to be made from it.
    pub(crate) kept_ms: Option<u64>,
    /// It is about to be removed: nobody is told that it is here. Who brings it keeps it.
    pub(crate) is_going: bool,
}

impl Content {
    pub(crate) fn new(entry: Entry, state: State, asked_ms: u64) -> Self {
        Self { entry, state, asked_ms, kept_ms: None, is_going: false }
    }

    fn to_bytes(self) -> [u8; BYTES] {
        let Self { entry, state, asked_ms, kept_ms, is_going } = self;
        let mut bytes = [0; BYTES];
        let numbers = [entry.at, entry.length, asked_ms, kept_ms.unwrap_or(NEVER)];
        for (to, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        bytes[32..36].copy_from_slice(&entry.body_crc().to_le_bytes());
        bytes[36] = state as u8 | if is_going { IS_GOING } else { 0 };
        bytes
    }

    fn read(hash: &ContentHash, bytes: &[u8; BYTES]) -> Result<Self, Malformed> {
        let mut rest = Reader(bytes);
        let (at, length, asked_ms, kept_ms) = (rest.u64()?, rest.u64()?, rest.u64()?, rest.u64()?);
        let (body_crc, flags) = (rest.u32()?, rest.u8()?);
        Ok(Self {
            entry: Entry::with_crc(at, hash.0, length, body_crc),
            state: *STATES.get(usize::from(flags & !IS_GOING)).ok_or(Malformed)?,
            asked_ms,
            kept_ms: (kept_ms != NEVER).then_some(kept_ms),
            is_going: flags & IS_GOING != 0,
        })
    }
}

/// All contents.
#[derive(Debug)]
pub(crate) struct Index {
    table: Table<32, BYTES>,
    /// Bytes of all contents.
    bytes: u64,
    start: Instant,
}

impl Index {
    pub(crate) fn new(home: &Home) -> Self {
        Self { table: Table::new(home), bytes: 0, start: Instant::now() }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Bytes of all contents.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn get(&self, hash: &ContentHash) -> io::Result<Option<Content>> {
        self.table.get(&hash.0)?.map(|bytes| known(hash, &bytes)).transpose()
    }

    /// As [`Index::get`], for who wants the content: it is noted that it was asked for.
    pub(crate) fn ask(&mut self, hash: &ContentHash) -> io::Result<Option<Content>> {
        let (found, now_ms) = (self.get(hash)?, self.now_ms());
        let Some(content) = found.filter(|content| now_ms >= content.asked_ms + ASKED_MS) else {
            return Ok(found);
        };
        let content = Content { asked_ms: now_ms, ..content };
        self.set(hash, &content)?;
        Ok(Some(content))
    }

    /// Notes what is known of a content, which may be new.
    pub(crate) fn set(&mut self, hash: &ContentHash, content: &Content) -> io::Result<()> {
        let before = self.table.insert(&hash.0, &content.to_bytes())?;
        self.bytes += content.entry.length;
        self.take_off(hash, before)
    }

    pub(crate) fn remove(&mut self, hash: &ContentHash) -> io::Result<()> {
        let before = self.table.remove(&hash.0)?;
        self.take_off(hash, before)
    }

    /// Shows each content to `see`, in no order.
    ///
    /// # Errors
    /// As of [`Table::each`].
    pub(crate) fn each(&self, mut see: impl FnMut(ContentHash, Content) -> io::Result<()>) -> io::Result<()> {
        self.table.each(|key, bytes| {
            let hash = ContentHash(*key);
            see(hash, known(&hash, bytes)?)
        })
    }

    fn take_off(&mut self, hash: &ContentHash, before: Option<[u8; BYTES]>) -> io::Result<()> {
        if let Some(before) = before {
            self.bytes -= known(hash, &before)?.entry.length;
        }
        Ok(())
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> u64 {
        self.table.len()
    }

    /// So much time passes at once.
    #[cfg(test)]
    pub(crate) fn age(&mut self, by: std::time::Duration) {
        self.start = self.start.checked_sub(by).expect("the machine has been up for longer");
    }
}

fn known(hash: &ContentHash, bytes: &[u8; BYTES]) -> io::Result<Content> {
    Content::read(hash, bytes).map_err(|Malformed| {
        io::Error::other("the disk has changed the index of contents: start the scheduler again")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_content_comes_back() {
        let hash = ContentHash([7; 32]);
        let mut index = Index::new(&Home::Memory);
        for (at, (state, kept_ms, is_going)) in (5..).zip([
            (State::Unread, None, true),
            (State::Whole, Some(0), false),
            (State::Damaged, Some(9), true),
        ]) {
            let content =
                Content { kept_ms, is_going, ..Content::new(Entry::new(at, hash.0, b"content"), state, 3) };
            index.set(&hash, &content).unwrap();
            assert_eq!((index.get(&hash).unwrap(), index.bytes(), index.len()), (Some(content), 7, 1));
        }
        index.remove(&hash).unwrap();
        assert_eq!((index.get(&hash).unwrap(), index.bytes()), (None, 0));
    }

    #[test]
    fn a_content_was_asked_for_when_somebody_last_wanted_it() {
        let hash = ContentHash([7; 32]);
        let mut index = Index::new(&Home::Memory);
        index.set(&hash, &Content::new(Entry::new(0, hash.0, b""), State::Whole, 0)).unwrap();
        index.age(std::time::Duration::from_secs(2));
        assert_eq!(index.get(&hash).unwrap().map(|content| content.asked_ms), Some(0));
        assert!(index.ask(&hash).unwrap().is_some_and(|content| content.asked_ms >= 2_000));
        assert!(index.get(&hash).unwrap().is_some_and(|content| content.asked_ms >= 2_000));
    }
}
