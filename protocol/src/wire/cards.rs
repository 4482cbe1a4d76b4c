//! How the cards of a worker do, as their drivers say. What a driver does not say is absent, never zero.

use serde::{Deserialize, Serialize};

use crate::bytes::{Malformed, Reader, fields};
use crate::field::Field;
use crate::resources::GPUS_MAX;

/// How a card does.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardFigures {
    /// Its model.
    pub model: String,
    /// Share of the time that it computed something, in thousandths.
    #[serde(default)]
    pub load: Option<u16>,
    /// Bytes of its memory that are used.
    #[serde(default)]
    pub memory_used_bytes: Option<u64>,
    /// Bytes of its memory.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Its temperature in degrees Celsius.
    #[serde(default)]
    pub temperature_c: Option<i32>,
    /// What it draws, in milliwatts.
    #[serde(default)]
    pub power_mw: Option<u32>,
}

/// How one of a worker's cards does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Card {
    /// Which one, from 0, as `--probe` counts them.
    pub number: u16,
    /// Of how many; [`GPUS_MAX`] at most.
    pub count: u16,
    /// How it does.
    pub figures: CardFigures,
}

impl Card {
    /// Reads the body of its message.
    pub(super) fn of_body(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let card = Self::read(body)?;
        if card.number < card.count && u64::from(card.count) <= GPUS_MAX { Ok(card) } else { Err(Malformed) }
    }
}

fields! { Field:
    CardFigures { model, load, memory_used_bytes, memory_bytes, temperature_c, power_mw }
    Card { number, count, figures }
}

/// A byte that is 0 for nothing and 1 before something.
impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        self.iter().for_each(|value| value.put(out));
    }

    fn read(rest: &mut Reader<'_>) -> Result<Self, Malformed> {
        match rest.u8()? {
            0 => Ok(None),
            1 => T::read(rest).map(Some),
            _ => Err(Malformed),
        }
    }
}
