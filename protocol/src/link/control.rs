//! What is asked of an agent from afar, and what it answers: longer than a record, so it goes in pieces. A piece says which
//! one it is; between two posts they come in order.

use crate::bytes::{Malformed, Reader};
use crate::field::Field;
use crate::orders::PostId;
use crate::word::words;

/// Bytes of a piece, at most.
pub const PIECE_BYTES: usize = 8 << 10;
/// Bytes of all pieces of one thing together, at most.
pub const WHOLE_BYTES_MAX: usize = 512 << 10;

words! {
    /// What is asked of an agent. The numbers are on the wire: append only.
    Asked {
        /// Its graph: answered with JSON.
        Graph = 1 => "graph",
        /// To have these stages of the whole farm, TOML, in place of those that it was told before. It is not answered.
        Load = 2 => "load",
        /// To carry out an order, UTF-8 text: answered with JSON, null or a string that says why it is refused.
        Order = 3 => "order",
    }
}

/// A piece of something that is asked of an agent, or of those of all back ends ([`PostId::ALL`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control<'a> {
    /// Whose agent is asked.
    pub post: PostId,
    /// What is asked: the number of an [`Asked`]. A post hands on also what it does not know.
    pub asked: u8,
    /// The piece.
    pub piece: Piece<'a>,
}

/// A piece of an agent's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer<'a> {
    /// Whose agent answers.
    pub post: PostId,
    /// The piece.
    pub piece: Piece<'a>,
}

/// A piece of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'a> {
    /// Of what: a question and its answer have the same number.
    pub number: u64,
    /// Which one it is, from 0, and how many there are.
    pub nth: u16,
    /// See `nth`.
    pub of: u16,
    /// What is in it.
    pub bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    /// All pieces of something. What is longer than [`WHOLE_BYTES_MAX`] has none.
    pub fn all(number: u64, bytes: &'a [u8]) -> impl Iterator<Item = Self> {
        let of = bytes.len().div_ceil(PIECE_BYTES).max(1);
        let fits = bytes.len() <= WHOLE_BYTES_MAX;
        (0..if fits { of } else { 0 }).map(move |nth| {
            let end = bytes.len().min((nth + 1) * PIECE_BYTES);
            Self { number, nth: nth as u16, of: of as u16, bytes: &bytes[nth * PIECE_BYTES..end] }
        })
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        (self.number, (self.nth, self.of)).put(out);
        out.extend_from_slice(self.bytes);
    }

    pub(super) fn read(rest: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (number, (nth, of)) = <(u64, (u16, u16))>::read(rest)?;
        let bytes = std::mem::take(&mut rest.0);
        let fits = nth < of && usize::from(of) <= WHOLE_BYTES_MAX / PIECE_BYTES && bytes.len() <= PIECE_BYTES;
        if fits { Ok(Self { number, nth, of, bytes }) } else { Err(Malformed) }
    }
}

/// Pieces as they come.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pieces {
    number: u64,
    next: u16,
    bytes: Vec<u8>,
}

impl Pieces {
    /// Takes a piece: all of it, where that was the last one. One that does not follow the piece before is as if nothing
    /// had come.
    pub fn take(&mut self, piece: &Piece<'_>) -> Option<Vec<u8>> {
        if piece.nth == 0 {
            (self.number, self.next) = (piece.number, 0);
            self.bytes.clear();
        }
        if (piece.number, piece.nth) != (self.number, self.next) {
            *self = Self::default();
            return None;
        }
        self.bytes.extend_from_slice(piece.bytes);
        self.next += 1;
        (self.next == piece.of).then(|| std::mem::take(self).bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_pieces_comes_whole() {
        for length in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, WHOLE_BYTES_MAX] {
            let whole: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let mut pieces = Pieces::default();
            let mut came: Vec<_> = Piece::all(7, &whole).map(|piece| pieces.take(&piece)).collect();
            assert_eq!(came.pop(), Some(Some(whole)), "{length}");
            assert!(came.iter().all(Option::is_none), "{length}");
        }
        assert_eq!(Piece::all(7, &vec![0; WHOLE_BYTES_MAX + 1]).count(), 0);
    }

    #[test]
    fn a_piece_that_does_not_follow_is_as_if_nothing_had_come() {
        let (one, other) = (vec![1; 3 * PIECE_BYTES], vec![2; 2 * PIECE_BYTES]);
        let (one, other): (Vec<_>, Vec<_>) = (Piece::all(1, &one).collect(), Piece::all(2, &other).collect());
        let mut pieces = Pieces::default();
        for piece in [&one[0], &one[2], &one[1], &one[2], &one[0], &other[1], &one[1], &one[2], &other[0]] {
            assert_eq!(pieces.take(piece), None);
        }
        assert_eq!(pieces.take(&other[1]).map(|bytes| bytes.len()), Some(2 * PIECE_BYTES));
    }
}
