//! What a worker tells of itself beside its tasks: what its machine is, how busy its slots are, how old the
//! results of a datagram are. Farms run without any of it; people and logs want it.

use super::body::{Malformed, Reader};
use super::{Packer, kind};

/// Bytes of each text in [`Facts`].
pub const FACT_BYTES_MAX: usize = 128;
/// Slots that a [`Load`] lists one by one.
pub const LOAD_SLOTS_MAX: usize = 64;
/// Bytes of an entry of ages: sequence and age.
pub const AGE_BYTES: usize = 8 + 8;
/// A slot that was never idle, in thousandths.
const BUSY: u16 = 1_000;

/// What a worker's machine is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Host name, operating system and kernel.
    pub system: String,
    /// Model of its processor.
    pub cpu: String,
    /// Cores that the worker may use.
    pub cores: u32,
    /// Bytes of memory that it may use.
    pub memory_bytes: u64,
    /// Model and number of its accelerators; empty for none.
    pub accelerators: String,
}

impl Facts {
    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (cores, memory_bytes) = (body.u32()?, body.u64()?);
        Ok(Self { system: text(body)?, cpu: text(body)?, accelerators: text(body)?, cores, memory_bytes })
    }
}

fn text(body: &mut Reader<'_>) -> Result<String, Malformed> {
    let length = usize::from(body.u8()?);
    if length > FACT_BYTES_MAX {
        return Err(Malformed);
    }
    std::str::from_utf8(body.bytes(length)?).map(str::to_owned).map_err(|_| Malformed)
}

/// As much of a text as may travel.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(FACT_BYTES_MAX)]
}

/// How busy a worker is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// How long no slot has run anything, in microseconds; 0 while one is busy.
    pub idle_us: u64,
    /// Share of the time since the last load that each slot was busy, in thousandths. A worker with more
    /// than [`LOAD_SLOTS_MAX`] slots gives the mean of all as the only one.
    pub slots: Vec<u16>,
}

impl Load {
    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let idle_us = body.u64()?;
        let rest = std::mem::take(body).0;
        let (slots, odd) = rest.as_chunks::<2>();
        if slots.len() > LOAD_SLOTS_MAX || !odd.is_empty() {
            return Err(Malformed);
        }
        let slots = slots.iter().map(|&slot| u16::from_le_bytes(slot).min(BUSY)).collect();
        Ok(Self { idle_us, slots })
    }
}

impl Packer {
    /// Packs facts; texts that are too long are cut.
    pub fn facts(&mut self, facts: &Facts) {
        let texts = [&facts.system, &facts.cpu, &facts.accelerators].map(|text| cut(text));
        let bytes = 4 + 8 + texts.iter().map(|text| 1 + text.len()).sum::<usize>();
        self.message(kind::FACTS, bytes, |out| {
            out.extend_from_slice(&facts.cores.to_le_bytes());
            out.extend_from_slice(&facts.memory_bytes.to_le_bytes());
            for text in texts {
                out.push(text.len() as u8);
                out.extend_from_slice(text.as_bytes());
            }
        });
    }

    /// Packs a load; slots beyond the limit are left out.
    pub fn load(&mut self, load: &Load) {
        let slots = &load.slots[..load.slots.len().min(LOAD_SLOTS_MAX)];
        self.message(kind::LOAD, 8 + 2 * slots.len(), |out| {
            out.extend_from_slice(&load.idle_us.to_le_bytes());
            slots.iter().for_each(|slot| out.extend_from_slice(&slot.to_le_bytes()));
        });
    }

    /// Packs how often the worker became able to run what it had refused.
    pub fn able(&mut self, times: u32) {
        self.message(kind::ABLE, 4, |out| out.extend_from_slice(&times.to_le_bytes()));
    }

    /// Packs the ages of results, which must follow in the same datagram: from which sequence on, ascending,
    /// and how old in microseconds.
    pub fn ages(&mut self, ages: &[(u64, u64)]) {
        self.message(kind::AGES, ages.len() * AGE_BYTES, |out| {
            for (sequence, age_us) in ages {
                out.extend_from_slice(&sequence.to_le_bytes());
                out.extend_from_slice(&age_us.to_le_bytes());
            }
        });
    }
}
