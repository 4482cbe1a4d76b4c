//! What a worker says: the datagrams that are due, and what it holds.

use starfarm_protocol::devices::SlotKind;
use starfarm_protocol::resources::Resource;
use starfarm_protocol::wire::{Heartbeat, Held, Outcome, Packer};

use crate::held;
use crate::types::Deed;
use crate::worker::Worker;

impl Worker {
    /// What is due leaves, and with it all that rides on datagrams. The totals of the feedback go with each
    /// heartbeat, so that a lost one does no harm.
    pub(crate) fn send_due(&mut self, now_us: u64, deeds: &mut Vec<Deed>) {
        let mut packer = Packer::new();
        if self.link.is_welcomed() {
            self.outbox.send(now_us, &mut packer);
        }
        if self.link.hello_due(now_us) {
            packer.hello(&self.config.hello(self.tasks.slots().cores(), self.scheduler.known()));
            packer.has(&self.config.has().with(Resource::Slots, 0));
        }
        let beat = self.link.heartbeat_due(now_us, self.tasks.is_idle());
        if beat {
            self.weigh_queues(now_us);
        }
        if beat || self.riders.deadline() <= now_us || !packer.is_empty() {
            self.riders.pack(&mut packer, beat);
        }
        let load = beat.then(|| {
            let (load, of_devices) = self.tasks.slots_mut().load(now_us);
            self.said.1 = of_devices;
            load
        });
        let usable = self.usable();
        if beat || !packer.is_empty() && self.said.0 != usable {
            self.devices(&self.said.1).iter().for_each(|devices| packer.devices(devices));
            self.said.0 = usable;
        }
        if let Some(load) = load.filter(|_| self.link.is_welcomed()) {
            packer.load(&load);
            self.riders.pack_machine(self.config.facts.as_ref(), &mut packer, now_us);
        }
        if beat {
            let left = self.leave.time_left(self.drain.is_some(), now_us);
            left.iter().for_each(|left| packer.time_left(left));
            let by_devices: Vec<_> = self.kinds().map(|kind| (kind, self.held_by(kind))).collect();
            packer.heartbeat_of(&self.heartbeat(), &by_devices);
        }
        deeds.extend(packer.finish().into_iter().map(Deed::Send));
    }

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            number: self.link.number,
            queued_tasks: self.tasks.queue(SlotKind::CORES).len() as u32,
            draining: self.drain.is_some(),
            running: self.tasks.slots().running_units().collect(),
            held: self.held(),
            ..Heartbeat::default()
        }
    }

    /// What devices of a kind hold, neighbours joined: waiting, or running and not reported.
    pub fn held_by(&self, kind: SlotKind) -> Vec<Held> {
        held::join(self.tasks.held(kind).collect())
    }

    /// What the cores hold, neighbours joined, and all that is computed and not acknowledged.
    pub fn held(&self) -> Vec<Held> {
        let computed = self.outbox.iter().map(|kept| &kept.part);
        let computed = computed.filter(|part| part.outcome != Outcome::Returned);
        let computed = computed.map(|part| Held { job: part.job, lo: part.lo, units: part.units });
        held::join(self.tasks.held(SlotKind::CORES).chain(computed).collect())
    }
}
