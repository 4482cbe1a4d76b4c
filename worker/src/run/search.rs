//! The `search` executor: scans a task's candidates and reports what it found in parts, so that a cancel,
//! or the end of this worker, costs at most some seconds of work.

use std::time::{Duration, Instant};

use starfarm_kernels::{Hit, Search as Kernel};
use starfarm_protocol::limits::RESULT_BODY_BYTES_MAX;
use starfarm_protocol::spec::{JobSpec, SearchWork, Space};
use starfarm_protocol::wire::HitEntry;
use starfarm_worker_core::Task;

use super::executor::{Context, Executor};
use crate::devices::{Ask, DeviceSlot, Ended};
use crate::report::Report;
use starfarm_exec::CancelFlag;

/// A part is reported at least this often.
const PART: Duration = Duration::from_secs(1);
/// Hits in one part. A candidate has one digest, so it is at most one hit.
const PART_HITS_MAX: usize = 90;
const _: () = assert!(PART_HITS_MAX * HitEntry::BYTES <= RESULT_BODY_BYTES_MAX, "a part's hits fit its body");

pub(super) struct Search(Kernel);

impl Search {
    pub(super) fn new(work: &SearchWork, space: Space) -> Result<Self, String> {
        kernel(work, space).map(Self)
    }

    /// Runs a task on the slot's device. What it does not come to goes back.
    fn run_on(
        device: &mut DeviceSlot,
        task: &Task,
        cancel: &CancelFlag,
        context: &Context,
        report: &mut Report,
    ) {
        if device.again_at().is_some() {
            // It was given this before anybody heard that it is sick.
            return;
        }
        let read = || JobSpec::from_bytes(&context.contents.get(task.spec, cancel).ok()?).ok();
        context.board.begin(context.slot, task.job, task.lo);
        let mut next = task.lo;
        let units = (task.lo, task.hi());
        let ask = Ask { spec: task.spec, read: &read, units, most: None, cancel };
        let scanned = device.scan(&ask, &mut |part| {
            tell(task, (next, part.reached), &part.hits, part.spent, report);
            next = part.reached;
            if next < task.hi() {
                context.board.begin(context.slot, task.job, next);
            }
        });
        if let Err(Ended::Refused(why)) = scanned {
            report.refuse(task, next, &why);
        }
        context.board.end(context.slot);
    }
}

/// The search of a job, natively.
pub(super) fn kernel(work: &SearchWork, space: Space) -> Result<Kernel, String> {
    let Space::Chars { positions, min } = space else {
        return Err("a search needs a `chars` space: submit the job anew".to_owned());
    };
    let positions: Vec<_> = positions.into_iter().map(|position| position.0).collect();
    let targets: Vec<_> = work.targets.iter().map(|target| target.0.clone()).collect();
    Kernel::new(work.algorithm, &positions, min, &targets).map_err(|e| e.to_string())
}

/// Units `[lo, hi)` of a task were scanned, with these hits.
fn tell(task: &Task, (lo, hi): (u128, u128), hits: &[Hit], spent: Duration, report: &mut Report) {
    for piece in pieces(lo, hi, hits) {
        let thousandths = u128::from(piece.units) * 1_000 / (hi - lo);
        let duration = spent * u32::try_from(thousandths).unwrap_or(1_000) / 1_000;
        report.done(task, piece.lo, piece.units, duration, piece.body);
    }
    report.flush_if_due();
}

impl Executor for Search {
    fn units(&self) -> u128 {
        self.0.units()
    }

    fn run(&self, task: &Task, cancel: &CancelFlag, context: &Context, report: &mut Report) {
        if let Some(device) = &context.device {
            let mut device = device.lock().expect("a panic ends the process");
            return Self::run_on(&mut device, task, cancel, context, report);
        }
        let (mut next, mut hits) = (task.lo, Vec::new());
        while next < task.hi() && !cancel.is_raised() {
            context.board.begin(context.slot, task.job, next);
            let _computing = context.board.computes(context.slot).in_thread();
            let start = Instant::now();
            let mut keep_going = |at: Option<u128>| {
                // What is half done is done first, but for a cancel.
                !cancel.is_raised() && (at.is_none() || start.elapsed() < PART)
            };
            let reached = self.0.scan(next, task.hi(), &mut hits, &mut keep_going);
            tell(task, (next, reached), &hits, start.elapsed(), report);
            hits.clear();
            next = reached;
        }
        context.board.end(context.slot);
    }
}

struct Piece {
    lo: u128,
    units: u64,
    body: Vec<u8>,
}

/// Cuts [lo, hi) so that no part has too many hits. `hits` are in the order of their units. A task has
/// fewer than 2^64 units, so each part has too.
fn pieces(lo: u128, hi: u128, hits: &[Hit]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut next = lo;
    let mut groups = hits.chunks(PART_HITS_MAX).peekable();
    while next < hi {
        let group = groups.next().unwrap_or(&[]);
        let end = match (groups.peek(), group.last()) {
            (Some(_), Some(last)) => last.unit + 1,
            _ => hi,
        };
        let mut body = Vec::with_capacity(group.len() * HitEntry::BYTES);
        for hit in group {
            HitEntry { offset: (hit.unit - next) as u64, target: hit.target }.write(&mut body);
        }
        pieces.push(Piece { lo: next, units: (end - next) as u64, body });
        next = end;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_tile_the_interval_and_keep_every_hit() {
        for (hits, step) in [(0_u128, 1), (1, 1), (90, 1), (91, 1), (500, 3), (1_000, 1)] {
            let hits: Vec<_> = (0..hits).map(|i| Hit { unit: 50 + i * step, target: i as u32 }).collect();
            let parts = pieces(50, 3_050, &hits);
            let mut next = 50;
            let mut found = Vec::new();
            for part in &parts {
                assert_eq!(part.lo, next);
                next += u128::from(part.units);
                let entries = HitEntry::read_all(&part.body).unwrap();
                assert!(entries.len() <= PART_HITS_MAX);
                found.extend(
                    entries.iter().map(|e| Hit { unit: part.lo + u128::from(e.offset), target: e.target }),
                );
            }
            assert_eq!((next, found), (3_050, hits));
        }
        assert!(pieces(5, 5, &[]).is_empty());
    }

    #[test]
    fn hits_up_to_the_last_unit_leave_no_empty_part() {
        let hits: Vec<_> = (0..180).map(|unit| Hit { unit, target: 0 }).collect();
        let parts = pieces(0, 180, &hits);
        assert_eq!(parts.iter().map(|p| p.units).collect::<Vec<_>>(), [90, 90]);
    }
}
