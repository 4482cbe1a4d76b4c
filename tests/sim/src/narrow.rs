//! Paths whose middle swallows large datagrams without a word, and what both ends know of theirs: the real `Path` of
//! the protocol, as both rims use it. Only where the plan has such a fault: elsewhere probes would change what chance
//! brings to every seed that is kept.

use starfarm_protocol::path::Path;

use crate::agenda::MachineId;
use crate::network::Way;

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

    pub(crate) fn end(&mut self, machine: MachineId, way: Way) -> Option<&mut Path> {
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
