//! A machine's messages as a whole. Who hears one takes it for all that is known of the machine at that moment; but figures may be
//! asked at different times, by timers of their own. So each message says all that still holds, also what others before it have told.

use std::collections::BTreeMap;

use crate::ids;
use crate::named::Named;
use crate::values::{TRIPLES_MAX, Triple, Triples, ValueId};

/// A figure that was told for the first time holds for so long, in microseconds. One that is told again and again holds for half as
/// long again as from one time to the next.
const FIRST_US: u64 = 1_500_000;
/// What was not told for so long is forgotten, in microseconds: the longest period is an hour.
const FORGET_US: u64 = 2 * 3_600_000_000;

/// A figure: two that have names only may share an id.
type Key = (ValueId, Option<String>);

struct Held {
    value: Vec<u8>,
    at_us: u64,
    holds_us: u64,
    /// The message that told it last.
    message: u64,
}

/// What the machine's messages have told.
#[derive(Default)]
pub(crate) struct Whole {
    held: BTreeMap<Key, Held>,
    /// Messages that have come.
    messages: u64,
}

impl Whole {
    /// A message leaves: the figures that it lacks and that still hold. Nothing, where it is about others than the machine.
    pub(crate) fn lacks(&mut self, values: Triples<'_>, now_us: u64) -> Vec<u8> {
        let is_others = |triple: Triple<'_>| ids::says_whose(triple.id) && triple.id != ids::AT;
        if values.into_iter().any(is_others) {
            return Vec::new();
        }
        self.messages += 1;
        for triple in values.into_iter().filter(|triple| triple.id != ids::AT) {
            self.note(triple, now_us);
        }
        // The clock may have been set back.
        self.held.retain(|_, held| now_us.abs_diff(held.at_us) <= FORGET_US);
        let holds =
            |held: &Held| held.message != self.messages && now_us.abs_diff(held.at_us) <= held.holds_us;
        let lacking = self.held.iter().filter(|(_, held)| holds(held));
        Triples::written(lacking.map(|((id, _), held)| Triple { id: *id, value: &held.value }))
    }

    fn note(&mut self, triple: Triple<'_>, now_us: u64) {
        let key = (triple.id, Named::read(&triple).map(|of| of.name.to_owned()));
        if let Some(held) = self.held.get_mut(&key) {
            let since_us = now_us.abs_diff(held.at_us);
            if since_us > 0 {
                held.holds_us = since_us + since_us / 2;
            }
            triple.value.clone_into(&mut held.value);
            (held.at_us, held.message) = (now_us, self.messages);
        } else if self.held.len() < TRIPLES_MAX {
            let (value, message) = (triple.value.to_owned(), self.messages);
            self.held.insert(key, Held { value, at_us: now_us, holds_us: FIRST_US, message });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Message;

    const SECOND: u64 = 1_000_000;

    /// Ids of what a message of these ids lacks.
    fn lacks(whole: &mut Whole, ids: &[ValueId], now_us: u64) -> Vec<u32> {
        let (mut out, mut left_out) = (Vec::new(), 0);
        let mut message = Message::new(&mut out, &mut left_out);
        ids.iter().for_each(|id| message.put_number(*id, 7));
        let lacking = whole.lacks(Triples::read(&out).unwrap(), now_us);
        Triples::read(&lacking).unwrap().into_iter().map(|triple| triple.id.0).collect()
    }

    #[test]
    fn a_message_of_a_figure_that_is_asked_more_often_has_the_others_too() {
        let (mut whole, all) = (Whole::default(), [1, 2, 3].map(ValueId));
        assert_eq!(lacks(&mut whole, &all, SECOND), [] as [u32; 0]);
        for tenth in 11..20 {
            assert_eq!(lacks(&mut whole, &all[1..2], tenth * SECOND / 10), [1, 3]);
        }
        // Two of one moment lack nothing either.
        assert_eq!(lacks(&mut whole, &all, 2 * SECOND), [] as [u32; 0]);
        assert_eq!(lacks(&mut whole, &all[1..2], 2 * SECOND), [1, 3]);
    }

    #[test]
    fn a_figure_holds_for_half_as_long_again_as_it_takes_to_the_next_one() {
        let mut whole = Whole::default();
        let [slow, quick] = [1, 2].map(ValueId);
        for second in (0..=20).step_by(5) {
            lacks(&mut whole, &[slow], second * SECOND);
        }
        for second in 21..=27 {
            assert_eq!(lacks(&mut whole, &[quick], second * SECOND), [1], "{second}");
        }
        assert_eq!(lacks(&mut whole, &[quick], 28 * SECOND), [] as [u32; 0], "it is told no more");
        // The first time nobody knows when the next one comes.
        lacks(&mut whole, &[ValueId(3)], 30 * SECOND);
        assert_eq!(lacks(&mut whole, &[quick], 31 * SECOND), [3]);
        assert_eq!(lacks(&mut whole, &[quick], 32 * SECOND), [] as [u32; 0]);
        // And nothing is remembered for ever, whatever the clock does.
        lacks(&mut whole, &[quick], 0);
        lacks(&mut whole, &[quick], FORGET_US * 2);
        assert_eq!(whole.held.len(), 1);
    }

    #[test]
    fn what_is_about_others_lacks_nothing_and_is_not_remembered() {
        let mut whole = Whole::default();
        lacks(&mut whole, &[ValueId(1)], SECOND);
        assert_eq!(lacks(&mut whole, &[ids::POST, ValueId(2)], SECOND), [] as [u32; 0]);
        assert_eq!(lacks(&mut whole, &[ids::JOB, ValueId(2)], SECOND), [] as [u32; 0]);
        assert_eq!(lacks(&mut whole, &[ids::AT, ValueId(3)], SECOND), [1]);
        assert_eq!(whole.held.len(), 2);
    }
}
