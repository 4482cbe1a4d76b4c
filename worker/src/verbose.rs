//! What a worker says of itself once a period, where a person wants that: the paper's facts, queue, load of each card
//! and idle time, on a line.

use starfarm_protocol::wire::Facts;
use starfarm_worker_core::Look;

/// Slots whose load stands on the line.
const SLOTS_MAX: usize = 64;

pub(crate) fn line(facts: Option<&Facts>, look: &Look) -> String {
    let machine = facts.map_or_else(String::new, |facts| {
        let Facts { cpu, cores, memory_bytes, accelerators, .. } = facts;
        let gib = *memory_bytes as f64 / f64::from(1 << 30);
        let cards = if accelerators.is_empty() { "no accelerator" } else { accelerators };
        format!("{cpu}, {cores} cores, {gib:.1} GiB, {cards}: ")
    });
    let percent = |load: &u16| format!(" {}", (f64::from(*load) / 10.0).round());
    let shown: String = look.load.slots.iter().take(SLOTS_MAX).map(percent).collect();
    let more = look.load.slots.len().saturating_sub(SLOTS_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!(
        "{machine}{} tasks wait, {} run, {} results not acknowledged; load of slots in %:{shown}{more}; idle for {:.1} s",
        look.queued_tasks,
        look.running_tasks,
        look.unacknowledged_results,
        look.load.idle_us as f64 / 1e6
    )
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::wire::Load;

    use super::*;

    #[test]
    fn a_line_has_facts_queue_loads_and_idle_time() {
        let facts = Facts {
            system: "lab-7".into(),
            cpu: "Some CPU".into(),
            cores: 16,
            memory_bytes: 3 << 29,
            accelerators: "2 x Some GPU".into(),
        };
        let load = Load { idle_us: 1_540_000, slots: vec![1_000, 254] };
        let look = Look { queued_tasks: 3, running_tasks: 2, unacknowledged_results: 1, load };
        let rest =
            "3 tasks wait, 2 run, 1 results not acknowledged; load of slots in %: 100 25; idle for 1.5 s";
        assert_eq!(line(Some(&facts), &look), format!("Some CPU, 16 cores, 1.5 GiB, 2 x Some GPU: {rest}"));
        assert_eq!(line(None, &look), rest);
        let slots = vec![0; 100];
        let many = Look { load: Load { idle_us: 0, slots }, ..look };
        assert!(line(None, &many).contains(" 0 and 36 more; idle for 0.0 s"));
    }
}
