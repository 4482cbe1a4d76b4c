//! The scheduler's end: its receive buffer, its sessions, what it wants done, and when records are durable.

use crate::agenda::{Batch, Incarnation, MachineId, Parcel, Session, What};
use crate::network::Way;
use crate::plan::Order;
use crate::seat::Input;
use crate::sessions::Opened;
use crate::sim::Sim;
use crate::violation::Broken;

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

    /// A user orders something.
    pub(crate) fn order(&mut self, order: Order) -> Result<(), Broken> {
        if self.farm.up {
            return self.input([Input::Ask(order)]);
        }
        self.orders.again.push(order);
        Ok(())
    }

    /// A program has named units of a job.
    pub(crate) fn units_named(&mut self, batch: Batch) -> Result<(), Broken> {
        self.input([Input::Named(batch)])
    }

    /// Who got no answer asks again.
    pub(crate) fn orders_again(&mut self) -> Result<(), Broken> {
        let again = std::mem::take(&mut self.orders.again);
        again.into_iter().try_for_each(|order| self.order(order))
    }
}
