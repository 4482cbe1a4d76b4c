//! A tap on the wire: reads every datagram that leaves either side and judges it by rules of its own. It
//! knows which results a worker has under way, and what it was told it may have.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::ids::JobId;
use starfarm_protocol::wire::{Message, messages};

use crate::intervals::Intervals;
use crate::job::Job;
use crate::together::Owes;
use crate::violation::{Broken, rule};

/// What is known of one worker's incarnation.
#[derive(Debug, Default)]
struct Line {
    /// Results sent and not acknowledged in a datagram of the scheduler: job, first unit, units, what is owed for it.
    under_way: BTreeMap<u64, (JobId, u128, u64, Owes)>,
    /// Results that came to the scheduler before it had given out their units: one that does not count had. It
    /// owes nothing for these.
    not_owed: BTreeSet<u64>,
    /// First result that was never sent in this session.
    unsent: u64,
    /// First result that was never sent at all.
    never_sent: u64,
    /// Per result datagram under way, the results whose acknowledgement the worker has not heard.
    flights: Vec<BTreeSet<u64>>,
    credit: u16,
    started: Intervals,
    /// It says what is not so: nothing is owed for that.
    lies: bool,
    /// Of one that does: what it was ever offered, and what it reported unasked, as job, first unit and end.
    offered: Vec<(JobId, u128, u128)>,
    forged: Vec<(JobId, u128, u128)>,
}

/// The tap.
#[derive(Debug)]
pub(crate) struct Wiretap {
    lines: Vec<Line>,
    /// Attempts over units that had been offered before.
    again: BTreeSet<u64>,
}

impl Wiretap {
    /// Of machines that lie, or do not.
    pub(crate) fn new(machines: impl Iterator<Item = bool>) -> Self {
        let line = |lies| Line { lies, ..Line::default() };
        Self { lines: machines.map(line).collect(), again: BTreeSet::new() }
    }

    /// A machine has a new worker.
    pub(crate) fn on_boot(&mut self, machine: u32) {
        let line = &mut self.lines[machine as usize];
        *line = Line {
            unsent: 1,
            never_sent: 1,
            lies: line.lies,
            offered: std::mem::take(&mut line.offered),
            forged: std::mem::take(&mut line.forged),
            ..Line::default()
        };
    }

    /// A machine that lies is about to report units, unless some of them were ever offered to it.
    pub(crate) fn forges(&mut self, machine: u32, of: JobId, lo: u128, hi: u128) -> bool {
        let line = &mut self.lines[machine as usize];
        let is_forged = !line.offered.iter().any(|&(job, from, to)| job == of && from < hi && lo < to);
        if is_forged {
            line.forged.push((of, lo, hi));
        }
        is_forged
    }

    /// Datagrams that the scheduler is about to send. Units that a machine reported unasked and is then given count as
    /// if it had computed them: nobody can tell.
    pub(crate) fn before_farm_sends(&mut self, machine: u32, datagrams: &[Vec<u8>], jobs: &mut [Job]) {
        let line = &mut self.lines[machine as usize];
        for message in datagrams.iter().filter(|_| line.lies).flat_map(|bytes| messages(bytes)).flatten() {
            let Message::Offers(offers) = message else { continue };
            for offer in offers.flatten() {
                let (lo, hi) = (offer.lo, offer.lo + u128::from(offer.units));
                line.offered.push((offer.job, lo, hi));
                for &(job, from, to) in &line.forged {
                    if job == offer.job && from < hi && lo < to {
                        jobs[job.0 as usize - 1].is_taken_as_computed(from.max(lo), to.min(hi));
                    }
                }
            }
        }
    }

    /// The attempt covers units that nobody was offered before.
    pub(crate) fn is_fresh(&self, attempt: u64) -> bool {
        !self.again.contains(&attempt)
    }

    /// A worker starts an attempt.
    pub(crate) fn on_start(&mut self, machine: u32, attempt: u64) -> Result<(), Broken> {
        let attempt = u128::from(attempt);
        let new = self.lines[machine as usize].started.insert(attempt, attempt + 1);
        rule(new == 1, "a worker starts an attempt once", || format!("attempt {attempt}, node {machine}"))
    }

    /// A worker sends a datagram.
    pub(crate) fn on_worker_sends(&mut self, machine: u32, bytes: &[u8], jobs: &[Job]) -> Result<(), Broken> {
        let line = &mut self.lines[machine as usize];
        let mut flight = BTreeSet::new();
        for message in messages(bytes) {
            let Ok(message) = message else {
                return Err(("a worker's datagram is well formed", String::new()));
            };
            let Message::Results(results) = message else { continue };
            for entry in results {
                let Ok(entry) = entry else { return Err(("results are well formed", String::new())) };
                let owes = Owes::of(jobs[entry.job.0 as usize - 1].model.together.is_some(), &entry);
                line.under_way.insert(entry.sequence, (entry.job, entry.lo, entry.units, owes));
                if entry.sequence >= line.unsent {
                    flight.insert(entry.sequence);
                }
            }
        }
        let Some(&last) = flight.last() else { return Ok(()) };
        line.unsent = last + 1;
        line.never_sent = line.never_sent.max(last + 1);
        line.flights.push(flight);
        let (flights, credit) = (line.flights.len(), line.credit);
        rule(flights <= usize::from(credit), "result datagrams under way within the credit", || {
            format!("node {machine}: {flights} under way, its credit is {credit}")
        })
    }

    /// A worker's datagram reaches the right scheduler.
    pub(crate) fn on_farm_hears(&mut self, machine: u32, bytes: &[u8], jobs: &[Job]) {
        let line = &mut self.lines[machine as usize];
        for message in messages(bytes).flatten() {
            let Message::Results(results) = message else { continue };
            for entry in results.flatten() {
                let (lo, hi) = (entry.lo, entry.lo + u128::from(entry.units));
                if jobs.get(entry.job.0 as usize - 1).is_some_and(|job| job.offered.covers(lo, hi)) {
                    line.not_owed.remove(&entry.sequence);
                } else {
                    line.not_owed.insert(entry.sequence);
                }
            }
        }
    }

    /// The scheduler sends a datagram to a worker. `heard`: its incarnation still lives.
    pub(crate) fn on_farm_sends(
        &mut self,
        machine: u32,
        bytes: &[u8],
        heard: bool,
        jobs: &mut [Job],
    ) -> Result<(), Broken> {
        let line = &mut self.lines[machine as usize];
        for message in messages(bytes) {
            match message {
                Ok(Message::Offers(offers)) => {
                    for offer in offers {
                        let Ok(offer) = offer else { return Err(("offers are well formed", String::new())) };
                        let hi = offer.lo + u128::from(offer.units);
                        let Some(job) = jobs.get_mut(offer.job.0 as usize - 1) else {
                            return Err(("offers are of jobs that were submitted", format!("{offer:?}")));
                        };
                        if job.offered.insert(offer.lo, hi) < u128::from(offer.units) {
                            self.again.insert(offer.attempt.0);
                        }
                    }
                }
                Ok(Message::ResultAck(_, ranges)) if heard && !line.lies => {
                    for (first, last) in ranges {
                        acknowledged(line, machine, first, last, jobs)?;
                    }
                }
                Ok(_) => {}
                Err(_) => return Err(("a scheduler's datagram is well formed", String::new())),
            }
        }
        Ok(())
    }

    /// A datagram of the scheduler reaches its worker.
    pub(crate) fn on_worker_hears(&mut self, machine: u32, bytes: &[u8], renewed: bool) {
        let line = &mut self.lines[machine as usize];
        for message in messages(bytes).flatten() {
            match message {
                Message::Welcome(welcome) => {
                    line.credit = welcome.credit;
                    if renewed {
                        // In a new session all that was not acknowledged is sent anew.
                        let first = line.flights.drain(..).filter_map(|flight| flight.first().copied()).min();
                        line.unsent = first.unwrap_or(line.unsent);
                    }
                }
                Message::HeartbeatAnswer(answer) => line.credit = answer.credit,
                Message::ResultAck(credit, ranges) => {
                    line.credit = credit;
                    for (first, last) in ranges {
                        land(&mut line.flights, first, last);
                    }
                }
                _ => {}
            }
        }
    }
}

/// The scheduler acknowledges the results `first..=last`.
fn acknowledged(
    line: &mut Line,
    machine: u32,
    first: u64,
    last: u64,
    jobs: &mut [Job],
) -> Result<(), Broken> {
    rule(last < line.never_sent, "only what was sent is acknowledged", || {
        format!("node {machine}: result {last}, the first that was not sent is {}", line.never_sent)
    })?;
    let told: Vec<u64> = line.under_way.range(first..=last).map(|(&sequence, _)| sequence).collect();
    for sequence in told {
        let Some((id, lo, units, owes)) = line.under_way.remove(&sequence) else { continue };
        if owes != Owes::Nothing
            && !line.not_owed.contains(&sequence)
            && let Some(job) = jobs.get_mut(id.0 as usize - 1)
        {
            job.on_acknowledged(lo, lo + u128::from(units), owes)?;
        }
    }
    Ok(())
}

/// Takes the results `first..=last` off the flights.
fn land(flights: &mut Vec<BTreeSet<u64>>, first: u64, last: u64) {
    flights.retain_mut(|flight| {
        flight.retain(|sequence| !(first..=last).contains(sequence));
        !flight.is_empty()
    });
}
