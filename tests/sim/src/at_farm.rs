//! The scheduler's end: its receive buffer, its turns, what it wants done, and when records are durable.

use starfarm_protocol::ids::JobId;
use starfarm_scheduler_core::{Deed, NodeId, Record};

use crate::agenda::{Letter, MachineId, Parcel, What};
use crate::network::Way;
use crate::sim::{SPINS_MAX, Sim};
use crate::violation::{Broken, rule};

impl Sim {
    /// A datagram goes onto the network.
    pub(crate) fn send(&mut self, machine: MachineId, way: Way, life: u32, bytes: Vec<u8>) {
        self.tally.datagrams[way as usize] += 1;
        self.log.word(self.now_us ^ u64::from(machine) << 48);
        self.log.bytes(&bytes);
        let mut bytes = Some(bytes);
        let delays = self.network.fate(machine, way);
        let copies = delays.iter().flatten().count();
        for (sent, delay_us) in (1..).zip(delays.into_iter().flatten()) {
            let copy = if sent == copies { bytes.take() } else { bytes.clone() };
            let parcel = self.agenda.post(Letter { bytes: copy.unwrap_or_default(), life });
            let what = match way {
                Way::Up => What::Arrive(machine, parcel),
                Way::Down => What::Deliver(machine, parcel),
            };
            self.agenda.at(self.now_us + delay_us, what);
        }
    }

    /// The scheduler does nothing before this time.
    fn stalled(&self) -> bool {
        self.now_us < self.farm.stalled_until_us
    }

    pub(crate) fn arrive(&mut self, machine: MachineId, parcel: Parcel) -> Result<(), Broken> {
        let service_us = self.scenario.farm.service_us;
        if service_us == 0 && !self.stalled() && self.farm.buffered == 0 {
            return self.hear(machine, parcel);
        }
        if self.farm.buffered >= self.scenario.farm.receive_datagrams {
            self.agenda.take(parcel);
            self.tally.overflowed[0] += 1;
            self.farm.farm.on_receive_overflow(self.now_us);
            return Ok(());
        }
        let free_us = self.now_us.max(self.farm.busy_until_us).max(self.farm.stalled_until_us);
        self.farm.buffered += 1;
        self.farm.busy_until_us = free_us + service_us;
        self.agenda.at(self.farm.busy_until_us, What::Serve(machine, parcel));
        Ok(())
    }

    pub(crate) fn serve(&mut self, machine: MachineId, parcel: Parcel) -> Result<(), Broken> {
        if self.stalled() {
            self.agenda.at(self.farm.stalled_until_us, What::Serve(machine, parcel));
            return Ok(());
        }
        self.farm.buffered -= 1;
        self.hear(machine, parcel)
    }

    /// The scheduler opens a datagram.
    fn hear(&mut self, machine: MachineId, parcel: Parcel) -> Result<(), Broken> {
        let letter = self.agenda.take(parcel);
        // Once a node's next incarnation has a session, the session of the one before is closed.
        if letter.life != self.farm.sessions[machine as usize] {
            return Ok(());
        }
        self.tally.arrived += 1;
        let side = &mut self.farm;
        side.farm.on_datagram(NodeId(machine), &letter.bytes, self.now_us, &mut side.deeds);
        self.turn()
    }

    pub(crate) fn farm_tick(&mut self) -> Result<(), Broken> {
        if self.farm.tick_us > self.now_us {
            // An earlier one was put in after this, and has been here.
            return Ok(());
        }
        self.farm.tick_us = u64::MAX;
        if self.stalled() {
            self.wake_farm(self.farm.stalled_until_us);
            return Ok(());
        }
        let side = &mut self.farm;
        if side.farm.next_deadline_us() > self.now_us {
            self.wake_farm(self.farm.farm.next_deadline_us());
            return Ok(());
        }
        side.spins = if self.now_us <= side.ticked_us + 1 { side.spins + 1 } else { 0 };
        side.ticked_us = self.now_us;
        rule(side.spins < SPINS_MAX, "the farm does not spin", || "it ticks every microsecond".to_owned())?;
        side.farm.on_tick(self.now_us, &mut side.deeds);
        self.turn()
    }

    fn wake_farm(&mut self, at_us: u64) {
        let at_us = at_us.max(self.now_us + 1);
        if at_us < self.farm.tick_us {
            self.farm.tick_us = at_us;
            self.agenda.at(at_us, What::FarmTick);
        }
    }

    pub(crate) fn durable(&mut self, sequence: u64) -> Result<(), Broken> {
        if self.stalled() {
            self.agenda.at(self.farm.stalled_until_us, What::Durable(sequence));
            return Ok(());
        }
        while let Some(&(at, job, (lo, hi))) = self.farm.settling.front() {
            if at > sequence {
                break;
            }
            self.farm.settling.pop_front();
            self.jobs[job].on_durable(lo, hi);
        }
        self.farm.committing = false;
        self.farm.durable = sequence;
        self.farm.farm.on_durable(sequence, self.now_us);
        self.commit();
        self.turn()
    }

    /// Commits what is not durable yet, unless a commit is under way: one at a time, in groups.
    fn commit(&mut self) {
        if !self.farm.committing && self.farm.recorded > self.farm.durable {
            self.farm.committing = true;
            let delay_us = (self.scenario.farm.durable_ms * 1e3) as u64;
            self.agenda.at(self.now_us + delay_us, What::Durable(self.farm.recorded));
        }
    }

    /// Ends a batch of events at the scheduler: its turn, its deeds, the checks.
    pub(crate) fn turn(&mut self) -> Result<(), Broken> {
        let side = &mut self.farm;
        side.farm.turn(self.now_us, &mut side.deeds);
        side.turns += 1;
        side.farm.check_counters().map_err(|found| ("the counters add up", found))?;
        let deep = side.turns.is_multiple_of(self.scenario.check_every);
        let mut deeds = std::mem::take(&mut side.deeds.0);
        let mut ended = Vec::new();
        for deed in deeds.drain(..) {
            match deed {
                Deed::Send(node, datagrams) => {
                    let life = self.farm.sessions[node.0 as usize];
                    for bytes in datagrams {
                        let heard = life == self.machines[node.0 as usize].life;
                        self.wiretap.on_farm_sends(node.0, &bytes, heard, &mut self.jobs)?;
                        self.send(node.0, Way::Down, life, bytes);
                    }
                }
                Deed::Superseded(epoch) => {
                    return Err(("no scheduler is superseded", format!("by epoch {}", epoch.0)));
                }
                Deed::Record(sequence, record) => self.record(sequence, &record, &mut ended)?,
                Deed::Event(event) => {
                    self.log.bytes(event.to_string().as_bytes());
                    self.say(&event);
                }
            }
        }
        self.farm.deeds.0 = deeds;
        for id in ended {
            self.ended(id)?;
        }
        self.commit();
        self.wake_farm(self.farm.farm.next_deadline_us());
        if deep { self.check_deeply() } else { Ok(()) }
    }

    fn record(&mut self, sequence: u64, record: &Record, ended: &mut Vec<JobId>) -> Result<(), Broken> {
        let expected = self.farm.recorded + 1;
        rule(sequence == expected, "records are numbered without a gap", || {
            format!("{sequence}, expected {expected}")
        })?;
        self.farm.recorded = sequence;
        let Some(job) = record.job() else { return Ok(()) };
        if let Record::Ended(_) = record {
            ended.push(job);
        }
        let Some(ours) = self.jobs.get_mut(job.0 as usize - 1) else {
            return Err(("records are of jobs that were submitted", format!("{record:?}")));
        };
        let mut settled = Vec::new();
        ours.on_record(record, &mut settled)?;
        let place = job.0 as usize - 1;
        self.farm.settling.extend(settled.into_iter().map(|interval| (sequence, place, interval)));
        Ok(())
    }

    /// A job has ended.
    fn ended(&mut self, id: JobId) -> Result<(), Broken> {
        self.unfinished -= 1;
        self.ended_us = self.now_us;
        if self.unfinished == 0 {
            self.utilise();
        }
        match self.farm.farm.job(id) {
            Some(view) => self.jobs[id.0 as usize - 1].ended_well(&view),
            None => Ok(()),
        }
    }
}
