//! The nodes that the farm knows: their timers, what can be counted on in sum, which of them are to be looked at, and
//! which had room when they were looked at last.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use starfarm_events::Name;
use starfarm_protocol::ids::NodeId;
use starfarm_protocol::wire::Devices;

use crate::by_node::ByNode;
use crate::filling::{DevicesAt, Filling};
use crate::forgotten::Forgotten;
use crate::health::Health;
use crate::limits::{CREDIT_MAX, CREDIT_MIN};
use crate::node::Node;
use crate::seat::Seat;

/// How far a node is filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// A task a slot.
    Slots,
    /// All that its window allows.
    Window,
}

/// All nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    all: ByNode<Node>,
    pub(crate) forgotten: Forgotten,
    /// The first index that was never given.
    next: u32,
    /// The same, when the scheduler started.
    next_before: u32,
    live_slots: u64,
    live_devices: u64,
    live_nodes: u32,
    /// Some node is counted on no more: what was kept for it may go to others.
    fewer: bool,
    /// Nodes of which others hear nothing, and that were not heard here since.
    pub(crate) doubted: BTreeSet<NodeId>,
    /// Nodes that are not trusted, and are asked after: what they computed is not known yet.
    traced: BTreeSet<NodeId>,
    /// Nodes that are quarantined because they failed what others passed.
    outdone: BTreeSet<NodeId>,
    timers: BinaryHeap<Reverse<(u64, NodeId)>>,
    /// The dirty set: nodes to look at in this turn.
    dirty: Vec<NodeId>,
    /// All nodes are in it: each command would else walk through all nodes again.
    all_dirty: bool,
    /// Some of the dirty set were forgotten.
    forgot: bool,
    /// Nodes that had an idle slot when they were looked at last, and those that had room in their windows: they are
    /// looked at when something comes to be given out.
    hungry: [BTreeSet<NodeId>; 2],
    /// The credit of each node is so many times halved.
    credit_shift: u32,
    credit_moved_us: u64,
}

impl Nodes {
    /// The node of an index that somebody else named.
    pub(crate) fn get(&self, id: NodeId) -> Option<&Node> {
        self.all.get(id)
    }

    /// See [`Nodes::get`].
    pub(crate) fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.all.get_mut(id)
    }

    /// The node of an index that is known to be one.
    pub(crate) fn at(&self, id: NodeId) -> &Node {
        self.get(id).expect("the caller's index is a node's")
    }

    /// See [`Nodes::at`].
    pub(crate) fn at_mut(&mut self, id: NodeId) -> &mut Node {
        self.get_mut(id).expect("the caller's index is a node's")
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// All nodes, by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.all.iter()
    }

    /// See [`Nodes::iter`].
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (NodeId, &mut Node)> {
        self.all.iter_mut()
    }

    /// The nodes that can be given tasks.
    pub(crate) fn taking(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.iter().filter(|(_, node)| node.health().takes_tasks())
    }

    /// The node is there and can be counted on.
    pub(crate) fn is_live(&self, id: NodeId) -> bool {
        self.get(id).is_some_and(|node| node.health().live())
    }

    /// Its results are not trusted.
    pub(crate) fn is_distrusted(&self, id: NodeId) -> bool {
        self.get(id).is_some_and(|node| node.health().is_distrusted())
    }

    /// The name of a node; none of one that was forgotten long ago.
    pub(crate) fn name(&self, id: NodeId) -> Option<Name> {
        self.get(id).map(|node| &node.name).or_else(|| self.forgotten.name(id)).cloned()
    }

    /// Slots of all live nodes.
    pub(crate) fn live_slots(&self) -> u64 {
        self.live_slots
    }

    /// Devices of all live nodes that can be used.
    pub(crate) fn live_devices(&self) -> u64 {
        self.live_devices
    }

    /// The seats of a node; none of one that is not known.
    pub(crate) fn seats(&self, id: NodeId) -> impl Iterator<Item = Seat> + use<'_> {
        self.get(id).into_iter().flat_map(move |node| node.kinds().map(move |kind| Seat::new(id, kind)))
    }

    /// How many live nodes there are.
    pub(crate) fn live_nodes(&self) -> u32 {
        self.live_nodes
    }

    /// Fewer nodes are counted on since this was asked.
    pub(crate) fn take_fewer(&mut self) -> bool {
        std::mem::take(&mut self.fewer)
    }

    /// The first index that was never given.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Indices up to `id` were given.
    pub(crate) fn given(&mut self, id: NodeId) {
        self.next = self.next.max(id.0.wrapping_add(1));
    }

    /// The scheduler starts: all nodes were given their indices by earlier ones.
    pub(crate) fn start(&mut self) {
        self.next_before = self.next;
    }

    /// It was known before the scheduler's start: it may have computed what an earlier one gave it.
    pub(crate) fn is_of_before(&self, id: NodeId) -> bool {
        id.0 < self.next_before
    }

    /// A node is known from now on, if it was not. One that was forgotten is on record as such until it says hello.
    pub(crate) fn meet(&mut self, id: NodeId, name: &str, now_us: u64) -> &mut Node {
        self.all.get_or_insert_with(id, || Node::new(name.into(), self.forgotten.standing(id), now_us))
    }

    /// A node is known no more. What had said hello keeps its index.
    pub(crate) fn forget(&mut self, id: NodeId) {
        let node = self.all.remove(id).expect("whoever forgets a node has looked it up");
        assert!(node.counted == 0, "a node that is forgotten has gone");
        assert!(node.health.is_lost() || node.health.boot().is_none(), "and is not heard");
        for hungry in &mut self.hungry {
            hungry.remove(&id);
        }
        self.outdone.remove(&id);
        self.doubted.remove(&id);
        self.forgot |= node.is_dirty;
        if node.health.last_boot().is_some() {
            self.forgotten.add(id, node.name, node.health);
        }
    }

    /// Changes the health of a node, and counts anew what the farm can count on there: a sum over all nodes would make a
    /// loss of half of them quadratic. Where most failed what others passed, and these have gone, some get work again: the
    /// farm must not stand still for them.
    pub(crate) fn alter(&mut self, id: NodeId, change: impl FnOnce(&mut Health)) {
        change(&mut self.at_mut(id).health);
        self.count(id);
        while self.outdone.len() > self.live_nodes as usize {
            let pause_us =
                |id: &NodeId| self.at(*id).health.standing.probe().map_or(0, |probe| probe.pause_us);
            let greeted = self.outdone.iter().copied().filter(|id| self.at(*id).health.greeted);
            let Some(id) = greeted.min_by_key(|id| (pause_us(id), *id)) else { return };
            self.at_mut(id).health.rises();
            self.count(id);
            self.mark(id);
        }
    }

    /// A node says how many slots it has.
    pub(crate) fn set_slots(&mut self, id: NodeId, slots: u16) {
        self.at_mut(id).slots = slots;
        self.count(id);
    }

    /// A node tells of devices of one kind.
    pub(crate) fn set_devices(&mut self, id: NodeId, told: Devices, logged: Option<(usize, usize)>) {
        let node = self.at_mut(id);
        match node.devices.iter_mut().find(|at| at.kind() == told.kind) {
            Some(at) => (at.told, at.logged) = (told, logged),
            None => {
                // Of an incarnation from before our start the totals are not known either.
                let begun = node.cores.feedback.is_some();
                let filling = if begun { Filling::new() } else { Filling::unknown() };
                node.devices.push(DevicesAt { told, logged, filling });
            }
        }
        self.count(id);
    }

    /// What a node told of its devices was another incarnation of it.
    pub(crate) fn forget_devices(&mut self, id: NodeId) {
        self.at_mut(id).devices.clear();
        self.count(id);
    }

    fn count(&mut self, id: NodeId) {
        let node = self.at_mut(id);
        let is_live = node.health.live();
        let counted = if is_live { node.slots } else { 0 };
        let devices = if is_live { node.all_slots() - node.slots } else { 0 };
        let devices_before = std::mem::replace(&mut node.counted_devices, devices);
        let (before, is_outdone) = (std::mem::replace(&mut node.counted, counted), node.health.is_outdone());
        assert!(counted == 0 || !is_outdone, "who is quarantined is not counted on");
        assert!(self.live_slots >= u64::from(before), "the sum has what each node added to it");
        assert!(self.live_nodes >= u32::from(before > 0), "and the number of nodes likewise");
        self.live_nodes = self.live_nodes + u32::from(counted > 0) - u32::from(before > 0);
        self.live_slots = self.live_slots + u64::from(counted) - u64::from(before);
        assert!(self.live_devices >= u64::from(devices_before), "and the number of devices likewise");
        self.live_devices = self.live_devices + u64::from(devices) - u64::from(devices_before);
        self.fewer |= counted == 0 && before > 0;
        match is_outdone {
            true => self.outdone.insert(id),
            false => self.outdone.remove(&id),
        };
    }

    /// What a node computed is to be asked of the records; false where it is asked already.
    pub(crate) fn trace(&mut self, id: NodeId) -> bool {
        self.traced.insert(id)
    }

    /// That is known.
    pub(crate) fn traced(&mut self, id: NodeId) {
        self.traced.remove(&id);
    }

    /// That is not known of some node.
    pub(crate) fn are_traced(&self) -> bool {
        !self.traced.is_empty()
    }

    // What to look at.

    /// Looks at a node in this turn.
    pub(crate) fn mark(&mut self, id: NodeId) {
        if let Some(node) = self.get_mut(id)
            && !std::mem::replace(&mut node.is_dirty, true)
        {
            self.dirty.push(id);
        }
    }

    /// Looks at every node that has joined.
    pub(crate) fn mark_all(&mut self) {
        if std::mem::replace(&mut self.all_dirty, true) {
            return;
        }
        let joined = self.iter().filter(|(_, node)| node.health.boot().is_some());
        let joined: Vec<NodeId> = joined.map(|(id, _)| id).collect();
        joined.into_iter().for_each(|id| self.mark(id));
    }

    /// The nodes to look at. They are in the dirty set until they were looked at.
    pub(crate) fn take_dirty(&mut self) -> Vec<NodeId> {
        let mut dirty = std::mem::take(&mut self.dirty);
        if std::mem::take(&mut self.forgot) {
            dirty.retain(|id| self.get(*id).is_some());
        }
        dirty
    }

    /// A node is looked at.
    pub(crate) fn unmark(&mut self, id: NodeId) {
        self.at_mut(id).is_dirty = false;
    }

    /// The turn is over: all may be marked anew.
    pub(crate) fn end_turn(&mut self) {
        self.all_dirty = false;
    }

    /// A node was looked at, and had room or not.
    pub(crate) fn note_room(&mut self, id: NodeId, reach: Reach, has_room: bool) {
        match has_room {
            true => self.hungry[reach as usize].insert(id),
            false => self.hungry[reach as usize].remove(&id),
        };
    }

    /// The first node from `from` on that had room.
    pub(crate) fn hungry_from(&self, from: NodeId, reach: Reach) -> Option<NodeId> {
        self.hungry[reach as usize].range(from..).next().copied()
    }

    // Timers.

    /// When the first timer may be due.
    pub(crate) fn next_timer_us(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((at_us, _))| *at_us)
    }

    /// Sets a node's timer. One that fires early looks again; only an earlier one needs a new entry.
    pub(crate) fn set_timer(&mut self, id: NodeId, at_us: u64) {
        let node = self.at_mut(id);
        if at_us < node.timer_us {
            node.timer_us = at_us;
            self.timers.push(Reverse((at_us, id)));
        }
    }

    /// The next node whose timer fires.
    pub(crate) fn next_due(&mut self, now_us: u64) -> Option<NodeId> {
        while let Some(&Reverse((at_us, id))) = self.timers.peek().filter(|first| first.0.0 <= now_us) {
            self.timers.pop();
            if let Some(node) = self.get_mut(id)
                && node.timer_us == at_us
            {
                node.timer_us = u64::MAX;
                return Some(id);
            }
        }
        None
    }

    // Credit.

    /// Result datagrams that each node may have under way: all nodes' together fill half of our buffer, which holds
    /// `receive_datagrams`.
    pub(crate) fn credit(&self, receive_datagrams: u32) -> u16 {
        let share = (receive_datagrams / 2 / self.live_nodes.max(1)) >> self.credit_shift;
        (share.min(u32::from(CREDIT_MAX)) as u16).max(CREDIT_MIN)
    }

    /// The kernel dropped datagrams because our buffer was full: credits shrink, at most once a round trip.
    pub(crate) fn shrink_credit(&mut self, now_us: u64) {
        const ROUND_TRIP_US: u64 = 100_000;
        if now_us >= self.credit_moved_us + ROUND_TRIP_US {
            self.credit_moved_us = now_us;
            self.credit_shift = (self.credit_shift + 1).min(8);
        }
    }

    /// A period without drops lets credits grow.
    pub(crate) fn grow_credit(&mut self) {
        self.credit_shift = self.credit_shift.saturating_sub(1);
    }
}
