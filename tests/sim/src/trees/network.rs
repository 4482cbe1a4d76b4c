//! What becomes of calls and records on their way between processes.

use starfarm_overlay_core::pipe::{End, LinkId};
use starfarm_protocol::ids::Boot;
use starfarm_protocol::orders::PostId;
use starfarm_protocol::seal::{Claim, Door, post_name};

use super::agenda::What;
use super::node::SCHEDULER;
use super::wires::Who;
use super::world::{Happening, Trees};
use crate::violation::Broken;

/// What is in the way is tried again after this.
const RESEND_US: u64 = 50_000;

impl Trees {
    /// Tells a process what has happened.
    fn tell(&mut self, who: Who, happening: Happening) -> Result<(), Broken> {
        match &self.root {
            Some(root) if root.who == who => self.root_hears(happening),
            _ => self.agent_turn(who, happening),
        }
    }

    /// A call reaches whoever listens there, if anybody does, and it shakes hands.
    pub(super) fn connect(&mut self, link: LinkId) -> Result<(), Broken> {
        let Some(wire) = self.wires.get(link).filter(|wire| wire.ends[0].is_open) else { return Ok(()) };
        let (to, from) = (wire.call.to, wire.ends[0].host);
        let (callee, host) = if to == SCHEDULER {
            (self.root.as_ref().map(|root| root.who), self.scheduler_host())
        } else {
            let who = self.listeners.get(&to).copied();
            (who, self.host_at(to))
        };
        if !self.reaches(from, host) || self.hosts[host].is_shut && from != host {
            self.agenda.at(self.now_us + RESEND_US, What::Connect(link));
            return Ok(());
        }
        let is_taken = callee.is_some_and(|callee| self.admits(callee, link));
        let at_us = self.now_us + self.latency();
        let Some((callee, (local_us, _))) =
            callee.filter(|_| is_taken).and_then(|callee| Some((callee, self.clock_of(callee)?)))
        else {
            self.tally.refused += 1;
            self.agenda.at(at_us, What::HangUp(link, 0));
            return Ok(());
        };
        self.tally.links += 1;
        self.wires.answer(link, (callee, host), local_us);
        self.agenda.at(at_us, What::Answered(link));
        let wire = self.wires.get(link).expect("it was there");
        let (post, key) = (wire.call.post, wire.call.key);
        let to = self.agents.get(&callee).map_or(Some(PostId::FRONT), |agent| agent.member.post());
        self.judge.on_link((post, key), to.expect("who has vouchers has a place"))
    }

    /// Whether the one that is called is who it should be, and takes links of the caller.
    fn admits(&mut self, callee: Who, link: LinkId) -> bool {
        let call = &self.wires.get(link).expect("it was there").call;
        let id = call.ancestor.secret.join_key_id();
        let claim = Claim { key: call.key, name: post_name(call.post.0), boot: Boot(0), join_key: id };
        let of_front = self.root.as_ref().and_then(|root| root.forest.vouched(&id)).unwrap_or_default();
        let (key, vouchers) = match (self.agents.get(&callee), &self.root) {
            (Some(agent), _) => (agent.key, &agent.vouchers),
            (None, Some(_)) => (self.key.public(), &of_front),
            (None, None) => (call.ancestor.key, &of_front),
        };
        key == call.ancestor.key
            && vouchers.secret(&id).is_some_and(|secret| *secret == call.ancestor.secret)
            && vouchers.admit(&claim, 0).is_ok()
    }

    pub(super) fn answered(&mut self, link: LinkId) -> Result<(), Broken> {
        if self.is_blocked(link) {
            self.agenda.at(self.now_us + RESEND_US, What::Answered(link));
            return Ok(());
        }
        let Some(wire) = self.wires.get(link) else { return Ok(()) };
        let who = wire.ends[0].who;
        if !wire.ends[0].is_open {
            return Ok(());
        }
        (wire.ends[0].is_up, wire.ends[0].is_known) = (true, true);
        self.heard(link, 0);
        self.tell(who, Happening::Up(link))
    }

    /// Nothing passes by a link.
    fn is_blocked(&mut self, link: LinkId) -> bool {
        let now_us = self.now_us;
        let Some(wire) = self.wires.get(link) else { return false };
        let (hosts, stalled_us) = (wire.ends.each_ref().map(|end| end.host), wire.stalled_us);
        stalled_us > now_us || !self.reaches(hosts[0], hosts[1])
    }

    /// Something has come to an end of a link.
    fn heard(&mut self, link: LinkId, side: usize) {
        let who = self.wires.get(link).expect("it was there").ends[side].who;
        if let Some((local_us, _)) = self.clock_of(who) {
            self.wires.get(link).expect("it was there").ends[side].pipe.on_heard(local_us);
        }
    }

    /// The next record of an end arrives at the other.
    pub(super) fn deliver(&mut self, link: LinkId, side: usize) -> Result<(), Broken> {
        if self.is_blocked(link) {
            self.agenda.at(self.now_us + RESEND_US, What::Deliver(link, side));
            return Ok(());
        }
        let Some(record) = self.wires.arrive(link, side) else { return Ok(()) };
        let wire = self.wires.get(link).expect("a record of it has come");
        let (post, key, end) = (wire.call.post, wire.call.key, &mut wire.ends[1 - side]);
        if !end.is_open {
            return Ok(());
        }
        let (who, is_known) = (end.who, std::mem::replace(&mut end.is_known, true));
        end.pipe.on_record(&record);
        self.heard(link, 1 - side);
        self.log.bytes(&record);
        match is_known {
            true => self.tell(who, Happening::Record(link, record)),
            false => self.tell(who, Happening::Called(link, post, key, record)),
        }
    }

    /// That an end has gone shows at the other.
    pub(super) fn hang_up(&mut self, link: LinkId, side: usize) -> Result<(), Broken> {
        if self.is_blocked(link) {
            self.agenda.at(self.now_us + RESEND_US, What::HangUp(link, side));
            return Ok(());
        }
        let Some(end) = self.wires.get(link).map(|wire| &wire.ends[side]).filter(|end| end.is_open) else {
            self.wires.drop_closed(link);
            return Ok(());
        };
        let (who, is_known) = (end.who, end.is_known || side == 0);
        self.wires.close(link, who);
        if !is_known {
            return Ok(());
        }
        self.tell(who, Happening::Gone(link, End::Broken("it has hung up".into())))
    }

    /// A process looks after its links.
    pub(super) fn look(&mut self, who: Who) -> Result<(), Broken> {
        let Some((local_us, _)) = self.clock_of(who) else { return Ok(()) };
        self.agenda.at(self.now_us + self.look_us(), What::Look(who));
        for link in self.wires.of(who) {
            let Some(end) = self.wires.end(link, who) else { continue };
            let (is_up, is_known) = (end.is_up && end.is_known, end.is_known || !end.is_up);
            let Err(why) = end.pipe.look(is_up, local_us) else {
                self.wires.dirty.insert(link);
                continue;
            };
            if why == End::Silent && is_up {
                self.is_no_false_alarm(link, who)?;
            }
            self.wires.close(link, who);
            if is_known {
                self.tell(who, Happening::Gone(link, why))?;
            }
        }
        Ok(())
    }

    /// What may leave leaves, and ends that were closed show at the others.
    pub(super) fn settle_wires(&mut self) {
        for link in std::mem::take(&mut self.wires.dirty) {
            for side in 0..2 {
                loop {
                    let arrives_us = self.now_us + self.latency();
                    let Some(at_us) = self.wires.leave(link, side, arrives_us) else { break };
                    self.agenda.at(at_us, What::Deliver(link, side));
                }
            }
        }
        for (link, side) in std::mem::take(&mut self.wires.closed) {
            let at_us = self.now_us + self.latency();
            let last_us = self.wires.get(link).map_or(0, |wire| wire.ends[side].last_us);
            self.agenda.at(at_us.max(last_us), What::HangUp(link, 1 - side));
        }
    }
}
