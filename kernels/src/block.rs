//! Where a candidate's bytes stand in the one 64-byte block that is hashed: byte order, widening, padding
//! and the length field. What the bytes are is `space`'s business.

/// Words of the longest digest (SHA-256); a shorter one leaves zeros behind its own.
const DIGEST_WORDS: usize = 8;

/// A digest as words of its algorithm's byte order.
pub(crate) type Words = [u32; DIGEST_WORDS];

/// A message block of 64 bytes as words of its algorithm's byte order, padding and length included.
pub(crate) type Block = [u32; 16];

/// Bytes of a block that a message can fill: 64 less the padding's first byte and the 8-byte length.
const MESSAGE_BYTES_MAX: usize = 55;

/// How an algorithm lays a message into words.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    /// The first byte of a word is its most significant one (SHA).
    pub(crate) big_endian: bool,
    /// Bytes of message per byte of candidate: 1, or 2 where it is widened to UTF-16 (NTLM).
    pub(crate) stride: usize,
}

impl Layout {
    /// Longest candidate that fits into one block.
    pub(crate) const fn length_max(self) -> usize {
        MESSAGE_BYTES_MAX / self.stride
    }

    /// The block of an all-zero candidate of `length` bytes: padding and length field only.
    pub(crate) fn empty(self, length: usize) -> Block {
        let bytes = length * self.stride;
        let mut block = [0; 16];
        self.put(&mut block, bytes, 0x80);
        // A message has at most 440 bits, so the length field's other word is 0.
        block[if self.big_endian { 15 } else { 14 }] = bytes as u32 * 8;
        block
    }

    /// Writes the candidate's byte `position` over a zero.
    pub(crate) fn place(self, block: &mut Block, position: usize, byte: u8) {
        self.put(block, position * self.stride, byte);
    }

    /// The word in which the candidate's byte `position` stands.
    pub(crate) fn word_of(self, position: usize) -> usize {
        position * self.stride / 4
    }

    /// The words that these positions change, the first of which is number `start`, ascending.
    pub(crate) fn words_of(self, start: usize, positions: &[Vec<u8>]) -> Vec<usize> {
        let changing = (start..).zip(positions).filter(|(_, alphabet)| alphabet.len() > 1);
        let mut words: Vec<usize> = changing.map(|(position, _)| self.word_of(position)).collect();
        words.dedup();
        words
    }

    /// Writes the candidate's byte `position` over what it was.
    pub(crate) fn replace(self, block: &mut Block, position: usize, old: u8, new: u8) {
        self.put(block, position * self.stride, old ^ new);
    }

    fn put(self, block: &mut Block, at: usize, byte: u8) {
        let from_low = if self.big_endian { 3 - at % 4 } else { at % 4 };
        block[at / 4] ^= u32::from(byte) << (8 * from_low);
    }
}

/// A digest's bytes as words, zeros behind them. `bytes` is a multiple of 4 long, at most 32.
pub(crate) fn digest_words(layout: Layout, bytes: &[u8]) -> Words {
    let mut words = [0; DIGEST_WORDS];
    for (word, four) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        let four = [four[0], four[1], four[2], four[3]];
        *word = if layout.big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) };
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_endian_places_padding_and_length() {
        let layout = Layout { big_endian: false, stride: 1 };
        let mut block = layout.empty(5);
        for (i, byte) in b"abcde".iter().enumerate() {
            layout.place(&mut block, i, *byte);
        }
        assert_eq!(block[0], 0x6463_6261);
        assert_eq!(block[1], 0x0000_8065);
        assert_eq!(block[14], 40);
        assert_eq!(block[15], 0);
    }

    #[test]
    fn big_endian_places_padding_and_length() {
        let layout = Layout { big_endian: true, stride: 1 };
        let mut block = layout.empty(1);
        layout.place(&mut block, 0, b'a');
        assert_eq!(block[0], 0x6180_0000);
        assert_eq!((block[14], block[15]), (0, 8));
    }

    #[test]
    fn widening_takes_every_other_byte() {
        let layout = Layout { big_endian: false, stride: 2 };
        let mut block = layout.empty(27);
        layout.place(&mut block, 26, 0xff);
        assert_eq!(block[13], 0x0080_00ff);
        assert_eq!(layout.length_max(), 27);
    }
}
