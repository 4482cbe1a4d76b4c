//! How large a datagram may be on the way to one other end. Some paths swallow large datagrams and say nothing: a
//! small MTU in the middle and a firewall that drops ICMP. So each end asks now and then, by a probe as large as what
//! it sends; where probes get no answer and the other end is heard all the same, the size falls, and what is longer is
//! cut into pieces. Later larger probes are tried again, with growing pauses. Below the messages: these are [`wire`]
//! of their own, one to an opened datagram. Pure: no sockets, no clock.
//!
//! | kind | name | body | |
//! | --- | --- | --- | --- |
//! | 64 | piece | number u32, place u8, pieces u8, bytes | a part of an opened datagram that was too long |
//! | 65 | probe | zeros | its own length is what is asked about |
//! | 66 | probe answer | u16 | the length of a probe that came, sealed |
//!
//! Nothing falls before one small probe was answered: another program may not know probes at all.
//!
//! [`wire`]: crate::wire

use std::collections::VecDeque;

use crate::bytes::Reader;
use crate::limits::{DATAGRAM_BYTES_MAX, PLAIN_BYTES_MAX, SEAL_BYTES};
use crate::wire::MESSAGE_HEAD_BYTES;

/// Sizes of sealed datagrams: an Ethernet's; what every IPv6 path carries, and most tunnels; what every IPv4 host takes.
pub const DATAGRAM_SIZES: [usize; 3] = [DATAGRAM_BYTES_MAX, 1_200, 548];
const LEAST: usize = DATAGRAM_SIZES.len() - 1;

const PIECE: u8 = 64;
const PROBE: u8 = 65;
const PROBE_ANSWER: u8 = 66;
const PIECE_HEAD_BYTES: usize = MESSAGE_HEAD_BYTES + 4 + 1 + 1;
/// Pieces of one datagram, and datagrams that are being put together; beyond them the oldest is dropped, as if lost.
const PIECES_MAX: usize = 3;
const OPEN_MAX: usize = 64;
const _: () = assert!(
    PIECES_MAX * (DATAGRAM_SIZES[LEAST] - SEAL_BYTES - PIECE_HEAD_BYTES) >= PLAIN_BYTES_MAX,
    "the longest datagram fits into so many pieces"
);

/// Probes of one size are this far apart ...
const PROBE_US: u64 = 1_000_000;
/// ... and so many without an answer in a row say that the size does not get through: of a path that loses a tenth
/// both ways, one time in 800.
const TRIES: u32 = 4;
/// A size that gets through is asked about again after this.
const CHECK_US: u64 = 10_000_000;
/// A larger one is tried after this, and each time that is in vain after twice as long, up to ...
const GROW_MIN_US: u64 = 60_000_000;
/// ... this.
const GROW_MAX_US: u64 = 600_000_000;

/// The way to one other end.
#[derive(Clone, Debug)]
pub struct Path {
    /// Present size.
    size: usize,
    /// The other end has answered a probe.
    knows: bool,
    /// The size that is asked about, and probes of it sent.
    asking: Option<(usize, u32)>,
    asked_us: Option<u64>,
    /// When the next question is due.
    check_us: u64,
    grow_us: u64,
    pause_us: u64,
    cutter: Cutter,
    open: VecDeque<Open>,
}

/// Cuts what is too long. Whoever sends has one, which need not be where the path is known.
#[derive(Clone, Debug)]
pub struct Cutter {
    bytes: usize,
    number: u32,
}

/// A datagram of which pieces have come.
#[derive(Clone, Debug)]
struct Open {
    number: u32,
    pieces: Vec<Option<Vec<u8>>>,
}

/// What an opened datagram was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// Messages.
    Messages,
    /// The last piece of these messages.
    Whole(Vec<u8>),
    /// A probe: send this back.
    Probe(Vec<u8>),
    /// Nothing for anybody else.
    Nothing,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            size: 0,
            knows: false,
            asking: Some((LEAST, 0)),
            asked_us: None,
            check_us: 0,
            grow_us: 0,
            pause_us: GROW_MIN_US,
            cutter: Cutter::default(),
            open: VecDeque::new(),
        }
    }
}

impl Default for Cutter {
    fn default() -> Self {
        Self { bytes: DATAGRAM_BYTES_MAX, number: 0 }
    }
}

impl Cutter {
    /// Sealed datagrams may have so many bytes: one of [`DATAGRAM_SIZES`].
    pub fn set_bytes(&mut self, bytes: usize) {
        self.bytes = bytes;
    }

    /// Hands an opened datagram on, whole or in pieces, each to be sealed alone.
    pub fn cut(&mut self, plain: &[u8], mut send: impl FnMut(&[u8])) {
        let room = self.bytes - SEAL_BYTES;
        if plain.len() <= room {
            return send(plain);
        }
        self.number = self.number.wrapping_add(1);
        let parts = plain.chunks(room - PIECE_HEAD_BYTES);
        let pieces = parts.len() as u8;
        for (place, part) in (0_u8..).zip(parts) {
            let mut piece = message(PIECE, PIECE_HEAD_BYTES - MESSAGE_HEAD_BYTES + part.len());
            piece.extend_from_slice(&self.number.to_le_bytes());
            piece.extend_from_slice(&[place, pieces]);
            piece.extend_from_slice(part);
            send(&piece);
        }
    }
}

impl Path {
    /// Bytes of the largest sealed datagram that is sent.
    pub fn bytes(&self) -> usize {
        DATAGRAM_SIZES[self.size]
    }

    /// A new session, perhaps over another path: the present size is asked about at once. Where that is done already it
    /// goes on: an end that hears nothing large opens one session after another.
    pub fn ask_again(&mut self) {
        let size = if self.knows { self.size } else { LEAST };
        if self.asking.is_none_or(|(asked, _)| asked != size) {
            self.asking = Some((size, 0));
        }
    }

    /// The other end is another process from now on, which numbers its datagrams anew: the pieces of the one before
    /// would be put together with its own.
    pub fn forget_pieces(&mut self) {
        self.open.clear();
    }

    /// A probe, if one is due, before it is sealed. To be called now and then while the other end is heard: of one
    /// that is silent nothing can be learnt.
    pub fn probe(&mut self, now_us: u64) -> Option<Vec<u8>> {
        if self.asked_us.is_some_and(|asked_us| now_us < asked_us + PROBE_US) {
            return None;
        }
        if let Some((size, TRIES..)) = self.asking {
            self.unanswered(size, now_us);
        } else if self.asking.is_none() && now_us >= self.check_us {
            self.ask_again();
        }
        let (size, sent) = self.asking.as_mut()?;
        *sent += 1;
        self.asked_us = Some(now_us);
        let bytes = DATAGRAM_SIZES[*size] - SEAL_BYTES;
        let mut probe = message(PROBE, bytes - MESSAGE_HEAD_BYTES);
        probe.resize(bytes, 0);
        Some(probe)
    }

    fn unanswered(&mut self, size: usize, now_us: u64) {
        self.check_us = now_us + CHECK_US;
        self.asking = None;
        if self.knows && size == self.size && size < LEAST {
            self.size += 1;
            self.pause_us = GROW_MIN_US;
            self.asking = Some((self.size, 0));
        } else {
            self.pause_us = (2 * self.pause_us).min(GROW_MAX_US);
        }
        self.grow_us = now_us + self.pause_us;
    }

    fn answered(&mut self, bytes: usize, now_us: u64) {
        let Some(size) = DATAGRAM_SIZES.iter().position(|&known| known == bytes) else { return };
        if !std::mem::replace(&mut self.knows, true) {
            self.ask_again();
            return;
        }
        if size < self.size {
            // It may come late: it came.
            (self.size, self.pause_us, self.grow_us) = (size, GROW_MIN_US, now_us);
        } else if self.asking.is_none_or(|(asked, _)| asked != size) {
            return;
        }
        let larger = self.size > 0 && now_us >= self.grow_us;
        self.asking = larger.then(|| (self.size - 1, 0));
        self.check_us = now_us + CHECK_US;
    }

    /// Cuts an opened datagram that is too long for the path: see [`Cutter::cut`].
    pub fn cut(&mut self, plain: &[u8], send: impl FnMut(&[u8])) {
        self.cutter.bytes = self.bytes();
        self.cutter.cut(plain, send);
    }

    /// Looks at an opened datagram of the other end.
    pub fn hear(&mut self, plain: &[u8], now_us: u64) -> Heard {
        let Some((&[kind, ..], body)) = plain.split_first_chunk::<MESSAGE_HEAD_BYTES>() else {
            return Heard::Messages;
        };
        match kind {
            PIECE => self.join(body).map_or(Heard::Nothing, Heard::Whole),
            PROBE => {
                let mut answer = message(PROBE_ANSWER, 2);
                answer.extend_from_slice(&((plain.len() + SEAL_BYTES) as u16).to_le_bytes());
                Heard::Probe(answer)
            }
            PROBE_ANSWER => {
                if let Ok(bytes) = body.try_into() {
                    self.answered(usize::from(u16::from_le_bytes(bytes)), now_us);
                }
                Heard::Nothing
            }
            _ => Heard::Messages,
        }
    }

    /// Takes a piece; the datagram, where it was the last one.
    fn join(&mut self, body: &[u8]) -> Option<Vec<u8>> {
        let mut rest = Reader(body);
        let (number, [place, pieces]) = (rest.u32().ok()?, rest.array().ok()?.map(usize::from));
        if pieces > PIECES_MAX || place >= pieces {
            return None;
        }
        let open = self.open.iter().position(|open| open.number == number && open.pieces.len() == pieces);
        let at = open.unwrap_or_else(|| {
            if self.open.len() == OPEN_MAX {
                self.open.pop_front();
            }
            self.open.push_back(Open { number, pieces: vec![None; pieces] });
            self.open.len() - 1
        });
        self.open[at].pieces[place] = Some(rest.0.to_vec());
        if self.open[at].pieces.iter().any(Option::is_none) {
            return None;
        }
        let whole: Vec<u8> = self.open.remove(at)?.pieces.into_iter().flatten().flatten().collect();
        (whole.len() <= PLAIN_BYTES_MAX).then_some(whole)
    }
}

fn message(kind: u8, bytes: usize) -> Vec<u8> {
    let mut message = Vec::with_capacity(MESSAGE_HEAD_BYTES + bytes);
    message.push(kind);
    message.extend_from_slice(&(bytes as u16).to_le_bytes());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    /// Lets the seconds pass on a path that carries `most` bytes; the other end answers what comes, if it `answers`.
    fn pass(path: &mut Path, seconds: std::ops::Range<u64>, most: usize, answers: bool) {
        let mut other = Path::default();
        for now_us in seconds.map(|second| second * SECOND) {
            let Some(probe) = path.probe(now_us) else { continue };
            if probe.len() + SEAL_BYTES <= most
                && answers
                && let Heard::Probe(answer) = other.hear(&probe, now_us)
            {
                assert_eq!(path.hear(&answer, now_us), Heard::Nothing);
            }
        }
    }

    #[test]
    fn a_path_that_swallows_large_datagrams_gets_small_ones_and_grows_back_with_care() {
        let mut path = Path::default();
        pass(&mut path, 0..60, 2_000, true);
        assert_eq!(path.bytes(), 1_400);
        pass(&mut path, 60..120, 600, true);
        assert_eq!(path.bytes(), 548);
        pass(&mut path, 120..4_000, 600, true);
        assert_eq!(path.bytes(), 548);
        assert_eq!(path.pause_us, GROW_MAX_US);
        pass(&mut path, 4_000..4_700, 1_300, true);
        assert_eq!(path.bytes(), 1_200);
        pass(&mut path, 4_700..6_000, 2_000, true);
        assert_eq!(path.bytes(), 1_400);
    }

    #[test]
    fn a_new_path_is_known_within_seconds_and_asked_about_seldom_afterwards() {
        let mut path = Path::default();
        pass(&mut path, 0..12, 600, true);
        assert_eq!(path.bytes(), 548);
        let mut path = Path::default();
        pass(&mut path, 0..12, 2_000, true);
        let probes = (12..612).filter(|second| {
            let probe = path.probe(second * SECOND);
            if probe.is_some() {
                path.answered(1_400, second * SECOND);
            }
            probe.is_some()
        });
        assert_eq!(probes.count(), 60);
    }

    /// One end hears nothing but small answers, takes the other for away and shakes hands anew every few seconds.
    #[test]
    fn a_path_that_narrows_is_known_though_sessions_are_opened_again_and_again() {
        let mut path = Path::default();
        pass(&mut path, 0..60, 2_000, true);
        for start in (60..80).step_by(4) {
            path.ask_again();
            pass(&mut path, start..start + 4, 600, true);
        }
        assert_eq!(path.bytes(), 548);
    }

    #[test]
    fn who_does_not_know_probes_gets_datagrams_of_the_full_size() {
        let mut path = Path::default();
        pass(&mut path, 0..10_000, 2_000, false);
        assert_eq!(path.bytes(), 1_400);
    }

    #[test]
    fn a_datagram_that_is_too_long_comes_together_from_pieces_in_any_order() {
        let plain: Vec<u8> = (0..PLAIN_BYTES_MAX).map(|i| i as u8 | 1).collect();
        for (size, &most) in DATAGRAM_SIZES.iter().enumerate() {
            let (mut here, mut there) = (Path { size, ..Path::default() }, Path::default());
            for round in 0..3 {
                let mut pieces = Vec::new();
                here.cut(&plain, |piece| pieces.push(piece.to_vec()));
                assert!(pieces.iter().all(|piece| piece.len() + SEAL_BYTES <= most));
                let turn = round % pieces.len();
                pieces.rotate_left(turn);
                if size == 0 {
                    assert_eq!(pieces, std::slice::from_ref(&plain));
                    continue;
                }
                let heard: Vec<_> = pieces.iter().map(|piece| there.hear(piece, 0)).collect();
                let (last, others) = heard.split_last().unwrap();
                assert_eq!(*last, Heard::Whole(plain.clone()));
                assert!(others.iter().all(|heard| *heard == Heard::Nothing));
            }
            assert!(there.open.is_empty());
        }
    }

    #[test]
    fn pieces_of_another_process_are_not_put_together_with_those_of_its_successor() {
        let mut there = Path::default();
        let say = |byte: u8, there: &mut Path, lost: Option<usize>| {
            let (mut here, mut heard, mut place) = (Path { size: LEAST, ..Path::default() }, Vec::new(), 0);
            here.cut(&[byte; PLAIN_BYTES_MAX], |piece| {
                if lost != Some(place) {
                    heard.push(there.hear(piece, 0));
                }
                place += 1;
            });
            heard
        };
        assert_eq!(say(1, &mut there, Some(0)), [Heard::Nothing, Heard::Nothing]);
        there.forget_pieces();
        assert_eq!(say(2, &mut there, None).pop(), Some(Heard::Whole(vec![2; PLAIN_BYTES_MAX])));
    }

    #[test]
    fn pieces_that_are_cut_alien_or_lost_do_no_harm() {
        let (mut here, mut there) = (Path { size: LEAST, ..Path::default() }, Path::default());
        let mut pieces = Vec::new();
        here.cut(&[9; PLAIN_BYTES_MAX], |piece| pieces.push(piece.to_vec()));
        for length in 0..PIECE_HEAD_BYTES {
            assert!(!matches!(there.hear(&pieces[0][..length], 0), Heard::Whole(_)));
        }
        for (place, count) in [(0, 0), (3, 3), (0, 200)] {
            let mut piece = pieces[0].clone();
            (piece[7], piece[8]) = (place, count);
            assert_eq!(there.hear(&piece, 0), Heard::Nothing);
        }
        for number in 0..1_000_u32 {
            let mut piece = pieces[0].clone();
            piece[3..7].copy_from_slice(&number.to_le_bytes());
            there.hear(&piece, 0);
        }
        assert_eq!(there.open.len(), OPEN_MAX);
        assert_eq!(there.hear(&[], 0), Heard::Messages);
    }
}
