//! Answers that only the scheduler knows, among the targets of a search: candidates that nobody can guess, and digests that
//! look like any other's. A node that does not look at a unit cannot know whether it is one of them.

use std::collections::{BTreeMap, HashSet};

use starfarm_kernels::Verifier;
use starfarm_protocol::ids::HexBytes;
use starfarm_protocol::spec::SearchWork;
use starfarm_protocol::trust::{check_planted, no_room};

/// Units that are drawn for one that may be planted, at most: others are targets, or were drawn before.
const DRAWS: u64 = 64;

/// Plants `count` answers in `work`, a search of `units` units; `search` is that work before, and computes digests; `random`
/// gives random numbers. Each answer is a unit and a target. All targets are in the order of their digests from then on, so
/// that no place tells anything.
///
/// # Errors
/// That cannot be, in words that say what can.
pub(crate) fn plant(
    work: &mut SearchWork,
    search: &Verifier,
    units: u128,
    count: u32,
    random: impl Fn() -> Result<[u8; 16], String>,
) -> Result<Vec<(u128, u32)>, String> {
    check_planted(count, units)?;
    let known: HashSet<&[u8]> = work.targets.iter().map(|target| &*target.0).collect();
    let mut planted: BTreeMap<Vec<u8>, u128> = BTreeMap::new();
    let mut draws = DRAWS * u64::from(count);
    while planted.len() < count as usize {
        draws = draws.checked_sub(1).ok_or_else(|| no_room(count, units))?;
        let unit = u128::from_le_bytes(random()?) % units;
        let digest = search.digest(unit).ok_or("the space has fewer units than it says")?;
        if !known.contains(&*digest) {
            planted.entry(digest).or_insert(unit);
        }
    }
    work.targets.extend(planted.keys().cloned().map(HexBytes));
    work.targets.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let place = |digest: &Vec<u8>| work.targets.binary_search_by(|target| target.0.cmp(digest));
    let all = planted.iter().map(|(digest, &unit)| (unit, place(digest).expect("it was put there") as u32));
    Ok(all.collect())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use starfarm_protocol::spec::{Algorithm, Space, Stop};
    use starfarm_protocol::trust::PLANTED_MAX;

    use super::*;

    fn search(targets: &[u128]) -> (SearchWork, Space, u128) {
        let positions = vec![HexBytes(b"abcdefghij".to_vec()); 2];
        let space = Space::Chars { positions, min: 2 };
        let work = |targets| SearchWork { algorithm: Algorithm::Sha1, targets, stop: Stop::Never };
        let any = Verifier::new(&work(vec![HexBytes(vec![7; 20])]), &space).unwrap();
        let targets = targets.iter().map(|unit| HexBytes(any.digest(*unit).unwrap())).collect();
        (work(targets), space, 100)
    }

    fn counter() -> impl Fn() -> Result<[u8; 16], String> {
        let next = Cell::new(0_u128);
        move || {
            next.set(next.get() + 37);
            Ok(next.get().to_le_bytes())
        }
    }

    #[test]
    fn what_is_planted_is_an_answer_that_nobody_asked_for() {
        let (mut work, space, units) = search(&[74, 3, 11]);
        let asked = work.targets.clone();
        let before = Verifier::new(&work, &space).unwrap();
        let planted = plant(&mut work, &before, units, 5, counter()).unwrap();
        assert_eq!((planted.len(), work.targets.len()), (5, 8));
        let search = Verifier::new(&work, &space).unwrap();
        for &(unit, target) in &planted {
            assert!(search.is_hit(unit, target) && ![74, 3, 11].contains(&unit), "{unit}");
        }
        let is_planted = |at: usize| planted.iter().any(|of| of.1 as usize == at);
        let others = work.targets.iter().enumerate().filter(|(at, _)| !is_planted(*at));
        assert!(others.clone().all(|(_, target)| asked.contains(target)) && others.count() == 3);
        assert!(work.targets.is_sorted_by(|one, other| one.0 < other.0), "no place tells anything");
    }

    #[test]
    fn each_unit_of_a_space_without_an_answer_may_be_planted() {
        let (mut work, space, units) = search(&[]);
        work.targets = vec![HexBytes(vec![7; 20])];
        let before = Verifier::new(&work, &space).unwrap();
        assert_eq!(plant(&mut work, &before, units, 100, counter()).map(|planted| planted.len()), Ok(100));
    }

    #[test]
    fn too_many_are_refused_in_words() {
        let (mut work, space, units) = search(&[0]);
        let search = Verifier::new(&work, &space).unwrap();
        let all = plant(&mut work.clone(), &search, units, 100, counter()).unwrap_err();
        assert_eq!(all, "100 units are too few for 100 planted answers: plant fewer");
        let many = plant(&mut work, &search, units, PLANTED_MAX + 1, counter()).unwrap_err();
        assert_eq!(many, "10001 planted answers: at most 10000 can be planted");
        assert_eq!(work.targets.len(), 1);
    }
}
