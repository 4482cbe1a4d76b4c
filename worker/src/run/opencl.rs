//! The `opencl` executor: a user's kernel over a task's units, launch by launch, on the slot's device. What the launches of
//! about a second left is one record. A launch that hangs or takes its host with it is done again in ever smaller pieces,
//! until it is known which unit that is; that one has failed.

use std::time::Duration;

use starfarm_protocol::limits::INLINE_OUTPUT_BYTES_MAX;
use starfarm_protocol::report::Report as Found;
use starfarm_protocol::spec::{JobSpec, KernelWork, Space};
use starfarm_protocol::wire::CommandUnit;
use starfarm_worker_core::Task;

use super::delivery::{Delivery, Named};
use super::executor::{Context, Executor};
use super::record::record;
use crate::bulk::FetchError;
use crate::devices::{Ask, DeviceSlot, Ended, KernelEnded, Left, Ran};
use crate::report::Report;
use starfarm_exec::{CancelFlag, Captured, End, UnitRun};

/// What launches left is delivered after so much computing, or when it has so many bytes.
const PART: Duration = Duration::from_secs(1);
const PART_BYTES: usize = 1 << 20;
/// A launch that failed is done again in so many pieces.
const PIECES: u64 = 16;

pub(super) struct OpenCl {
    work: KernelWork,
    units: u128,
}

impl OpenCl {
    pub(super) fn new(work: KernelWork, space: &Space) -> Result<Self, String> {
        work.check()?;
        let units = starfarm_decomposers::digits(space)?.into_iter().product();
        Ok(Self { work, units })
    }

    /// Runs the units of a task, and says what cannot be run here.
    fn run_on(
        &self,
        device: &mut DeviceSlot,
        task: &Task,
        cancel: &CancelFlag,
        context: &Context,
        (delivery, report): (&mut Delivery<'_>, &mut Report),
    ) -> Result<(), FetchError> {
        let read = || JobSpec::from_bytes(&context.contents.get(task.spec, cancel).ok()?).ok();
        let launch = Duration::from_millis(self.work.launch_ms);
        let mut gathered = Gathered::default();
        // The end of what is done in small pieces, and how small these are.
        let (mut next, mut narrow): (u128, Option<(u128, u64)>) = (task.lo, None);
        while next < task.hi() && !cancel.is_raised() {
            context.board.begin(context.slot, task.job, next);
            let (end, most) = narrow.map_or((task.hi(), None), |(end, most)| (end, Some(most)));
            let ask = Ask { spec: task.spec, read: &read, units: (next, end), most, cancel };
            let mut delivered = Ok(());
            let ran = device.run(&ask, launch, &mut |ran| {
                next += u128::from(ran.units);
                context.board.begin(context.slot, task.job, next.min(task.hi() - 1));
                if delivered.is_ok() {
                    delivered = gathered.add(ran);
                    if delivered.is_ok() && gathered.is_full() {
                        delivered = gathered.deliver(delivery, report);
                    }
                }
            });
            delivered?;
            match ran {
                Ok(()) => narrow = None,
                Err(KernelEnded::Device(Ended::Refused(why))) => {
                    gathered.deliver(delivery, report)?;
                    return Err(FetchError::Refused(why));
                }
                Err(KernelEnded::Device(Ended::Cancelled | Ended::Failed)) => break,
                Err(KernelEnded::Launch { units: (lo, hi), hangs, why }) => {
                    gathered.deliver(delivery, report)?;
                    next = lo;
                    if hi - lo > 1 {
                        let most = ((hi - lo) as u64).div_ceil(PIECES);
                        narrow = Some((hi, most));
                        continue;
                    }
                    let failed = failed(hangs, &why, launch).ok_or(FetchError::Cancelled)?;
                    deliver_one(&failed, Vec::new(), delivery, report)?;
                    next = hi;
                    narrow = narrow.filter(|(end, _)| *end > next);
                }
            }
        }
        gathered.deliver(delivery, report)
    }
}

impl Executor for OpenCl {
    fn units(&self) -> u128 {
        self.units
    }

    fn run(&self, task: &Task, cancel: &CancelFlag, context: &Context, report: &mut Report) {
        let Some(device) = &context.device else {
            return report.refuse(
                task,
                task.lo,
                "a kernel runs on a device: start the worker with --devices",
            );
        };
        let mut device = device.lock().expect("a panic ends the process");
        if device.again_at().is_some() {
            // It was given this before anybody heard that it is sick.
            return;
        }
        let mut delivery = Delivery::new(task, context.contents.bulk(), cancel);
        let ran = self.run_on(&mut device, task, cancel, context, (&mut delivery, report));
        let delivered = delivery.finish(report);
        context.board.end(context.slot);
        if let Some(why) = delivered.and(ran).err().and_then(FetchError::refusal) {
            report.refuse(task, delivery.lo(), &why);
        }
    }
}

/// What launches left that is not delivered.
#[derive(Default)]
struct Gathered {
    units: u64,
    spent: Duration,
    blocks: Vec<u8>,
    found: Found,
    has_blocks: bool,
}

impl Gathered {
    fn add(&mut self, Ran { units, spent, left }: Ran) -> Result<(), FetchError> {
        (self.units, self.spent) = (self.units + units, self.spent + spent);
        match left {
            Left::Blocks(bytes) => {
                self.blocks.extend_from_slice(&bytes.0);
                self.has_blocks = true;
            }
            Left::Report(report) => self.found.add(report).map_err(FetchError::Refused)?,
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.spent >= PART || self.blocks.len() >= PART_BYTES || self.found.hits.len() * 32 >= PART_BYTES
    }

    /// All of it is one record.
    fn deliver(&mut self, delivery: &mut Delivery<'_>, report: &mut Report) -> Result<(), FetchError> {
        if self.units == 0 {
            return Ok(());
        }
        let Self { units, spent, blocks, found, has_blocks } = std::mem::take(self);
        let bytes = match has_blocks {
            true => blocks,
            // What says nothing leaves nothing.
            false if !found.says_something() => Vec::new(),
            false => found.line().into_bytes(),
        };
        let stdout = Captured { total: bytes.len() as u64, bytes };
        let (cpu, stderr) = Default::default();
        let run = UnitRun { end: End::Exit(0), duration: spent, cpu, stdout, stderr };
        let (outcome, named) = record(run, false, Ok(None)).ok_or(FetchError::Cancelled)?;
        deliver_one(&CommandUnit { units, ..outcome }, named, delivery, report)
    }
}

/// A result has one outcome, which is that of all its units.
fn deliver_one(
    outcome: &CommandUnit,
    named: Vec<Named>,
    delivery: &mut Delivery<'_>,
    report: &mut Report,
) -> Result<(), FetchError> {
    delivery.add(outcome, named, report)?;
    delivery.send(report)
}

/// The record of a unit whose launch did not come to its end.
fn failed(hangs: bool, why: &str, launch: Duration) -> Option<CommandUnit> {
    let words = match hangs {
        true => {
            format!("starfarm: the kernel ran for longer than {} s, and was ended\n", launch.as_secs_f64())
        }
        false => format!("starfarm: the kernel did not come to its end: {why}\n"),
    };
    let bytes = words.as_bytes()[..words.floor_char_boundary(INLINE_OUTPUT_BYTES_MAX)].to_vec();
    let end = if hangs { End::Timeout } else { End::Exit(1) };
    let stderr = Captured { total: bytes.len() as u64, bytes };
    let duration = if hangs { launch } else { Duration::ZERO };
    let (cpu, stdout) = Default::default();
    record(UnitRun { end, duration, cpu, stdout, stderr }, false, Ok(None)).map(|made| made.0)
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::wire::FailReason;

    use super::*;

    #[test]
    fn a_launch_that_hangs_is_a_time_out_and_one_that_crashes_a_failure() {
        let hangs = failed(true, "", Duration::from_secs(5)).unwrap();
        assert_eq!((hangs.failed, hangs.units), (Some(FailReason::Timeout), 1));
        let crashes = failed(false, "its driver crashed (signal 11)", Duration::from_secs(5)).unwrap();
        assert_eq!(crashes.failed, Some(FailReason::Exit));
        let said = format!("{:?}", crashes.outputs.stderr);
        assert!(!said.is_empty());
    }
}
