//! A simulated scheduler, as far as it has a tree: the real front and picture, and the real children of the front.

use std::cell::Cell;
use std::collections::BTreeMap;

use starfarm_agent_core::{Picture, Triples, without_others};
use starfarm_overlay_core::children::Children;
use starfarm_overlay_core::forest::Forest;
use starfarm_overlay_core::ring::Ring;
use starfarm_protocol::link::{Data, Table};
use starfarm_protocol::orders::PostId;

use super::agenda::Place;
use super::clock::Clock;
use super::wires::Who;

/// A node, as the farm knows it.
#[derive(Default)]
pub(super) struct FarmNode {
    pub(super) heard_us: Option<u64>,
    pub(super) place: Option<Place>,
    /// The number of its newest orders.
    pub(super) orders: u64,
}

pub(super) struct Root {
    pub(super) who: Who,
    pub(super) incarnation: u32,
    pub(super) clock: Clock,
    pub(super) forest: Forest,
    pub(super) picture: Picture,
    pub(super) children: Children,
    pub(super) ring: Ring,
    pub(super) late: u64,
    pub(super) table: Table,
    pub(super) farm: BTreeMap<String, FarmNode>,
    pub(super) bells: BTreeMap<String, u64>,
    pub(super) roll_us: u64,
    pub(super) tidy_us: u64,
    pub(super) strangers_us: u64,
}

impl Root {
    /// A post that the front knows, and of which it has not heard one that tells of it. A scheduler that has started again does
    /// not know who was above whom before.
    pub(super) fn wrongly_refused(&self, about: PostId) -> Option<PostId> {
        Some(about).filter(|about| self.incarnation == 1 && self.forest.post(*about).is_some())
    }

    /// A child has told something: whether any of it was news, and a post of which it should be heard and was not.
    pub(super) fn take(&mut self, child: PostId, data: &Data<'_>, now_us: u64) -> (bool, Option<PostId>) {
        let Ok(triples) = Triples::read(data.triples) else { return (false, None) };
        let refused = Cell::new(None);
        let own = without_others(triples, |about| {
            let may_speak = self.forest.may_speak(child, about, now_us);
            if !may_speak {
                refused.set(self.wrongly_refused(about));
            }
            may_speak
        });
        let of = own.as_deref().map_or(Ok(triples), Triples::read).expect("it was read before");
        (self.picture.take(child, data.at_us, of, now_us) && own.is_none(), refused.get())
    }

    /// A child has gone: what a CP told of jobs those tell who were below it.
    pub(super) fn on_gone(&mut self, post: PostId) {
        if self.forest.tells_for_others(post) {
            self.picture.forget_child(post);
        }
    }
}
