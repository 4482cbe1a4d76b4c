//! What all posts do together, round by round: a value goes down to the back ends, and one sum comes up. A post waits for those
//! children that it had when the round began, less those that it has lost since.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::link::{Part, PartOp};
use starfarm_protocol::orders::PostId;

/// Rounds that a post waits for at one time; of more the oldest is given up. So somebody above who begins many and ends none
/// costs no memory.
const ROUNDS_MAX: usize = 1_024;

/// The rounds that a post waits for.
#[derive(Debug, Default)]
pub struct Parts {
    rounds: BTreeMap<u32, Round>,
}

#[derive(Debug)]
struct Round {
    waits_for: BTreeSet<PostId>,
    from: u32,
    value: u64,
}

impl Parts {
    /// A round begins, at a post that has these children; `own` is what it says itself, if it does. The sum, if nobody is waited
    /// for.
    pub fn down(
        &mut self,
        round: u32,
        own: Option<u64>,
        children: impl Iterator<Item = PostId>,
    ) -> Option<Part> {
        let (waits_for, from) = (children.collect(), u32::from(own.is_some()));
        let begun = Round { waits_for, from, value: own.unwrap_or(0) };
        if begun.waits_for.is_empty() {
            self.rounds.remove(&round);
            return Some(begun.sum(round));
        }
        self.rounds.insert(round, begun);
        if self.rounds.len() > ROUNDS_MAX {
            self.rounds.pop_first();
        }
        None
    }

    /// A child has said its part: the sum, if it was the last one. What nobody waits for is nothing.
    pub fn up(&mut self, child: PostId, part: &Part) -> Option<Part> {
        let round = self.rounds.get_mut(&part.round)?;
        if !round.waits_for.remove(&child) {
            return None;
        }
        round.from = round.from.saturating_add(part.from);
        round.value = round.value.saturating_add(part.value);
        let is_last = round.waits_for.is_empty();
        is_last.then(|| self.rounds.remove(&part.round))?.map(|round| round.sum(part.round))
    }

    /// A child is lost: the sums of those rounds that waited for it alone.
    pub fn gone(&mut self, child: PostId) -> Vec<Part> {
        let ended = self
            .rounds
            .extract_if(.., |_, round| round.waits_for.remove(&child) && round.waits_for.is_empty());
        ended.map(|(number, round)| round.sum(number)).collect()
    }

    /// The post has another parent: what the one before wanted nobody waits for.
    pub fn clear(&mut self) {
        self.rounds.clear();
    }
}

impl Round {
    fn sum(&self, round: u32) -> Part {
        Part { op: PartOp::Up, round, from: self.from, value: self.value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(round: u32, from: u32, value: u64) -> Part {
        Part { op: PartOp::Up, round, from, value }
    }

    fn posts(posts: &[u64]) -> impl Iterator<Item = PostId> {
        posts.iter().map(|post| PostId(*post))
    }

    #[test]
    fn a_back_end_answers_at_once_and_others_when_all_children_have() {
        let mut parts = Parts::default();
        assert_eq!(parts.down(7, Some(5), posts(&[])), Some(sum(7, 1, 5)));
        assert_eq!(parts.down(7, None, posts(&[])), Some(sum(7, 0, 0)), "a CP whose children have all gone");
        assert_eq!(parts.down(7, None, posts(&[1, 2])), None);
        assert_eq!(parts.up(PostId(1), &sum(7, 3, 10)), None);
        assert_eq!(parts.up(PostId(1), &sum(7, 3, 10)), None, "twice");
        assert_eq!(parts.up(PostId(3), &sum(7, 3, 10)), None, "a stranger");
        assert_eq!(parts.up(PostId(2), &sum(8, 3, 10)), None, "a round that nobody has begun");
        assert_eq!(parts.up(PostId(2), &sum(7, 2, u64::MAX)), Some(sum(7, 5, u64::MAX)));
        assert_eq!(parts.up(PostId(2), &sum(7, 2, 1)), None, "it is over");
    }

    #[test]
    fn rounds_go_side_by_side_and_a_lost_child_is_not_waited_for() {
        let mut parts = Parts::default();
        for round in 1..=3 {
            assert_eq!(parts.down(round, None, posts(&[1, 2])), None);
        }
        parts.up(PostId(1), &sum(2, 1, 4));
        parts.up(PostId(2), &sum(3, 1, 6));
        assert_eq!(parts.gone(PostId(2)), [sum(2, 1, 4)]);
        assert_eq!(parts.up(PostId(1), &sum(3, 1, 1)), Some(sum(3, 2, 7)));
        assert_eq!(parts.up(PostId(1), &sum(1, 1, 2)), Some(sum(1, 1, 2)));
        assert!(parts.rounds.is_empty());
    }

    #[test]
    fn rounds_that_never_end_cost_no_memory() {
        let mut parts = Parts::default();
        for round in 0..5_000 {
            parts.down(round, None, posts(&[1]));
        }
        assert_eq!(parts.rounds.len(), ROUNDS_MAX);
        assert_eq!(parts.up(PostId(1), &sum(0, 1, 1)), None);
        assert_eq!(parts.up(PostId(1), &sum(4_999, 1, 1)), Some(sum(4_999, 1, 1)));
        parts.clear();
        assert!(parts.gone(PostId(1)).is_empty());
    }
}
