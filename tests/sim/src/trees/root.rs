//! A simulated scheduler, as far as it has a tree: the real front and picture, and the real children of the front.

use std::collections::BTreeMap;

use starfarm_agent_core::{Picture, Triples, without_others};
use starfarm_overlay_core::children::Children;
use starfarm_overlay_core::front::Front;
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
    pub(super) front: Front,
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
    /// A child has told something; whether any of it was news, and none of it is for others to tell.
    pub(super) fn take(&mut self, child: PostId, data: &Data<'_>, now_us: u64) -> bool {
        let Ok(triples) = Triples::read(data.triples) else { return false };
        let own = without_others(triples, |about| self.front.may_speak(child, about, now_us));
        let of = own.as_deref().map_or(Ok(triples), Triples::read).expect("it was read before");
        self.picture.take(child, data.at_us, of, now_us) && own.is_none()
    }

    /// A child has gone: what a CP told of jobs those tell who were below it.
    pub(super) fn on_gone(&mut self, post: PostId) {
        if self.front.tells_for_others(post) {
            self.picture.forget_child(post);
        }
    }
}
