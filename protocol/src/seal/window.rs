//! The replay window: which counters of a session have been received. The counters themselves, and the
//! check that a packet is genuine before it is noted here, live in `session.rs`.
//!
//! A ring of 64-bit words after RFC 6479: moving forward clears whole words, so nothing is ever shifted,
//! and one word of the ring is given up for that.

use super::error::SealError;

const WORDS: u64 = 64;
const WORD_BITS: u64 = 64;

/// How far behind the newest packet a packet may come and still be told from a replay, in packets.
/// 20 000 packets a second, more than one node has been seen to send, are 200 ms of reordering.
pub const WINDOW_PACKETS: u64 = (WORDS - 1) * WORD_BITS;

const _: () = assert!(WINDOW_PACKETS >= 2048, "a burst of one full socket buffer must fit");
const _: () = assert!(WORDS.is_power_of_two(), "the word of a counter is found by a mask");

/// The counters received so far: exact for the newest [`WINDOW_PACKETS`], all older ones count as
/// received.
#[derive(Clone)]
pub struct Window {
    /// Largest counter received, 0 before the first.
    top: u64,
    words: [u64; WORDS as usize],
}

impl Default for Window {
    fn default() -> Self {
        Self { top: 0, words: [0; WORDS as usize] }
    }
}

impl Window {
    /// Says whether `counter` is new, without noting it. Cheap, so it comes before the cipher.
    ///
    /// # Errors
    /// [`SealError::Replayed`] or [`SealError::TooOld`].
    pub fn check(&self, counter: u64) -> Result<(), SealError> {
        if counter > self.top {
            return Ok(());
        }
        if self.top - counter >= WINDOW_PACKETS {
            return Err(SealError::TooOld);
        }
        if self.words[slot(counter / WORD_BITS)] & bit(counter) != 0 {
            return Err(SealError::Replayed);
        }
        Ok(())
    }

    /// Notes `counter` as received. Only for packets whose seal has opened: a forged one must not move
    /// the window.
    ///
    /// # Errors
    /// As [`Window::check`]; the window is then unchanged.
    pub fn accept(&mut self, counter: u64) -> Result<(), SealError> {
        self.check(counter)?;
        if counter > self.top {
            self.advance(counter);
        }
        self.words[slot(counter / WORD_BITS)] |= bit(counter);
        Ok(())
    }

    /// Largest counter received; 0 also before the first.
    pub fn top(&self) -> u64 {
        self.top
    }

    /// Moves the top to `counter`, clearing the words that come into the ring anew.
    fn advance(&mut self, counter: u64) {
        let (old, new) = (self.top / WORD_BITS, counter / WORD_BITS);
        // After a jump over the whole ring each word is cleared once.
        for word in old + 1..=new.min(old + WORDS) {
            self.words[slot(word)] = 0;
        }
        self.top = counter;
    }
}

fn slot(word: u64) -> usize {
    (word & (WORDS - 1)) as usize
}

fn bit(counter: u64) -> u64 {
    1 << (counter % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::testing::Chance;
    use super::*;

    /// What the window stands for, without any cleverness.
    #[derive(Default)]
    struct Model {
        seen: BTreeSet<u64>,
    }

    impl Model {
        fn accept(&mut self, counter: u64) -> Result<(), SealError> {
            let top = self.seen.last().copied().unwrap_or(0);
            if counter <= top && top - counter >= WINDOW_PACKETS {
                return Err(SealError::TooOld);
            }
            if self.seen.insert(counter) { Ok(()) } else { Err(SealError::Replayed) }
        }
    }

    #[test]
    fn each_counter_is_accepted_once_also_the_first() {
        let mut window = Window::default();
        for counter in [0, 1, 63, 64, 65, 4031, 4032, 10_000] {
            assert_eq!(window.accept(counter), Ok(()), "{counter}");
            assert_eq!(window.accept(counter), Err(SealError::Replayed), "{counter}");
        }
    }

    #[test]
    fn the_edge_of_the_window_is_exact() {
        let mut window = Window::default();
        let top = 100_000;
        window.accept(top).unwrap();
        assert_eq!(window.accept(top - WINDOW_PACKETS), Err(SealError::TooOld));
        assert_eq!(window.accept(top - WINDOW_PACKETS + 1), Ok(()));
        assert_eq!(window.accept(top - WINDOW_PACKETS + 1), Err(SealError::Replayed));
    }

    #[test]
    fn a_jump_far_ahead_forgets_nothing_it_must_know() {
        let mut window = Window::default();
        (0..200).for_each(|counter| window.accept(counter).unwrap());
        let far = 1 << 59;
        window.accept(far).unwrap();
        assert_eq!(window.accept(199), Err(SealError::TooOld));
        assert_eq!(window.accept(far), Err(SealError::Replayed));
        for back in 1..WINDOW_PACKETS {
            assert_eq!(window.accept(far - back), Ok(()), "{back} back");
        }
    }

    #[test]
    fn a_refused_counter_changes_nothing() {
        let mut window = Window::default();
        window.accept(9000).unwrap();
        let before = (window.top, window.words);
        window.accept(9000).unwrap_err();
        window.accept(3).unwrap_err();
        window.check(123_456).unwrap();
        assert_eq!((window.top, window.words), before);
    }

    #[test]
    fn agrees_with_a_plain_set_under_reordering_duplication_and_jumps() {
        for seed in 0..20 {
            let mut chance = Chance::new(seed);
            let (mut window, mut model) = (Window::default(), Model::default());
            let mut near = 0_u64;
            for _ in 0..5_000 {
                near += match chance.below(100) {
                    0 => chance.below(3 * WINDOW_PACKETS),
                    1..=9 => chance.below(100),
                    _ => chance.below(3),
                };
                let back = 1 << chance.below(14);
                let counter = near.saturating_sub(chance.below(back));
                assert_eq!(window.accept(counter), model.accept(counter), "seed {seed}, counter {counter}");
            }
        }
    }
}
