//! What the monitor measures: the names and units of its figures, the same on the wire, in the command line, in JSON,
//! in XML and on pages. How they are measured, summed and shown is decided elsewhere.

use crate::word::words;

words! {
    /// A figure. The numbers are on the wire: append only.
    Metric {
        /// Processor time: microseconds a second, which is millionths of a core.
        Cpu = 1 => "cpu",
        /// Memory in use: bytes.
        Memory = 2 => "memory",
        /// Load of accelerators: millionths of a card.
        Gpu = 3 => "gpu",
        /// Read from and written to disks: bytes a second.
        Io = 4 => "io",
        /// Received from the network: bytes a second.
        NetworkReceived = 5 => "network-received",
        /// Sent to the network: bytes a second.
        NetworkSent = 6 => "network-sent",
        /// Swapped out: bytes.
        Swap = 7 => "swap",
        /// Memory of accelerators in use: bytes.
        GpuMemory = 8 => "gpu-memory",
        /// Processes that run or could, on average over the last minute: thousandths.
        RunQueue = 9 => "run-queue",
    }
}

/// How often something may be measured, in microseconds, where it is at all.
pub const PERIODS_US: std::ops::RangeInclusive<u64> = 100_000..=3_600_000_000;

impl Metric {
    /// Several of them in one number: bit n is the metric with number n. No list is all of them: 0.
    pub fn bits(metrics: &[Self]) -> u64 {
        metrics.iter().fold(0, |bits, metric| bits | 1 << *metric as u8)
    }

    /// Those of which [`Metric::bits`] made this.
    pub fn of_bits(bits: u64) -> Vec<Self> {
        Self::ALL.iter().copied().filter(|metric| bits & (1 << *metric as u8) != 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_pinned() {
        let numbers: Vec<_> = Metric::ALL.iter().map(|metric| *metric as u8).collect();
        assert_eq!(numbers, (1..=9).collect::<Vec<_>>());
    }
}
