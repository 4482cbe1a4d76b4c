//! Where a post is in the tree: whom it calls, in which order, and when. Its parent comes first, then those above it up to the
//! front; whoever takes it in is its parent until the one that it should have does.

use core::net::SocketAddr;

use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::orders::{Ancestor, PostId, PostOrder};

use crate::pipe::{End, LinkId};

/// After a link was lost its parent is tried again this soon; after all were tried, so long each time twice, up to the longest
/// pause.
const RETRY_US: u64 = 100_000;
const RETRY_US_MAX: u64 = 5_000_000;
/// The longest pause of a post that somebody else has taken in, and that tries its own parent.
const HOME_US: u64 = 10_000_000;

/// A link to an ancestor.
pub(crate) struct Up {
    pub(crate) link: LinkId,
    pub(crate) post: PostId,
    pub(crate) key: PublicKey,
}

/// Where the post is, and is to be.
pub(crate) struct Place {
    pub(crate) order: PostOrder,
    pub(crate) scheduler: SocketAddr,
    /// The parent that has taken it in.
    pub(crate) parent: Option<Up>,
    /// The one that is called. Once it has answered, and not yet taken the post in, nothing else may leave.
    pub(crate) called: Option<Up>,
    pub(crate) is_greeted: bool,
    /// Who of the lineage, and at which address, is tried next.
    next: usize,
    retry_us: u64,
    again_us: u64,
}

impl Place {
    pub(crate) fn new(order: PostOrder, scheduler: SocketAddr) -> Self {
        let (parent, called, is_greeted) = (None, None, false);
        Self { order, scheduler, parent, called, is_greeted, next: 0, retry_us: RETRY_US, again_us: 0 }
    }

    /// It is to be elsewhere, or others are above and below it.
    pub(crate) fn change(&mut self, order: PostOrder, scheduler: SocketAddr) {
        (self.order, self.scheduler) = (order, scheduler);
        (self.next, self.retry_us, self.again_us) = (0, RETRY_US, 0);
    }

    /// The parent that it should have is the one that it has.
    pub(crate) fn is_home(&self) -> bool {
        let home = self.order.lineage.first().map(|home| (home.post, home.key));
        home.is_some() && self.parent.as_ref().map(|up| (up.post, up.key)) == home
    }

    /// When it calls next.
    pub(crate) fn due_us(&self) -> Option<u64> {
        (self.called.is_none() && !self.is_home() && !self.order.lineage.is_empty()).then_some(self.again_us)
    }

    /// Whom to call now, and where. One that has a parent calls the one that it should have alone.
    pub(crate) fn next(&mut self, now_us: u64) -> Option<(Ancestor, SocketAddr)> {
        if self.due_us().is_none_or(|due_us| due_us > now_us) {
            return None;
        }
        let (scheduler, has_parent) = (self.scheduler, self.parent.is_some());
        let lineage = self.order.lineage.iter().take(if has_parent { 1 } else { usize::MAX });
        let all: Vec<_> = lineage
            .flat_map(|ancestor| {
                let front = ancestor.addresses.is_empty().then_some(scheduler);
                ancestor.addresses.iter().copied().chain(front).map(move |address| (ancestor, address))
            })
            .collect();
        let (ancestor, address) = all.get(self.next).or(all.first()).map(|(of, at)| ((*of).clone(), *at))?;
        self.next = if self.next < all.len() { self.next + 1 } else { 1 };
        if self.next >= all.len() {
            (self.next, self.again_us) = (0, now_us + self.retry_us);
            self.retry_us = (self.retry_us * 2).min(if has_parent { HOME_US } else { RETRY_US_MAX });
        }
        Some((ancestor, address))
    }

    /// The one that was called has taken it in: the parent that it had until now, if it had one.
    pub(crate) fn join(&mut self, now_us: u64) -> Option<Up> {
        (self.next, self.retry_us, self.is_greeted) = (0, RETRY_US, false);
        self.again_us = now_us + RETRY_US;
        std::mem::replace(&mut self.parent, self.called.take())
    }

    /// A link has ended; whether it was the parent's. A parent that was silent is tried last: a call would not reach it
    /// either, and take as long to show that.
    pub(crate) fn gone(&mut self, link: LinkId, end: &End, now_us: u64) -> bool {
        let home = self.order.lineage.first().filter(|_| *end == End::Silent && self.is_home());
        let skipped = home.map_or(0, |home| home.addresses.len().max(1));
        if self.called.take_if(|up| up.link == link).is_some() {
            self.is_greeted = false;
        }
        let is_parent = self.parent.take_if(|up| up.link == link).is_some();
        if is_parent {
            let pause_us = if skipped == 0 { RETRY_US } else { 0 };
            (self.next, self.retry_us, self.again_us) = (skipped, RETRY_US, now_us + pause_us);
        }
        is_parent
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::orders::PostKind;
    use starfarm_protocol::seal::Secret;

    use super::*;

    fn ancestor(post: u64, port: u16) -> Ancestor {
        let addresses = if port == 0 { Vec::new() } else { vec![SocketAddr::from(([10, 0, 0, 1], port))] };
        Ancestor { post: PostId(post), addresses, key: PublicKey([post as u8; 32]), secret: Secret([1; 32]) }
    }

    fn order(lineage: Vec<Ancestor>) -> PostOrder {
        PostOrder { lineage, ..PostOrder::new(PostId(9), (PostKind::Be, 0)) }
    }

    fn place() -> Place {
        let lineage = vec![ancestor(1, 100), ancestor(2, 200), ancestor(0, 0)];
        Place::new(order(lineage), SocketAddr::from(([10, 0, 0, 9], 7)))
    }

    fn called(place: &mut Place, now_us: u64) -> Option<u64> {
        place.next(now_us).map(|(ancestor, _)| ancestor.post.0)
    }

    #[test]
    fn all_above_are_tried_at_once_one_after_the_other_and_then_after_a_pause() {
        let mut place = place();
        assert_eq!(
            (0..4).map(|_| called(&mut place, 5)).collect::<Vec<_>>(),
            [Some(1), Some(2), Some(0), None]
        );
        assert_eq!(called(&mut place, 5 + RETRY_US), Some(1));
        assert_eq!(place.next(5 + RETRY_US).unwrap().1.port(), 200);
        assert_eq!(place.next(5 + RETRY_US).unwrap().1.port(), 7, "the front is where the scheduler is");
        assert_eq!(called(&mut place, 5 + 2 * RETRY_US), None, "the pause is twice as long");
    }

    #[test]
    fn one_that_was_taken_in_by_another_goes_home() {
        let mut place = place();
        let up =
            |n: u64, post: u64| Up { link: LinkId(n), post: PostId(post), key: PublicKey([post as u8; 32]) };
        assert_eq!((called(&mut place, 0), called(&mut place, 0)), (Some(1), Some(2)));
        place.called = Some(up(0, 2));
        assert!(place.join(0).is_none() && !place.is_home());
        assert_eq!((called(&mut place, 1), called(&mut place, RETRY_US)), (None, Some(1)));
        assert_eq!(called(&mut place, RETRY_US + 1), None, "nobody else, and not at once");
        place.called = Some(up(1, 1));
        assert_eq!(place.join(RETRY_US).map(|before| before.link), Some(LinkId(0)));
        assert!(place.is_home() && place.due_us().is_none());
        // Its parent has another process now.
        let mut order = place.order.clone();
        order.lineage[0].key = PublicKey([8; 32]);
        place.change(order, place.scheduler);
        assert_eq!(called(&mut place, RETRY_US), Some(1));
    }

    #[test]
    fn an_orphan_tries_its_parent_first_after_a_moment() {
        let mut place = place();
        place.called = Some(Up { link: LinkId(0), post: PostId(1), key: PublicKey([1; 32]) });
        place.join(0);
        let end = End::Broken("it has hung up".into());
        assert!(!place.gone(LinkId(1), &end, 5) && place.gone(LinkId(0), &end, 5));
        assert_eq!((called(&mut place, 6), called(&mut place, 5 + RETRY_US)), (None, Some(1)));
    }

    #[test]
    fn one_whose_parent_was_silent_tries_those_above_at_once() {
        let mut place = place();
        let up = |post: u64| Up { link: LinkId(0), post: PostId(post), key: PublicKey([post as u8; 32]) };
        place.called = Some(up(1));
        place.join(0);
        assert!(place.gone(LinkId(0), &End::Silent, 5));
        assert_eq!((0..3).map(|_| called(&mut place, 5)).collect::<Vec<_>>(), [Some(2), Some(0), None]);
        assert_eq!(called(&mut place, 5 + RETRY_US), Some(1), "it may be back");
        // One that was taken in by another may be taken in by its own parent meanwhile.
        place.called = Some(up(2));
        place.join(6);
        assert!(place.gone(LinkId(0), &End::Silent, 7));
        assert_eq!(called(&mut place, 7 + RETRY_US), Some(1));
        // There is nobody but the front.
        let mut top = Place::new(order(vec![ancestor(0, 0)]), SocketAddr::from(([10, 0, 0, 9], 7)));
        top.called = Some(up(0));
        top.join(0);
        assert!(top.gone(LinkId(0), &End::Silent, 5));
        assert_eq!(called(&mut top, 5), Some(0));
    }
}
