//! The file `synced` beside the segments: how far the journal was on the disk when it was last written. It is
//! written over in place after each sync and never synced itself, so it may lag behind and never runs ahead. It
//! tells what the segments alone cannot: that their end was zeroed, or an old copy took the last one's place.
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | `starfarm` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 16 | farm |
//! | 28 | 8 | sequence of the last record that was synced |
//! | 36 | 4 | CRC32C of the 36 bytes before |

use super::segment::{FORMAT_VERSION, MAGIC};
use crate::ids::FarmId;

/// Bytes of the file: within one sector, so it is written as a whole.
pub const SYNCED_BYTES: usize = 40;

/// The bytes that say so.
pub fn to_bytes(farm: FarmId, sequence: u64) -> [u8; SYNCED_BYTES] {
    let mut bytes = [0; SYNCED_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[12..28].copy_from_slice(&farm.0);
    bytes[28..36].copy_from_slice(&sequence.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..36]);
    bytes[36..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The sequence in the file's bytes; `None` where they are damaged, of another version or of another farm:
/// then they prove nothing.
pub fn read(bytes: &[u8], farm: FarmId) -> Option<u64> {
    let sequence = u64::from_le_bytes(*bytes.get(28..)?.first_chunk()?);
    (bytes == to_bytes(farm, sequence)).then_some(sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_and_what_is_not_whole_proves_nothing() {
        let (farm, other) = (FarmId([7; 16]), FarmId([8; 16]));
        let bytes = to_bytes(farm, 12);
        assert_eq!((read(&bytes, farm), read(&bytes, other)), (Some(12), None));
        for bit in 0..SYNCED_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&flipped, farm), None, "bit {bit}");
        }
        assert!((0..SYNCED_BYTES).all(|end| read(&bytes[..end], farm).is_none()));
    }
}
