//! The scheduler's half: answers one worker, whose stream it is. A transfer belongs to its stream alone: two nodes may
//! well send equal contents at one time.

use std::io;

use super::{BulkError, CHUNK_BYTES, Chunk, Few, Located, Reply, Request};
use crate::ids::{ContentHash, JobId};

/// Where contents are kept. All streams share it.
pub trait Shelf {
    /// A content on its way in, of one stream. It is dropped where it is of no use.
    type Transfer;

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

    /// Begins to take a content of `total` bytes, or goes on with one that broke off: with how many bytes are here,
    /// which are fewer than all.
    ///
    /// # Errors
    /// The disk's; [`io::ErrorKind::StorageFull`] where there is no room for it now, in words for a person.
    fn begin(&self, hash: ContentHash, total: u64) -> io::Result<(Self::Transfer, u64)>;

    /// Takes the next bytes.
    ///
    /// # Errors
    /// As of [`Shelf::begin`].
    fn take(&self, transfer: &mut Self::Transfer, bytes: &[u8]) -> io::Result<()>;

    /// Keeps a content that is whole, once; false where it does not have its hash, and nothing is kept.
    ///
    /// # Errors
    /// As of [`Shelf::begin`].
    fn keep(&self, transfer: Self::Transfer) -> io::Result<bool>;

    /// Keeps contents that came together. Where it cannot keep one, those before it may be kept.
    ///
    /// # Errors
    /// As of [`Shelf::begin`].
    fn keep_all(&self, contents: Few<'_>) -> io::Result<()>;

    /// The stream of this one broke.
    fn break_off(&self, transfer: Self::Transfer);

    /// Why a content cannot be had, for a person.
    fn lament(&self, hash: &ContentHash) -> String;

    /// The content that has the value of a unit.
    ///
    /// # Errors
    /// There is none, in words for a person.
    fn locate(&self, job: JobId, unit: u128) -> Result<Located, String>;
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
struct Putting<T> {
    /// Why it is not kept, where that became plain on the way: the worker hears it after its last chunk.
    transfer: Result<T, Reply<'static>>,
    offset: u64,
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
    putting: Option<Putting<S::Transfer>>,
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
        self.on_request(Request::read(record));
    }

    /// The same for one that was read already: a long one is checked for damage by that, which takes its time.
    pub fn on_request(&mut self, request: Result<Request<'_>, BulkError>) {
        self.reply = match request {
            Ok(Request::Get { hash, offset }) => self.get(hash, offset),
            Ok(Request::Put { hash, total }) => Some(self.put(hash, total)),
            Ok(Request::Chunk(chunk)) => self.take(&chunk),
            Ok(Request::PutAll(contents)) => {
                self.putting = None;
                Some(self.shelf.keep_all(contents).map_or_else(|e| failed(&e), |()| Reply::Stored))
            }
            Ok(Request::Locate { job, unit }) => {
                Some(self.shelf.locate(job, unit).map_or_else(Reply::Refused, Reply::Located))
            }
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
            Ok(Some(bytes)) if bytes == total => return Reply::Have { bytes },
            Ok(Some(_)) => return Reply::Refused(BulkError::Hash.to_string()),
            Ok(None) => {}
            Err(e) => return Reply::Refused(format!("the scheduler cannot read what it has: {e}")),
        }
        match self.shelf.begin(hash, total) {
            // No chunk follows that would say that it is whole.
            Ok((empty, _)) if total == 0 => match self.shelf.keep(empty) {
                Ok(true) => Reply::Have { bytes: 0 },
                Ok(false) => Reply::Refused(BulkError::Hash.to_string()),
                Err(e) => failed(&e),
            },
            Ok((transfer, offset)) => {
                self.putting = Some(Putting { transfer: Ok(transfer), offset, total, resumed: offset > 0 });
                Reply::Have { bytes: offset }
            }
            Err(e) => failed(&e),
        }
    }

    /// Takes a chunk; a reply where the content is whole. What cannot be kept is let by: a reply amid the chunks would be
    /// taken for an answer to something else.
    fn take(&mut self, chunk: &Chunk<'_>) -> Option<Reply<'static>> {
        let Some(putting) = &mut self.putting else { return self.hang_up() };
        let end = chunk.offset.saturating_add(chunk.bytes.len() as u64);
        if chunk.offset != putting.offset || end > putting.total {
            return self.hang_up();
        }
        putting.offset = end;
        if let Ok(transfer) = &mut putting.transfer
            && let Err(e) = self.shelf.take(transfer, chunk.bytes)
        {
            putting.transfer = Err(failed(&e));
        }
        if putting.offset < putting.total {
            return None;
        }
        let Putting { transfer, resumed, .. } = self.putting.take()?;
        match transfer.map(|transfer| self.shelf.keep(transfer)) {
            Ok(Ok(true)) => Some(Reply::Stored),
            // It is sent again, all of it.
            Ok(Ok(false)) if resumed => self.hang_up(),
            Ok(Ok(false)) => Some(Reply::Refused(BulkError::Hash.to_string())),
            Ok(Err(e)) => Some(failed(&e)),
            Err(reply) => Some(reply),
        }
    }

    fn hang_up(&mut self) -> Option<Reply<'static>> {
        self.over = true;
        None
    }
}

impl<S: Shelf> Drop for Server<S> {
    fn drop(&mut self) {
        if let Some(Putting { transfer: Ok(transfer), .. }) = self.putting.take() {
            self.shelf.break_off(transfer);
        }
    }
}

/// Where there is no room the worker waits with it, and tries again.
fn failed(error: &io::Error) -> Reply<'static> {
    match error.kind() {
        io::ErrorKind::StorageFull => Reply::NoRoom(error.to_string()),
        _ => Reply::Refused(format!("the scheduler cannot keep it: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::HashMap;

    use super::super::{Incoming, chunks};
    use super::*;

    #[derive(Default)]
    struct Memory {
        kept: RefCell<HashMap<ContentHash, Vec<u8>>>,
        broken_off: RefCell<HashMap<ContentHash, Incoming>>,
        full: RefCell<Option<String>>,
        damaged: Cell<bool>,
    }

    impl Memory {
        fn has_room(&self) -> io::Result<()> {
            let full = self.full.borrow().clone();
            full.map_or(Ok(()), |full| Err(io::Error::new(io::ErrorKind::StorageFull, full)))
        }
    }

    impl Shelf for &Memory {
        type Transfer = Incoming;

        fn len(&self, hash: &ContentHash) -> io::Result<Option<u64>> {
            Ok(self.kept.borrow().get(hash).map(|content| content.len() as u64))
        }

        fn read(&self, hash: &ContentHash, offset: u64, max: usize) -> io::Result<Vec<u8>> {
            let kept = self.kept.borrow();
            let content = kept.get(hash).ok_or(io::ErrorKind::NotFound)?;
            Ok(content.iter().skip(offset as usize).take(max).copied().collect())
        }

        fn begin(&self, hash: ContentHash, _: u64) -> io::Result<(Incoming, u64)> {
            self.has_room()?;
            let broken_off = self.broken_off.borrow_mut().remove(&hash);
            let incoming = broken_off.unwrap_or_else(|| Incoming::new(hash));
            let offset = incoming.offset();
            Ok((incoming, offset))
        }

        fn take(&self, incoming: &mut Incoming, bytes: &[u8]) -> io::Result<()> {
            self.has_room()?;
            if self.damaged.get() {
                return Err(io::Error::other("Input/output error"));
            }
            incoming.take(&Chunk { offset: incoming.offset(), bytes }, u64::MAX).map_err(io::Error::other)
        }

        fn keep(&self, incoming: Incoming) -> io::Result<bool> {
            let content = incoming.finish().ok();
            Ok(content.map(|it| self.kept.borrow_mut().insert(ContentHash::of(&it), it)).is_some())
        }

        fn keep_all(&self, contents: Few<'_>) -> io::Result<()> {
            self.has_room()?;
            let each = contents.contents().map(|content| (ContentHash::of(content), content.to_vec()));
            self.kept.borrow_mut().extend(each);
            Ok(())
        }

        fn break_off(&self, incoming: Incoming) {
            self.broken_off.borrow_mut().insert(incoming.hash(), incoming);
        }

        fn lament(&self, _: &ContentHash) -> String {
            "gone".into()
        }

        fn locate(&self, job: JobId, unit: u128) -> Result<Located, String> {
            let located = |at| Located { hash: ContentHash([at; 32]), first: 0, units: 7 };
            (unit < 7).then(|| located(job.0 as u8)).ok_or_else(|| "no such unit".into())
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
        // What is here is not taken for something of another length.
        assert_eq!(ask(&mut nodes[0], Request::Put { hash, total }), say(Reply::Have { bytes: total }));
        let other = ask(&mut nodes[0], Request::Put { hash, total: total + 1 });
        assert_eq!(other, say(Reply::Refused(BulkError::Hash.to_string())));
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

    /// The worker hears of it after its last chunk, where it listens.
    #[test]
    fn a_disk_that_fills_up_or_fails_amid_a_transfer_is_told_of_at_its_end() {
        let (content, hash, total) = content();
        let no_room = Reply::NoRoom("full".into());
        let refused = Reply::Refused("the scheduler cannot keep it: Input/output error".into());
        for (is_full, expected) in [(true, no_room), (false, refused)] {
            let memory = Memory::default();
            let mut node = Server::new(&memory);
            ask(&mut node, Request::Put { hash, total });
            let mut replies = Vec::new();
            for chunk in chunks(&content, 0) {
                replies.push(ask(&mut node, Request::Chunk(chunk)));
                match is_full {
                    true => *memory.full.borrow_mut() = Some("full".into()),
                    false => memory.damaged.set(true),
                }
            }
            assert_eq!(replies.pop(), Some(say(expected)));
            assert!(replies.iter().all(|reply| *reply == Next::Listen), "{replies:?}");
            // What came is given up: its room is needed. The stream goes on.
            *memory.full.borrow_mut() = None;
            assert_eq!(ask(&mut node, Request::Put { hash, total }), say(Reply::Have { bytes: 0 }));
        }
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
    fn contents_that_come_together_are_stored_together_or_wait_together() {
        let memory = Memory::default();
        let mut all = Vec::new();
        let contents: [&[u8]; 4] = [b"one", b"", b"three", b"one"];
        contents.iter().for_each(|content| assert!(Few::add(&mut all, content)));
        let mut node = Server::new(&memory);
        *memory.full.borrow_mut() = Some("full".into());
        let put = || Request::PutAll(Few::new(&all));
        assert_eq!(ask(&mut node, put()), say(Reply::NoRoom("full".into())));
        *memory.full.borrow_mut() = None;
        // A transfer that was under way is given up by another question.
        let (content, hash, total) = content();
        ask(&mut node, Request::Put { hash, total });
        assert_eq!(ask(&mut node, put()), say(Reply::Stored));
        let kept = |content: &[u8]| memory.kept.borrow().get(&ContentHash::of(content)).cloned();
        assert!(contents.iter().all(|content| kept(content).as_deref() == Some(content)));
        assert_eq!(memory.kept.borrow().len(), 3);
        assert_eq!(ask(&mut node, Request::Chunk(chunks(&content, 0).next().unwrap())), Next::HangUp);
    }

    #[test]
    fn where_a_unit_lies_is_told_or_refused_in_words() {
        let memory = Memory::default();
        let mut node = Server::new(&memory);
        let located = Located { hash: ContentHash([3; 32]), first: 0, units: 7 };
        assert_eq!(ask(&mut node, Request::Locate { job: JobId(3), unit: 6 }), say(Reply::Located(located)));
        let refused = say(Reply::Refused("no such unit".into()));
        assert_eq!(ask(&mut node, Request::Locate { job: JobId(3), unit: 7 }), refused);
        assert_eq!(node.step(), Next::Listen);
    }

    #[test]
    fn a_get_has_all_from_its_offset_on_and_a_content_that_goes_away_breaks_the_stream() {
        let memory = Memory::default();
        let (content, hash, total) = content();
        let mut node = Server::new(&memory);
        assert_eq!(ask(&mut node, Request::Get { hash, offset: 0 }), say(Reply::Refused("gone".into())));
        memory.kept.borrow_mut().insert(hash, content.clone());
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
