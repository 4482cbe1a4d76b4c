//! Hints that a session is not known. After its restart a scheduler shares no keys with its workers; without
//! a word each would first wait for answers that cannot come, then for its back-off. A hint is not sealed,
//! since there is no key to seal it with: it may make a worker shake hands, and nothing else.

use super::cookie::LoadMeter;
use super::packet::{DATA_HEADER_BYTES, no_session};

/// Hints in a second. A farm of 1 000 nodes that beat once a second is told within five.
const HINTS_PER_SECOND: u32 = 200;

/// Gives hints, a bounded number in a second, so that a flood of data packets costs no more than reading
/// it.
pub struct Hints(LoadMeter);

impl Default for Hints {
    fn default() -> Self {
        Self(LoadMeter::new(HINTS_PER_SECOND))
    }
}

impl Hints {
    /// What to send to where a data packet of an unknown session came from; `None` where there have been
    /// enough in this second, or it is no data packet.
    pub fn answer(&mut self, datagram: &[u8], now_us: u64) -> Option<[u8; DATA_HEADER_BYTES]> {
        let hint = no_session(datagram)?;
        (!self.0.is_over(now_us)).then_some(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::super::SealError;
    use super::super::testing::{Chance, Farm, Node, seal_one};
    use super::*;

    #[test]
    fn a_restarted_scheduler_hints_and_the_workers_session_is_in_doubt() {
        let mut farm = Farm::new();
        let node = Node::new("node-1");
        let (old, other) = (farm.join(&node), farm.join(&Node::new("node-2")));
        let mut restarted = Farm::new();
        let datagram = seal_one(&old, b"beat");
        assert!(matches!(restarted.open(&datagram).map(drop), Err(SealError::UnknownSession)));
        let hint = Hints::default().answer(&datagram, 0).unwrap();
        assert!(hint.len() < datagram.len());
        assert!(old.sealer.is_doubted_by(&hint));
        assert!(!other.sealer.is_doubted_by(&hint), "it is about another session");
        farm.open(&datagram).unwrap();
        farm.open(&seal_one(&old, b"still here")).unwrap();
    }

    #[test]
    fn hints_are_limited_to_so_many_in_a_second() {
        let mut farm = Farm::new();
        let datagram = seal_one(&farm.join(&Node::new("node-1")), b"beat");
        let mut hints = Hints::default();
        let flood = |hints: &mut Hints, from_us: u64| {
            (0..100_000).filter(|i| hints.answer(&datagram, from_us + i * 9).is_some()).count()
        };
        assert_eq!(flood(&mut hints, 0), 200);
        assert_eq!(flood(&mut hints, 5_000_000), 200);
    }

    #[test]
    fn only_who_has_seen_a_late_packet_can_make_a_hint() {
        let mut farm = Farm::new();
        let session = farm.join(&Node::new("node-1"));
        let datagram = seal_one(&session, b"beat");
        let hint = Hints::default().answer(&datagram, 0).unwrap();
        let mut chance = Chance::new(7);
        for _ in 0..100_000 {
            let length = [16, 16, 16, chance.below(64)][chance.below(4) as usize];
            let mut guess = chance.bytes(length as usize);
            if length >= 8 {
                guess[..4].copy_from_slice(&hint[..4]);
            }
            assert!(!session.sealer.is_doubted_by(&guess), "{guess:?}");
        }
        for length in 0..hint.len() {
            assert!(!session.sealer.is_doubted_by(&hint[..length]));
        }
        assert!(!session.sealer.is_doubted_by(&datagram));
        // Messages that were not sent yet, and those of long ago.
        let mut future = hint;
        future[8..].copy_from_slice(&session.sealer.messages().to_le_bytes());
        assert!(!session.sealer.is_doubted_by(&future));
        (0..5_000).for_each(|_| drop(seal_one(&session, b"beat")));
        assert!(!session.sealer.is_doubted_by(&hint));
    }

    #[test]
    fn nothing_but_a_data_packet_gets_a_hint() {
        let mut farm = Farm::new();
        let (_, initiation) = Node::new("node-1").start(&farm);
        let response = farm.admit(&initiation);
        let mut hints = Hints::default();
        for other in [&initiation[..], &response, &[], &[4], &[4; 31], &[5; 16], &[5; 64], &[4; 64]] {
            assert_eq!(hints.answer(other, 0), None);
        }
    }
}
