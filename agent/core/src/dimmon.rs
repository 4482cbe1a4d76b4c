//! Datagrams as DiMMon's agents send them (K. S. Stefanov, PNRPU Aerospace Engineering Bulletin 39, 2014): `u32 id, u32 length,
//! value`, as often as there are values, then 0 and 0 as end mark. All numbers are in the byte order of the sender's host. Here:
//! reading and writing; sockets are elsewhere.
//!
//! | file | holds |
//! | --- | --- |
//! | `ids` | which of DiMMon's ids is which of ours, and how its numbers are written |
//! | `datagrams` | a message of ours as datagrams |

mod datagrams;
mod ids;

use crate::values::{TRIPLES_MAX, ValueId};

pub use datagrams::{Counted, DATAGRAM_BYTES, DATAGRAM_BYTES_MAX, Datagrams};
pub use ids::{IdTable, Width};

/// Bytes of an id and a length; of the end mark, too.
const HEAD_BYTES: usize = 8;

/// In which order a peer writes the bytes of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ByteOrder {
    /// As this host does, as DiMMon has it.
    #[default]
    Host,
    /// The lowest byte first.
    Little,
    /// The highest byte first.
    Big,
}

impl ByteOrder {
    /// Whether this host has it the other way round.
    fn is_foreign(self) -> bool {
        match self {
            Self::Host => false,
            Self::Little => cfg!(target_endian = "big"),
            Self::Big => cfg!(target_endian = "little"),
        }
    }

    /// Whether the lowest byte of a number comes first.
    pub(crate) fn is_little(self) -> bool {
        self == Self::Little || self == Self::Host && cfg!(target_endian = "little")
    }

    fn number(self, bytes: [u8; 4]) -> u32 {
        let number = u32::from_ne_bytes(bytes);
        if self.is_foreign() { number.swap_bytes() } else { number }
    }

    fn bytes(self, number: u32) -> [u8; 4] {
        self.number(number.to_ne_bytes()).to_ne_bytes()
    }
}

/// Why a datagram is refused as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A value is longer than what is left, or there is no whole id and length.
    Cut,
    /// There is no end mark.
    NoEnd,
    /// The id 0, which is the end mark's, has a value.
    Zero,
    /// Something follows the end mark.
    Behind,
    /// It has more values than a message may.
    TooMany,
    /// In the other byte order it would be one.
    OtherOrder,
}

/// The values of a datagram that was checked: ids of the sender, and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram<'a> {
    /// Without the end mark.
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Datagram<'a> {
    /// Checks what somebody has sent. One with no values is a datagram too.
    ///
    /// # Errors
    /// It is none; nothing of it holds.
    pub fn read(bytes: &'a [u8], order: ByteOrder) -> Result<Self, Fault> {
        Self::check(bytes, order).map_err(|fault| {
            let other = if order.is_little() { ByteOrder::Big } else { ByteOrder::Little };
            if Self::check(bytes, other).is_ok() { Fault::OtherOrder } else { fault }
        })
    }

    fn check(bytes: &'a [u8], order: ByteOrder) -> Result<Self, Fault> {
        let mut rest = bytes;
        for _ in 0..=TRIPLES_MAX {
            if rest.is_empty() {
                return Err(Fault::NoEnd);
            }
            let (id, length, behind) = head(rest, order).ok_or(Fault::Cut)?;
            if id == 0 {
                return match (length, behind) {
                    (0, []) => Ok(Self { bytes: &bytes[..bytes.len() - HEAD_BYTES], order }),
                    (0, _) => Err(Fault::Behind),
                    _ => Err(Fault::Zero),
                };
            }
            rest = behind.get(length..).ok_or(Fault::Cut)?;
        }
        Err(Fault::TooMany)
    }
}

/// Id and length, and what is behind them; none where too little is left.
fn head(bytes: &[u8], order: ByteOrder) -> Option<(u32, usize, &[u8])> {
    let (id, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    // On a host whose addresses are shorter no value is so long.
    let length = usize::try_from(order.number(*length)).unwrap_or(usize::MAX);
    Some((order.number(*id), length, rest))
}

impl<'a> IntoIterator for Datagram<'a> {
    type Item = (u32, &'a [u8]);
    type IntoIter = Values<'a>;

    fn into_iter(self) -> Values<'a> {
        Values(self)
    }
}

/// The values of a datagram one by one: the sender's id, and the bytes.
pub struct Values<'a>(Datagram<'a>);

impl<'a> Iterator for Values<'a> {
    type Item = (u32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (id, length, rest) = head(self.0.bytes, self.0.order)?;
        let (value, rest) = rest.split_at_checked(length)?;
        self.0.bytes = rest;
        Some((id, value))
    }
}

/// Appends a value.
fn put(out: &mut Vec<u8>, order: ByteOrder, id: u32, value: &[u8]) {
    let length = u32::try_from(value.len()).expect("a datagram's values are shorter than it");
    out.extend_from_slice(&order.bytes(id));
    out.extend_from_slice(&order.bytes(length));
    out.extend_from_slice(value);
}

/// Appends the end mark.
fn put_end(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; HEAD_BYTES]);
}

/// A datagram of these values, for whoever measures or tries what takes them. Ids are the receiver's own.
pub fn datagram<'a>(values: impl Iterator<Item = (ValueId, &'a [u8])>, order: ByteOrder) -> Vec<u8> {
    let mut out = Vec::new();
    values.for_each(|(id, value)| put(&mut out, order, id.0, value));
    put_end(&mut out);
    out
}

#[cfg(test)]
mod tests;
