//! What a look at one thing finds, and how bad that is.

use starfarm_protocol::link::AlarmLevel;

/// What is found by looking at one thing.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Found {
    pub(super) level: Option<AlarmLevel>,
    pub(super) value: Option<f64>,
    pub(super) text: String,
}

impl Found {
    /// All is well.
    pub(super) fn well() -> Self {
        Self { level: None, value: None, text: String::new() }
    }

    pub(super) fn bad(level: AlarmLevel, value: f64, text: String) -> Self {
        Self { level: Some(level), value: Some(value), text }
    }
}

/// Looks at one thing.
pub(super) trait Look {
    fn sensor(&self) -> &'static str;

    /// How it is, where it was as bad as that the last time; nothing where that cannot be read.
    fn look(&mut self, was: Option<AlarmLevel>, now_us: u64) -> Option<Found>;
}

/// How bad a share is, of which less is worse: as bad as it was until a quarter more than that is there.
pub(super) fn by_less(
    share: f64,
    [warning, critical]: [f64; 2],
    was: Option<AlarmLevel>,
) -> Option<AlarmLevel> {
    let is_below = |level: f64, of: AlarmLevel| share < if was >= Some(of) { level * 1.25 } else { level };
    if is_below(critical, AlarmLevel::Critical) {
        Some(AlarmLevel::Critical)
    } else {
        is_below(warning, AlarmLevel::Warning).then_some(AlarmLevel::Warning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_bad_is_over_when_it_is_clearly_better() {
        use AlarmLevel::{Critical, Warning};
        let of = |share, was| by_less(share, [0.05, 0.01], was);
        assert_eq!(
            [0.2, 0.05, 0.04, 0.009].map(|share| of(share, None)),
            [None, None, Some(Warning), Some(Critical)]
        );
        assert_eq!(
            [0.06, 0.0624, 0.0626].map(|share| of(share, Some(Warning))),
            [Some(Warning), Some(Warning), None]
        );
        assert_eq!([0.012, 0.013].map(|share| of(share, Some(Critical))), [Some(Critical), Some(Warning)]);
    }
}
