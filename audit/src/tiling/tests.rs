//! The sweeps against an array with a place for each unit.

use super::*;

const UNITS: usize = 40;

/// A small generator of numbers: the same seed, the same tests.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn interval(&mut self) -> (u128, u128) {
        let lo = self.below(UNITS as u64);
        (lo.into(), (lo + 1 + self.below(6)).min(UNITS as u64).into())
    }
}

/// What each unit is, and what was wrong with it: the same, slowly.
struct Model {
    class: [Option<Class>; UNITS],
    wrong: [usize; UNITS],
    ended: bool,
}

impl Model {
    fn new() -> Self {
        Self { class: [None; UNITS], wrong: [0; UNITS], ended: false }
    }

    fn add(&mut self, lo: u128, hi: u128, class: Class) {
        for unit in lo as usize..hi as usize {
            let free = match self.class[unit] {
                None => !self.ended,
                Some(was) => self.ended && was == Class::Abandoned && class != Class::Abandoned,
            };
            self.wrong[unit] += usize::from(!free);
            if free || self.class[unit].is_none() {
                self.class[unit] = Some(class);
            }
        }
    }

    fn retry(&mut self, units: &[(u128, u128)]) {
        self.ended = false;
        for class in &mut self.class {
            *class = class.filter(|class| *class != Class::Abandoned);
        }
        for &(lo, hi) in units {
            for unit in lo as usize..hi as usize {
                match self.class[unit] {
                    Some(Class::Failed) => self.class[unit] = None,
                    _ => self.wrong[unit] += 1,
                }
            }
        }
    }
}

fn tally(clashes: &[Clash]) -> [usize; UNITS] {
    let mut wrong = [0; UNITS];
    for clash in clashes {
        let Clash { lo, hi, .. } = *clash;
        assert!(lo < hi, "an empty clash");
        (lo as usize..hi as usize).for_each(|unit| wrong[unit] += 1);
    }
    wrong
}

/// The tiling's idea of the classes; its runs must be in order and joined.
fn classes(tiling: &Tiling) -> [Option<Class>; UNITS] {
    let mut classes = [None; UNITS];
    let mut last: Option<Run> = None;
    for run in tiling.runs() {
        assert!(run.lo < run.hi);
        if let Some(last) = last {
            assert!(last.hi < run.lo || last.hi == run.lo && last.class != run.class, "{last:?} {run:?}");
        }
        (run.lo as usize..run.hi as usize).for_each(|unit| classes[unit] = Some(run.class));
        last = Some(*run);
    }
    classes
}

#[test]
fn the_sweeps_agree_with_an_array() {
    for seed in 0..3_000 {
        let mut dice = Dice(seed);
        let (mut tiling, mut model) = (Tiling::default(), Model::new());
        for _ in 0..dice.below(30) {
            let (lo, hi) = dice.interval();
            match dice.below(12) {
                0 => {
                    let abandoned: Vec<_> = (0..dice.below(4)).map(|_| dice.interval()).collect();
                    let mut sorted = abandoned.clone();
                    sorted.sort_unstable();
                    model.ended = false;
                    tiling.ended = false;
                    sorted.iter().for_each(|&(lo, hi)| model.add(lo, hi, Class::Abandoned));
                    let gaps = tiling.end(&abandoned, UNITS as u128);
                    model.ended = true;
                    let in_gap =
                        |unit: usize| gaps.iter().any(|&(lo, hi)| (lo..hi).contains(&(unit as u128)));
                    (0..UNITS)
                        .for_each(|unit| assert_eq!(in_gap(unit), model.class[unit].is_none(), "{seed}"));
                }
                1 => {
                    let units: Vec<_> = (0..1 + dice.below(3)).map(|_| dice.interval()).collect();
                    tiling.retry(&units);
                    model.retry(&units);
                }
                2 => tiling.sweep(),
                _ => {
                    // Which of two classes in one sweep comes first is not kept, so there is one a sweep.
                    let class = if dice.below(4) == 0 { Class::Failed } else { Class::Done };
                    tiling.sweep();
                    tiling.add(lo, hi, class);
                    tiling.sweep();
                    model.add(lo, hi, class);
                }
            }
        }
        tiling.sweep();
        assert_eq!((classes(&tiling), tally(&tiling.clashes)), (model.class, model.wrong), "seed {seed}");
    }
}

#[test]
fn one_sweep_over_all_finds_what_many_find() {
    for seed in 0..1_000 {
        let mut dice = Dice(seed);
        let (mut tiling, mut model) = (Tiling::default(), Model::new());
        for _ in 0..dice.below(20) {
            let (lo, hi) = dice.interval();
            tiling.add(lo, hi, Class::Done);
            model.add(lo, hi, Class::Done);
        }
        assert!(tiling.clashes.is_empty(), "nothing is swept before it is asked for");
        tiling.sweep();
        assert_eq!((classes(&tiling), tally(&tiling.clashes)), (model.class, model.wrong), "seed {seed}");
    }
}

#[test]
fn the_largest_space_is_tiled() {
    let mut tiling = Tiling::default();
    tiling.add(0, 5, Class::Done);
    tiling.add(7, u128::MAX, Class::Done);
    assert_eq!(tiling.end(&[], u128::MAX), [(5, 7)]);
    assert!(tiling.clashes.is_empty());
    assert_eq!(tiling.count(Class::Done), u128::MAX - 2);
}

#[test]
fn many_records_take_the_room_of_few_runs() {
    let mut tiling = Tiling::default();
    let units = 3 * LOOSE_MIN as u128;
    // Every third unit at a time, so that nothing can be joined as it comes.
    for unit in (0..3).flat_map(|first| (first..units).step_by(3)) {
        tiling.add(unit, unit + 1, Class::Done);
    }
    assert!(tiling.loose.len() <= LOOSE_MIN);
    tiling.sweep();
    assert_eq!((tiling.runs().len(), tiling.clashes.len()), (1, 0));
}
