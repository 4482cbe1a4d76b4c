//! The certificate of a job that has ended.

use std::fmt::Write;

use starfarm_events::Event;
use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::state::Completion;

use crate::deed::{Deed, Deeds};
use crate::farm::Farm;
use crate::queues::{Class, Coverage};

impl Farm {
    /// The certificate of a job that has just ended (R8). Its hashes are those that an audit derives.
    pub(crate) fn certify(&self, id: JobId, computed_by: u64, deeds: &mut Deeds) {
        let job = self.jobs.at(id);
        let [done, failed, _, _, abandoned] = job.classes();
        assert!(job.state.ended() && done + failed + abandoned == job.facts.units, "no unit is left");
        let verdict = match (abandoned, failed) {
            (0, 0) => Completion::Complete,
            (0, _) => Completion::CompleteWithFailures,
            _ => Completion::EndedEarly,
        };
        if job.checks.are_asked_for() {
            deeds.event(Event::TrustChecked {
                job: id,
                checked: job.checks.units_checked,
                planted_found: job.planted_found(),
                untrue: job.checks.untrue.len() as u64,
            });
        }
        let mut hits = String::new();
        for (unit, target) in job.hits.kept() {
            let _ = writeln!(hits, "{unit} {target}");
        }
        let certificate = Event::Certificate {
            job: id,
            verdict,
            state: job.state,
            spec: job.facts.spec,
            units: job.facts.units,
            done,
            failed,
            abandoned,
            intervals_hash: ContentHash::of(intervals(job.units.coverage()).as_bytes()),
            hits: job.hits.count(),
            hits_hash: ContentHash::of(hits.as_bytes()),
            duplicate: job.totals.duplicate_units,
            dispatched: job.totals.dispatched,
            resent: job.totals.resent,
            copied: job.totals.copies,
            conflicts: job.totals.conflicts,
            epoch: self.config.epoch.0,
            nodes: computed_by,
        };
        deeds.0.push(match job.hits.are_paged() {
            true => Deed::Certify(certificate),
            false => Deed::Event(certificate),
        });
    }
}

/// The classes of an ended job's units, a line an interval, ascending, joined where they touch.
fn intervals(coverage: &Coverage) -> String {
    let of = |class: Class, word| coverage.intervals(class).map(move |at| (at.lo, at.hi, word));
    let mut all: Vec<(u128, u128, &str)> = of(Class::Done, "done")
        .chain(of(Class::Failed, "failed"))
        .chain(of(Class::Abandoned, "abandoned"))
        .collect();
    if coverage.fresh() > 0 {
        all.push((coverage.cursor(), coverage.units(), "abandoned"));
    }
    all.sort_unstable();
    all.dedup_by(|next, last| {
        let joined = next.2 == last.2 && next.0 == last.1;
        if joined {
            last.1 = next.1;
        }
        joined
    });
    all.iter().fold(String::new(), |mut text, (lo, hi, word)| {
        let _ = writeln!(text, "{word} {lo} {hi}");
        text
    })
}
