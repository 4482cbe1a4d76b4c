//! A stream: records on their way in both directions, and what may befall them.

use std::collections::VecDeque;

use starfarm_protocol::bulk::Server;

use super::store::Memory;
use crate::random::Random;

/// Records under way in one direction, each with the time it arrives at.
pub(super) type Lane = VecDeque<(u64, Vec<u8>)>;

/// A stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) up: Lane,
    pub(super) down: Lane,
    /// The scheduler's end, while it is open.
    pub(super) server: Option<Server<Memory>>,
    /// When the scheduler heard anything last.
    pub(super) heard_us: u64,
    /// When each end learns that the other one has closed.
    pub(super) ends_us: [u64; 2],
    /// When the worker said or heard anything last.
    pub(super) used_us: u64,
    /// Nothing gets through any more, and nobody is told.
    pub(super) silent: bool,
    /// A fault has hit it: whoever gives it up has a reason.
    pub(super) hurt: bool,
}

impl Stream {
    /// Both ends learn at that time that it is broken; what is under way is lost.
    pub(super) fn reset(&mut self, at_us: u64) {
        self.fall_silent();
        self.ends_us = self.ends_us.map(|end_us| end_us.min(at_us));
    }

    pub(super) fn fall_silent(&mut self) {
        (self.silent, self.hurt) = (true, true);
        self.up.clear();
        self.down.clear();
    }
}

/// A record goes onto its way: 1 MB/s, and a delay by chance.
pub(super) fn send(lane: &mut Lane, silent: bool, record: Vec<u8>, now_us: u64, random: &mut Random) {
    if !silent {
        let free_us = lane.back().map_or(now_us, |record| record.0);
        let at_us = free_us.max(now_us + random.below(30_000)) + record.len() as u64;
        lane.push_back((at_us, record));
    }
}
