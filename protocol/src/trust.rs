//! Trust checks of a search, off unless a job asks for them: a share of its units that is computed twice, on different
//! nodes, and planted answers that only the scheduler knows.

use serde::{Deserialize, Serialize};

use crate::ids::NodeId;
use crate::reason::Distrust;

/// What a job asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustChecks {
    /// The share of its units that is computed twice.
    #[serde(default)]
    pub check: Share,
    /// So many answers that only the scheduler knows are planted among its targets, up to [`PLANTED_MAX`]. They are no
    /// results.
    #[serde(default)]
    pub planted: u32,
}

impl TrustChecks {
    /// Nothing is asked for.
    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }
}

/// Planted answers of a job, at most.
pub const PLANTED_MAX: u32 = 10_000;

/// `count` answers can be planted in `units` units, if no unit is an answer already: which are, only digests tell.
///
/// # Errors
/// They cannot, in words that say what can.
pub fn check_planted(count: u32, units: u128) -> Result<(), String> {
    if count > PLANTED_MAX {
        return Err(format!("{count} planted answers: at most {PLANTED_MAX} can be planted"));
    }
    if units < u128::from(count) {
        return Err(no_room(count, units));
    }
    Ok(())
}

/// The words for a space of `units` units that has no room for `count` planted answers.
pub fn no_room(count: u32, units: u128) -> String {
    format!("{units} units are too few for {count} planted answers: plant fewer")
}

/// A share of a whole, 0 to 1, in millionths; in JSON and job files a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Share(u32);

impl Share {
    /// So many millionths; none where that is more than the whole.
    pub fn of_millionths(millionths: u32) -> Option<Self> {
        (millionths <= 1_000_000).then_some(Self(millionths))
    }

    /// In millionths.
    pub fn millionths(self) -> u32 {
        self.0
    }

    /// Of 1.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / 1e6
    }
}

impl TryFrom<f64> for Share {
    type Error = String;

    fn try_from(share: f64) -> Result<Self, String> {
        let millionths = (share * 1e6).round();
        match (0.0..=1.0).contains(&share) && (share == 0.0 || share >= 1e-6) {
            true => Ok(Self(millionths as u32)),
            false => Err(format!("a share is 0, or 0.000001 to 1, not {share}")),
        }
    }
}

impl From<Share> for f64 {
    fn from(share: Share) -> Self {
        share.fraction()
    }
}

/// A result was untrue: at this unit it named a hit that is none, or left out one that is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Untrue {
    /// The unit.
    pub unit: u128,
    /// Whose result it was.
    pub node: NodeId,
    /// What was untrue.
    pub why: Distrust,
    /// The node whose result said otherwise; none where the scheduler knew by itself.
    pub against: Option<NodeId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planted_needs_a_unit_each() {
        assert_eq!((check_planted(0, 1), check_planted(10, 10)), (Ok(()), Ok(())));
        assert_eq!(
            check_planted(10, 9),
            Err("9 units are too few for 10 planted answers: plant fewer".into())
        );
        let many = check_planted(PLANTED_MAX + 1, u128::MAX);
        assert_eq!(many, Err("10001 planted answers: at most 10000 can be planted".into()));
    }

    #[test]
    fn a_share_is_a_number_from_0_to_1() {
        for (json, millionths) in
            [("0", 0), ("0.01", 10_000), ("1", 1_000_000), ("1e-6", 1), ("0.333333", 333_333)]
        {
            let share: Share = serde_json::from_str(json).unwrap();
            assert_eq!(
                (share.millionths(), Share::of_millionths(millionths)),
                (millionths, Some(share)),
                "{json}"
            );
        }
        assert_eq!(serde_json::to_string(&Share(10_000)).unwrap(), "0.01");
        for wrong in ["-0.1", "1.1", "1e-9", "5e-7", "2"] {
            let why = serde_json::from_str::<Share>(wrong).unwrap_err().to_string();
            assert!(why.contains("a share is 0, or 0.000001 to 1, not"), "{wrong}: {why}");
        }
        assert_eq!(Share::of_millionths(1_000_001), None);
    }
}
