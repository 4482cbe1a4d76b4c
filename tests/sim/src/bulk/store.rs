//! The scheduler's store, as its streams share it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use starfarm_protocol::bulk::{Chunk, Few, Incoming, Located, Shelf};
use starfarm_protocol::ids::{ContentHash, JobId};

use super::tally::Transfers;

/// What the scheduler keeps. Contents are on its disk; what broke off dies with it.
#[derive(Default, Debug)]
pub(super) struct Store {
    pub(super) contents: HashMap<ContentHash, Vec<u8>>,
    pub(super) broken_off: HashMap<ContentHash, Incoming>,
    pub(super) full: bool,
    pub(super) tally: Transfers,
}

impl Store {
    fn has_room(&mut self) -> io::Result<()> {
        if !self.full {
            return Ok(());
        }
        self.tally.no_room += 1;
        Err(io::Error::new(io::ErrorKind::StorageFull, "full"))
    }
}

/// The store as each stream has it.
#[derive(Clone, Default, Debug)]
pub(super) struct Memory(pub(super) Rc<RefCell<Store>>);

impl Shelf for Memory {
    type Transfer = Incoming;

    fn len(&self, hash: &ContentHash) -> io::Result<Option<u64>> {
        Ok(self.0.borrow().contents.get(hash).map(|content| content.len() as u64))
    }

    fn read(&self, hash: &ContentHash, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let store = self.0.borrow();
        let content = store.contents.get(hash).ok_or(io::ErrorKind::NotFound)?;
        Ok(content.iter().skip(offset as usize).take(max).copied().collect())
    }

    fn begin(&self, hash: ContentHash, _: u64) -> io::Result<(Incoming, u64)> {
        let mut store = self.0.borrow_mut();
        store.has_room()?;
        let incoming = store.broken_off.remove(&hash).unwrap_or_else(|| Incoming::new(hash));
        let offset = incoming.offset();
        Ok((incoming, offset))
    }

    fn take(&self, incoming: &mut Incoming, bytes: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().has_room()?;
        incoming.take(&Chunk { offset: incoming.offset(), bytes }, u64::MAX).map_err(io::Error::other)
    }

    fn keep(&self, incoming: Incoming) -> io::Result<bool> {
        let hash = incoming.hash();
        let content = incoming.finish().ok();
        Ok(content.map(|content| self.0.borrow_mut().contents.insert(hash, content)).is_some())
    }

    fn keep_all(&self, contents: Few<'_>) -> io::Result<()> {
        let mut store = self.0.borrow_mut();
        store.has_room()?;
        let each = contents.contents().map(|content| (ContentHash::of(content), content.to_vec()));
        store.contents.extend(each);
        store.tally.together += 1;
        Ok(())
    }

    fn break_off(&self, incoming: Incoming) {
        self.0.borrow_mut().broken_off.insert(incoming.hash(), incoming);
    }

    fn lament(&self, _: &ContentHash) -> String {
        "it is not here".to_owned()
    }

    fn locate(&self, _: JobId, unit: u128) -> Result<Located, String> {
        Err(format!("nobody named unit {unit}"))
    }
}
