//! `disks`: what the node reads from its disks and writes to them, out of /proc/diskstats. Whole disks count: their partitions do
//! not, nor what is made of other disks or of memory. What a network file system moves is traffic of the network.

use std::path::Path;

use starfarm_agent_core::{Context, Module, Stage, Type, ids};
use starfarm_protocol::metric::Metric;

use super::counters::Counters;
use super::measure::{Measure, OUT, PROC, Sensor};
use super::source::Source;
use super::text::{lines, number, words};

/// This sensor.
pub const MODULE: Module =
    Module { name: Disks::NAME, types: &[Type { name: Disks::NAME, new: &|| stage(Path::new(PROC)) }] };

/// One that reads below this folder as if it were /proc.
pub fn stage(proc: &Path) -> Box<dyn Stage> {
    Box::new(Sensor(Disks { stats: Source::new(proc, "diskstats"), counters: Counters::default() }))
}

struct Disks {
    stats: Source,
    counters: Counters,
}

/// Bytes of a sector there, whatever the disk's own is.
const SECTOR: u64 = 512;

/// What the names of disks begin with that are made of other disks, files or memory.
const MADE: [&[u8]; 8] = [b"bcache", b"dm-", b"drbd", b"loop", b"md", b"ram", b"zd", b"zram"];

/// Whole disks with the bytes read and written. A disk stands before its partitions.
fn disks(text: &[u8]) -> impl Iterator<Item = (&[u8], [u64; 2])> {
    let mut disk = &b""[..];
    lines(text).filter_map(move |line| {
        let mut columns = words(line).skip(2);
        let name = columns.next()?;
        let sectors = [number(columns.nth(2)?)?, number(columns.nth(3)?)?];
        if MADE.iter().any(|start| name.starts_with(start)) || is_path(name) || is_part(name, disk) {
            return None;
        }
        disk = name;
        Some((name, sectors.map(|sectors| sectors.saturating_mul(SECTOR))))
    })
}

/// A partition of this disk: `sda1` of `sda`, `nvme0n1p1` of `nvme0n1`.
fn is_part(name: &[u8], disk: &[u8]) -> bool {
    let rest = name.strip_prefix(disk).filter(|_| !disk.is_empty());
    let digit_at_end = disk.last().is_some_and(u8::is_ascii_digit);
    let nth = if digit_at_end { rest.and_then(|rest| rest.strip_prefix(b"p")) } else { rest };
    nth.and_then(number).is_some()
}

/// One of several ways to the same disk: `nvme0c1n1` to `nvme0n1`.
fn is_path(name: &[u8]) -> bool {
    name.strip_prefix(b"nvme").is_some_and(|rest| rest.contains(&b'c'))
}

impl Measure for Disks {
    const NAME: &'static str = "disks";

    fn measure(&mut self, context: &mut Context<'_>) {
        let now_us = context.now_us();
        let rates = self.stats.read().and_then(|text| self.counters.take(disks(text), now_us));
        if let Some([read, written]) = rates {
            let both = read.saturating_add(written);
            context.emit(OUT, |message| message.put_number(ids::of(Metric::Io), both));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_and_what_is_made_of_other_disks_do_not_count() {
        let names = "sda sda1 sda2 sdaa sdaa15 sdb nvme0n1 nvme0n1p1 nvme0n1p12 nvme0c1n1 nvme1n1 mmcblk0 mmcblk0p1 \
                     mmcblk0boot0 vda vda1 loop0 ram0 dm-0 md127 md127p1 zram0 xvda1 sr0";
        let line = |name: &str| format!("   8       0 {name} 5 6 7 8 9 10 11 12 0 0 0\n");
        let text: String = names.split_whitespace().map(line).collect();
        let read: Vec<_> = disks(text.as_bytes()).collect();
        let whole =
            ["sda", "sdaa", "sdb", "nvme0n1", "nvme1n1", "mmcblk0", "mmcblk0boot0", "vda", "xvda1", "sr0"];
        let names: Vec<_> = read.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
        assert_eq!(names, whole);
        assert!(read.iter().all(|(_, bytes)| *bytes == [7 * 512, 11 * 512]));
    }

    #[test]
    fn lines_that_are_too_short_are_no_disks() {
        assert_eq!(disks(b"8 0 sda 1 2 3\n\n8 0 sdb a b c d e f g\n").count(), 0);
    }
}
