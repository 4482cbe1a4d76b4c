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

use super::frame::{u32_at, u64_at};
use crate::ids::FarmId;

/// Bytes of the head: frames begin behind it.
pub const HEAD_BYTES: usize = 4_096;
/// Version of segments.
pub const FORMAT_VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"starfarm";

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

impl Head {
    /// The head as a block of [`HEAD_BYTES`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[self.part as u8, 0, 0, 0]);
        bytes.extend_from_slice(&self.farm.0);
        for number in [self.number, self.first, self.last] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.chain.to_le_bytes());
        bytes.extend_from_slice(&self.seal.to_le_bytes());
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.resize(HEAD_BYTES, 0);
        bytes
    }

    /// Reads the head of a segment's bytes.
    ///
    /// # Errors
    /// It is not whole, or of another version.
    pub fn read(bytes: &[u8]) -> Result<Self, HeadError> {
        let fields = bytes.get(..HEAD_BYTES).ok_or(HeadError::Broken)?;
        let (u32_at, u64_at) = (|at| u32_at(fields, at), |at| u64_at(fields, at));
        if !fields.starts_with(MAGIC) || u32_at(64) != crc32c::crc32c(&fields[..64]) {
            return Err(HeadError::Broken);
        }
        if u32_at(8) != FORMAT_VERSION {
            return Err(HeadError::Version(u32_at(8)));
        }
        let mut farm = FarmId([0; 16]);
        farm.0.copy_from_slice(&fields[16..32]);
        let part = match fields[12] {
            0 => Part::Journal,
            1 => Part::Ledger,
            _ => return Err(HeadError::Broken),
        };
        Ok(Self {
            part,
            farm,
            number: u64_at(32),
            first: u64_at(40),
            last: u64_at(48),
            chain: u32_at(56),
            seal: u32_at(60),
        })
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
