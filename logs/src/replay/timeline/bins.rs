//! Time cut into bins of one width, which doubles whenever the log outgrows them: so a pass over a log of any
//! length needs the same memory.

/// Bins at most.
pub const BINS_MAX: usize = 1024;
/// Width of a bin at first.
const WIDTH_US: u64 = 1_000;

/// The bins that all series and grids share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Begin of the first bin, microseconds of the farm's clock.
    pub from_us: u64,
    /// Width of each.
    pub width_us: u64,
}

impl Default for Axis {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Axis {
    /// Narrow bins from a moment on.
    pub(crate) fn new(from_us: u64) -> Self {
        Self { from_us, width_us: WIDTH_US }
    }

    /// Whether a moment lies behind the last bin.
    pub(crate) fn is_outgrown(&self, at_us: u64) -> bool {
        at_us.saturating_sub(self.from_us) / self.width_us >= BINS_MAX as u64
    }

    /// How many bins there are up to a moment, at least one.
    pub fn count(&self, to_us: u64) -> usize {
        let bins = to_us.saturating_sub(self.from_us).div_ceil(self.width_us);
        usize::try_from(bins).unwrap_or(BINS_MAX).clamp(1, BINS_MAX)
    }

    /// The bin that holds a moment; what lies outside is held by the first or the last.
    pub(crate) fn bin(&self, at_us: u64) -> usize {
        let bin = at_us.saturating_sub(self.from_us) / self.width_us;
        usize::try_from(bin).unwrap_or(BINS_MAX).min(BINS_MAX - 1)
    }

    /// Each bin that a span touches, with the microseconds that lie in it. What lies outside is left out.
    pub(crate) fn split(&self, from_us: u64, to_us: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let axis = *self;
        let mut at_us = from_us.max(axis.from_us);
        std::iter::from_fn(move || {
            let bin = (at_us - axis.from_us) / axis.width_us;
            if at_us >= to_us || bin >= BINS_MAX as u64 {
                return None;
            }
            let end_us = axis.from_us.saturating_add((bin + 1).saturating_mul(axis.width_us)).min(to_us);
            let inside_us = end_us - at_us;
            at_us = end_us;
            Some((bin as usize, inside_us))
        })
    }

    /// Each bin's part of an amount that came evenly over a span. A span without length is its moment.
    pub(crate) fn spread(
        &self,
        amount: f64,
        from_us: u64,
        to_us: u64,
    ) -> impl Iterator<Item = (usize, f64)> + use<> {
        let moment = (from_us >= to_us).then(|| (self.bin(to_us), amount));
        let rate = amount / to_us.saturating_sub(from_us) as f64;
        let parts = self.split(from_us, to_us).map(move |(bin, inside_us)| (bin, rate * inside_us as f64));
        moment.into_iter().chain(parts)
    }
}

/// Sums of what was measured, a bin each.
#[derive(Clone, Debug)]
pub(crate) struct Sums(Vec<f64>);

impl Default for Sums {
    fn default() -> Self {
        Self(vec![0.0; BINS_MAX])
    }
}

impl Sums {
    pub(crate) fn add(&mut self, bin: usize, amount: f64) {
        self.0[bin] += amount;
    }

    pub(crate) fn get(&self, bin: usize) -> f64 {
        self.0[bin]
    }

    /// After the bins have doubled their width.
    pub(crate) fn double(&mut self) {
        double(&mut self.0, 0.0, |a, b| a + b);
    }
}

/// The least that was measured, a bin each; infinite where nothing was.
#[derive(Clone, Debug)]
pub(crate) struct Least(Vec<f32>);

impl Default for Least {
    fn default() -> Self {
        Self(vec![f32::INFINITY; BINS_MAX])
    }
}

impl Least {
    /// Measured in a bin.
    pub(crate) fn see(&mut self, bin: usize, value: f32) {
        self.0[bin] = self.0[bin].min(value);
    }

    /// The least of a bin; not a number where nothing was measured.
    pub(crate) fn get(&self, bin: usize) -> f32 {
        let least = self.0[bin];
        if least.is_finite() { least } else { f32::NAN }
    }

    /// After the bins have doubled their width.
    pub(crate) fn double(&mut self) {
        double(&mut self.0, f32::INFINITY, f32::min);
    }
}

/// Joins neighbours; the upper half is empty afterwards.
pub(crate) fn double<T: Copy>(bins: &mut [T], empty: T, join: impl Fn(T, T) -> T) {
    let half = bins.len() / 2;
    for at in 0..half {
        bins[at] = join(bins[2 * at], bins[2 * at + 1]);
    }
    bins[half..].fill(empty);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_split_where_bins_end() {
        let axis = Axis { from_us: 1_000, width_us: 100 };
        assert_eq!(axis.split(1_050, 1_250).collect::<Vec<_>>(), [(0, 50), (1, 100), (2, 50)]);
        assert_eq!(axis.split(0, 1_010).collect::<Vec<_>>(), [(0, 10)], "what lies before is left out");
        assert_eq!(axis.split(2_000, 2_000).count(), 0);
        assert_eq!(axis.split(0, u64::MAX).count(), BINS_MAX, "and what lies behind");
    }

    #[test]
    fn doubling_keeps_the_sums() {
        let (mut axis, mut sums, mut naive) = (Axis::new(5), Sums::default(), 0.0);
        for step in 0..3_000_u64 {
            let (from, to) = (5 + step * 977, 5 + step * 977 + step % 7 * 1_900);
            while axis.is_outgrown(to) {
                axis.width_us *= 2;
                sums.double();
            }
            axis.spread(step as f64, from, to).for_each(|(bin, part)| sums.add(bin, part));
            naive += step as f64;
        }
        let sum: f64 = (0..BINS_MAX).map(|bin| sums.get(bin)).sum();
        assert!((sum - naive).abs() < 1e-3, "{sum} {naive}");
        assert!(axis.count(5 + 3_000 * 977) > BINS_MAX / 2, "no wider than it must be");
    }

    #[test]
    fn absurd_times_fit() {
        let mut axis = Axis::new(0);
        while axis.is_outgrown(u64::MAX) {
            axis.width_us *= 2;
        }
        assert!(axis.bin(u64::MAX) < BINS_MAX);
        assert!(
            axis.split(0, u64::MAX).map(|(_, inside)| u128::from(inside)).sum::<u128>()
                == u128::from(u64::MAX)
        );
    }
}
