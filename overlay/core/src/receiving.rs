//! What a post has heard of its children, message by message: what came, and what never did.

use std::collections::BTreeMap;

use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::link::{Attach, Counts, Data, Stream};
use starfarm_protocol::orders::PostId;

/// Children that are remembered, those that have gone as well; beyond that those that have gone are forgotten. More than any
/// farm has: of one that was forgotten, and comes again, something may be taken twice.
const GONE_MAX: usize = 100_000;

/// All children.
#[derive(Default, Debug)]
pub struct Receiving {
    children: BTreeMap<PostId, Child>,
    /// Messages that came, late or not.
    came: u64,
    /// Of children that are not remembered any more.
    gaps: u64,
}

#[derive(Clone, Copy, Debug)]
struct Child {
    key: PublicKey,
    next: [u32; Stream::ALL.len()],
    missing: u64,
    /// Messages that it had dropped when it came first, and has by now.
    dropped: [u64; 2],
    /// It has a link.
    is_here: bool,
}

impl Child {
    fn gaps(&self) -> u64 {
        self.missing.saturating_sub(self.dropped[1].saturating_sub(self.dropped[0]))
    }
}

impl Receiving {
    /// A child has come, for the first time or again; `key` is its process's.
    pub fn attach(&mut self, attach: &Attach, key: PublicKey) {
        let Attach { post, dropped, sequences, .. } = *attach;
        if self.children.len() >= GONE_MAX && !self.children.contains_key(&post) {
            self.forget_one();
        }
        let new = Child { key, next: sequences, missing: 0, dropped: [dropped; 2], is_here: true };
        let child = self.children.entry(post).or_insert(new);
        if child.key != key {
            // Another process counts from its own start.
            self.gaps += child.gaps();
            *child = new;
        }
        // What it does not say again came here or to another parent, or it was dropped.
        for (next, first) in child.next.iter_mut().zip(sequences) {
            ahead(next, first);
        }
        (child.dropped[1], child.is_here) = (dropped.max(child.dropped[1]), true);
    }

    fn forget_one(&mut self) {
        let gone = self.children.iter().find(|(_, child)| !child.is_here).map(|(post, _)| *post);
        let gone = gone.and_then(|post| self.children.remove(&post));
        self.gaps += gone.map_or(0, |child| child.gaps());
    }

    /// A child has lost its link.
    pub fn detach(&mut self, post: PostId) {
        self.children.entry(post).and_modify(|child| child.is_here = false);
    }

    /// A message of a child; whether it is a new one.
    pub fn take(&mut self, post: PostId, data: &Data<'_>) -> bool {
        let child = self.children.get_mut(&post).expect("who has a link has attached, and is remembered");
        let next = &mut child.next[data.stream as usize - 1];
        if behind(data.sequence, *next) > 0 {
            return false;
        }
        child.missing += ahead(next, data.sequence);
        *next = next.wrapping_add(1);
        self.came += 1;
        true
    }

    /// A child says that it has dropped so many so far.
    pub fn on_dropped(&mut self, post: PostId, dropped: u64) {
        self.children.entry(post).and_modify(|child| child.dropped[1] = dropped.max(child.dropped[1]));
    }

    /// So the post stands, which has sent and dropped so many itself. `late` of what came was.
    pub fn counts(&self, (sent, dropped): (u64, u64), late: u64) -> Counts {
        let gaps = self.gaps + self.children.values().map(Child::gaps).sum::<u64>();
        Counts { sent, received: self.came.saturating_sub(late), dropped, late, gaps }
    }
}

/// So far a number is behind another, if it is.
fn behind(number: u32, of: u32) -> u32 {
    let behind = of.wrapping_sub(number);
    if behind < u32::MAX / 2 { behind } else { 0 }
}

/// Goes ahead to a number, over so many.
fn ahead(next: &mut u32, to: u32) -> u64 {
    let over = behind(*next, to);
    *next = next.wrapping_add(over);
    over.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POST: PostId = PostId(7);
    const KEY: PublicKey = PublicKey([1; 32]);

    fn attach(dropped: u64, first: u32) -> Attach {
        Attach { post: POST, level: 0, dropped, sequences: [first, 0, 0, 0] }
    }

    fn take(receiving: &mut Receiving, sequence: u32) -> bool {
        let data = Data { stream: Stream::System, origin: POST, sequence, at_us: 0, triples: &[] };
        receiving.take(POST, &data)
    }

    fn said(receiving: &Receiving) -> [u64; 2] {
        let counts = receiving.counts((0, 0), 0);
        [counts.received, counts.gaps]
    }

    #[test]
    fn what_is_missing_and_was_not_dropped_is_a_gap() {
        let mut receiving = Receiving::default();
        receiving.attach(&attach(3, 10), KEY);
        assert!([10, 11, 14].into_iter().all(|sequence| take(&mut receiving, sequence)));
        assert_eq!(said(&receiving), [3, 2]);
        receiving.on_dropped(POST, 4);
        assert_eq!(said(&receiving), [3, 1], "one of the two was dropped");
        assert!(!take(&mut receiving, 14), "the same again");
        // It comes again, with one that came already.
        receiving.detach(POST);
        receiving.attach(&attach(4, 14), KEY);
        assert!(!take(&mut receiving, 14) && take(&mut receiving, 15));
        assert_eq!(said(&receiving), [4, 1]);
        // Meanwhile it was somebody else's child.
        receiving.attach(&attach(4, 90), KEY);
        assert!(take(&mut receiving, 90));
        assert_eq!(said(&receiving), [5, 1]);
    }

    #[test]
    fn a_process_that_begins_anew_is_another() {
        let mut receiving = Receiving::default();
        receiving.attach(&attach(0, 10), KEY);
        assert!(take(&mut receiving, 11));
        receiving.attach(&attach(0, 0), PublicKey([2; 32]));
        assert!(take(&mut receiving, 0));
        assert_eq!(said(&receiving), [2, 1]);
    }

    #[test]
    fn numbers_go_round() {
        let mut receiving = Receiving::default();
        receiving.attach(&attach(0, u32::MAX), KEY);
        assert!(take(&mut receiving, u32::MAX) && take(&mut receiving, 0) && !take(&mut receiving, u32::MAX));
        assert_eq!(said(&receiving), [2, 0]);
    }

    #[test]
    fn nobody_is_remembered_for_ever() {
        let mut receiving = Receiving::default();
        for post in 0..GONE_MAX as u64 + 10 {
            receiving.attach(&Attach { post: PostId(post), ..attach(0, 0) }, KEY);
            receiving.detach(PostId(post));
        }
        assert_eq!(receiving.children.len(), GONE_MAX);
    }
}
