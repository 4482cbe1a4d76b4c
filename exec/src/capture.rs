//! What is kept of one output stream: all of it, or its head and its tail. Pure; the pipes are read in
//! `pipes`.

use std::collections::VecDeque;

/// What a program wrote to one stream.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Captured {
    /// All bytes if `total` is within the limit. Else the first half of the limit and the last half, the odd byte in
    /// the first; nothing stands between them.
    pub bytes: Vec<u8>,
    /// Bytes the program wrote.
    pub total: u64,
}

impl Captured {
    /// A part of it was left out.
    pub fn is_cut(&self) -> bool {
        (self.bytes.len() as u64) < self.total
    }
}

/// A stream as it comes in. Memory: at most the limit plus what the buffers round up to.
#[derive(Debug)]
pub(super) struct Keep {
    head: Vec<u8>,
    head_max: usize,
    /// The last bytes of what is not in the head.
    tail: VecDeque<u8>,
    tail_max: usize,
    total: u64,
}

impl Keep {
    /// Keeps at most `limit` bytes of the stream.
    pub(super) fn new(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let tail_max = limit / 2;
        Self { head: Vec::new(), head_max: limit - tail_max, tail: VecDeque::new(), tail_max, total: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_max - self.head.len();
        let (to_head, to_tail) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(to_head);
        let to_tail = &to_tail[to_tail.len().saturating_sub(self.tail_max)..];
        let excess = (self.tail.len() + to_tail.len()).saturating_sub(self.tail_max);
        self.tail.drain(..excess);
        self.tail.extend(to_tail);
    }

    pub(super) fn finish(self) -> Captured {
        let mut bytes = self.head;
        bytes.extend(self.tail);
        Captured { bytes, total: self.total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(limit: u64, pieces: &[&[u8]]) -> Captured {
        let mut keep = Keep::new(limit);
        pieces.iter().for_each(|piece| keep.push(piece));
        keep.finish()
    }

    #[test]
    fn output_up_to_the_limit_is_whole() {
        assert_eq!(keep(7, &[b"abc", b"", b"defg"]), Captured { bytes: b"abcdefg".to_vec(), total: 7 });
        assert_eq!(keep(u64::MAX, &[b"abc"]), Captured { bytes: b"abc".to_vec(), total: 3 });
    }

    #[test]
    fn over_the_limit_head_and_tail_stay_and_nothing_else() {
        assert_eq!(keep(6, &[b"abcdefgh"]), Captured { bytes: b"abcfgh".to_vec(), total: 8 });
        assert!(keep(6, &[b"abcdefgh"]).is_cut() && !keep(8, &[b"abcdefgh"]).is_cut());
    }

    #[test]
    fn a_limit_of_nothing_still_says_what_was_written() {
        assert_eq!(keep(0, &[]), Captured::default());
        assert_eq!(keep(0, &[b"abc"]), Captured { bytes: Vec::new(), total: 3 });
        assert_eq!(keep(1, &[b"abc"]), Captured { bytes: b"a".to_vec(), total: 3 });
    }

    /// Every way to cut a stream in three gives the same as the stream in one piece.
    #[test]
    fn how_the_stream_was_cut_into_reads_does_not_matter() {
        let stream: Vec<u8> = (0..40).collect();
        for limit in 0..45 {
            let whole = keep(limit, &[&stream]);
            for first in 0..=stream.len() {
                for second in first..=stream.len() {
                    let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
                    assert_eq!(keep(limit, &pieces), whole, "limit {limit}, cuts {first} and {second}");
                }
            }
        }
    }
}
