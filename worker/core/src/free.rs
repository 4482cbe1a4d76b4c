//! What of a worker no run has: amounts of each resource, and which cards. Whole cards are a run's own; a run that has a share
//! of one is put where others share already, so that whole ones stay free.

use starfarm_protocol::resources::{GPU_PARTS, Resource, Resources};

/// What no run has.
#[derive(Clone, Debug)]
pub(crate) struct Free {
    amounts: Resources,
    /// Parts of each card.
    cards: Vec<u64>,
    /// The task that waits for cards, by its number, and those that it will get: nobody else is given anything of them.
    kept: Option<(u64, Vec<u16>)>,
}

/// How a run stands to the task that has waited longest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum First {
    /// It is that one.
    Is,
    /// It passes that one, which has this number.
    Passed(u64),
}

impl Free {
    /// All that a worker has.
    pub(crate) fn new(has: Resources) -> Self {
        let cards = has.of(Resource::Gpus) / GPU_PARTS;
        Self { amounts: has, cards: vec![GPU_PARTS; cards as usize], kept: None }
    }

    pub(crate) fn amounts(&self) -> Resources {
        self.amounts
    }

    /// The cards that a run gets now, if it fits.
    pub(crate) fn place(&self, run: Resources, first: First) -> Option<Vec<u16>> {
        if !self.amounts.fits(run) {
            return None;
        }
        let (share, count) = cards_of(run);
        let kept = match (&self.kept, first) {
            (Some((number, kept)), First::Passed(first)) if *number == first => kept.as_slice(),
            _ => &[],
        };
        let has_room = |card: &u16| self.parts(*card) >= share && !kept.contains(card);
        let mut cards: Vec<u16> = self.numbers().filter(has_room).collect();
        // The fullest that has room; whole ones are all alike.
        cards.sort_by_key(|card| self.parts(*card));
        (cards.len() >= count).then(|| cards.into_iter().take(count).collect())
    }

    /// A device that is this card may run something now.
    pub(crate) fn is_whole(&self, card: u16, first: First) -> bool {
        let is_kept =
            |(number, kept): &(u64, Vec<u16>)| first == First::Passed(*number) && kept.contains(&card);
        self.cards.get(usize::from(card)) == Some(&GPU_PARTS) && !self.kept.as_ref().is_some_and(is_kept)
    }

    pub(crate) fn fits(&self, run: Resources, first: First) -> bool {
        self.place(run, first).is_some()
    }

    /// The task numbered `first`, of which a run takes that, waits: the cards that are nearest to being free are kept for it.
    pub(crate) fn keep(&mut self, run: Resources, first: u64) {
        let (_, count) = cards_of(run);
        if self.kept.as_ref().is_some_and(|(number, _)| *number == first) {
            return;
        }
        let mut cards: Vec<u16> = self.numbers().collect();
        cards.sort_by_key(|card| std::cmp::Reverse(self.parts(*card)));
        cards.truncate(count);
        self.kept = Some((first, cards));
    }

    /// A run has that, and these cards.
    pub(crate) fn take(&mut self, run: Resources, cards: &[u16]) {
        self.amounts = self.amounts.minus(run).expect("a bundle is started where it fits");
        for card in cards {
            let free = &mut self.cards[usize::from(*card)];
            *free = free.checked_sub(cards_of(run).0).expect("a run is placed where there is room");
        }
    }

    /// It has them no more.
    pub(crate) fn give_back(&mut self, run: Resources, cards: &[u16]) {
        self.amounts = self.amounts.plus(run);
        cards.iter().for_each(|card| self.cards[usize::from(*card)] += cards_of(run).0);
        debug_assert_eq!(
            self.cards.iter().sum::<u64>(),
            self.amounts.of(Resource::Gpus),
            "what is free of the cards is free of each"
        );
    }

    fn numbers(&self) -> impl Iterator<Item = u16> + use<> {
        0..self.cards.len() as u16
    }

    fn parts(&self, card: u16) -> u64 {
        self.cards[usize::from(card)]
    }
}

/// What a run takes of a card, and of how many cards.
fn cards_of(run: Resources) -> (u64, usize) {
    let parts = run.of(Resource::Gpus);
    (parts.min(GPU_PARTS), parts.div_ceil(GPU_PARTS) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cards(parts: u64) -> Resources {
        Resources::NONE.with(Resource::Gpus, parts)
    }

    const HALF: u64 = GPU_PARTS / 2;

    fn placed(free: &mut Free, parts: u64) -> Option<Vec<u16>> {
        let place = free.place(cards(parts), First::Is)?;
        free.take(cards(parts), &place);
        Some(place)
    }

    #[test]
    fn shares_go_together_and_whole_cards_stay_whole() {
        let mut free = Free::new(cards(3 * GPU_PARTS));
        assert_eq!(placed(&mut free, HALF), Some(vec![0]));
        assert_eq!(placed(&mut free, 2 * GPU_PARTS), Some(vec![1, 2]));
        assert_eq!(placed(&mut free, HALF), Some(vec![0]));
        assert_eq!(placed(&mut free, HALF), None);
        free.give_back(cards(2 * GPU_PARTS), &[1, 2]);
        free.give_back(cards(HALF), &[0]);
        assert_eq!(placed(&mut free, HALF), Some(vec![0]));
        assert_eq!(placed(&mut free, 0), Some(Vec::new()));
    }

    #[test]
    fn what_waits_for_a_card_gets_it_whatever_passes() {
        let (half, whole) = (cards(HALF), cards(GPU_PARTS));
        let mut free = Free::new(cards(2 * GPU_PARTS));
        free.take(half, &[0]);
        free.take(half, &[1]);
        assert_eq!(free.place(whole, First::Is), None, "as much is free, but of two cards");
        free.keep(whole, 7);
        assert_eq!(free.place(half, First::Passed(7)), Some(vec![1]), "the other card is kept");
        free.give_back(half, &[0]);
        free.keep(whole, 7);
        assert_eq!(free.place(half, First::Passed(7)), Some(vec![1]));
        assert_eq!(free.place(whole, First::Is), Some(vec![0]));
        free.give_back(half, &[1]);
        assert_eq!(
            free.place(half, First::Passed(8)),
            Some(vec![0]),
            "what was kept for another is not kept"
        );
    }
}
