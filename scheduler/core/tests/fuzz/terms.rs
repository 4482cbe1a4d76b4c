//! What a job is to do, and the limits that it is given later, by chance.

use crate::chance::Chance;

const LIMITS: &[&str] = &["max-nodes none", "max-nodes 1", "max-nodes 2", "may-store none", "may-store 50"];

/// How a `submit` line goes on.
pub fn work(chance: &mut Chance) -> String {
    match chance.below(8) {
        0..3 => String::new(),
        3..6 => {
            let command = [" command", " command together"][chance.below(2) as usize];
            match chance.one_in(2) {
                true => format!("{command} retries {}", chance.below(4)),
                false => command.to_owned(),
            }
        }
        _ => {
            let targets = chance.within(1, 3);
            let stop = ["", " never", " first-hit"][chance.below(3) as usize];
            let check = ["", " check 250000", " check 1000000"][chance.below(3) as usize];
            format!(" search {targets} targets{stop}{check}")
        }
    }
}

/// How a `limit` line ends.
pub fn limit(chance: &mut Chance) -> &'static str {
    LIMITS[chance.below(LIMITS.len() as u64) as usize]
}
