//! Records as bytes and back. The layout of each kind is in `docs/journal.md`; changes are new kinds. Here it stands once
//! for both directions: fields in their order.

use std::collections::BTreeMap;

use super::record::{Ended, GrownChunk, JobTotals, NodeMark, Record};
use crate::bytes::{Malformed, Reader, fields, items, put, put_intervals, put_near, put_text, tagged};
use crate::devices::{DeviceKind, DeviceNeeds, RunsOn, SlotKind};
use crate::ids::{Attempt, Boot, ContentHash, Epoch, JobId, NodeId};
use crate::job::{Body, FailedUnit, JobFacts, JobState, MaxFailures, Per, Sizing, WorkFacts};
use crate::metric::Metric;
use crate::reason::{Distrust, HoldReason};
use crate::resources::{Resource, Resources};
use crate::spec::Stop;
use crate::terms::{Limit, Monitored, Terms};
use crate::trust::{Share, Untrue};
use crate::wire::{CommandUnit, FailReason};

/// Something in a record.
trait Item: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn read(body: &mut Reader<'_>) -> Result<Self, Malformed>;
}

tagged! { Item:
    Record {
        1 Epoch { epoch, at_us },
        2 Submitted(facts),
        3 State { job, state, why },
        4 Moved { job, place },
        5 Leased { job, mark },
        7 Ran { job, attempt, node, units },
        8 Tried { job, attempt, node, unit },
        9 Died { job, node, boot, unit },
        10 Pardoned { node, boot },
        11 Failed { job, unit, failed },
        12 Retried { job, units },
        13 Ended(ended),
        14 Deleted { job },
        15 Node { node, boot, name },
        16 Mark { node, mark },
        18 Rerun { job, units },
        19 Trust { job, check, planted },
        20 Checked { job, units },
        21 Untrue { job, untrue },
        22 Doubtful { job, node, units },
        23 Limited { job, limit },
        64 Rating { node, started_us, period, periods },
        65 Rates { job, mean, nodes },
        66 Totals { job, totals },
        67 Given { job, node },
        68 Joined { node, slots, at_us },
        69 Periods { lost_us, period_us },
        70 FailedAlike { job, units, failed },
        71 HitsPaged { job, floor, count, targets, again },
        72 TargetsHit { job, from, bits },
        73 Linked { job, terms },
        74 Grown { job, chunks, state, end },
        75 DeviceRates { job, mean, seats },
        ;
        6 Done(put_done, read_done),
        17 Conflict(put_conflict, read_conflict),
    }
    Body {
        0 Nothing,
        1 Hits { stop, targets },
        2 Outcomes { retries },
    }
    Sizing {
        0 TargetUs(target_us),
        1 Units(units),
    }
    MaxFailures {
        0 Usual,
        1 Never,
        2 Units(units),
    }
    Limit {
        0 MaxNodes(nodes),
        1 StorageLimit(bytes),
    }
}

fields! { Item:
    JobId { 0 }
    NodeId { 0 }
    Epoch { 0 }
    Boot { 0 }
    Attempt { 0 }
    JobFacts { job, spec, name, user, units, work, sizing, max_failures, speculative, at_us }
    Ended { job, state, done, failed, abandoned, totals }
    FailedUnit { reason, code, node }
    GrownChunk { hash, units, cost }
    Untrue { unit, node, why, against }
    JobTotals {
        decomposed_units, duplicate_units, decomposed, dispatched, resent, copies, conflicts, submitted_us, started_us,
        ended_us
    }
}

impl Record {
    /// Its kind's number.
    pub fn kind(&self) -> u8 {
        self.tag()
    }

    /// The job that it is about; none for one about a node or the farm.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Record::Submitted(facts) => Some(facts.job),
            Record::Ended(ended) => Some(ended.job),
            Record::State { job, .. }
            | Record::Moved { job, .. }
            | Record::Leased { job, .. }
            | Record::Done { job, .. }
            | Record::Ran { job, .. }
            | Record::Tried { job, .. }
            | Record::Died { job, .. }
            | Record::Failed { job, .. }
            | Record::FailedAlike { job, .. }
            | Record::HitsPaged { job, .. }
            | Record::TargetsHit { job, .. }
            | Record::Grown { job, .. }
            | Record::Retried { job, .. }
            | Record::Rerun { job, .. }
            | Record::Trust { job, .. }
            | Record::Linked { job, .. }
            | Record::Checked { job, .. }
            | Record::Untrue { job, .. }
            | Record::Doubtful { job, .. }
            | Record::Limited { job, .. }
            | Record::Deleted { job }
            | Record::Conflict { job, .. }
            | Record::Rates { job, .. }
            | Record::DeviceRates { job, .. }
            | Record::Totals { job, .. } => Some(*job),
            Record::Epoch { .. }
            | Record::Pardoned { .. }
            | Record::Node { .. }
            | Record::Mark { .. }
            | Record::Rating { .. }
            | Record::Given { .. }
            | Record::Joined { .. }
            | Record::Periods { .. } => None,
        }
    }

    /// Appends its body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.put_fields(out);
    }

    /// Reads the body of a record of `kind`, all of it.
    ///
    /// # Errors
    /// No such kind, or a body that is not one.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, Malformed> {
        let mut body = Reader(body);
        let record = Self::read_fields(kind, &mut body)?;
        if body.0.is_empty() { Ok(record) } else { Err(Malformed) }
    }
}

/// Hits lie close to the units that were done.
fn put_done(record: &Record, out: &mut Vec<u8>) {
    let Record::Done { job, node, pieces, hits } = record else {
        unreachable!("the table names it for that kind")
    };
    job.put(out);
    node.put(out);
    pieces.put(out);
    hits.len().put(out);
    let mut near = pieces.first().map_or(0, |piece| piece.0);
    for &(unit, target) in hits {
        put_near(out, unit, near);
        target.put(out);
        near = unit;
    }
}

fn read_done(body: &mut Reader<'_>) -> Result<Record, Malformed> {
    let (job, node, pieces) = (JobId::read(body)?, NodeId::read(body)?, body.intervals()?);
    let mut near = pieces.first().map_or(0, |piece| piece.0);
    let hits = body.list(|body| {
        near = body.near(near)?;
        Ok((near, body.small()?))
    })?;
    Ok(Record::Done { job, node, pieces, hits })
}

fn put_conflict(record: &Record, out: &mut Vec<u8>) {
    let Record::Conflict { job, lo, hi, node } = record else {
        unreachable!("the table names it for that kind")
    };
    job.put(out);
    node.put(out);
    put_intervals(out, &[(*lo, *hi)]);
}

fn read_conflict(body: &mut Reader<'_>) -> Result<Record, Malformed> {
    let (job, node) = (JobId::read(body)?, NodeId::read(body)?);
    let [(lo, hi)] = body.intervals()?[..] else { return Err(Malformed) };
    Ok(Record::Conflict { job, lo, hi, node })
}

macro_rules! numbers {
    ($($number:ty)*; words: $($word:ty)*; floats: $($float:ty)*) => {
        items! { Item:
            $($number: |number, out| put(out, *number as u128), |body| body.small();)*
            $($word: |word, out| out.push(*word as u8), |body| Self::from_number(body.small()?).ok_or(Malformed);)*
            $($float: |float, out| out.extend_from_slice(&float.to_le_bytes()),
                |body| body.array().map(Self::from_le_bytes);)*
        }
    };
}
numbers!(u8 u16 u32 u64 u128 usize; words: JobState FailReason NodeMark Stop; floats: f32 f64);

items! { Item:
    // What the job may store follows the number of nodes that says so, and what is measured of it likewise.
    Terms: |terms, out| {
            terms.after.put(out);
            terms.after_any.put(out);
            terms.labels.put(out);
            let nodes = terms.max_nodes.map_or(0, |nodes| u64::from(nodes) + 1);
            let limited = if terms.storage_limit.is_some() { LIMITED } else { 0 };
            let monitored = if terms.monitor.is_some() { 2 * LIMITED } else { 0 };
            let own = if terms.monitor.as_ref().is_some_and(|of| of.own_tree) { 4 * LIMITED } else { 0 };
            (nodes + limited + monitored + own).put(out);
            terms.storage_limit.iter().for_each(|bytes| bytes.put(out));
            if let Some(Monitored { period_us, metrics, .. }) = &terms.monitor {
                period_us.put(out);
                Metric::bits(metrics).put(out);
            }
        },
        |body| {
            let (after, after_any, labels) = (Item::read(body)?, Item::read(body)?, Item::read(body)?);
            let number = u64::read(body)?;
            let (nodes, has) = (number % LIMITED, number / LIMITED);
            let max_nodes = narrow(nodes.checked_sub(1))?;
            let own_tree = has & 4 != 0;
            if has > 7 || own_tree && has & 2 == 0 {
                return Err(Malformed);
            }
            let storage_limit = if has & 1 == 0 { None } else { Some(u64::read(body)?) };
            let monitor = if has & 2 == 0 {
                None
            } else {
                let (period_us, metrics) = (u64::read(body)?, Metric::of_bits(u64::read(body)?));
                Some(Monitored { period_us, metrics, own_tree })
            };
            Ok(Self { after, after_any, labels, max_nodes, storage_limit, monitor })
        };
    Share: |share, out| share.millionths().put(out),
        |body| Self::of_millionths(u32::read(body)?).ok_or(Malformed);
    // As the mark that a node gets for it.
    Distrust: |why, out| NodeMark::from(*why).put(out), |body| NodeMark::read(body)?.distrust().ok_or(Malformed);
    bool: |is, out| u8::from(*is).put(out), |body| Ok(u8::read(body)? != 0);
    // One more, or 0 for none.
    Option<u64>: |number, out| number.map_or(0, |number| u128::from(number) + 1).put(out),
        |body| {
            let number = u128::read(body)?.checked_sub(1).map(u64::try_from);
            number.transpose().map_err(|_| Malformed)
        };
    Option<i32>: |code, out| code.map(|code| u64::from(code.cast_unsigned())).put(out),
        |body| narrow(Option::<u64>::read(body)?).map(|code| code.map(u32::cast_signed));
    Option<u32>: |number, out| number.map(u64::from).put(out), |body| narrow(Option::<u64>::read(body)?);
    Option<NodeId>: |node, out| node.map(|node| u64::from(node.0)).put(out),
        |body| narrow(Option::<u64>::read(body)?).map(|node| node.map(NodeId));
    String: |text, out| put_text(out, text), |body| body.text();
    // Each key and its value.
    BTreeMap<String, String>: |texts, out| {
            texts.len().put(out);
            texts.iter().for_each(|(key, value)| { key.put(out); value.put(out) });
        },
        |body| Ok(body.list(|body| Ok((String::read(body)?, String::read(body)?)))?.into_iter().collect());
    // Its words; none for none.
    Option<HoldReason>: |why, out| why.as_ref().map_or_else(String::new, HoldReason::to_string).put(out),
        |body| body.text().map(|words| (!words.is_empty()).then(|| words.into()));
    ContentHash: |hash, out| out.extend_from_slice(&hash.0), |body| body.array().map(Self);
    // Its body, and the other facts where they are not those that the body brings.
    WorkFacts: |work, out| {
            let is_usual = *work == facts(work.body);
            (work.body.tag() | if is_usual { 0 } else { OWN_FACTS }).put(out);
            work.body.put_fields(out);
            if !is_usual {
                work.first_units.put(out);
                let (needs, on) = (work.needs != Resources::ONE_SLOT, work.on != facts(work.body).on);
                let bits = [work.programs, work.per == Per::Task, needs, on];
                bits.iter().zip(0..).fold(0, |bits, (is, at)| bits | u8::from(*is) << at).put(out);
                if needs {
                    work.needs.put(out);
                }
                if on {
                    work.on.put(out);
                }
            }
        },
        |body| {
            let tag = u8::read(body)?;
            let usual = facts(Body::read_fields(tag & !OWN_FACTS, body)?);
            if tag & OWN_FACTS == 0 {
                return Ok(usual);
            }
            let (first_units, bits) = (u64::read(body)?, u8::read(body)?);
            let per = if bits & 2 == 0 { Per::Unit } else { Per::Task };
            let needs = if bits & 4 == 0 { Resources::ONE_SLOT } else { Item::read(body)? };
            let on = if bits & 8 == 0 { usual.on } else { Item::read(body)? };
            let facts = WorkFacts { first_units, programs: bits & 1 != 0, per, needs, on, ..usual };
            let has_slot = needs.of(Resource::Slots) > 0;
            if first_units > 0 && bits < 16 && has_slot && (on.cores || on.devices.is_some()) { Ok(facts) } else { Err(Malformed) }
        };
    // Whether cores do, whether devices do, and which.
    RunsOn: |on, out| {
            (u8::from(on.cores) | u8::from(on.devices.is_some()) << 1).put(out);
            if let Some(DeviceNeeds { device, opencl, memory_bytes }) = on.devices {
                device.map_or(0, |kind| kind as u8 + 1).put(out);
                opencl.0.put(out);
                opencl.1.put(out);
                memory_bytes.put(out);
            }
        },
        |body| {
            let bits = u8::read(body)?;
            let devices = |body: &mut Reader<'_>| {
                let device = match u8::read(body)? {
                    0 => None,
                    number => Some(DeviceKind::from_number(number - 1).ok_or(Malformed)?),
                };
                let opencl = (u8::read(body)?, u8::read(body)?);
                Ok(DeviceNeeds { device, opencl, memory_bytes: u64::read(body)? })
            };
            let devices = (bits & 2 != 0).then(|| devices(body)).transpose()?;
            if bits < 4 { Ok(RunsOn { cores: bits & 1 != 0, devices }) } else { Err(Malformed) }
        };
    // What there is of each: its number and the amount.
    Resources: |all, out| {
            all.amounts().count().put(out);
            all.amounts().for_each(|(of, amount)| { (of as u8).put(out); amount.put(out) });
        },
        |body| {
            let rows: Vec<(u8, u64)> = body.list(|body| Ok((u8::read(body)?, u64::read(body)?)))?;
            rows.into_iter().try_fold(Resources::NONE, |all, (number, amount)| {
                Resource::from_number(number).map(|of| all.with(of, amount)).ok_or(Malformed)
            })
        };
    // Their count, and they themselves.
    Box<[u8]>: |bytes, out| { bytes.len().put(out); out.extend_from_slice(bytes) },
        |body| { let count = body.small()?; Ok(body.bytes(count)?.into()) };
    Vec<(u128, u128)>: |intervals, out| put_intervals(out, intervals), |body| body.intervals();
    // A unit and a target.
    (u128, u32): |hit, out| { hit.0.put(out); hit.1.put(out) }, |body| Ok((u128::read(body)?, u32::read(body)?));
    // A node and a kind of its devices, the largest task there, its speed.
    (NodeId, SlotKind, f64, u64): |of, out| { of.0.put(out); of.1.0.put(out); of.3.put(out); of.2.put(out) },
        |body| {
            let (node, kind, largest) = (Item::read(body)?, SlotKind(u8::read(body)?), Item::read(body)?);
            Ok((node, kind, f64::read(body)?, largest))
        };
    // The largest task of a node before its speed.
    (NodeId, f64, u64): |of, out| { of.0.put(out); of.2.put(out); of.1.put(out) },
        |body| {
            let (node, largest) = (Item::read(body)?, Item::read(body)?);
            Ok((node, f64::read(body)?, largest))
        };
}

/// A number that has 32 bits.
fn narrow(number: Option<u64>) -> Result<Option<u32>, Malformed> {
    number.map(|number| u32::try_from(number).map_err(|_| Malformed)).transpose()
}

/// Added to a number of nodes where what a job may store follows it.
const LIMITED: u64 = 1 << 33;

/// Added to a body's number where other facts follow it.
const OWN_FACTS: u8 = 64;

/// The facts that the executors of the first release have, by what their results carry.
fn facts(body: Body) -> WorkFacts {
    match body {
        Body::Nothing => WorkFacts::NOTHING,
        Body::Hits { stop, targets } => WorkFacts::search(stop, targets),
        Body::Outcomes { retries } => WorkFacts::command(retries),
    }
}

impl<T: Item> Item for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        body.list(T::read)
    }
}

impl Item for Vec<(u128, CommandUnit)> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        let (mut near, mut bytes) = (0, Vec::new());
        for (unit, outcome) in self {
            put_near(out, *unit, near);
            near = *unit;
            bytes.clear();
            outcome.write(&mut bytes);
            bytes.len().put(out);
            out.extend_from_slice(&bytes);
        }
    }

    fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut near = 0;
        body.list(|body| {
            near = body.near(near)?;
            let length = body.small()?;
            let outcome = CommandUnit::read_all(body.bytes(length)?)?.pop().ok_or(Malformed)?;
            Ok((near, outcome))
        })
    }
}

#[cfg(test)]
mod tests;
