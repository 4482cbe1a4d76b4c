//! The scheduler's store, as its streams share it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use starfarm_protocol::bulk::{BrokenOff, Shelf};
use starfarm_protocol::ids::ContentHash;

use super::tally::Transfers;

/// What the scheduler keeps. Contents are on its disk; what broke off dies with it.
#[derive(Default, Debug)]
pub(super) struct Store {
    pub(super) contents: HashMap<ContentHash, Vec<u8>>,
    pub(super) broken_off: BrokenOff,
    pub(super) full: bool,
    pub(super) tally: Transfers,
}

/// The store as each stream has it.
#[derive(Clone, Default, Debug)]
pub(super) struct Memory(pub(super) Rc<RefCell<Store>>);

impl Shelf for Memory {
    fn len(&self, hash: &ContentHash) -> io::Result<Option<u64>> {
        Ok(self.0.borrow().contents.get(hash).map(|content| content.len() as u64))
    }

    fn read(&self, hash: &ContentHash, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let store = self.0.borrow();
        let content = store.contents.get(hash).ok_or(io::ErrorKind::NotFound)?;
        Ok(content.iter().skip(offset as usize).take(max).copied().collect())
    }

    fn put(&self, content: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().contents.insert(ContentHash::of(content), content.to_vec());
        Ok(())
    }

    fn lack(&self, _: u64) -> Option<String> {
        let mut store = self.0.borrow_mut();
        store.tally.no_room += u64::from(store.full);
        store.full.then(|| "full".to_owned())
    }

    fn lament(&self, _: &ContentHash) -> String {
        "it is not here".to_owned()
    }

    fn broken_off<R>(&self, change: impl FnOnce(&mut BrokenOff) -> R) -> R {
        change(&mut self.0.borrow_mut().broken_off)
    }
}
