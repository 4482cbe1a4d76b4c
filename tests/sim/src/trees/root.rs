//! A simulated scheduler, as far as it has a tree: the real front and picture, and the real children of the front.

use std::collections::BTreeMap;

use starfarm_agent_core::Picture;
use starfarm_overlay_core::children::Children;
use starfarm_overlay_core::front::Front;
use starfarm_overlay_core::ring::Ring;
use starfarm_protocol::link::Table;
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
    /// A child has gone: what a CP told of jobs those tell who were below it.
    pub(super) fn on_gone(&mut self, post: PostId) {
        if self.front.tells_for_others(post) {
            self.picture.forget_child(post);
        }
    }
}
