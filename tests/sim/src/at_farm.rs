//! The scheduler's end: its receive buffer, its sessions, what it wants done, and when records are durable.

use starfarm_events::Event;
use starfarm_protocol::ids::{Epoch, JobId};
use starfarm_scheduler_core::{Deed, Record};

use crate::agenda::{Incarnation, MachineId, Parcel, Session, What};
use crate::farm_log::FarmLog;
use crate::network::Way;
use crate::seat::Input;
use crate::sessions::Opened;
use crate::sim::Sim;
use crate::violation::{Broken, rule};

impl Sim {
    /// The scheduler does nothing before this time.
    pub(crate) fn stalled(&self) -> bool {
        self.now_us < self.farm.stalled_until_us
    }

    /// A datagram comes to where the scheduler should be.
    pub(crate) fn arrive(&mut self, machine: MachineId, parcel: Parcel) -> Result<(), Broken> {
        match self.reached(machine) {
            Some(incarnation) => self.at_seat(incarnation, |sim| sim.enter(machine, parcel)),
            None => {
                self.agenda.take(parcel);
                Ok(())
            }
        }
    }

    fn enter(&mut self, machine: MachineId, parcel: Parcel) -> Result<(), Broken> {
        let service_us = self.scenario.farm.service_us;
        if service_us == 0 && !self.stalled() && self.farm.buffered == 0 {
            return self.hear(machine, parcel);
        }
        if self.farm.buffered >= self.scenario.farm.receive_datagrams {
            self.agenda.take(parcel);
            self.tally.overflowed[0] += 1;
            let now_us = self.farm_us();
            self.farm.farm.on_receive_overflow(now_us);
            return Ok(());
        }
        let free_us = self.now_us.max(self.farm.busy_until_us).max(self.farm.stalled_until_us);
        self.farm.buffered += 1;
        self.farm.busy_until_us = free_us + service_us;
        self.agenda.at(self.farm.busy_until_us, What::Serve(self.farm.incarnation, machine, parcel));
        Ok(())
    }

    /// A datagram's turn in the receive buffer of a scheduler, which may be gone.
    pub(crate) fn serve(
        &mut self,
        incarnation: Incarnation,
        machine: MachineId,
        parcel: Parcel,
    ) -> Result<(), Broken> {
        let mut parcel = Some(parcel);
        self.at_seat(incarnation, |sim| parcel.take().map_or(Ok(()), |parcel| sim.served(machine, parcel)))?;
        parcel.into_iter().for_each(|parcel| drop(self.agenda.take(parcel)));
        Ok(())
    }

    fn served(&mut self, machine: MachineId, parcel: Parcel) -> Result<(), Broken> {
        if self.stalled() {
            self.agenda.at(self.farm.stalled_until_us, What::Serve(self.farm.incarnation, machine, parcel));
            return Ok(());
        }
        self.farm.buffered -= 1;
        self.hear(machine, parcel)
    }

    /// The scheduler opens a datagram, as `ResultThread::open` does.
    fn hear(&mut self, machine: MachineId, parcel: Parcel) -> Result<(), Broken> {
        let letter = self.agenda.take(parcel);
        let (session, now_us) = (letter.session, self.farm_us());
        let opened = match session.incarnation == self.farm.incarnation {
            true => self.farm.sessions[machine as usize].open(session, now_us),
            false => Opened::Unknown,
        };
        match opened {
            Opened::Unknown => {
                if let Some(delay_us) = self.network.fate(machine, Way::Down)[0] {
                    self.agenda.at(self.now_us + delay_us, What::Hint(machine, session));
                }
                return Ok(());
            }
            Opened::Gone => return Ok(()),
            Opened::Late => self.tally.late += 1,
            Opened::Known | Opened::Fresh => {}
        }
        self.tally.arrived += 1;
        let Some(bytes) = self.opened(machine, Way::Down, session, letter.bytes, now_us) else {
            return Ok(());
        };
        let datagram = Input::Datagram(machine, bytes);
        match opened {
            Opened::Fresh => self.input([Input::Session(machine), Input::Peer(machine, session), datagram]),
            _ => self.input([datagram]),
        }
    }

    /// The scheduler answers a handshake: the worker has a session with it then, and it has one in the making.
    pub(crate) fn knock(&mut self, machine: MachineId, session: Session, back_us: u64) -> Result<(), Broken> {
        if self.stalled() {
            self.agenda.at(self.farm.stalled_until_us, What::Knock(machine, session, back_us));
            return Ok(());
        }
        let now_us = self.farm_us();
        self.farm.sessions[machine as usize].admit(session, now_us);
        self.agenda.at(self.now_us + back_us, What::Session(machine, session));
        Ok(())
    }

    /// Both ends have a session at once, where the rim is left out.
    pub(crate) fn session_at_once(&mut self, machine: MachineId, session: Session) -> Result<(), Broken> {
        let now_us = self.farm_us();
        self.farm.sessions[machine as usize].replace(session, now_us);
        self.take(Input::Session(machine))?;
        self.take(Input::Peer(machine, session))
    }

    pub(crate) fn durable(&mut self, sequence: u64) -> Result<(), Broken> {
        if self.stalled() {
            self.agenda.at(self.farm.stalled_until_us, What::Durable(self.farm.incarnation, sequence));
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
        if let Some(disk) = &mut self.farm.disk {
            disk.sync(sequence);
        }
        self.commit();
        self.input([])?;
        if self.farm.up { self.checkpoint() } else { Ok(()) }
    }

    /// Commits what is not durable yet, unless a commit is under way: one at a time, in groups.
    fn commit(&mut self) {
        if !self.farm.committing && self.farm.recorded > self.farm.durable {
            self.farm.committing = true;
            if let Some(disk) = &mut self.farm.disk {
                disk.begin();
            }
            let delay_us = (self.scenario.farm.durable_ms * 1e3) as u64;
            self.agenda.at(self.now_us + delay_us, What::Durable(self.farm.incarnation, self.farm.recorded));
        }
    }

    /// Ends a turn of the scheduler: its deeds, the checks.
    pub(crate) fn turn_ends(&mut self) -> Result<(), Broken> {
        let (now_us, side) = (self.farm_us(), &mut self.farm);
        side.turns += 1;
        side.farm.check_counters().map_err(|found| ("the counters add up", found))?;
        if now_us >= side.asks_us {
            side.asks_us = now_us + 1_000_000;
            side.farm.check_standstill(now_us, &mut side.deeds);
        }
        let deep = side.turns.is_multiple_of(self.scenario.check_every);
        let mut deeds = std::mem::take(&mut side.deeds.0);
        let (mut ended, mut events) = (Vec::new(), Vec::new());
        for deed in deeds.drain(..) {
            match deed {
                Deed::Send(node, datagrams) => {
                    let peer = self.farm.peers[node.0 as usize];
                    for bytes in datagrams {
                        let heard = peer.life == self.machines[node.0 as usize].life;
                        if self.farm.rightful {
                            self.wiretap.on_farm_sends(node.0, &bytes, heard, &mut self.jobs)?;
                        }
                        self.send(node.0, Way::Down, peer, bytes);
                    }
                }
                Deed::Superseded(epoch) => {
                    // It does nothing more.
                    return self.superseded(epoch);
                }
                Deed::Record(sequence, record) => self.record(sequence, &record, &mut ended)?,
                Deed::Event(event @ Event::Standstill { .. }) => {
                    return Err(("nothing stands still", event.to_string()));
                }
                Deed::Event(event) => {
                    self.tally.hangs += u64::from(matches!(event, Event::RunHangs { .. }));
                    self.tally.stalls += u64::from(matches!(event, Event::Stalled { .. }));
                    events.push(event);
                }
            }
        }
        self.farm.deeds.0 = deeds;
        self.tell(&events)?;
        for id in ended {
            self.ended(id)?;
        }
        self.commit();
        self.waits();
        if deep && self.farm.rightful { self.check_deeply() } else { Ok(()) }
    }

    fn record(&mut self, sequence: u64, record: &Record, ended: &mut Vec<JobId>) -> Result<(), Broken> {
        let expected = self.farm.recorded + 1;
        rule(sequence == expected, "records are numbered without a gap", || {
            format!("{sequence}, expected {expected}")
        })?;
        self.farm.recorded = sequence;
        if let Some(disk) = &mut self.farm.disk {
            disk.append(record);
        }
        if !self.farm.rightful {
            return Ok(());
        }
        self.tally.records += 1;
        let Some(job) = record.job() else { return Ok(()) };
        if let Record::Ended(_) | Record::Retried { .. } = record {
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

    /// Counts the jobs that have not ended, those to be submitted included.
    pub(crate) fn count_unfinished(&mut self) {
        let unfinished = self.jobs.iter().filter(|job| !job.is_over()).count();
        if unfinished == 0 && self.unfinished > 0 {
            self.ended_us = self.now_us;
            self.utilise();
        }
        self.unfinished = unfinished;
    }

    /// A job has ended, or does not end after all.
    fn ended(&mut self, id: JobId) -> Result<(), Broken> {
        self.count_unfinished();
        match self.farm.farm.job(id, self.farm_us()) {
            Some(view) if view.state.ended() => self.jobs[id.0 as usize - 1].ended_well(&view),
            _ => Ok(()),
        }
    }

    /// What happened in a turn at the scheduler: to the log's hash, to whoever listens, to the log itself. What is
    /// only for pictures is in the log alone, so that a run is the same whether it is watched or not.
    fn tell(&mut self, events: &[Event]) -> Result<(), Broken> {
        for event in events.iter().filter(|event| !event.dense()) {
            self.log.bytes(event.to_string().as_bytes());
            if self.verbose {
                eprintln!("{:>14.6} {event}", self.now_us as f64 / 1e6);
            }
        }
        let now_us = self.farm_us();
        let Some(dir) = self.scenario.log.as_ref().filter(|_| self.farm.rightful) else { return Ok(()) };
        let farm_log = match &mut self.farm_log {
            Some(farm_log) => farm_log,
            none => none.insert(FarmLog::open(dir.clone(), self.farm.epoch, now_us)?),
        };
        farm_log.turn(&mut self.farm, events, now_us)
    }

    /// A worker has shown the scheduler that a later one has been.
    fn superseded(&mut self, epoch: Epoch) -> Result<(), Broken> {
        rule(!self.farm.rightful, "the right scheduler is not superseded", || format!("by {epoch:?}"))?;
        self.tally.superseded += 1;
        self.farm.up = false;
        Ok(())
    }
}
