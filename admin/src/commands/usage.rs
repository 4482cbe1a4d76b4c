//! What jobs and nodes use, as the monitor knows it, in words.

use starfarm_events::counted;
use starfarm_protocol::admin::{JobTotalUsage, JobUsage, NodeUsage, Spread, UsageLine};

use super::log::plot;
use crate::human;
use crate::output::table::Cell;

/// Figures with names that fit into a line.
const NAMED_SHOWN: usize = 8;

/// Cores: "1.97".
pub(super) fn cores(cores: f64) -> String {
    format!("{cores:.2}")
}

/// Cards, as a share of one: "85 %".
pub(super) fn cards(cards: f64) -> String {
    format!("{:.0} %", cards * 100.0)
}

pub(super) fn memory(bytes: f64) -> String {
    human::memory(bytes as u64)
}

fn a_second(bytes: f64) -> String {
    format!("{}/s", human::bytes(bytes as u64))
}

/// A number of whatever unit, with four digits at least.
pub(super) fn plain(number: f64) -> String {
    if number != 0.0 && !(1e-3..1e15).contains(&number.abs()) {
        return format!("{number:.3e}");
    }
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A job's usage, by name: nothing of what is not known.
pub(super) fn of_job(usage: &JobUsage) -> Vec<(&'static str, Cell)> {
    let row = |name, of: Option<Spread>, words: fn(f64) -> String| {
        let Spread { min, avg, max, sum } = of?;
        let by_unit = format!("by unit {} / {} / {} (min / avg / max)", words(min), words(avg), words(max));
        Some((name, Cell::new(format!("{}  {by_unit}", words(sum)))))
    };
    let rows = [
        row("cpu cores in use", usage.cpu_cores, cores),
        row("memory in use", usage.memory_bytes, memory),
        row("cards in use", usage.gpu, cards),
        row("  their memory", usage.gpu_memory_bytes, memory),
        row("input, output", usage.io_bytes_per_s, a_second),
    ];
    let of = format!(
        "{} of {}, {}, {} ago",
        usage.from,
        counted(usage.of, "node"),
        counted(usage.units, "unit"),
        human::seconds(usage.age_seconds)
    );
    let sums = usage.named.iter().map(|(name, spread)| (name.as_str(), spread.avg));
    let named = named(sums).map(|cell| ("figures, by unit", cell));
    rows.into_iter().flatten().chain(named).chain([("  measured on", Cell::new(of))]).collect()
}

/// Figures that services and programs give: the first of them.
fn named<'a>(mut figures: impl Iterator<Item = (&'a str, f64)>) -> Option<Cell> {
    let first: Vec<_> = figures
        .by_ref()
        .take(NAMED_SHOWN)
        .map(|(name, number)| format!("{name} {}", plain(number)))
        .collect();
    let more = match figures.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!first.is_empty()).then(|| Cell::new(first.join(", ") + &more))
}

/// What a job has used in all, by name: nothing of what is not known.
pub(super) fn of_life(usage: &JobTotalUsage) -> Vec<(&'static str, Cell)> {
    let row = |name, of: Option<Spread>, words: fn(f64) -> String| {
        let Spread { min, avg, max, sum } = of?;
        let by_unit = format!("by unit {} / {} / {} (min / avg / max)", words(min), words(avg), words(max));
        Some((name, Cell::new(format!("{} on average  {by_unit}", words(sum)))))
    };
    let cpu_time = usage.cpu_seconds.map(|seconds| ("cpu time used", Cell::new(human::seconds(seconds))));
    let most = usage.memory_bytes_max.map(|bytes| ("  memory at most", Cell::new(memory(bytes))));
    let rows = [
        cpu_time,
        row("  cpu cores", usage.cpu_cores, cores),
        row("  memory", usage.memory_bytes, memory),
        most,
        row("  cards", usage.gpu, cards),
        row("  input, output", usage.io_bytes_per_s, a_second),
    ];
    let of = format!(
        "{} of {}, {} at once, in {}",
        usage.from,
        counted(usage.of, "node"),
        counted(usage.units, "unit"),
        human::seconds(usage.seconds)
    );
    rows.into_iter().flatten().chain([("  measured over", Cell::new(of))]).collect()
}

/// What a job or node used in the last two minutes, as bars that take no more columns than that; nothing of what is not known.
pub(super) fn of_late(line: &UsageLine, columns: usize) -> Vec<(&'static str, Cell)> {
    let row = |name, values: &[Option<f64>], words: fn(f64) -> String| {
        let values: Vec<f32> =
            values.iter().map(|value| value.map_or(f32::NAN, |value| value as f32)).collect();
        let most =
            words(f64::from(values.iter().copied().filter(|value| value.is_finite()).reduce(f32::max)?));
        let scale = format!("  0 to {most}");
        let room = columns.saturating_sub(scale.len()).min(values.len());
        Some((name, Cell::new(plot::bars(&values, room) + &scale)))
    };
    let rows = [row("cpu, last 2 min", &line.cpu_cores, cores), row("memory", &line.memory_bytes, memory)];
    rows.into_iter().flatten().collect()
}

/// The same of a node's machine.
pub(super) fn of_node(usage: &NodeUsage) -> Vec<(&'static str, Cell)> {
    let row = |name, of: Option<f64>, words: fn(f64) -> String| Some((name, Cell::new(words(of?))));
    let rows = [
        row("cpu cores in use", usage.cpu_cores, cores),
        row("memory in use", usage.memory_bytes, memory),
        row("cards in use", usage.gpu, cards),
        row("  their memory", usage.gpu_memory_bytes, memory),
        row("disks", usage.io_bytes_per_s, a_second),
        row("received", usage.received_bytes_per_s, a_second),
        row("sent", usage.sent_bytes_per_s, a_second),
    ];
    let named = named(usage.named.iter().map(|(name, number)| (name.as_str(), *number)));
    rows.into_iter().flatten().chain(named.map(|cell| ("figures", cell))).collect()
}
