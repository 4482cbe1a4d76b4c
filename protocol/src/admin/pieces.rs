//! A content on its way to the scheduler, behind the [`super::Request::Put`] that announces it, or a part of one on its way
//! from there, behind [`super::Response::Bytes`]. Its pieces follow one another without a gap; each is a frame that has,
//! where others have JSON, a chunk of the [bulk channel](crate::bulk). The one answer to a put comes after the last piece.
//! What it is made of, and where it is kept, are the two sides' to know.

use super::Response;
use super::frames::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameError, RECORD_BYTES_MAX, frame, raw_frame};
use crate::bulk::{self, BulkError, CHUNK_BYTES, chunks};

/// Longest content of a submission, in bytes: half of the longest frame, from the time when contents went as hexadecimal
/// digits in one. So long a specification is that somebody puts back.
pub const CONTENT_BYTES_MAX: u64 = FRAME_BYTES_MAX as u64 / 2;
/// Most bytes that follow an answer.
pub const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Longest piece, in bytes: a kind, an offset, a CRC and a chunk.
pub const PIECE_BYTES_MAX: usize = 1 + 8 + 4 + CHUNK_BYTES;
const _: () =
    assert!(FRAME_HEADER_BYTES + PIECE_BYTES_MAX <= RECORD_BYTES_MAX, "a piece fits into one record");

/// The frames of all pieces of `content`, in order; none where it is empty.
pub fn frames(content: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    chunks(content, 0).map(|chunk| raw_frame(&bulk::Request::Chunk(chunk).to_bytes()))
}

/// The frames of an answer: its own, and those of the bytes that follow it.
///
/// # Errors
/// As of [`frame`].
pub fn answer_frames(answer: &Response) -> Result<impl Iterator<Item = Vec<u8>>, FrameError> {
    let content = if let Response::Bytes { content, .. } = answer { &content[..] } else { b"" };
    Ok(std::iter::once(frame(answer)?).chain(frames(content)))
}

/// The pieces of a content as they come in.
#[derive(Debug)]
pub struct Pieces {
    come: u64,
    total: u64,
}

impl Pieces {
    /// Those of a content of `total` bytes; none has come.
    ///
    /// # Errors
    /// It is longer than [`CONTENT_BYTES_MAX`]; in words for a person.
    pub fn of(total: u64) -> Result<Self, String> {
        match total {
            ..=CONTENT_BYTES_MAX => Ok(Self { come: 0, total }),
            _ => Err(format!(
                "a content of {total} bytes is longer than a submission may bring: {CONTENT_BYTES_MAX} at most"
            )),
        }
    }

    /// Those that follow an answer.
    ///
    /// # Errors
    /// They are more than [`ANSWER_BYTES_MAX`]; in words for a person.
    pub fn of_answer(total: u64) -> Result<Self, String> {
        match total <= ANSWER_BYTES_MAX as u64 {
            true => Ok(Self { come: 0, total }),
            false => Err(format!("it announces {total} bytes, and {ANSWER_BYTES_MAX} may follow at most")),
        }
    }

    /// All have come.
    pub fn are_whole(&self) -> bool {
        self.come == self.total
    }

    /// Bytes that have come.
    pub fn come(&self) -> u64 {
        self.come
    }

    /// Takes the next piece, a frame without its length; gives the content's bytes in it.
    ///
    /// # Errors
    /// [`BulkError`]: it is none, it was changed, it does not continue the content, or it goes beyond the end. What
    /// follows cannot be understood then.
    pub fn take<'a>(&mut self, piece: &'a [u8]) -> Result<&'a [u8], BulkError> {
        let bulk::Request::Chunk(chunk) = bulk::Request::read(piece)? else {
            return Err(BulkError::Malformed);
        };
        let length = chunk.bytes.len() as u64;
        if chunk.offset != self.come || length > self.total - self.come {
            return Err(BulkError::OutOfPlace);
        }
        self.come += length;
        Ok(chunk.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Request;
    use super::super::frames::FrameReader;
    use super::*;
    use crate::bulk::Chunk;
    use crate::ids::ContentHash;

    fn piece(offset: u64, bytes: &[u8]) -> Vec<u8> {
        bulk::Request::Chunk(Chunk { offset, bytes }).to_bytes()
    }

    #[test]
    fn a_content_comes_back_whatever_reads_it_comes_in() {
        let content: Vec<u8> = (0..150_000_u32).map(|i| (i / 7) as u8).collect();
        let (hash, bytes) = (ContentHash::of(&content), content.len() as u64);
        let mut sent = frame(&Request::Put { hash, bytes }).unwrap();
        frames(&content).for_each(|frame| sent.extend(frame));
        sent.extend(frame(&Request::Status).unwrap());
        for read in [1, 1_000, 61_457, sent.len()] {
            let (mut reader, mut come, mut pieces) = (FrameReader::default(), Vec::new(), None::<Pieces>);
            let mut after = None;
            for part in sent.chunks(read) {
                reader.push(part);
                loop {
                    match pieces.as_mut().filter(|pieces| !pieces.are_whole()) {
                        Some(pieces) => {
                            let Some(piece) = reader.next_bytes(PIECE_BYTES_MAX).unwrap() else { break };
                            come.extend_from_slice(pieces.take(&piece).unwrap());
                        }
                        None => match reader.next_message().unwrap() {
                            Some(Request::Put { bytes, .. }) => pieces = Some(Pieces::of(bytes).unwrap()),
                            Some(other) => after = Some(other),
                            None => break,
                        },
                    }
                }
            }
            assert!(come == content && after == Some(Request::Status), "in reads of {read}");
        }
    }

    #[test]
    fn a_piece_that_does_not_continue_its_content_is_refused() {
        let mut pieces = Pieces::of(10).unwrap();
        assert_eq!(pieces.take(&piece(0, b"four")), Ok(b"four".as_slice()));
        for (offset, bytes) in [(0, "four"), (5, "x"), (3, "x"), (u64::MAX, "x"), (4, "more than ten")] {
            assert_eq!(pieces.take(&piece(offset, bytes.as_bytes())), Err(BulkError::OutOfPlace), "{offset}");
        }
        let mut changed = piece(4, b"change");
        changed[15] ^= 1;
        assert_eq!(pieces.take(&changed), Err(BulkError::Crc));
        let put = bulk::Request::Put { hash: ContentHash([7; 32]), total: 3 }.to_bytes();
        for none in [b"".as_slice(), b"\"status\"", &put, &piece(4, b"")] {
            assert_eq!(pieces.take(none), Err(BulkError::Malformed));
        }
        assert_eq!((pieces.come(), pieces.are_whole()), (4, false), "nothing of these is taken");
        assert_eq!(pieces.take(&piece(4, b"andsix")), Ok(b"andsix".as_slice()));
        assert!(pieces.are_whole());
        assert_eq!(pieces.take(&piece(10, b"x")), Err(BulkError::OutOfPlace));
    }

    #[test]
    fn what_is_too_long_is_refused_when_it_is_announced() {
        assert!(Pieces::of(CONTENT_BYTES_MAX).is_ok() && Pieces::of(0).unwrap().are_whole());
        let why = Pieces::of(CONTENT_BYTES_MAX + 1).unwrap_err();
        assert!(why.contains("134217729 bytes is longer"), "{why}");
        let most = ANSWER_BYTES_MAX as u64;
        assert!(Pieces::of_answer(most).is_ok() && Pieces::of_answer(most + 1).is_err());
        let mut reader = FrameReader::default();
        reader.push(&(PIECE_BYTES_MAX as u32 + 1).to_le_bytes());
        assert_eq!(reader.next_bytes(PIECE_BYTES_MAX), Err(FrameError::TooLong(PIECE_BYTES_MAX + 1)));
        assert!(frames(&[7; CHUNK_BYTES + 1]).map(|frame| frame.len()).eq([4 + PIECE_BYTES_MAX, 18]));
        assert_eq!(frames(b"").count(), 0);
    }
}
