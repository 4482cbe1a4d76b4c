//! What a run over a whole task takes to start, learnt from runs of unlike sizes: a program may load a table for a minute
//! before it looks at its first unit, and then tasks of the target time would be nothing but starts.

/// So many starts a task takes at least: of its time the start is a quarter then.
const STARTS: f64 = 4.0;
/// Two sizes tell what starting takes if the larger is so many times the smaller.
const UNLIKE: f64 = 2.0;
/// Of a run the start is so much at most: what its units take is never nothing.
const SHARE_MAX: f64 = 0.95;

/// Runs of a job on one node.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Start {
    /// Mean units and microseconds of the last runs, which were about as large as each other; none before the first.
    last: Option<(f64, f64)>,
    /// Microseconds of a start; none before two runs of unlike sizes.
    us: Option<f64>,
}

impl Start {
    /// A run over so many units took so long.
    pub(crate) fn measured(&mut self, units: u64, duration_us: u64) {
        let run = (units.max(1) as f64, duration_us.max(1) as f64);
        let Some(last) = self.last else {
            self.last = Some(run);
            return;
        };
        let (small, large) = if run.0 < last.0 { (run, last) } else { (last, run) };
        if large.0 < UNLIKE * small.0 {
            self.last = Some(((last.0 + run.0) / 2.0, (last.1 + run.1) / 2.0));
            return;
        }
        let unit_us = (large.1 - small.1).max(0.0) / (large.0 - small.0);
        let us = (small.1 - unit_us * small.0).clamp(0.0, SHARE_MAX * large.1.min(small.1));
        self.us = Some(self.us.map_or(us, |before| (before + us) / 2.0));
        self.last = Some(run);
    }

    /// Microseconds of a start; none where nobody knows.
    pub(crate) fn us(&self) -> Option<f64> {
        self.us
    }

    /// Units of the least run that would tell what starting takes; 1 where it is known.
    pub(crate) fn least_units(&self) -> u64 {
        match (self.us, self.last) {
            (Some(_), _) => 1,
            (None, None) => 2,
            (None, Some((units, _))) => (UNLIKE * units).ceil() as u64,
        }
    }

    /// What a task should take: `target_us`, or some starts if these are longer.
    pub(crate) fn target_us(&self, target_us: u64) -> u64 {
        target_us.max((STARTS * self.us.unwrap_or(0.0)) as u64)
    }

    /// What a unit takes beside the start, and the start; none where nobody knows.
    fn line(&self) -> Option<(f64, f64)> {
        let (us, (units, took_us)) = (self.us?, self.last?);
        Some((us, (took_us - us).max((1.0 - SHARE_MAX) * took_us) / units))
    }

    /// Units of a run that takes so long; none where nobody knows what starting takes.
    pub(crate) fn units_within(&self, all_us: u64) -> Option<f64> {
        let (us, unit_us) = self.line()?;
        Some((all_us as f64 - us).max(0.0) / unit_us)
    }

    /// How long a run of so many units takes; likewise.
    pub(crate) fn takes_us(&self, units: f64) -> Option<f64> {
        let (us, unit_us) = self.line()?;
        Some(us + units * unit_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of a program that takes `start_us`, and `unit_us` for each unit, sized as they should be from one unit on.
    fn sizes(start_us: u64, unit_us: u64, target_us: u64) -> Vec<u64> {
        let (mut start, mut sizes) = (Start::default(), vec![1]);
        for _ in 0..8 {
            let units = *sizes.last().unwrap();
            start.measured(units, start_us + units * unit_us);
            let wanted = start.units_within(start.target_us(target_us)).unwrap_or(0.0) as u64;
            sizes.push(wanted.max(start.least_units()).min(units * 16));
        }
        sizes
    }

    #[test]
    fn a_task_takes_the_target_time_or_four_starts() {
        let about = |sizes: Vec<u64>, units: f64| {
            let near = |size: &u64| (0.95..1.05).contains(&(*size as f64 / units));
            assert!(sizes[5..].iter().all(near), "{sizes:?}");
        };
        // Ten seconds of start, 10 ms a unit: 30 s of units. With a longer target: 50 s of them.
        about(sizes(10_000_000, 10_000, 8_000_000), 3_000.0);
        about(sizes(10_000_000, 10_000, 60_000_000), 5_000.0);
        // Nothing to start: two units are tried once.
        assert_eq!(sizes(0, 9_000_000, 8_000_000), [1, 2, 1, 1, 1, 1, 1, 1, 1]);
        about(sizes(0, 1_000, 8_000_000), 8_000.0);
    }

    #[test]
    fn unlike_units_and_noise_lead_to_no_start_that_is_all_and_to_none_below_nothing() {
        let mut start = Start::default();
        // A hard unit, then two light ones; equal times for unlike sizes.
        for (units, us) in [(1, 100), (2, 10), (64, 10), (1, 10_000), (2, 1)] {
            start.measured(units, us);
            let (us, takes) = (start.us().unwrap_or(0.0), start.takes_us(1.0).unwrap_or(1.0));
            assert!(us >= 0.0 && takes > us && takes.is_finite(), "{start:?}");
            assert!(start.units_within(u64::MAX).is_none_or(f64::is_finite), "{start:?}");
            assert_eq!(start.units_within(0).unwrap_or(0.0), 0.0);
        }
    }

    #[test]
    fn runs_of_one_size_tell_nothing_of_the_start() {
        let mut start = Start::default();
        (0..100).for_each(|i| start.measured(10 + i % 5, 1_000));
        assert_eq!((start.us(), start.units_within(1_000), start.target_us(7)), (None, None, 7));
    }
}
