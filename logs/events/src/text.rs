//! The one-line text of an event, for a person.

use std::fmt;

use crate::event::Event;
use crate::field::Form;

/// `1 slot`, `2 slots`.
pub fn counted<N: fmt::Display + PartialEq + From<u8>>(number: N, what: &str) -> String {
    if number == N::from(1) { format!("{number} {what}") } else { format!("{number} {what}s") }
}

impl Event {
    /// The text of what has a longer one.
    fn fmt_more(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::KeyAdded { key_kind, key, role, name } => {
                write!(f, "key {key} added: {key_kind}, {role}")?;
                name.iter().try_for_each(|name| write!(f, ", {name}"))
            }
            Event::RunHangs { node, job, unit, for_us, usual_us } => {
                let (runs, usual) = (*for_us as f64 / 1e6, *usual_us as f64 / 1e6);
                write!(f, "unit {unit} of job {} hangs on node {node}: it runs for {runs:.0} s, ", job.0)?;
                match usual_us {
                    0 => write!(f, "no unit of the job has ended yet"),
                    _ => write!(f, "such a task takes {usual:.1} s"),
                }
            }
            Event::UnitFailed { job, unit, reason, node, code } => {
                write!(f, "unit {unit} of job {} failed", job.0)?;
                node.iter().try_for_each(|node| write!(f, " on node {node}"))?;
                write!(f, ": {reason}")?;
                code.iter().try_for_each(|code| write!(f, " {code}"))
            }
            // Pictures are made of these; as a line, all that they hold.
            dense => {
                write!(f, "{}", dense.kind())?;
                let mut outcome = Ok(());
                dense.each(&mut |name, value| {
                    outcome = outcome.and_then(|()| write!(f, " {name}={value}"));
                });
                outcome
            }
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::NodeJoined { node, boot, slots } => {
                write!(f, "node {node} joined: {}, boot {:016x}", counted(*slots, "slot"), boot.0)
            }
            Event::NodeSuspect { node } => write!(f, "node {node} suspect: no heartbeat"),
            Event::NodeLost { node, tasks } => {
                write!(f, "node {node} lost: {} back to gq", counted(*tasks, "task"))
            }
            Event::NodeBack { node } => write!(f, "node {node} is back"),
            Event::NodeDraining { node } => write!(f, "node {node} draining"),
            Event::NodeResumed { node } => write!(f, "node {node} resumed"),
            Event::NodeLeft { node } => write!(f, "node {node} left"),
            Event::NodeForgotten { node } => write!(f, "node {node} forgotten"),
            Event::JobMoved { job, place } => write!(f, "job {} is number {place} in jq", job.0),
            Event::KeyRevoked { key } => write!(f, "key {key} revoked"),
            Event::NodeRefused { node, job, why } => write!(f, "node {node} refused job {}: {why}", job.0),
            Event::VersionSkew { node, version } => {
                write!(f, "node {node} speaks protocol version {version}: update the older side")
            }
            Event::JobSubmitted { job, units, .. } => {
                write!(f, "job {} submitted: {}", job.0, counted(*units, "unit"))
            }
            Event::JobState { job, state, .. } => write!(f, "job {} {}", job.0, state.word()),
            Event::Certificate { job, verdict, done, units, .. } => {
                write!(f, "job {} is {verdict}: {done} of {} done, once each", job.0, counted(*units, "unit"))
            }
            Event::OffersRepeated { node, tasks } => {
                write!(f, "offered {} again to node {node}", counted(*tasks, "task"))
            }
            Event::TaskExpired { job, lo, hi, node } => {
                write!(f, "task [{lo}, {hi}) of job {} expired on node {node}", job.0)
            }
            Event::Hit { job, unit, target } => {
                write!(f, "hit in job {}: unit {unit}, target {target}", job.0)
            }
            Event::TaskCopied { job, lo, hi, node } => {
                write!(f, "copy of [{lo}, {hi}) of job {} to node {node}", job.0)
            }
            Event::NodeQuarantined { node, why } => write!(f, "node {node} quarantined: {why}"),
            Event::Conflict { job, lo, hi, node } => {
                write!(f, "conflict in job {}: node {node} says other things of [{lo}, {hi})", job.0)
            }
            Event::Superseded { node, epoch } => {
                write!(f, "node {node} knows epoch {epoch} of this farm: a later scheduler was started")
            }
            Event::Stalled { for_us } => {
                write!(f, "held up for {:.1} s: by the disk, or the process slept", *for_us as f64 / 1e6)
            }
            Event::Standstill { job, node, for_us } => write!(
                f,
                "job {} stands still: its units wait and node {node} idles, for {} s: please report this fault with \
                 what `starfarm job explain {}` says",
                job.0,
                for_us / 1_000_000,
                job.0
            ),
            Event::EventsDropped { events } => {
                let missing = if *events == 1 { "event is" } else { "events are" };
                write!(f, "{events} {missing} missing: watching was too slow for them, or the disk was full")
            }
            longer => longer.fmt_more(f),
        }
    }
}
