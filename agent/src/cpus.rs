//! The processors that agents run on, where somebody has named them: `0,2-3`.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Reads a list of processors: numbers, and first and last of several.
///
/// # Errors
/// It is none, in words.
pub fn list(text: &str) -> Result<Vec<usize>, String> {
    let wrong = || format!("write processors as 0,2-3, of 0 to {}", CpuSet::MAX_CPU - 1);
    let number = |text: &str| text.trim().parse().ok().filter(|cpu: &usize| *cpu < CpuSet::MAX_CPU);
    let mut cpus = Vec::new();
    for word in text.split(',') {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => cpus.extend(first..=last),
            _ => return Err(wrong()),
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

fn set(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    set
}

/// Checks that a process of this one can run on each of these.
///
/// # Errors
/// The first one that it cannot run on, in words.
pub fn check(cpus: &[usize]) -> Result<(), String> {
    let cpus = cpus.to_vec();
    // A thread's processors are its own: nothing else here goes to them.
    let tried = std::thread::spawn(move || {
        let missing = |cpu: &&usize| sched_setaffinity(None, &set(&[**cpu])).is_err();
        cpus.iter().find(missing).copied()
    });
    match tried.join() {
        Ok(None) => Ok(()),
        Ok(Some(cpu)) => {
            let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
            Err(format!("this process cannot run on processor {cpu}; the machine has {}", online.trim()))
        }
        Err(_) => Err("it cannot be tried".to_owned()),
    }
}

/// Has this process run on these alone. None: as it was started.
pub(crate) fn pin(cpus: &[usize]) {
    if cpus.is_empty() {
        return;
    }
    if let Err(error) = sched_setaffinity(None, &set(cpus)) {
        let now = sched_getaffinity(None).map_or(0, |set| set.count());
        starfarm_net::say(&format!(
            "starfarm-agent: it cannot run on the processors of --agent-cpus ({error}), and runs on {now}"
        ));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_numbers_and_ranges() {
        assert_eq!(list("3,0-1, 3"), Ok(vec![0, 1, 3]));
        for wrong in ["", "a", "1-", "-1", "3-2", "0,,1", "1024", "0-99999999999"] {
            assert!(list(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_processor_that_is_not_there_is_refused_and_nobody_is_moved() {
        let before = sched_getaffinity(None).unwrap();
        let there = (0..CpuSet::MAX_CPU).find(|cpu| before.is_set(*cpu)).unwrap();
        assert_eq!(check(&[there]), Ok(()));
        assert!(check(&[there, 1_023]).unwrap_err().contains("processor 1023"));
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
