//! What happens next: one heap of events under a virtual clock in microseconds. Events of one time happen
//! in the order in which they were put in, so a run depends on nothing but its seed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use starfarm_protocol::ids::JobId;

/// Index of a simulated machine.
pub(crate) type MachineId = u32;

/// Number of a scheduler's process, by its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Incarnation(pub(crate) u32);

/// A session of a worker with a scheduler, by the incarnations of both: others have no key for it. A later handshake has
/// a greater number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Session {
    pub(crate) number: u32,
    pub(crate) life: u32,
    pub(crate) incarnation: Incarnation,
}

/// What a program that names units is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Batch {
    pub(crate) job: JobId,
    /// Units that it has named.
    pub(crate) from: u64,
    /// So many more, at most.
    pub(crate) next: u32,
}

/// Something that will happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// A datagram reaches the receive buffer of a scheduler.
    Arrive(MachineId, Parcel),
    /// The scheduler takes a datagram out of its receive buffer.
    Serve(Incarnation, MachineId, Parcel),
    /// A datagram reaches a worker.
    Deliver(MachineId, Parcel),
    /// Records up to this sequence are durable.
    Durable(Incarnation, u64),
    /// The farm's next deadline.
    FarmTick(Incarnation),
    /// A worker's next deadline.
    WorkerTick(MachineId),
    /// A slot finishes what it planned: slot, number of the plan.
    Step(MachineId, u16, u32),
    /// A worker's initiation reaches the scheduler, whose response takes so long.
    Knock(MachineId, Session, u64),
    /// The response to a handshake reaches its worker.
    Session(MachineId, Session),
    /// A scheduler's hint that it does not know that session.
    Hint(MachineId, Session),
    /// A scheduler starts, if none runs.
    Restart,
    /// The second scheduler of that incarnation loses the address.
    EndSecond(Incarnation),
    /// A machine starts its worker anew, or goes on after a pause.
    Wake(MachineId, u32),
    /// A device that was sick is tried again: machine, its life, slot.
    DeviceBack(MachineId, u32, u16),
    /// A machine whose worker has started has booted.
    Booted(MachineId, u32),
    /// A program has named units, or none, for that scheduler.
    Name(Incarnation, Batch),
    /// The next line of the plan of faults and commands.
    Plan,
    /// Time to write down how many nodes are up.
    Sample,
}

/// Index of a datagram under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parcel(u32);

/// A datagram and the session that it belongs to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Letter {
    pub(crate) bytes: Vec<u8>,
    pub(crate) session: Session,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at_us: u64,
    order: u64,
    what: What,
}

impl Ord for Entry {
    /// Reversed: the heap gives its greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_us, other.order).cmp(&(self.at_us, self.order))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Entry {}

/// Events to come and datagrams under way.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Entry>,
    order: u64,
    letters: Vec<Letter>,
    free: Vec<u32>,
}

impl Agenda {
    /// `what` happens at `at_us`.
    pub(crate) fn at(&mut self, at_us: u64, what: What) {
        self.order += 1;
        self.heap.push(Entry { at_us, order: self.order, what });
    }

    /// The next event and its time.
    pub(crate) fn next(&mut self) -> Option<(u64, What)> {
        self.heap.pop().map(|entry| (entry.at_us, entry.what))
    }

    /// Keeps a datagram until it is taken.
    pub(crate) fn post(&mut self, letter: Letter) -> Parcel {
        match self.free.pop() {
            Some(at) => {
                self.letters[at as usize] = letter;
                Parcel(at)
            }
            None => {
                self.letters.push(letter);
                Parcel(self.letters.len() as u32 - 1)
            }
        }
    }

    /// Takes a datagram.
    pub(crate) fn take(&mut self, parcel: Parcel) -> Letter {
        self.free.push(parcel.0);
        std::mem::take(&mut self.letters[parcel.0 as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_first_and_at_one_time_in_order() {
        let mut agenda = Agenda::default();
        agenda.at(5, What::WorkerTick(1));
        agenda.at(3, What::WorkerTick(2));
        agenda.at(5, What::WorkerTick(3));
        let order: Vec<_> = std::iter::from_fn(|| agenda.next()).collect();
        assert_eq!(order, [(3, What::WorkerTick(2)), (5, What::WorkerTick(1)), (5, What::WorkerTick(3))]);
    }
}
