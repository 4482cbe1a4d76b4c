//! What results say of speed: how large the next tasks may be, and what a node's power is. What they decide is in
//! `result`.

use starfarm_protocol::ids::NodeId;
use starfarm_protocol::wire::ResultEntry;

use crate::farm::Farm;
use crate::found::Found;
use crate::health::Standing;
use crate::job::Sizing;

impl Farm {
    /// What a counted result says about speed. `passed_before` it some unit of the job had.
    pub(crate) fn measured(
        &mut self,
        id: NodeId,
        entry: &ResultEntry<'_>,
        found: &Found,
        counted: u128,
        passed_before: bool,
        now_us: u64,
    ) {
        let job = self.jobs.at_mut(entry.job);
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
        let standard = match job.facts.sizing {
            Sizing::Units(units) => units as f64,
            Sizing::TargetUs(target_us) => job.mean_rate * target_us as f64 / 1e6,
        };
        let node = self.nodes.at_mut(id);
        node.rating.add(counted as f64 / standard.max(1.0), now_us);
        if let Standing::Slow(_) = node.health().standing {
            self.nodes.alter(id, |health| health.rises());
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
    match entry.units.checked_sub(failed).expect("its body was read as one outcome a unit") {
        0 => Speed::OfFailures,
        passed => Speed::Of(passed, entry.duration_us.saturating_sub(failed_us)),
    }
}
