//! A simulated node: what its worker has of posts, and when it calls the scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use starfarm_overlay_core::calls::Calls;
use starfarm_overlay_core::posts::{Posts, ProcessId};
use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::orders::{Host, Report};

use super::clock::Clock;
use super::post::Units;
use super::wires::Who;

/// Where the scheduler is.
pub(super) const SCHEDULER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 255, 0, 1)), 7_117);

pub(super) struct Node {
    pub(super) host: usize,
    pub(super) key: PublicKey,
    pub(super) name: String,
    /// Its worker's life: another number each time.
    pub(super) life: u32,
    pub(super) is_up: bool,
    /// It has left, or has not joined yet.
    pub(super) is_away: bool,
    pub(super) clock: Clock,
    pub(super) posts: Posts,
    pub(super) calls: Calls,
    /// What the call said that is under way.
    pub(super) said: Option<Report>,
    pub(super) starting: BTreeSet<ProcessId>,
    pub(super) agents: BTreeMap<ProcessId, Who>,
    pub(super) session: Option<u32>,
    pub(super) bell: u64,
    pub(super) turn_us: u64,
    pub(super) units: Units,
}

impl Node {
    pub(super) fn new(number: usize, host: usize) -> Self {
        let mut key = [1; 32];
        key[..8].copy_from_slice(&(number as u64).to_le_bytes());
        Self {
            host,
            key: PublicKey(key),
            name: format!("n{number}"),
            life: 0,
            is_up: false,
            is_away: true,
            clock: Clock::new(0, 0, 0),
            posts: Posts::new(machine(host), (true, false)),
            calls: Calls::default(),
            said: None,
            starting: BTreeSet::new(),
            agents: BTreeMap::new(),
            session: None,
            bell: 0,
            turn_us: u64::MAX,
            units: Units::default(),
        }
    }
}

/// A machine.
pub(super) fn machine(host: usize) -> Host {
    Host { name: format!("host-{host:05}"), id: host as u64 }
}

/// Where that machine is.
pub(super) fn address(host: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, (host >> 16) as u8, (host >> 8) as u8, host as u8))
}
