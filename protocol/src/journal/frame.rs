//! Frames: how a record lies in a segment. Each carries the checksum of the one before (a chain) and the first
//! sequence of its commit, by which a reader can tell a write that was cut short from damage: a frame of a
//! later commit was only written once all before it were on the disk.
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 4 | CRC32C of the other bytes of this header |
//! | 4 | 4 | length of the body |
//! | 8 | 4 | CRC32C of the body |
//! | 12 | 8 | sequence: one more than the last record's; a mark and a seal repeat that |
//! | 20 | 4 | the chain: header CRC of the frame before |
//! | 24 | 8 | first sequence of the commit |
//! | 32 | 8 | epoch of the scheduler that wrote it |
//! | 40 | 1 | kind: 0 a mark, 255 a seal, else a record's |
//! | 41 | n | body |
//! | 41 + n | 1 | 0xA5: the frame was written to its end |

/// Bytes before the body.
pub const HEADER_BYTES: usize = 41;
/// Bytes of a frame beside its body.
pub const FRAME_BYTES: usize = HEADER_BYTES + 1;
/// Bytes of a body at most: 64 MiB.
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// Kind of a mark: what lies before it was synced.
pub const MARK: u8 = 0;
/// Kind of a seal: the segment ends here and another one follows.
pub const SEAL: u8 = 255;
const END: u8 = 0xA5;
/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// Place in the chain: what the next frame follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Sequence of the last record.
    pub sequence: u64,
    /// Header CRC of the last frame.
    pub chain: u32,
}

/// A frame that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// Sequence.
    pub sequence: u64,
    /// First sequence of its commit.
    pub commit: u64,
    /// Epoch.
    pub epoch: u64,
    /// Kind.
    pub kind: u8,
    /// Body.
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// Appends the frame that follows `place`, and moves `place` on.
    pub fn write(&self, place: &mut Place, out: &mut Vec<u8>) {
        let mut header = [0; HEADER_BYTES];
        header[4..8].copy_from_slice(&(self.body.len() as u32).to_le_bytes());
        header[8..12].copy_from_slice(&crc32c::crc32c(self.body).to_le_bytes());
        header[12..20].copy_from_slice(&self.sequence.to_le_bytes());
        header[20..24].copy_from_slice(&place.chain.to_le_bytes());
        header[24..32].copy_from_slice(&self.commit.to_le_bytes());
        header[32..40].copy_from_slice(&self.epoch.to_le_bytes());
        header[40] = self.kind;
        let crc = header_crc(&header);
        header[..4].copy_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(self.body);
        out.push(END);
        *place = Place { sequence: self.sequence, chain: crc };
    }

    /// It holds a record.
    pub fn is_record(&self) -> bool {
        self.kind != MARK && self.kind != SEAL
    }
}

fn header_crc(header: &[u8]) -> u32 {
    crc32c::crc32c(&header[4..HEADER_BYTES])
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// What lies at a place of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found<'a> {
    /// A frame that follows the one before, the bytes it takes, and the place after it.
    Frame(Frame<'a>, usize, Place),
    /// Only zeros: nothing was written here.
    Nothing,
    /// Something that is no frame, or not the next one; in words.
    Broken(&'static str),
}

/// Reads what begins at `at` of a segment's bytes and must follow `place`.
pub fn read(bytes: &[u8], at: usize, place: Place) -> Found<'_> {
    let rest = &bytes[at.min(bytes.len())..];
    let (frame, chain, crc) = match parse(rest) {
        Ok(parsed) => parsed,
        Err(_) if rest.iter().all(|&byte| byte == 0) => return Found::Nothing,
        Err(why) => return Found::Broken(why),
    };
    let expected = place.sequence + u64::from(frame.is_record());
    if chain != place.chain {
        return Found::Broken("a frame that does not follow the one before");
    }
    if frame.sequence != expected {
        return Found::Broken("a frame with another number than the next");
    }
    Found::Frame(frame, FRAME_BYTES + frame.body.len(), Place { sequence: frame.sequence, chain: crc })
}

/// The frame at the start of `bytes`, its chain and its own header CRC.
fn parse(bytes: &[u8]) -> Result<(Frame<'_>, u32, u32), &'static str> {
    let header = bytes.get(..HEADER_BYTES).ok_or("a header that is cut short")?;
    let crc = u32_at(header, 0);
    if crc != header_crc(header) {
        return Err("a header with a wrong checksum");
    }
    let length = u32_at(header, 4) as usize;
    let body = bytes.get(HEADER_BYTES..HEADER_BYTES + length).ok_or("a body that is cut short")?;
    if bytes.get(HEADER_BYTES + length) != Some(&END) {
        return Err("a frame without its end");
    }
    if u32_at(header, 8) != crc32c::crc32c(body) {
        return Err("a body with a wrong checksum");
    }
    let frame = Frame {
        sequence: u64_at(header, 12),
        commit: u64_at(header, 24),
        epoch: u64_at(header, 32),
        kind: header[40],
        body,
    };
    Ok((frame, u32_at(header, 20), crc))
}

/// End of what was written: one past the last byte that is not zero.
pub fn written(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

/// What is broken at `at`, where frames after `place` were expected, is the rest of a commit that never
/// reached the disk whole, so that nobody was told of it. Else it is damage.
///
/// A commit is written onto zeros. Where it was cut short, sectors of the broken frame are missing, or all from
/// some byte on; and no frame of a later commit can be there, since those are written after the sync. A frame
/// that is all there and has a wrong checksum is damaged. What no reader can tell: the last commit, damaged
/// where a whole sector of its broken frame holds zeros, looks like one that was never written whole.
pub fn is_torn(bytes: &[u8], at: usize, place: Place) -> bool {
    let rest = &bytes[at..];
    let header = rest.get(..HEADER_BYTES).filter(|header| u32_at(header, 0) == header_crc(header));
    // Of a frame whose header is broken only the header can be looked for.
    let extent = header.map_or(HEADER_BYTES, |header| FRAME_BYTES + u32_at(header, 4) as usize);
    if extent > rest.len() || proves_synced(bytes, at, place) {
        return false;
    }
    if header.is_some_and(|header| !follows(header, place)) {
        return false;
    }
    // A frame ends with a byte that is not zero: without that, and with nothing behind it, it was cut short.
    let whole = at + extent - usize::from(header.is_some());
    written(bytes) <= whole || misses_sector(bytes, at, at + extent)
}

/// Whether the frame with this header is the next one, as far as its number and its chain say.
fn follows(header: &[u8], place: Place) -> bool {
    let is_record = header[40] != MARK && header[40] != SEAL;
    u32_at(header, 20) == place.chain && u64_at(header, 12) == place.sequence + u64::from(is_record)
}

/// Whether a sector that holds a part of `from..to` is zeros from there to its own end.
fn misses_sector(bytes: &[u8], from: usize, to: usize) -> bool {
    let mut sector = from;
    while sector < to {
        let end = (sector / SECTOR + 1) * SECTOR;
        if bytes[sector..end.min(bytes.len())].iter().all(|&byte| byte == 0) {
            return true;
        }
        sector = end;
    }
    false
}

/// A frame behind `at` belongs to a commit that began after the record that should be at `at`.
pub fn proves_synced(bytes: &[u8], at: usize, place: Place) -> bool {
    let missing = place.sequence + 1;
    (at..bytes.len().saturating_sub(HEADER_BYTES)).any(|at| {
        // The cheap tests first: nearly no place looks like a header.
        let rest = &bytes[at..];
        let commit = u64_at(rest, 24);
        commit > missing
            && commit <= u64_at(rest, 12).saturating_add(1)
            && u32_at(rest, 4) as usize <= BODY_BYTES_MAX
            && parse(rest).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits of so many records each, a mark behind each but the last.
    fn commits(counts: &[u64]) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut place, mut ends) = (Vec::new(), Place::default(), Vec::new());
        for (i, &count) in counts.iter().enumerate() {
            let commit = place.sequence + 1;
            for _ in 0..count {
                // A body may end as a frame does, and be cut there.
                let body = vec![END; 10 + place.sequence as usize % 5];
                let frame = Frame { sequence: place.sequence + 1, commit, epoch: 1, kind: 6, body: &body };
                frame.write(&mut place, &mut bytes);
                ends.push(bytes.len());
            }
            if i + 1 < counts.len() {
                let (sequence, commit) = (place.sequence, place.sequence + 1);
                Frame { sequence, commit, epoch: 1, kind: MARK, body: &[] }.write(&mut place, &mut bytes);
            }
        }
        (bytes, ends)
    }

    fn last(bytes: &[u8]) -> (usize, Place, Found<'_>) {
        let (mut at, mut place) = (0, Place::default());
        loop {
            match read(bytes, at, place) {
                Found::Frame(_, length, next) => (at, place) = (at + length, next),
                other => return (at, place, other),
            }
        }
    }

    #[test]
    fn frames_come_back_and_end_at_the_zeros() {
        let (mut bytes, ends) = commits(&[3, 2]);
        let end = bytes.len();
        bytes.resize(end + 5_000, 0);
        let (at, place, found) = last(&bytes);
        assert_eq!((at, place.sequence, found), (end, 5, Found::Nothing));
        assert_eq!((ends.len(), written(&bytes)), (5, end));
    }

    #[test]
    fn no_flip_passes_and_none_is_taken_for_a_cut() {
        let (mut bytes, _) = commits(&[3, 2, 1]);
        let end = bytes.len();
        bytes.resize(end + 5_000, 0);
        for bit in 0..end * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let (at, place, found) = last(&bytes);
            assert!(matches!(found, Found::Broken(_)), "bit {bit}: {found:?}");
            assert!(!is_torn(&bytes, at, place), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_block_lost_before_a_later_commit_is_damage() {
        let (bytes, _) = commits(&[40, 30, 1]);
        let (synced, _) = commits(&[40, 30]);
        for sector in 0..synced.len() / SECTOR {
            let mut broken = bytes.clone();
            broken[sector * SECTOR..(sector + 1) * SECTOR].fill(0);
            broken.resize(bytes.len() + 5_000, 0);
            let (at, place, found) = last(&broken);
            assert!(matches!(found, Found::Broken(_)) && !is_torn(&broken, at, place), "sector {sector}");
        }
    }

    #[test]
    fn a_commit_that_was_cut_short_is_torn() {
        let (bytes, _) = commits(&[2, 40]);
        let (first, _) = commits(&[2]);
        for cut in first.len() + FRAME_BYTES + 1..bytes.len() {
            let mut torn = bytes[..cut].to_vec();
            torn.resize(bytes.len() + 5_000, 0);
            let (at, place, found) = last(&torn);
            if found != Found::Nothing {
                assert!(is_torn(&torn, at, place), "cut at {cut}");
            }
            assert!(place.sequence >= 2);
        }
    }

    #[test]
    fn any_sectors_of_the_last_commit_may_be_missing() {
        let (bytes, _) = commits(&[2, 40]);
        let first = commits(&[2]).0.len() + FRAME_BYTES;
        let sectors = bytes.len().div_ceil(SECTOR);
        assert!(sectors <= 8, "each set of them is tried");
        for missing in 1..1_u32 << sectors {
            let mut torn = bytes.clone();
            torn.resize(bytes.len() + 5_000, 0);
            for sector in (0..sectors).filter(|sector| missing >> sector & 1 == 1) {
                torn[(sector * SECTOR).max(first)..(sector + 1) * SECTOR].fill(0);
            }
            let (at, place, found) = last(&torn);
            assert!(place.sequence >= 2, "missing {missing:b}");
            assert!(found == Found::Nothing || is_torn(&torn, at, place), "missing {missing:b}");
        }
    }

    #[test]
    fn a_file_that_ends_within_a_frame_is_damaged() {
        let (bytes, ends) = commits(&[3]);
        for length in ends[1] + 1..ends[2] {
            let (at, place, found) = last(&bytes[..length]);
            assert!(matches!(found, Found::Broken(_)) && !is_torn(&bytes[..length], at, place), "{length}");
        }
    }

    #[test]
    fn a_swapped_frame_breaks_the_chain() {
        let (bytes, ends) = commits(&[3]);
        let mut swapped = bytes[..ends[0]].to_vec();
        swapped.extend_from_slice(&bytes[ends[1]..]);
        assert!(matches!(last(&swapped).2, Found::Broken(why) if why.contains("follow")));
    }
}
