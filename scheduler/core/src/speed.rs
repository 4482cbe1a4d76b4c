//! What results say of speed: how large the next tasks may be, and what a node's power is. What they decide is in
//! `result`.

use starfarm_protocol::wire::ResultEntry;

use crate::coverage::Class;
use crate::farm::Farm;
use crate::job::Sizing;
use crate::result::Found;
use crate::task::NodeId;

impl Farm {
    /// What a counted result says about speed.
    pub(crate) fn measured(
        &mut self,
        id: NodeId,
        entry: &ResultEntry<'_>,
        found: &Found,
        counted: u128,
        now_us: u64,
    ) {
        let (Some(job), Some(node)) = (self.jobs.get_mut(&entry.job), self.nodes.get_mut(&id)) else {
            return;
        };
        // What counts now is among the done already, whatever becomes of it.
        let passed_before = job.coverage.count(Class::Done) > counted;
        match speed_of(entry, found) {
            Speed::Of(units, duration_us) => {
                if !passed_before && matches!(found, Found::Ran(_)) {
                    // Until now there were failures alone to go by.
                    job.forget_speeds();
                }
                job.measured(id, units, duration_us);
            }
            Speed::OfFailures if passed_before => {}
            Speed::OfFailures => job.measured(id, entry.units, entry.duration_us),
        }
        let rises = node.sick.is_none() && node.probe.is_some();
        if node.sick.is_none() {
            node.rise();
        }
        node.totals.units_done += counted;
        let standard = match job.facts.sizing {
            Sizing::Units(units) => units as f64,
            Sizing::TargetUs(target_us) => job.mean_rate * target_us as f64 / 1e6,
        };
        node.rating.add(counted as f64 / standard.max(1.0), now_us);
        if rises {
            self.count_live(id);
        }
    }
}

/// What a result says of speed.
enum Speed {
    /// So many units took so long, in microseconds.
    Of(u64, u64),
    /// Programs that fail at once are no fast ones, unless all of them do.
    OfFailures,
}

fn speed_of(entry: &ResultEntry<'_>, found: &Found) -> Speed {
    let Found::Ran(ran) = found else { return Speed::Of(entry.units, entry.duration_us) };
    let failed = ran.iter().filter(|unit| unit.failed.is_some());
    let (failed, failed_us) =
        failed.fold((0, 0_u64), |(units, sum_us), unit| (units + 1, sum_us.saturating_add(unit.duration_us)));
    match entry.units - failed {
        0 => Speed::OfFailures,
        passed => Speed::Of(passed, entry.duration_us.saturating_sub(failed_us)),
    }
}
