//! The scheduler's half: answers one worker, whose stream it is. A transfer belongs to its stream alone: two nodes may
//! well send equal contents at one time.

use std::io;

use super::{BrokenOff, BulkError, CHUNK_BYTES, Chunk, Incoming, Reply, Request};
use crate::ids::ContentHash;

/// Where contents are kept. All streams share it.
pub trait Shelf {
    /// Bytes of a content; `None` where it is not here.
    ///
    /// # Errors
    /// The disk's.
    fn len(&self, hash: &ContentHash) -> io::Result<Option<u64>>;

    /// Up to `max` bytes of a content from `offset`; none where it has gone.
    ///
    /// # Errors
    /// The disk's.
    fn read(&self, hash: &ContentHash, offset: u64, max: usize) -> io::Result<Vec<u8>>;

    /// Keeps a content, once.
    ///
    /// # Errors
    /// The disk's; [`io::ErrorKind::StorageFull`] where there is no room now.
    fn put(&self, content: &[u8]) -> io::Result<()>;

    /// Why there is no room for a content of `total` bytes now, if there is none; for a person.
    fn lack(&self, total: u64) -> Option<String>;

    /// Why a content cannot be had, for a person.
    fn lament(&self, hash: &ContentHash) -> String;

    /// Does something to what came by streams that broke.
    fn broken_off<R>(&self, change: impl FnOnce(&mut BrokenOff) -> R) -> R;
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this record.
    Say(Vec<u8>),
    /// Wait for a record: [`Server::on_record`].
    Listen,
    /// Close the stream.
    HangUp,
}

/// A content that is on its way in.
#[derive(Debug)]
struct Putting {
    incoming: Incoming,
    total: u64,
    /// Another stream brought the start of it.
    resumed: bool,
}

/// A content that is on its way out.
#[derive(Debug)]
struct Getting {
    hash: ContentHash,
    offset: u64,
    total: u64,
}

/// What one stream fetches and stores. Nothing of a transfer under way is seen by another one.
#[derive(Debug)]
pub struct Server<S: Shelf> {
    shelf: S,
    putting: Option<Putting>,
    getting: Option<Getting>,
    reply: Option<Reply<'static>>,
    over: bool,
}

impl<S: Shelf> Server<S> {
    /// A new stream.
    pub fn new(shelf: S) -> Self {
        Self { shelf, putting: None, getting: None, reply: None, over: false }
    }

    /// What is to be done.
    pub fn step(&mut self) -> Next {
        match self.reply.take().map(|reply| reply.to_bytes()).or_else(|| self.chunk()) {
            Some(record) => Next::Say(record),
            None if self.over => Next::HangUp,
            None => Next::Listen,
        }
    }

    /// A record came. What is no question, or does not continue what was said before, breaks the stream: an answer
    /// would be taken for that to its next question.
    pub fn on_record(&mut self, record: &[u8]) {
        self.reply = match Request::read(record) {
            Ok(Request::Get { hash, offset }) => self.get(hash, offset),
            Ok(Request::Put { hash, total }) => Some(self.put(hash, total)),
            Ok(Request::Chunk(chunk)) => self.take(&chunk),
            Err(error) => {
                self.over = true;
                (error != BulkError::Crc).then(|| Reply::Refused(error.to_string()))
            }
        };
    }

    fn get(&mut self, hash: ContentHash, offset: u64) -> Option<Reply<'static>> {
        match self.shelf.len(&hash) {
            Ok(Some(total)) => {
                self.getting = Some(Getting { hash, offset, total });
                Some(Reply::Found { total })
            }
            Ok(None) => Some(Reply::Refused(self.shelf.lament(&hash))),
            Err(_) => self.hang_up(),
        }
    }

    /// The next chunk of what is fetched.
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let Getting { hash, offset, total } = self.getting.as_mut().filter(|_| !self.over)?;
        if *offset >= *total {
            self.getting = None;
            return None;
        }
        let bytes = self.shelf.read(hash, *offset, CHUNK_BYTES).unwrap_or_default();
        let chunk = Chunk { offset: *offset, bytes: &bytes };
        *offset += bytes.len() as u64;
        // It went away meanwhile, or cannot be read: the rest cannot be had by this stream.
        self.over = bytes.is_empty();
        (!self.over).then(|| Reply::Chunk(chunk).to_bytes())
    }

    fn put(&mut self, hash: ContentHash, total: u64) -> Reply<'static> {
        self.putting = None;
        match self.shelf.len(&hash) {
            Ok(Some(_)) => return Reply::Have { bytes: total },
            Ok(None) => {}
            Err(e) => return Reply::Refused(format!("the scheduler cannot read what it has: {e}")),
        }
        // The worker waits with it, and goes on when there is room.
        if let Some(lack) = self.shelf.lack(total) {
            return Reply::NoRoom(lack);
        }
        if total == 0 {
            // No chunk follows that would say that it is whole.
            return match Incoming::new(hash).finish() {
                Ok(empty) => self.keep(&empty, Reply::Have { bytes: 0 }),
                Err(e) => Reply::Refused(e.to_string()),
            };
        }
        let incoming = self.shelf.broken_off(|broken_off| broken_off.take(hash, total));
        let bytes = incoming.offset();
        self.putting = Some(Putting { incoming, total, resumed: bytes > 0 });
        Reply::Have { bytes }
    }

    /// Takes a chunk; a reply where the content is whole.
    fn take(&mut self, chunk: &Chunk<'_>) -> Option<Reply<'static>> {
        let Some(mut putting) = self.putting.take() else { return self.hang_up() };
        if putting.incoming.take(chunk, putting.total).is_err() {
            return self.hang_up();
        }
        if putting.incoming.offset() < putting.total {
            self.putting = Some(putting);
            return None;
        }
        let bytes = match putting.incoming.finish() {
            Ok(bytes) => bytes,
            // It is sent again, all of it.
            Err(_) if putting.resumed => return self.hang_up(),
            Err(e) => return Some(Reply::Refused(e.to_string())),
        };
        Some(self.keep(&bytes, Reply::Stored))
    }

    fn keep(&self, content: &[u8], kept: Reply<'static>) -> Reply<'static> {
        match self.shelf.put(content) {
            Ok(()) => kept,
            Err(e) if e.kind() == io::ErrorKind::StorageFull => Reply::NoRoom(e.to_string()),
            Err(e) => Reply::Refused(format!("the scheduler cannot keep it: {e}")),
        }
    }

    fn hang_up(&mut self) -> Option<Reply<'static>> {
        self.over = true;
        None
    }
}

impl<S: Shelf> Drop for Server<S> {
    fn drop(&mut self) {
        if let Some(Putting { incoming, .. }) = self.putting.take() {
            self.shelf.broken_off(|broken_off| broken_off.keep(incoming));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashMap;

    use super::super::chunks;
    use super::*;

    #[derive(Default)]
    struct Memory {
        kept: RefCell<HashMap<ContentHash, Vec<u8>>>,
        broken_off: RefCell<BrokenOff>,
        full: RefCell<Option<String>>,
    }

    impl Shelf for &Memory {
        fn len(&self, hash: &ContentHash) -> io::Result<Option<u64>> {
            Ok(self.kept.borrow().get(hash).map(|content| content.len() as u64))
        }

        fn read(&self, hash: &ContentHash, offset: u64, max: usize) -> io::Result<Vec<u8>> {
            let kept = self.kept.borrow();
            let content = kept.get(hash).ok_or(io::ErrorKind::NotFound)?;
            Ok(content.iter().skip(offset as usize).take(max).copied().collect())
        }

        fn put(&self, content: &[u8]) -> io::Result<()> {
            self.kept.borrow_mut().insert(ContentHash::of(content), content.to_vec());
            Ok(())
        }

        fn lack(&self, _: u64) -> Option<String> {
            self.full.borrow().clone()
        }

        fn lament(&self, _: &ContentHash) -> String {
            "gone".into()
        }

        fn broken_off<R>(&self, change: impl FnOnce(&mut BrokenOff) -> R) -> R {
            change(&mut self.broken_off.borrow_mut())
        }
    }

    fn content() -> (Vec<u8>, ContentHash, u64) {
        let content: Vec<u8> = (0..200_000_u32).map(|i| (i / 7) as u8).collect();
        let (hash, total) = (ContentHash::of(&content), content.len() as u64);
        (content, hash, total)
    }

    /// What it says to a request, if anything.
    fn ask(node: &mut Server<&Memory>, request: Request<'_>) -> Next {
        node.on_record(&request.to_bytes());
        node.step()
    }

    fn say(reply: Reply<'_>) -> Next {
        Next::Say(reply.to_bytes())
    }

    #[test]
    fn equal_contents_of_two_streams_at_one_time_are_both_stored() {
        let memory = Memory::default();
        let (content, hash, total) = content();
        let mut nodes = [Server::new(&memory), Server::new(&memory)];
        for node in &mut nodes {
            assert_eq!(ask(node, Request::Put { hash, total }), say(Reply::Have { bytes: 0 }));
        }
        let mut replies = Vec::new();
        for chunk in chunks(&content, 0) {
            replies.extend(nodes.iter_mut().map(|node| ask(node, Request::Chunk(chunk))));
        }
        let last = replies.len() - 2;
        assert_eq!(replies[last..], [say(Reply::Stored), say(Reply::Stored)]);
        assert!(replies[..last].iter().all(|reply| *reply == Next::Listen), "{replies:?}");
        assert_eq!(memory.kept.borrow()[&hash], content);
    }

    #[test]
    fn a_transfer_that_broke_off_goes_on_for_one_stream_only() {
        let memory = Memory::default();
        let (content, hash, total) = content();
        let mut first = Server::new(&memory);
        ask(&mut first, Request::Put { hash, total });
        for chunk in chunks(&content, 0).take(2) {
            assert_eq!(ask(&mut first, Request::Chunk(chunk)), Next::Listen);
        }
        drop(first);
        let (mut second, mut third) = (Server::new(&memory), Server::new(&memory));
        *memory.full.borrow_mut() = Some("full".into());
        assert_eq!(ask(&mut third, Request::Put { hash, total }), say(Reply::NoRoom("full".into())));
        *memory.full.borrow_mut() = None;
        let half = 2 * CHUNK_BYTES as u64;
        assert_eq!(ask(&mut second, Request::Put { hash, total }), say(Reply::Have { bytes: half }));
        assert_eq!(ask(&mut third, Request::Put { hash, total }), say(Reply::Have { bytes: 0 }));
        let replies = chunks(&content, half).map(|chunk| ask(&mut second, Request::Chunk(chunk)));
        assert_eq!(replies.last(), Some(say(Reply::Stored)));
    }

    #[test]
    fn a_chunk_that_continues_nothing_breaks_the_stream_and_gets_no_answer() {
        let memory = Memory::default();
        let (content, hash, total) = content();
        let second = chunks(&content, 0).nth(1).unwrap();
        let mut node = Server::new(&memory);
        assert_eq!(ask(&mut node, Request::Chunk(second)), Next::HangUp);
        let mut node = Server::new(&memory);
        ask(&mut node, Request::Put { hash, total });
        assert_eq!(ask(&mut node, Request::Chunk(second)), Next::HangUp);
    }

    /// It was said to be there, and was not: the next get was refused.
    #[test]
    fn an_empty_content_is_kept_when_it_is_put() {
        let memory = Memory::default();
        let mut node = Server::new(&memory);
        let (empty, other) = (ContentHash::of(b""), ContentHash::of(b"x"));
        let refused = say(Reply::Refused(BulkError::Hash.to_string()));
        assert_eq!(ask(&mut node, Request::Put { hash: other, total: 0 }), refused);
        assert_eq!(ask(&mut node, Request::Put { hash: empty, total: 0 }), say(Reply::Have { bytes: 0 }));
        assert_eq!(ask(&mut node, Request::Get { hash: empty, offset: 0 }), say(Reply::Found { total: 0 }));
        assert_eq!(memory.kept.borrow().len(), 1);
    }

    #[test]
    fn what_is_no_question_is_refused_in_words_and_a_damaged_chunk_in_none() {
        let memory = Memory::default();
        let (content, ..) = content();
        let mut damaged = Request::Chunk(chunks(&content, 0).next().unwrap()).to_bytes();
        damaged[20] ^= 1;
        let mut node = Server::new(&memory);
        node.on_record(&damaged);
        assert_eq!(node.step(), Next::HangUp);
        let mut node = Server::new(&memory);
        node.on_record(b"hello");
        assert_eq!(node.step(), say(Reply::Refused(BulkError::Malformed.to_string())));
        assert_eq!(node.step(), Next::HangUp);
    }

    #[test]
    fn a_get_has_all_from_its_offset_on_and_a_content_that_goes_away_breaks_the_stream() {
        let memory = Memory::default();
        let (content, hash, total) = content();
        let mut node = Server::new(&memory);
        assert_eq!(ask(&mut node, Request::Get { hash, offset: 0 }), say(Reply::Refused("gone".into())));
        (&memory).put(&content).unwrap();
        assert_eq!(ask(&mut node, Request::Get { hash, offset: 9 }), say(Reply::Found { total }));
        for chunk in chunks(&content, 9) {
            assert_eq!(node.step(), say(Reply::Chunk(chunk)));
        }
        assert_eq!(node.step(), Next::Listen);
        ask(&mut node, Request::Get { hash, offset: 9 });
        memory.kept.borrow_mut().clear();
        assert_eq!(node.step(), Next::HangUp);
    }
}
