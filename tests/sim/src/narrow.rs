//! Paths whose middle swallows large datagrams without a word, and what both ends know of theirs: the real `Path` of
//! the protocol, as both rims use it. Only where the plan has such a fault: elsewhere probes would change what chance
//! brings to every seed that is kept.

use starfarm_protocol::path::{Heard, Path};

use crate::agenda::MachineId;
use crate::network::Way;
use crate::seat::Reign;
use crate::sim::Sim;

/// Bytes of the headers of IPv4 and UDP.
pub(crate) const HEADER_BYTES: usize = 20 + 8;

/// MTU of a narrow path.
const MTU_BYTES: usize = 600;

/// The paths between the scheduler and all machines; none where none is ever narrow.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    /// Of each machine, what it knows, and what the scheduler does: by the way that they send.
    ends: Vec<[Path; 2]>,
    /// How many faults make each machine's path narrow.
    narrow: Vec<u32>,
}

impl Paths {
    pub(crate) fn new(machines: usize) -> Self {
        Self { ends: vec![Default::default(); machines], narrow: vec![0; machines] }
    }

    fn end(&mut self, machine: MachineId, way: Way) -> Option<&mut Path> {
        self.ends.get_mut(machine as usize).map(|ends| &mut ends[way as usize])
    }

    /// A machine's path becomes narrow, or wider again.
    pub(crate) fn narrow(&mut self, machine: MachineId, begins: bool) {
        let count = &mut self.narrow[machine as usize];
        *count = if begins { *count + 1 } else { *count - 1 };
    }

    /// A datagram of so many bytes, sealed, headers and all, does not come through.
    pub(crate) fn swallows(&self, machine: MachineId, bytes: usize) -> bool {
        bytes > MTU_BYTES && self.narrow.get(machine as usize).is_some_and(|count| *count > 0)
    }

    /// A worker starts, and knows nothing.
    pub(crate) fn boot(&mut self, machine: MachineId) {
        self.end(machine, Way::Up).into_iter().for_each(|path| *path = Path::default());
        self.end(machine, Way::Down).into_iter().for_each(Path::forget_pieces);
    }

    /// Both ends have a new session.
    pub(crate) fn session(&mut self, machine: MachineId) {
        for way in [Way::Up, Way::Down] {
            self.end(machine, way).into_iter().for_each(Path::ask_again);
        }
    }
}

impl Sim {
    /// Sends a datagram, in pieces where it is too long for what its end knows of the path.
    pub(crate) fn send(&mut self, machine: MachineId, way: Way, to: (u32, Reign), bytes: Vec<u8>) {
        let Some(path) = self.paths.end(machine, way) else { return self.post(machine, way, to, bytes) };
        let mut pieces = Vec::new();
        path.cut(&bytes, |piece| pieces.push(piece.to_vec()));
        pieces.into_iter().for_each(|piece| self.post(machine, way, to, piece));
    }

    /// What was opened at the end that sends by `way`: messages, or nothing but the path's own business. While the
    /// other end is heard it is asked about the path.
    pub(crate) fn opened(
        &mut self,
        machine: MachineId,
        way: Way,
        to: (u32, Reign),
        bytes: Vec<u8>,
        now_us: u64,
    ) -> Option<Vec<u8>> {
        let Some(path) = self.paths.end(machine, way) else { return Some(bytes) };
        let (heard, probe) = (path.hear(&bytes, now_us), path.probe(now_us));
        let (messages, answer) = match heard {
            Heard::Messages => (Some(bytes), None),
            Heard::Whole(whole) => (Some(whole), None),
            Heard::Probe(answer) => (None, Some(answer)),
            Heard::Nothing => (None, None),
        };
        answer.into_iter().chain(probe).for_each(|bytes| self.post(machine, way, to, bytes));
        messages
    }
}
