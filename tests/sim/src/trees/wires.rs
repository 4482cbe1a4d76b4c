//! Links under virtual time: what is said arrives in order, or late, or never, as with TCP. Handshakes are shaken by the same
//! vouchers, but not sealed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use starfarm_overlay_core::lanes::Lane;
use starfarm_overlay_core::pipe::{LinkId, Links, Pipe};
use starfarm_overlay_core::sending::Sending;
use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::link::Message;
use starfarm_protocol::orders::{Ancestor, PostId};

/// Bytes that are on their way at one time, at most.
const WINDOW_BYTES: usize = 64 << 10;

/// A process: no other one of a run has its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Who(pub(super) u64);

/// What a caller says in its handshake.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) post: PostId,
    pub(super) key: PublicKey,
    pub(super) ancestor: Ancestor,
    pub(super) to: SocketAddr,
}

/// A link: the caller's end first.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) call: Call,
    pub(super) ends: [End; 2],
    /// Nothing passes before this time.
    pub(super) stalled_us: u64,
}

#[derive(Debug)]
pub(super) struct End {
    pub(super) who: Who,
    pub(super) host: usize,
    pub(super) is_open: bool,
    /// Records may leave.
    pub(super) is_up: bool,
    /// The other end has said who it is.
    pub(super) is_known: bool,
    pub(super) pipe: Pipe,
    /// Records that have left, and when they arrive.
    way: VecDeque<Vec<u8>>,
    way_bytes: usize,
    pub(super) last_us: u64,
}

impl End {
    fn new(who: Who, host: usize, local_us: u64) -> Self {
        Self {
            who,
            host,
            is_open: true,
            is_up: false,
            is_known: false,
            pipe: Pipe::new(local_us),
            way: VecDeque::new(),
            way_bytes: 0,
            last_us: 0,
        }
    }
}

/// All links.
#[derive(Debug, Default)]
pub(super) struct Wires {
    all: BTreeMap<LinkId, Wire>,
    of: BTreeMap<Who, BTreeSet<LinkId>>,
    next: u64,
    /// Where something may leave, and ends that were closed, since these were looked at last.
    pub(super) dirty: BTreeSet<LinkId>,
    pub(super) closed: Vec<(LinkId, usize)>,
}

impl Wires {
    /// Somebody calls.
    pub(super) fn call(&mut self, (who, host): (Who, usize), call: Call, local_us: u64) -> LinkId {
        self.next += 1;
        let id = LinkId(self.next);
        let nobody = End { is_open: false, ..End::new(Who(0), 0, 0) };
        let ends = [End::new(who, host, local_us), nobody];
        self.all.insert(id, Wire { call, ends, stalled_us: 0 });
        self.of.entry(who).or_default().insert(id);
        id
    }

    /// Whoever was called has answered.
    pub(super) fn answer(&mut self, id: LinkId, (who, host): (Who, usize), local_us: u64) {
        let wire = self.all.get_mut(&id).expect("it was looked at");
        wire.ends[1] = End { is_up: true, ..End::new(who, host, local_us) };
        self.of.entry(who).or_default().insert(id);
    }

    pub(super) fn get(&mut self, id: LinkId) -> Option<&mut Wire> {
        self.all.get_mut(&id)
    }

    /// Links of a process.
    pub(super) fn of(&self, who: Who) -> Vec<LinkId> {
        self.of.get(&who).into_iter().flatten().copied().collect()
    }

    /// The n-th link of all, if there are any.
    pub(super) fn nth(&self, draw: u64) -> Option<LinkId> {
        let nth = draw as usize % self.all.len().max(1);
        self.all.keys().nth(nth).copied()
    }

    /// The end of that process, while it is open.
    pub(super) fn end(&mut self, id: LinkId, who: Who) -> Option<&mut End> {
        self.all.get_mut(&id)?.ends.iter_mut().find(|end| end.is_open && end.who == who)
    }

    /// Who is at the other end.
    pub(super) fn peer(&self, id: LinkId, who: Who) -> Option<Who> {
        let [caller, called] = &self.all.get(&id)?.ends;
        Some(if caller.who == who { called.who } else { caller.who })
    }

    /// An end is closed: it hears nothing more.
    pub(super) fn close(&mut self, id: LinkId, who: Who) {
        let Some(wire) = self.all.get_mut(&id) else { return };
        let Some(side) = wire.ends.iter().position(|end| end.is_open && end.who == who) else { return };
        wire.ends[side].is_open = false;
        if let Some(of) = self.of.get_mut(&who) {
            of.remove(&id);
        }
        self.closed.push((id, side));
    }

    /// A process has gone, and with it its ends.
    pub(super) fn forget(&mut self, who: Who) {
        self.of(who).into_iter().for_each(|id| self.close(id, who));
        self.of.remove(&who);
    }

    /// Drops a link whose ends are both closed.
    pub(super) fn drop_closed(&mut self, id: LinkId) {
        if self.all.get(&id).is_some_and(|wire| wire.ends.iter().all(|end| !end.is_open)) {
            self.all.remove(&id);
        }
    }

    /// The next record of an end leaves, if there is room for it on the way; when it arrives, `latency_us` from now or later.
    pub(super) fn leave(&mut self, id: LinkId, side: usize, arrives_us: u64) -> Option<u64> {
        let end = &mut self.all.get_mut(&id)?.ends[side];
        if !end.is_open || !end.is_up || end.way_bytes >= WINDOW_BYTES {
            return None;
        }
        let record = end.pipe.take_next()?;
        end.way_bytes += record.len();
        end.way.push_back(record);
        end.last_us = end.last_us.max(arrives_us);
        Some(end.last_us)
    }

    /// The record of an end that arrives now.
    pub(super) fn arrive(&mut self, id: LinkId, side: usize) -> Option<Vec<u8>> {
        let end = &mut self.all.get_mut(&id)?.ends[side];
        let record = end.way.pop_front()?;
        end.way_bytes -= record.len();
        self.dirty.insert(id);
        Some(record)
    }
}

/// The links of a process.
pub(super) struct Mine<'a>(pub(super) &'a mut Wires, pub(super) Who);

impl Links for Mine<'_> {
    fn send(&mut self, link: LinkId, lane: Lane, message: &Message<'_>, now_us: u64) {
        if let Some(end) = self.0.end(link, self.1) {
            end.pipe.send(lane, message, now_us);
            self.0.dirty.insert(link);
        }
    }

    fn open(&mut self, link: LinkId, lane: Lane, message: &Message<'_>, now_us: u64) {
        if let Some(end) = self.0.end(link, self.1) {
            end.pipe.open(lane, message, now_us);
            self.0.dirty.insert(link);
        }
    }

    fn send_data(&mut self, link: LinkId, waiting: &mut Sending, now_us: u64) {
        if let Some(end) = self.0.end(link, self.1) {
            end.pipe.send_data(waiting, now_us);
            self.0.dirty.insert(link);
        }
    }

    fn refuse(&mut self, link: LinkId, why: String, now_us: u64) {
        if let Some(end) = self.0.end(link, self.1) {
            end.pipe.refuse(why, now_us);
            self.0.dirty.insert(link);
        }
    }

    fn close(&mut self, link: LinkId) {
        self.0.close(link, self.1);
    }
}
