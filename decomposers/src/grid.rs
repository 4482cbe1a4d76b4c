//! Grids: the cross product of named lists, the last list turning fastest.

use std::collections::HashSet;

use starfarm_protocol::spec::Axis;

use crate::decomposer::{Decomposer, in_space, too_large};
use crate::error::ValueError;

/// A cross product; see [`starfarm_protocol::spec::Space::Grid`].
#[derive(Clone, Debug)]
pub struct Grid {
    axes: Vec<Axis>,
    units: u128,
}

impl Grid {
    /// Every combination of one value per axis.
    ///
    /// # Errors
    /// No axes, an axis without values, a name that is unusable or used twice, or more than 2^128 - 1
    /// combinations.
    pub fn new(axes: &[Axis]) -> Result<Self, String> {
        if axes.is_empty() {
            return Err("the grid has no lists: give at least one name with its values".into());
        }
        let mut names = HashSet::new();
        for axis in axes {
            check_axis(axis)?;
            if !names.insert(axis.name.as_str()) {
                return Err(format!("the grid has two lists `{}`: rename one", axis.name));
            }
        }
        let units = axes
            .iter()
            .try_fold(1_u128, |product, axis| product.checked_mul(axis.values.len() as u128))
            .ok_or_else(|| too_large(&size_in_words(axes)))?;
        Ok(Self { axes: axes.to_vec(), units })
    }

    /// The unit's value on each axis, in the axes' order.
    fn point(&self, unit: u128) -> Result<Vec<&str>, ValueError> {
        in_space(unit, self.units)?;
        let mut rest = unit;
        let mut point = vec![""; self.axes.len()];
        for (value, axis) in point.iter_mut().zip(&self.axes).rev() {
            let values = axis.values.len() as u128;
            *value = &axis.values[(rest % values) as usize];
            rest /= values;
        }
        Ok(point)
    }
}

impl Decomposer for Grid {
    fn units(&self) -> u128 {
        self.units
    }

    /// The values, joined by one space.
    fn value(&self, unit: u128) -> Result<Vec<u8>, ValueError> {
        Ok(self.point(unit)?.join(" ").into_bytes())
    }

    /// One field per axis.
    fn fields(&self, unit: u128) -> Result<Vec<(String, Vec<u8>)>, ValueError> {
        let names = self.axes.iter().map(|axis| axis.name.clone());
        Ok(names.zip(self.point(unit)?.into_iter().map(|value| value.as_bytes().to_vec())).collect())
    }
}

fn check_axis(axis: &Axis) -> Result<(), String> {
    let Axis { name, values } = axis;
    if name.is_empty() || name == "index" || name.contains(['{', '}']) {
        return Err(format!(
            "a grid's list cannot be named `{name}`: the name must not be empty, `index`, or contain a brace"
        ));
    }
    if values.is_empty() {
        return Err(format!("the grid's list `{name}` is empty: give at least one value"));
    }
    Ok(())
}

fn size_in_words(axes: &[Axis]) -> String {
    let exponent: f64 = axes.iter().map(|axis| (axis.values.len() as f64).log10()).sum();
    format!("the {} lists of the grid make about 10^{exponent:.0} combinations", axes.len())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn axis(name: &str, values: &[&str]) -> Axis {
        Axis { name: name.to_owned(), values: values.iter().map(|v| (*v).to_owned()).collect() }
    }

    #[track_caller]
    fn refused(axes: &[Axis], expected: Expect) {
        expected.assert_eq(&Grid::new(axes).unwrap_err());
    }

    #[test]
    fn the_last_list_turns_fastest() {
        let grid = Grid::new(&[axis("a", &["1", "2"]), axis("b", &["x", "y", "z"])]).unwrap();
        let value = |unit| String::from_utf8(grid.value(unit).unwrap()).unwrap();
        let all = (0..grid.units()).map(value).collect::<Vec<_>>().join(", ");
        expect!["1 x, 1 y, 1 z, 2 x, 2 y, 2 z"].assert_eq(&all);
        assert_eq!(grid.value(6), Err(ValueError::OutOfSpace));
        assert_eq!(grid.fields(6), Err(ValueError::OutOfSpace));
    }

    #[test]
    fn fields_carry_the_names_in_order() {
        let grid = Grid::new(&[axis("b", &["1"]), axis("a", &["x", ""])]).unwrap();
        let field = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        assert_eq!(grid.fields(1), Ok(vec![field("b", "1"), field("a", "")]));
        assert_eq!(grid.names(), ["b", "a"]);
    }

    #[test]
    fn bad_grids_say_what_to_do() {
        refused(&[], expect!["the grid has no lists: give at least one name with its values"]);
        refused(&[axis("a", &[])], expect!["the grid's list `a` is empty: give at least one value"]);
        refused(&[axis("a", &["1"]), axis("a", &["2"])], expect!["the grid has two lists `a`: rename one"]);
        refused(
            &[axis("index", &["1"])],
            expect![
                "a grid's list cannot be named `index`: the name must not be empty, `index`, or contain a brace"
            ],
        );
        refused(
            &[axis("", &["1"])],
            expect![
                "a grid's list cannot be named ``: the name must not be empty, `index`, or contain a brace"
            ],
        );
        refused(
            &[axis("a}", &["1"])],
            expect![
                "a grid's list cannot be named `a}`: the name must not be empty, `index`, or contain a brace"
            ],
        );
        let ten = ["v"; 10];
        let axes: Vec<_> = (0..40).map(|i| axis(&format!("a{i}"), &ten)).collect();
        refused(
            &axes,
            expect![
                "the 40 lists of the grid make about 10^40 combinations; a job holds at most 2^128 - 1 units (about 3.4 x 10^38): make the space smaller, or split it into several jobs"
            ],
        );
        assert_eq!(Grid::new(&axes[..38]).unwrap().units(), 10_u128.pow(38));
    }
}
