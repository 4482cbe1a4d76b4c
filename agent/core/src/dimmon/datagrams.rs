//! A message of ours as datagrams. One that is too long is parted; what says whose values follow is said in each part anew.

use super::{ByteOrder, HEAD_BYTES, IdTable, put, put_end};
use crate::ids;
use crate::values::{Triple, Triples};

/// Bytes of a datagram that several values share, at most: such a one fits into a frame of Ethernet.
pub const DATAGRAM_BYTES: usize = 1_400;
/// Bytes of a datagram, at most: such a one fits into a jumbo frame. A value that is longer than that is not sent.
pub const DATAGRAM_BYTES_MAX: usize = 8_900;

/// Bytes that a datagram has beside a value that is the only one: its own head, the end mark, and what says whose it is.
const ROOM_BYTES: usize = 2 * HEAD_BYTES + 100;

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// Datagrams that it came to.
    pub datagrams: u64,
    /// Values that no datagram has: too long, too large a number, or without an id of the peer's.
    pub left_out: u64,
}

/// Writes messages as datagrams. Its buffers are used again.
#[derive(Default)]
pub struct Datagrams {
    out: Vec<u8>,
    room: Vec<u8>,
}

impl Datagrams {
    /// Hands each datagram of a message to `send`. A message without values is none.
    pub fn write(
        &mut self,
        values: Triples<'_>,
        table: &IdTable,
        order: ByteOrder,
        mut send: impl FnMut(&[u8]),
    ) -> Counted {
        let mut counted = Counted::default();
        let mut said: Vec<Triple<'_>> = Vec::new();
        let Self { out, room } = self;
        out.clear();
        let mut has_values = false;
        let mut values = values.into_iter();
        while let Some(triple) = values.next() {
            let theirs = table.theirs((triple.id, triple.value), order, room);
            let fits = |(_, value): &(u32, &[u8])| value.len() + ROOM_BYTES <= DATAGRAM_BYTES_MAX;
            let Some((id, value)) = theirs.filter(fits) else {
                counted.left_out += 1;
                if ids::says_whose(triple.id) {
                    // What is behind it would be read as somebody else's.
                    counted.left_out += values.count() as u64;
                    break;
                }
                continue;
            };
            if has_values && out.len() + 2 * HEAD_BYTES + value.len() > DATAGRAM_BYTES {
                put_end(out);
                send(out);
                counted.datagrams += 1;
                has_values = false;
                out.clear();
                let mut again = Vec::new();
                for of in &said {
                    let said = table.theirs((of.id, of.value), order, &mut again);
                    said.into_iter().for_each(|(id, value)| put(out, order, id, value));
                }
            }
            put(out, order, id, value);
            if ids::says_whose(triple.id) {
                said.retain(|of| of.id != triple.id);
                said.push(triple);
            } else {
                has_values = true;
            }
        }
        if !out.is_empty() {
            put_end(out);
            send(out);
            counted.datagrams += 1;
        }
        counted
    }
}
