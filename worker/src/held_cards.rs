//! The file `cards.json`, by which the node's monitoring agent knows how cards do and whose units have them. What it says is in
//! the protocol.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use starfarm_protocol::gauges::{Gauge, Gauges};

use crate::cards::Card;
use crate::options::usual_cards;

/// Which slots have cards, and how the cards do. It never waits for a disk, and a disk that takes nothing costs figures alone.
pub(crate) struct HeldCards {
    path: PathBuf,
    /// Of each card that programs may be given, its number among all that this process may use.
    places: Vec<u16>,
    known: Mutex<Gauges>,
}

impl HeldCards {
    /// Of nobody so far: `cards` are those that programs may be given.
    pub(crate) fn new(path: PathBuf, cards: &[Card]) -> Self {
        // One of a worker before this one.
        let _ = std::fs::remove_file(&path);
        let all = usual_cards();
        let place = |card: &Card| all.iter().position(|of| of == card).unwrap_or(all.len()) as u16;
        Self { path, places: cards.iter().map(place).collect(), known: Mutex::default() }
    }

    /// So the cards do now.
    pub(crate) fn see(&self, cards: Vec<Gauge>) {
        let mut known = self.known();
        known.cards = cards;
        self.write(&known);
    }

    /// The slot's units have these cards until this is dropped.
    pub(crate) fn hold(&self, slot: u16, cards: &[u16]) -> Held<'_> {
        let place = |card: &u16| self.places.get(usize::from(*card)).copied();
        let places: Vec<_> = cards.iter().filter_map(place).collect();
        let slot = usize::from(slot);
        if !places.is_empty() {
            let mut known = self.known();
            known.slots.insert(slot, places);
            self.write(&known);
        }
        Held { cards: self, slot }
    }

    fn known(&self) -> MutexGuard<'_, Gauges> {
        self.known.lock().expect("a panic ends the process")
    }

    fn write(&self, known: &Gauges) {
        let fresh = self.path.with_extension("new");
        let write = || -> io::Result<()> {
            let mut file =
                OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
            file.write_all(&serde_json::to_vec(known)?)?;
            std::fs::rename(&fresh, &self.path)
        };
        let _ = write();
    }
}

/// Cards that a slot's units have.
pub(crate) struct Held<'a> {
    cards: &'a HeldCards,
    slot: usize,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut known = self.cards.known();
        if known.slots.remove(&self.slot).is_some() {
            self.cards.write(&known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn the_file_says_who_has_which_cards() {
        let dir = TempDir::new();
        let path = dir.0.join("cards.json");
        std::fs::write(&path, "of a worker before").unwrap();
        let cards = HeldCards { places: vec![1, 3], ..HeldCards::new(path.clone(), &[]) };
        assert!(!path.exists());
        drop(cards.hold(0, &[]));
        assert!(!path.exists(), "without cards nothing is written");
        let read = || Gauges::read(&std::fs::read(&path).unwrap()).unwrap();
        let held = cards.hold(7, &[1, 9]);
        assert_eq!(read().slots, [(7, vec![3])].into(), "one that is not there is nobody's");
        cards.see(vec![Gauge::default()]);
        let both = cards.hold(8, &[0, 1]);
        assert_eq!((read().cards.len(), read().slots.len()), (1, 2));
        drop(held);
        assert_eq!(read().slots, [(8, vec![1, 3])].into());
        drop(both);
        assert_eq!((read().cards.len(), read().slots.len()), (1, 0));
    }
}
