//! The file `cards.json` of a worker, beside `running`: how its cards do, and which of them each slot's units have. The worker
//! writes it anew about once a second and whenever a slot is given cards or gives them back, and the node's monitoring agent
//! reads it. A machine without cards has no such file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::wire::CardFigures;

/// The name of the file.
pub const FILE: &str = "cards.json";
/// A longer file is none.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// What the file says.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Gauges {
    /// The cards, as `--probe` counts them.
    pub cards: Vec<Gauge>,
    /// Which of them the bundle of a slot has, by the slot's number, if it has any.
    #[serde(default)]
    pub slots: BTreeMap<usize, Vec<u16>>,
}

/// How a card does, with what only its own node is told. What its driver does not say is absent.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Gauge {
    /// What all are told.
    pub figures: CardFigures,
    /// At this temperature in degrees Celsius it slows down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_c: Option<u32>,
    /// And at this one it stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_c: Option<u32>,
    /// Errors of its memory that were corrected since its driver was loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected: Option<u64>,
    /// And those that were not, with the faults that the driver has told of one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncorrected: Option<u64>,
}

/// What a slot's unit has of the cards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Share {
    /// Their load, in millionths of a card.
    pub load: Option<u64>,
    /// Bytes of their memory that are used.
    pub memory_bytes: Option<u64>,
}

impl Gauges {
    /// Reads the file's bytes.
    ///
    /// # Errors
    /// They are none.
    pub fn read(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// What the cards do for the slot of that number; none where it has no card. Those who share a card have equal parts of what it
    /// does: no driver tells them apart for all vendors.
    pub fn share(&self, slot: usize) -> Option<Share> {
        let its = self.slots.get(&slot)?;
        let sharers = |card: u16| self.slots.values().filter(|of| of.contains(&card)).count().max(1) as u64;
        let sum = |value: fn(&CardFigures) -> Option<u64>| {
            let of = |card: &u16| Some(value(&self.cards.get(usize::from(*card))?.figures)? / sharers(*card));
            its.iter().map(of).sum::<Option<u64>>()
        };
        let (load, memory_bytes) = (sum(load), sum(|figures| figures.memory_used_bytes));
        (!its.is_empty()).then_some(Share { load, memory_bytes })
    }
}

/// The load of a card, in millionths.
pub fn load(figures: &CardFigures) -> Option<u64> {
    figures.load.map(|thousandths| u64::from(thousandths) * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauge(load: Option<u16>, memory_used_bytes: Option<u64>) -> Gauge {
        Gauge {
            figures: CardFigures { load, memory_used_bytes, ..CardFigures::default() },
            ..Gauge::default()
        }
    }

    #[test]
    fn a_slot_has_its_part_of_what_its_cards_do() {
        let cards = vec![gauge(Some(800), Some(1 << 30)), gauge(Some(100), Some(10)), gauge(None, Some(7))];
        let slots = BTreeMap::from([(0, vec![0]), (3, vec![0]), (4, vec![0, 1]), (5, vec![2]), (6, vec![9])]);
        let gauges = Gauges { cards, slots };
        let share = |load, memory_bytes| Some(Share { load, memory_bytes });
        assert_eq!(gauges.share(0), share(Some(266_666), Some((1 << 30) / 3)));
        assert_eq!(gauges.share(4), share(Some(366_666), Some((1 << 30) / 3 + 10)));
        assert_eq!(gauges.share(5), share(None, Some(7)), "its driver tells no load");
        assert_eq!(gauges.share(6), share(None, None), "a card that nobody knows");
        assert_eq!(gauges.share(1), None);
        let bytes = serde_json::to_vec(&gauges).unwrap();
        assert_eq!(Gauges::read(&bytes).unwrap(), gauges);
        assert!(Gauges::read(&bytes[1..]).is_err());
    }
}
