//! The farm's figures over time. Samples hold until the next one; counters become rates between two samples.

use starfarm_events::Sample;

use super::bins::{Axis, Least, Sums};

/// Names of all series, in the order of a report.
pub const SERIES: [&str; 15] = [
    "told",
    "gq",
    "dq",
    "jq",
    "nodes_up",
    "nodes",
    "slots",
    "slots_busy",
    "power_mean",
    "results_per_s",
    "speed_ups_per_s",
    "slow_downs_per_s",
    "resent_per_s",
    "offers_repeated_per_s",
    "units_per_s",
];

/// Figures that hold, by name.
const HELD: [&str; 5] = ["gq", "dq", "jq", "slots", "power_mean"];
/// Counters, by name.
const COUNTED: [&str; 4] = ["speed_ups_per_s", "slow_downs_per_s", "resent_per_s", "offers_repeated_per_s"];
const SECOND_US: f64 = 1e6;

fn held(sample: &Sample) -> [f64; 5] {
    [sample.gq as f64, sample.dq as f64, sample.jq as f64, sample.slots as f64, sample.power_mean]
}

fn counted(sample: &Sample) -> [u64; 4] {
    [sample.speed_ups, sample.slow_downs, sample.resent, sample.offers_repeated]
}

/// All series in the making.
#[derive(Debug, Default)]
pub(crate) struct Series {
    held: [Sums; 5],
    counted: [Sums; 4],
    nodes_up: Least,
    nodes: Least,
    /// Slot time spent on results.
    pub(crate) busy_us: Sums,
    /// Results and units that count.
    results: Sums,
    units: Sums,
    /// How long the held figures were known.
    held_us: Sums,
    /// How long the log told of the farm: what rates are over. So the rates of all bins, each times the time that is
    /// told of its bin, add up to what was counted.
    told_us: Sums,
    last: Option<(u64, Sample)>,
    /// The most nodes that were up at once: the series has the fewest of each bin.
    pub(crate) most_up: u64,
    /// Until when the last sample's figures that hold are booked.
    booked_us: u64,
}

impl Series {
    /// A sample at a moment.
    pub(crate) fn sample(&mut self, axis: &Axis, at_us: u64, sample: &Sample) {
        if let Some((from_us, last)) = self.last.take() {
            self.hold(axis, self.booked_us, at_us, &last);
            let seconds = at_us.saturating_sub(from_us) as f64 / SECOND_US;
            for (bin, inside_us) in axis.split(from_us, at_us) {
                let rates = counted(sample).into_iter().zip(counted(&last));
                for (sums, (now, before)) in self.counted.iter_mut().zip(rates) {
                    // A counter that fell began anew.
                    let grown = now.checked_sub(before).unwrap_or(now);
                    sums.add(bin, grown as f64 / seconds * inside_us as f64);
                }
            }
        }
        self.last = Some((at_us, sample.clone()));
        self.booked_us = at_us;
    }

    /// Between two samples a node came, went, or changed: by so much do figures of nodes change.
    pub(crate) fn shift(&mut self, axis: &Axis, at_us: u64, [up, nodes, slots]: [i64; 3]) {
        let Some((since_us, mut last)) = self.last.take() else { return };
        self.hold(axis, self.booked_us, at_us, &last);
        self.booked_us = at_us;
        last.nodes_up = last.nodes_up.saturating_add_signed(up);
        last.nodes = last.nodes.saturating_add_signed(nodes);
        last.slots = last.slots.saturating_add_signed(slots);
        self.last = Some((since_us, last));
    }

    /// The farm is not watched any more, from a moment on; it was since `from_us`.
    pub(crate) fn end(&mut self, axis: &Axis, from_us: u64, at_us: u64) {
        if let Some((_, last)) = self.last.take() {
            self.hold(axis, self.booked_us, at_us, &last);
        }
        axis.split(from_us, at_us).for_each(|(bin, inside_us)| self.told_us.add(bin, inside_us as f64));
    }

    /// Results and their units came to count that were computed within a span. A sample counts results too, but once
    /// in 10 s: in a short run, some would be seen before their node had joined.
    pub(crate) fn counted(&mut self, axis: &Axis, (results, units): (f64, f64), from_us: u64, to_us: u64) {
        axis.spread(results, from_us, to_us).for_each(|(bin, part)| self.results.add(bin, part));
        axis.spread(units, from_us, to_us).for_each(|(bin, part)| self.units.add(bin, part));
    }

    fn hold(&mut self, axis: &Axis, from_us: u64, to_us: u64, sample: &Sample) {
        for (bin, inside_us) in axis.split(from_us, to_us) {
            self.held_us.add(bin, inside_us as f64);
            for (sums, value) in self.held.iter_mut().zip(held(sample)) {
                sums.add(bin, value * inside_us as f64);
            }
            self.nodes_up.see(bin, sample.nodes_up as f32);
            self.most_up = self.most_up.max(sample.nodes_up);
            self.nodes.see(bin, sample.nodes as f32);
        }
    }

    /// After the bins have doubled their width.
    pub(crate) fn double(&mut self) {
        let known = [&mut self.held_us, &mut self.told_us];
        let more = [&mut self.busy_us, &mut self.results, &mut self.units].into_iter().chain(known);
        self.held.iter_mut().chain(&mut self.counted).chain(more).for_each(Sums::double);
        self.nodes_up.double();
        self.nodes.double();
    }

    /// A series by its name: a mean a bin over what is known of it, not a number where nothing is. `told` is the share
    /// of each bin that the log tells of.
    pub(crate) fn values(&self, axis: &Axis, name: &str, bins: usize) -> Vec<f32> {
        let mean = |sums: &Sums, known_us: &Sums, scale: f64| -> Vec<f32> {
            let mean = |bin| sums.get(bin) / known_us.get(bin) * scale;
            (0..bins).map(|bin| if known_us.get(bin) > 0.0 { mean(bin) as f32 } else { f32::NAN }).collect()
        };
        let place = |names: &[&str]| names.iter().position(|one| *one == name);
        match name {
            "told" => (0..bins).map(|bin| (self.told_us.get(bin) / axis.width_us as f64) as f32).collect(),
            "nodes_up" => (0..bins).map(|bin| self.nodes_up.get(bin)).collect(),
            "nodes" => (0..bins).map(|bin| self.nodes.get(bin)).collect(),
            "slots_busy" => mean(&self.busy_us, &self.told_us, 1.0),
            "results_per_s" => mean(&self.results, &self.told_us, SECOND_US),
            "units_per_s" => mean(&self.units, &self.told_us, SECOND_US),
            _ => match (place(&HELD), place(&COUNTED)) {
                (Some(at), _) => mean(&self.held[at], &self.held_us, 1.0),
                (_, Some(at)) => mean(&self.counted[at], &self.told_us, 1.0),
                _ => vec![f32::NAN; bins],
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(gq: u64, resent: u64, nodes_up: u64) -> Sample {
        Sample { gq, resent, nodes_up, ..Sample::default() }
    }

    #[test]
    fn every_series_is_made_of_something() {
        let known = |name: &&str| {
            HELD.contains(name)
                || COUNTED.contains(name)
                || ["told", "nodes_up", "nodes", "slots_busy", "results_per_s", "units_per_s"].contains(name)
        };
        assert!(SERIES.iter().all(known));
    }

    #[test]
    fn means_rates_and_minima_of_bins() {
        let axis = Axis { from_us: 0, width_us: 20_000_000 };
        let mut series = Series::default();
        series.sample(&axis, 0, &sample(4, 0, 3));
        series.sample(&axis, 10_000_000, &sample(8, 50, 2));
        series.sample(&axis, 30_000_000, &sample(0, 10, 3));
        series.busy_us.add(0, 30e6);
        series.counted(&axis, (6.0, 600.0), 10_000_000, 30_000_000);
        series.end(&axis, 0, 35_000_000);
        let values = |name| series.values(&axis, name, 3);
        assert_eq!(values("gq")[..2], [6.0, 16.0 / 3.0 * 1.0], "until the end of the epoch");
        assert_eq!((&values("nodes_up")[..2], series.most_up), (&[2.0, 2.0][..], 3));
        assert_eq!(
            values("resent_per_s")[..2],
            [(50.0 + 5.0) / 20.0, 5.0 / 15.0],
            "a counter that fell began anew"
        );
        assert_eq!(values("told"), [1.0, 0.75, 0.0], "the sum of rates times these is what was counted");
        assert_eq!(values("slots_busy")[..2], [1.5, 0.0]);
        assert_eq!(values("results_per_s")[..2], [0.15, 0.2]);
        assert_eq!(values("units_per_s")[..2], [15.0, 20.0]);
        assert!(SERIES[1..].iter().all(|name| values(name)[2].is_nan()), "nothing is known of the rest");
    }
}
