//! `starfarm status --label`: how the jobs with some labels stand, all together.

use std::collections::BTreeMap;

use serde::Serialize;
use starfarm_protocol::admin::JobInfo;
use starfarm_protocol::job::JobState;
use starfarm_protocol::units::Units;

use crate::human;
use crate::output::table::{Cell, facts};
use crate::output::{Document, Style};

/// Jobs by what is common to them. Sums end at the largest number that there is.
#[derive(Debug, Serialize)]
pub(super) struct Labelled {
    /// The labels that they all have.
    labels: BTreeMap<String, String>,
    /// How many there are.
    jobs: u64,
    /// How many are in each state.
    states: BTreeMap<JobState, u64>,
    units_total: Units,
    units_done: Units,
    units_failed: Units,
    units_out: Units,
    units_pending: Units,
    units_abandoned: Units,
    hits: u64,
    units_per_s: f64,
    /// Bytes that their outputs take on the scheduler's disk; what two of them share counts for both.
    stored_bytes: u64,
}

impl Labelled {
    pub(super) fn new(labels: &[(String, String)], jobs: &[JobInfo]) -> Self {
        let count = |state| jobs.iter().filter(|job| job.state == state).count() as u64;
        let units =
            |of: fn(&JobInfo) -> Units| Units(jobs.iter().fold(0, |sum, job| sum.saturating_add(of(job).0)));
        Self {
            labels: labels.iter().cloned().collect(),
            jobs: jobs.len() as u64,
            states: JobState::ALL.iter().map(|&state| (state, count(state))).collect(),
            units_total: units(|job| job.units_total),
            units_done: units(|job| job.units_done),
            units_failed: units(|job| job.units_failed),
            units_out: units(|job| job.units_out),
            units_pending: units(|job| job.units_pending),
            units_abandoned: units(|job| job.units_abandoned),
            hits: jobs.iter().map(|job| job.hits).sum(),
            units_per_s: jobs.iter().map(|job| job.units_per_s).sum(),
            stored_bytes: jobs.iter().fold(0, |sum: u64, job| sum.saturating_add(job.stored_bytes)),
        }
    }
}

impl Document for Labelled {
    const NAME: &'static str = "labelled-status";

    fn table(&self, style: Style) -> String {
        let share =
            |part| Cell::new(format!("{}  ({})", human::units(part), human::share(part, self.units_total)));
        let labels = self.labels.iter().map(|(key, value)| ("label", Cell::new(format!("{key}={value}"))));
        let mut figures: Vec<_> = labels.collect();
        figures.push(("jobs", Cell::new(self.jobs.to_string())));
        for (state, count) in self.states.iter().filter(|(_, count)| **count > 0) {
            figures.push(("  of them", Cell::new(format!("{count} {state}"))));
        }
        figures.extend([
            ("units", Cell::new(human::units(self.units_total))),
            ("  done", share(self.units_done)),
            ("  failed", share(self.units_failed)),
            ("  out, at nodes", share(self.units_out)),
            ("  pending", share(self.units_pending)),
            ("  abandoned", share(self.units_abandoned)),
            ("hits", Cell::new(human::count(self.hits as f64))),
            ("units per second", Cell::new(human::count(self.units_per_s))),
            ("stored", Cell::new(human::memory(self.stored_bytes))),
        ]);
        facts(&figures, style)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::commands::job::testing::job;
    use crate::output::Format;
    use crate::output::testing::printed;

    #[test]
    fn jobs_are_summed_up() {
        let of = |id, state, stored_bytes| JobInfo { state, stored_bytes, ..job(id) };
        let jobs = [
            of(1, JobState::Finished, 3 << 30),
            of(2, JobState::Running, 1 << 30),
            JobInfo { units_total: Units(u128::MAX), ..of(3, JobState::Running, u64::MAX) },
        ];
        let labels = [("project".to_owned(), "x".to_owned())];
        expect![[r#"
            label             project=x
            jobs              2
              of them         1 running
              of them         1 finished
            units             6.18 G
              done            2.40 G  (38.8 %)
              failed          0  (0.0 %)
              out, at nodes   178 M  (2.8 %)
              pending         3.60 G  (58.2 %)
              abandoned       0  (0.0 %)
            hits              4
            units per second  1.08 G
            stored            4.0 GiB
        "#]]
        .assert_eq(&printed(Format::Table, |printer| printer.document(&Labelled::new(&labels, &jobs[..2]))));
        let json = printed(Format::Json, |printer| printer.document(&Labelled::new(&labels, &jobs)));
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["labels"]["project"], "x");
        assert_eq!((&json["states"]["running"], &json["states"]["paused"]), (&2.into(), &0.into()));
        assert_eq!(
            (&json["units_total"], &json["stored_bytes"]),
            (&u128::MAX.to_string().into(), &u64::MAX.into())
        );
    }

    #[test]
    fn no_job_is_no_error() {
        let none = printed(Format::Table, |printer| printer.document(&Labelled::new(&[], &[])));
        assert!(none.starts_with("jobs              0\nunits             0\n"), "{none}");
    }
}
