//! What came of a job's trust checks.

use std::collections::BTreeMap;

use serde::Serialize;
use starfarm_protocol::trust::Share;
use starfarm_protocol::units::Units;

use crate::tiling::{Class, Run};

/// What its records say of a job that asks for trust checks.
#[derive(Debug)]
pub(crate) struct Trust {
    check: Share,
    /// Units of planted answers, by target.
    pub(crate) planted: BTreeMap<u32, u128>,
    /// Units that a second node computed with the same result.
    pub(crate) checked: u128,
    /// Results that were untrue.
    pub(crate) untrue: u64,
}

/// What came of trust checks, for a certificate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TrustShare {
    /// The share of the units that was to be computed twice, in millionths.
    pub check_ppm: u32,
    /// Units that a second node computed with the same result.
    pub units_checked: Units,
    /// Planted answers.
    pub planted: u64,
    /// Those that were found.
    pub planted_found: u64,
    /// Results that were untrue; their nodes are not trusted any more.
    pub untrue: u64,
}

impl Trust {
    pub(crate) fn new(check: Share, planted: &[(u128, u32)]) -> Self {
        let planted = planted.iter().map(|&(unit, target)| (target, unit)).collect();
        Self { check, planted, checked: 0, untrue: 0 }
    }

    /// `runs` are what became of the job's units, in order.
    pub(crate) fn share(&self, runs: &[Run]) -> TrustShare {
        let is_done = |unit: u128| {
            let run = runs.get(runs.partition_point(|run| run.hi <= unit));
            run.is_some_and(|run| run.lo <= unit && run.class == Class::Done)
        };
        TrustShare {
            check_ppm: self.check.millionths(),
            units_checked: Units(self.checked),
            planted: self.planted.len() as u64,
            planted_found: self.planted.values().filter(|unit| is_done(**unit)).count() as u64,
            untrue: self.untrue,
        }
    }
}
