//! The processes of one unit together: what they have used since its start. It only grows, whoever of them ends.

use starfarm_agent_core::running::Used;
use starfarm_protocol::ids::JobId;

/// Which unit, and the process of its program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key {
    pub(super) job: JobId,
    pub(super) unit: u128,
    pub(super) process: u32,
}

/// The processes of a unit.
pub(super) struct Family {
    pub(super) key: Key,
    /// No other family ever has it.
    pub(super) number: u64,
    /// When the program's process started.
    pub(super) start: Option<u64>,
    /// The mark of its processes, once it was asked for.
    pub(super) mark: Option<Vec<u8>>,
    /// What members had used that have ended and that no other member has waited for.
    lost: Sum,
    /// What all members have used, at the last look.
    now: Sum,
    /// The most at any look.
    most: Sum,
    memory_bytes: Option<u64>,
    /// Whether there was ever a member, and one whose I/O could be read.
    found: bool,
    io_found: bool,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    cpu_us: u64,
    io_bytes: u64,
}

impl Sum {
    fn add(&mut self, cpu_us: u64, io_bytes: Option<u64>) {
        self.cpu_us = self.cpu_us.saturating_add(cpu_us);
        self.io_bytes = self.io_bytes.saturating_add(io_bytes.unwrap_or(0));
    }
}

impl Family {
    pub(super) fn new(key: Key, number: u64) -> Self {
        Self {
            key,
            number,
            start: None,
            mark: None,
            lost: Sum::default(),
            now: Sum::default(),
            most: Sum::default(),
            memory_bytes: None,
            found: false,
            io_found: false,
        }
    }

    /// A member has ended, and nobody of the family has waited for it: what it had used is in no other's figures.
    pub(super) fn loses(&mut self, cpu_us: u64, io_bytes: Option<u64>) {
        self.lost.add(cpu_us, io_bytes);
    }

    /// The members are counted anew.
    pub(super) fn begin(&mut self) {
        (self.now, self.memory_bytes) = (self.lost, None);
    }

    /// Counts a member.
    pub(super) fn count(&mut self, cpu_us: u64, memory_bytes: Option<u64>, io_bytes: Option<u64>) {
        self.now.add(cpu_us, io_bytes);
        self.found = true;
        self.io_found |= io_bytes.is_some();
        if let Some(bytes) = memory_bytes {
            self.memory_bytes = Some(self.memory_bytes.unwrap_or(0).saturating_add(bytes));
        }
    }

    /// All members are counted. A member's figures may have gone to its parent between the looks at both, so a sum may be
    /// too small for once, and nothing is counted twice after it.
    pub(super) fn end(&mut self) {
        self.most.cpu_us = self.most.cpu_us.max(self.now.cpu_us);
        self.most.io_bytes = self.most.io_bytes.max(self.now.io_bytes);
    }

    /// What the unit has used; a figure that was never seen is not known.
    pub(super) fn used(&self) -> Used {
        Used {
            cpu_us: self.found.then_some(self.most.cpu_us),
            memory_bytes: self.memory_bytes,
            io_bytes: self.io_found.then_some(self.most.io_bytes),
        }
    }
}
