//! Which of DiMMon's ids is which of ours, and how a peer writes its numbers. Ours are of 64 bits, the lowest byte first.

use super::ByteOrder;
use crate::ids;
use crate::values::ValueId;

/// Ids of a table, at most.
const IDS_MAX: usize = 1_000;

/// How a peer writes the numbers of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// In 64 bits.
    U64,
    /// In 32 bits.
    U32,
}

/// Pairs of ids. An id that is in none keeps its number, and its value's bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IdTable {
    /// By the peer's ids.
    theirs: Vec<(u32, ValueId, Width)>,
    /// By ours.
    ours: Vec<(ValueId, u32, Width)>,
}

impl IdTable {
    /// Reads `7=cpu, 8=memory:u32, 9=1000001`: the peer's id, ours by name or number, and how numbers are written: `u64`, if
    /// nothing is said, or `u32`.
    ///
    /// # Errors
    /// Why it is no table, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut table = Self::default();
        if text.trim().is_empty() {
            return Ok(table);
        }
        if text.split(',').count() > IDS_MAX {
            return Err(format!("`ids` is a list of {IDS_MAX} at most"));
        }
        for pair in text.split(',') {
            let (theirs, ours, width) = pair_of(pair.trim())?;
            if table.theirs.iter().any(|known| known.0 == theirs) {
                return Err(format!("`ids` has {theirs} twice"));
            }
            if table.ours.iter().any(|known| known.0 == ours) {
                return Err(format!("`ids` has our id {} twice", ours.0));
            }
            table.theirs.push((theirs, ours, width));
            table.ours.push((ours, theirs, width));
        }
        table.theirs.sort_unstable_by_key(|known| known.0);
        table.ours.sort_unstable_by_key(|known| known.0);
        Ok(table)
    }

    /// A value that a peer has sent: our id, and the bytes as we have them. `room` is for those that have to be written anew.
    pub fn ours<'a>(
        &self,
        (id, value): (u32, &'a [u8]),
        order: ByteOrder,
        room: &'a mut Vec<u8>,
    ) -> (ValueId, &'a [u8]) {
        let Ok(at) = self.theirs.binary_search_by_key(&id, |known| known.0) else {
            return (ValueId(id), value);
        };
        let (_, id, width) = self.theirs[at];
        (id, widened(value, width, order.is_little(), room))
    }

    /// A value of ours as a peer has it; none where a number is too large for it, or it has no such id.
    pub(crate) fn theirs<'a>(
        &self,
        (id, value): (ValueId, &'a [u8]),
        order: ByteOrder,
        room: &'a mut Vec<u8>,
    ) -> Option<(u32, &'a [u8])> {
        let Ok(at) = self.ours.binary_search_by_key(&id, |known| known.0) else {
            return (id.0 != 0).then_some((id.0, value));
        };
        let (_, id, width) = self.ours[at];
        Some((id, narrowed(value, width, order.is_little(), room)?))
    }
}

/// Bytes that are no numbers of that width stay as they are.
fn widened<'a>(value: &'a [u8], width: Width, is_little: bool, room: &'a mut Vec<u8>) -> &'a [u8] {
    room.clear();
    match width {
        Width::U64 if is_little => return value,
        Width::U64 => {
            let (numbers, []) = value.as_chunks() else { return value };
            room.extend(numbers.iter().flat_map(|number| u64::from_be_bytes(*number).to_le_bytes()));
        }
        Width::U32 => {
            let (numbers, []) = value.as_chunks() else { return value };
            let read = if is_little { u32::from_le_bytes } else { u32::from_be_bytes };
            room.extend(numbers.iter().flat_map(|number| u64::from(read(*number)).to_le_bytes()));
        }
    }
    room
}

/// The way back. Bytes that are no numbers, such as a summary, stay as they are.
fn narrowed<'a>(value: &'a [u8], width: Width, is_little: bool, room: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    room.clear();
    let (numbers, []) = value.as_chunks() else { return Some(value) };
    let mut numbers = numbers.iter().map(|number| u64::from_le_bytes(*number));
    match width {
        Width::U64 if is_little => return Some(value),
        Width::U64 => room.extend(numbers.flat_map(u64::to_be_bytes)),
        Width::U32 => numbers.try_for_each(|number| {
            let number = u32::try_from(number).ok()?;
            room.extend(if is_little { number.to_le_bytes() } else { number.to_be_bytes() });
            Some(())
        })?,
    }
    Some(room)
}

fn pair_of(pair: &str) -> Result<(u32, ValueId, Width), String> {
    let shown = || pair.chars().take(64).collect::<String>();
    let bad = || format!("`ids` is a list such as `7=cpu, 8=memory:u32`, and `{}` is no pair of it", shown());
    let (theirs, ours) = pair.split_once('=').ok_or_else(bad)?;
    let (ours, width) = match ours.split_once(':') {
        None => (ours, Width::U64),
        Some((ours, "u64")) => (ours, Width::U64),
        Some((ours, "u32")) => (ours, Width::U32),
        Some(_) => return Err(format!("`{}`: numbers are `u64` or `u32`", shown())),
    };
    let theirs = theirs.trim().parse::<u32>().ok().filter(|id| *id != 0);
    let theirs = theirs.ok_or_else(|| format!("`{}`: the peer's id is a number from 1 on", shown()))?;
    let ours = ours.trim();
    let id = ids::named(ours).or_else(|| ours.parse().ok().map(ValueId));
    let id = id.ok_or_else(|| {
        let names = ids::names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        format!("`{}`: our id is a number, or one of {names}", shown())
    })?;
    Ok((theirs, id, width))
}
