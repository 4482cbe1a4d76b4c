//! The contents of lines that were used last. A task walks through its units in order, and each slot of a worker is at
//! another place of the same space.

use std::sync::{Arc, Mutex, PoisonError};

use crate::lines::Lines;

/// So many are kept: a content has some 64 KiB.
const RECENT_MAX: usize = 32;

/// Lines by what says which they are; the one that was used last is last.
pub(crate) struct Recent<K>(Mutex<Vec<(K, Arc<Lines>)>>);

impl<K: Copy> Recent<K> {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    /// The lines for which `is_it` says yes, or those that `look_up` brings.
    ///
    /// # Errors
    /// Those of `look_up`.
    pub(crate) fn get<E>(
        &self,
        is_it: impl Fn(&K) -> bool,
        look_up: impl FnOnce() -> Result<(K, Lines), E>,
    ) -> Result<(K, Arc<Lines>), E> {
        // It is changed as a whole, so a panic elsewhere cannot leave half of it behind.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.iter().rposition(|(key, _)| is_it(key)) {
            Some(at) => all[at..].rotate_left(1),
            None => {
                let (key, lines) = look_up()?;
                if all.len() == RECENT_MAX {
                    all.remove(0);
                }
                all.push((key, Arc::new(lines)));
            }
        }
        let (key, lines) = all.last().expect("it was found or put there");
        Ok((*key, Arc::clone(lines)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_at_different_places_do_not_take_each_others_lines_away() {
        let (recent, mut looked_up) = (Recent::new(), 0);
        let mut get = |key: usize| {
            let look_up = || {
                looked_up += 1;
                Ok::<_, ()>((key, Lines::new(format!("line of {key}\n").into_bytes().into())))
            };
            let (found, lines) = recent.get(|it| *it == key, look_up).unwrap();
            assert_eq!((found, lines.line(0)), (key, format!("line of {key}").as_bytes()));
        };
        (0..1_000).for_each(|unit| get(unit % RECENT_MAX));
        // The last one was 7: one more, and 8 goes, which was not used for the longest.
        [RECENT_MAX, 1, 0, 8].iter().for_each(|key| get(*key));
        assert_eq!(looked_up, RECENT_MAX + 2);
    }
}
