//! The block at the head of a segment file, of the journal or of the ledger: whose it is, where it stands, what
//! it follows.
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | `starfarm` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 1 | 0: journal; 1: ledger |
//! | 13 | 3 | zeros |
//! | 16 | 16 | farm |
//! | 32 | 8 | number of the segment, from 1 |
//! | 40 | 8 | sequence of its first record in the journal |
//! | 48 | 8 | ledger: sequence of the last record that it stands for; journal: 0 |
//! | 56 | 4 | chain: header CRC of the last frame of the segment before; 0 for the first |
//! | 60 | 4 | ledger: header CRC of the seal of the journal segment that it stands for; journal: 0 |
//! | 64 | 4 | CRC32C of the 64 bytes before |
//! | 68 | | zeros up to 4096, where the frames begin |

use super::frame::u32_at;
use crate::bytes::{Malformed, Reader, fields, items};
use crate::field::Field;
use crate::ids::FarmId;

/// Bytes of the head: frames begin behind it.
pub const HEAD_BYTES: usize = 4_096;
/// Version of segments.
pub const FORMAT_VERSION: u32 = 1;
pub(super) const MAGIC: &[u8; 8] = b"starfarm";
const CRC_AT: usize = 64;

/// What a segment is part of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Records one by one, as they were made.
    Journal = 0,
    /// The same in short: its frames count from 1.
    Ledger = 1,
}

/// The head of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Journal or ledger.
    pub part: Part,
    /// Whose.
    pub farm: FarmId,
    /// Its number, from 1.
    pub number: u64,
    /// Its first record's sequence in the journal.
    pub first: u64,
    /// Ledger: the last record's.
    pub last: u64,
    /// Header CRC of the last frame of the segment before, of the same part.
    pub chain: u32,
    /// Ledger: header CRC of the seal of the journal segment.
    pub seal: u32,
}

/// Why a head is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadError {
    /// It is not whole, or it is damaged.
    Broken,
    /// Another version of starfarm wrote it.
    Version(u32),
}

fields! { Field: Head { part, farm, number, first, last, chain, seal } }
items! { Field:
    Part: |part, out| out.extend_from_slice(&[*part as u8, 0, 0, 0]), |rest| match rest.array()? {
        [0, _, _, _] => Ok(Part::Journal),
        [1, _, _, _] => Ok(Part::Ledger),
        _ => Err(Malformed),
    };
}

impl Head {
    /// The head as a block of [`HEAD_BYTES`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        (*MAGIC, FORMAT_VERSION).put(&mut bytes);
        self.put(&mut bytes);
        crc32c::crc32c(&bytes).put(&mut bytes);
        bytes.resize(HEAD_BYTES, 0);
        bytes
    }

    /// Reads the head of a segment's bytes.
    ///
    /// # Errors
    /// It is not whole, or of another version.
    pub fn read(bytes: &[u8]) -> Result<Self, HeadError> {
        let block = bytes.get(..HEAD_BYTES).ok_or(HeadError::Broken)?;
        if u32_at(block, CRC_AT) != crc32c::crc32c(&block[..CRC_AT]) {
            return Err(HeadError::Broken);
        }
        let mut fields = Reader(block.strip_prefix(MAGIC).ok_or(HeadError::Broken)?);
        match fields.u32() {
            Ok(FORMAT_VERSION) => Field::read(&mut fields).map_err(|Malformed| HeadError::Broken),
            version => Err(version.map_or(HeadError::Broken, HeadError::Version)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_and_every_flip_in_it_is_seen() {
        let (part, farm) = (Part::Ledger, FarmId([7; 16]));
        let head = Head { part, farm, number: 3, first: 100, last: 199, chain: 5, seal: 6 };
        let mut bytes = head.to_bytes();
        assert_eq!((bytes.len(), Head::read(&bytes)), (HEAD_BYTES, Ok(head)));
        for bit in 0..68 * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::read(&bytes), Err(HeadError::Broken), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(Head::read(&bytes[..HEAD_BYTES - 1]), Err(HeadError::Broken));
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..64]);
        bytes[64..68].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Head::read(&bytes), Err(HeadError::Version(2)));
    }
}
