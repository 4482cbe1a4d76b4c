//! What a worker tells of itself beside its tasks: what its machine is, how busy its slots are, how old the
//! results of a datagram are, how long it stays. Farms run without any of it; people and logs want it.

use crate::bytes::{Malformed, Reader, fields, items};
use crate::field::Field;

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

fields! { Field:
    Facts { cores, memory_bytes, system, cpu, accelerators }
    Load { idle_us, slots }
    TimeLeft { left_us, work_us }
}
items! { Field:
    // The slots of a load, which are the last in their message: those beyond the limit are left out.
    Vec<u16>: |slots, out| slots.iter().take(LOAD_SLOTS_MAX).for_each(|slot| slot.put(out)), |rest| {
        let slots: Vec<u16> = Field::read_all(rest)?;
        if slots.len() > LOAD_SLOTS_MAX {
            return Err(Malformed);
        }
        Ok(slots.into_iter().map(|slot| slot.min(BUSY)).collect())
    };
}

/// As much of a text as may travel: what is too long is cut.
impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        let text = &self[..self.floor_char_boundary(FACT_BYTES_MAX)];
        out.push(text.len() as u8);
        out.extend_from_slice(text.as_bytes());
    }

    fn read(rest: &mut Reader<'_>) -> Result<Self, Malformed> {
        let length = usize::from(rest.u8()?);
        if length > FACT_BYTES_MAX {
            return Err(Malformed);
        }
        String::from_utf8(rest.bytes(length)?.to_vec()).map_err(|_| Malformed)
    }
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

/// How long a worker stays that must leave by itself, because a batch system ends it. Times are what is left when it is
/// said: no wall clocks are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimeLeft {
    /// Until it has gone, in microseconds.
    pub left_us: u64,
    /// Until it gives back what waits and takes nothing more, in microseconds: a task should be over by then.
    pub work_us: u64,
}
