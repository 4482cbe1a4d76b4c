//! Integers with a step, and frames: a range whose units also know how far along they are.

use crate::decomposer::{Decomposer, in_space};
use crate::error::ValueError;

/// Integers from `from` on, `step` apart, before `to`.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    from: i64,
    step: i64,
    units: u128,
}

impl Range {
    /// `from`, `from + step`, ... up to but without `to`.
    ///
    /// # Errors
    /// A step of 0, or no integer in the range.
    pub fn new(from: i64, to: i64, step: i64) -> Result<Self, String> {
        if step == 0 {
            return Err("the step is 0, so the range never ends: use 1, or any other integer".into());
        }
        // Two i64 are at most 2^64 apart: i128 holds every sum and product here.
        let distance = (i128::from(to) - i128::from(from)) * i128::from(step.signum());
        if distance <= 0 {
            let why = match step {
                1.. => "`to` must be above `from`",
                _ => "with a negative step `to` must be below `from`",
            };
            return Err(format!(
                "the range from {from} to {to} (exclusive) in steps of {step} is empty: {why}"
            ));
        }
        Ok(Self { from, step, units: distance.unsigned_abs().div_ceil(u128::from(step.unsigned_abs())) })
    }
}

impl Decomposer for Range {
    fn units(&self) -> u128 {
        self.units
    }

    fn value(&self, unit: u128) -> Result<Vec<u8>, ValueError> {
        in_space(unit, self.units)?;
        Ok(self.bound(unit).into_bytes())
    }

    fn bound(&self, unit: u128) -> String {
        (i128::from(self.from) + unit as i128 * i128::from(self.step)).to_string()
    }
}

/// Frames of an animation, `first..=last`.
#[derive(Clone, Copy, Debug)]
pub struct Frames(Range);

impl Frames {
    /// All frames from `first` to `last`, both included.
    ///
    /// # Errors
    /// `last` before `first`.
    pub fn new(first: i64, last: i64) -> Result<Self, String> {
        if last < first {
            return Err(format!("the last frame, {last}, comes before the first, {first}: swap them"));
        }
        Ok(Self(Range { from: first, step: 1, units: u128::from(last.abs_diff(first)) + 1 }))
    }
}

impl Decomposer for Frames {
    fn units(&self) -> u128 {
        self.0.units
    }

    fn value(&self, unit: u128) -> Result<Vec<u8>, ValueError> {
        self.0.value(unit)
    }

    fn bound(&self, unit: u128) -> String {
        self.0.bound(unit)
    }

    /// `clock`: 0 at the first frame, 1 at the last.
    fn fields(&self, unit: u128) -> Result<Vec<(String, Vec<u8>)>, ValueError> {
        in_space(unit, self.0.units)?;
        Ok(vec![("clock".to_owned(), clock(unit, self.0.units).into_bytes())])
    }
}

/// How far along `unit` is, as the shortest decimal that reads back as the same number; 0 when there is
/// one frame.
fn clock(unit: u128, units: u128) -> String {
    let steps = (units - 1).max(1);
    (unit as f64 / steps as f64).to_string()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn values(decomposer: &dyn Decomposer, expected: Expect) {
        let value = |unit| String::from_utf8(decomposer.value(unit).unwrap()).unwrap();
        expected.assert_eq(&(0..decomposer.units()).map(value).collect::<Vec<_>>().join(" "));
        assert_eq!(decomposer.value(decomposer.units()), Err(ValueError::OutOfSpace));
    }

    #[track_caller]
    fn clocks(first: i64, last: i64, expected: Expect) {
        let frames = Frames::new(first, last).unwrap();
        let clock = |unit| String::from_utf8(frames.fields(unit).unwrap().remove(0).1).unwrap();
        expected.assert_eq(&(0..frames.units()).map(clock).collect::<Vec<_>>().join(" "));
    }

    #[test]
    fn the_end_is_exclusive_and_the_step_is_kept() {
        values(&Range::new(0, 10, 3).unwrap(), expect!["0 3 6 9"]);
        values(&Range::new(0, 9, 3).unwrap(), expect!["0 3 6"]);
        values(&Range::new(-2, 2, 1).unwrap(), expect!["-2 -1 0 1"]);
        values(&Range::new(5, -5, -4).unwrap(), expect!["5 1 -3"]);
        values(&Range::new(7, 8, 100).unwrap(), expect!["7"]);
    }

    #[test]
    fn the_whole_of_i64_fits() {
        let up = Range::new(i64::MIN, i64::MAX, 1).unwrap();
        assert_eq!(up.units(), u128::from(u64::MAX));
        assert_eq!(up.value(up.units() - 1).unwrap(), (i64::MAX - 1).to_string().into_bytes());
        let down = Range::new(i64::MAX, i64::MIN, i64::MIN).unwrap();
        values(&down, expect!["9223372036854775807 -1"]);
        let frames = Frames::new(i64::MIN, i64::MAX).unwrap();
        assert_eq!(frames.units(), 1 << 64);
        assert_eq!(frames.value((1 << 64) - 1).unwrap(), i64::MAX.to_string().into_bytes());
    }

    #[test]
    fn frames_include_the_last_and_carry_a_clock() {
        values(&Frames::new(8, 11).unwrap(), expect!["8 9 10 11"]);
        clocks(0, 4, expect!["0 0.25 0.5 0.75 1"]);
        clocks(-1, 2, expect!["0 0.3333333333333333 0.6666666666666666 1"]);
        clocks(7, 7, expect!["0"]);
        assert_eq!(Frames::new(0, 0).unwrap().fields(1), Err(ValueError::OutOfSpace));
    }

    #[test]
    fn empty_ranges_say_what_to_do() {
        let refused = |from, to, step| Range::new(from, to, step).unwrap_err();
        expect!["the step is 0, so the range never ends: use 1, or any other integer"]
            .assert_eq(&refused(0, 10, 0));
        expect!["the range from 10 to 10 (exclusive) in steps of 1 is empty: `to` must be above `from`"]
            .assert_eq(&refused(10, 10, 1));
        expect!["the range from 11 to 10 (exclusive) in steps of 1 is empty: `to` must be above `from`"]
            .assert_eq(&refused(11, 10, 1));
        expect!["the range from 0 to 10 (exclusive) in steps of -1 is empty: with a negative step `to` must be below `from`"].assert_eq(&refused(0, 10, -1));
        expect!["the last frame, 4, comes before the first, 5: swap them"]
            .assert_eq(&Frames::new(5, 4).unwrap_err());
    }
}
