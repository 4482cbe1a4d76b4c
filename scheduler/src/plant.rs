//! Answers that only the scheduler knows, among the targets of a search: candidates that nobody can guess, and digests that
//! look like any other's. A node that does not look at a unit cannot know whether it is one of them. The same search has the
//! same ones each time: whoever sees its targets again learns nothing by what is new among them.

use std::collections::{BTreeMap, HashSet};

use starfarm_kernels::Verifier;
use starfarm_protocol::ids::{ContentHash, HexBytes};
use starfarm_protocol::seal::StaticKey;
use starfarm_protocol::spec::{JobSpec, SearchWork, Space, Stop, Work};
use starfarm_protocol::trust::{check_planted, no_room};

/// Units that are drawn for one that may be planted, at most: others are targets, or were drawn before.
const DRAWS: u64 = 64;

/// Numbers that only one scheduler can tell, the same ones for the same targets in the same space.
pub(crate) struct Draws {
    key: [u8; 32],
    search: ContentHash,
}

impl Draws {
    /// For a search of this farm. The order of its targets, and when it stops, make no difference.
    pub(crate) fn of(scheduler: &StaticKey, work: &SearchWork, space: &Space) -> Self {
        let key = blake3::derive_key("starfarm 2026 planted answers v1", &scheduler.private().0);
        let mut targets = work.targets.clone();
        targets.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        targets.dedup();
        let work = Work::Search(SearchWork { targets, stop: Stop::Never, ..work.clone() });
        let search = ContentHash::of(&JobSpec { space: space.clone(), work }.to_bytes());
        Self { key, search }
    }

    fn nth(&self, draw: u64) -> u128 {
        let hash = blake3::keyed_hash(&self.key, &[&self.search.0[..], &draw.to_le_bytes()].concat());
        u128::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
    }
}

/// Plants `count` answers in `work`, a search of `units` units; `search` is that work before, and computes digests. Each answer
/// is a unit and a target. All targets are in the order of their digests from then on, so that no place tells anything.
///
/// # Errors
/// That cannot be, in words that say what can.
pub(crate) fn plant(
    work: &mut SearchWork,
    search: &Verifier,
    units: u128,
    count: u32,
    draws: &Draws,
) -> Result<Vec<(u128, u32)>, String> {
    check_planted(count, units)?;
    let known: HashSet<&[u8]> = work.targets.iter().map(|target| &*target.0).collect();
    let mut planted: BTreeMap<Vec<u8>, u128> = BTreeMap::new();
    for draw in 0..DRAWS * u64::from(count) {
        if planted.len() == count as usize {
            break;
        }
        let unit = draws.nth(draw) % units;
        let digest = search.digest(unit).ok_or("the space has fewer units than it says")?;
        if !known.contains(&*digest) {
            planted.entry(digest).or_insert(unit);
        }
    }
    if planted.len() < count as usize {
        return Err(no_room(count, units));
    }
    work.targets.extend(planted.keys().cloned().map(HexBytes));
    work.targets.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let place = |digest: &Vec<u8>| work.targets.binary_search_by(|target| target.0.cmp(digest));
    let all = planted.iter().map(|(digest, &unit)| (unit, place(digest).expect("it was put there") as u32));
    Ok(all.collect())
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::seal::Secret;
    use starfarm_protocol::spec::Algorithm;
    use starfarm_protocol::trust::PLANTED_MAX;

    use super::*;

    fn search(targets: &[u128]) -> (SearchWork, Space, u128) {
        let positions = vec![HexBytes(b"abcdefghij".to_vec()); 2];
        let space = Space::Chars { positions, min: 2 };
        let work =
            |targets| SearchWork { algorithm: Algorithm::Sha1, targets, stop: Stop::Never, needs: None };
        let any = Verifier::new(&work(vec![HexBytes(vec![7; 20])]), &space).unwrap();
        let targets = targets.iter().map(|unit| HexBytes(any.digest(*unit).unwrap())).collect();
        (work(targets), space, 100)
    }

    fn draws(secret: u8, work: &SearchWork, space: &Space) -> Draws {
        Draws::of(&StaticKey::from_secret(Secret([secret; 32])), work, space)
    }

    #[test]
    fn what_is_planted_is_an_answer_that_nobody_asked_for() {
        let (mut work, space, units) = search(&[74, 3, 11]);
        let asked = work.targets.clone();
        let before = Verifier::new(&work, &space).unwrap();
        let numbers = draws(1, &work, &space);
        let planted = plant(&mut work, &before, units, 5, &numbers).unwrap();
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
        let numbers = draws(1, &work, &space);
        assert_eq!(plant(&mut work, &before, units, 100, &numbers).map(|planted| planted.len()), Ok(100));
    }

    /// With fresh ones each time, who sees the list twice could tell the real targets by what both have.
    #[test]
    fn the_same_search_has_the_same_ones_in_this_farm_alone() {
        let (work, space, units) = search(&[74, 3, 11]);
        let before = Verifier::new(&work, &space).unwrap();
        let planted = |mut work: SearchWork, secret: u8, count: u32| {
            let numbers = draws(secret, &work, &space);
            plant(&mut work, &before, units, count, &numbers).unwrap();
            work.targets
        };
        let first = planted(work.clone(), 1, 5);
        let mut otherwise = SearchWork { stop: Stop::FirstHit, ..work.clone() };
        otherwise.targets.reverse();
        assert_eq!(planted(otherwise, 1, 5), first);
        let more = planted(work.clone(), 1, 9);
        assert!(
            first.iter().all(|target| more.contains(target)),
            "of more some are new, and none is missing"
        );
        assert_ne!(planted(work, 2, 5), first, "another scheduler has others");
    }

    #[test]
    fn too_many_are_refused_in_words() {
        let (mut work, space, units) = search(&[0]);
        let search = Verifier::new(&work, &space).unwrap();
        let numbers = draws(1, &work, &space);
        let all = plant(&mut work.clone(), &search, units, 100, &numbers).unwrap_err();
        assert_eq!(all, "100 units are too few for 100 planted answers: plant fewer");
        let many = plant(&mut work, &search, units, PLANTED_MAX + 1, &numbers).unwrap_err();
        assert_eq!(many, "10001 planted answers: at most 10000 can be planted");
        assert_eq!(work.targets.len(), 1);
    }
}
