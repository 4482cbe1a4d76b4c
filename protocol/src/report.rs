//! What runs of a kernel tell of hits and counters: a line of JSON for each run, and how many become one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::units::Units;

/// Most hits of a report.
pub const REPORT_HITS_MAX: usize = 1_000_000;

/// What a kernel found in some units, or in all of a job.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Units that the kernel named, each with its word, in the order of the units.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hits: Vec<(Units, u32)>,
    /// Each counter, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, Counted>,
}

/// What became of a counter's numbers.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Counted {
    /// Their sum.
    Sum(Value),
    /// The least of them, and the first unit that left it.
    Min(Best),
    /// The greatest, likewise.
    Max(Best),
}

/// A number and the unit that left it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    /// The number.
    pub value: Value,
    /// The unit.
    pub unit: Units,
}

/// A number of a counter. Whole ones are text in JSON: a sum may be larger than a JSON number can be.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A whole one, exact.
    Whole(#[serde(with = "text")] i128),
    /// Any other. JSON has no word for those that are not finite: `"Infinity"`, `"-Infinity"`, and null for what is no
    /// number, as the least of nothing but NaN.
    Real(#[serde(with = "real")] f64),
}

mod real {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    const INFINITY: &str = "Infinity";
    const BELOW_ALL: &str = "-Infinity";

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Word(String),
        None,
    }

    pub(super) fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        match *number {
            f64::INFINITY => INFINITY.serialize(serializer),
            f64::NEG_INFINITY => BELOW_ALL.serialize(serializer),
            // NaN becomes null.
            number => number.serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(number),
            Written::None => Ok(f64::NAN),
            Written::Word(word) if word == INFINITY => Ok(f64::INFINITY),
            Written::Word(word) if word == BELOW_ALL => Ok(f64::NEG_INFINITY),
            Written::Word(_) => Err(de::Error::custom("this is no number")),
        }
    }
}

mod text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(number: &i128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i128, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Value {
    fn plus(self, other: Self) -> Result<Self, String> {
        Ok(match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => {
                Self::Whole(a.checked_add(b).ok_or("a sum does not fit into 128 bits")?)
            }
            (a, b) => Self::Real(a.real() + b.real()),
        })
    }

    fn real(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Real(real) => real,
        }
    }

    /// What is no number is less than nothing, and nothing is less than it.
    fn is_below(self, other: Self) -> bool {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => a < b,
            (a, b) if b.real().is_nan() => !a.real().is_nan(),
            (a, b) => a.real() < b.real(),
        }
    }
}

impl Best {
    /// The first unit of equals stands for them.
    fn or(self, other: Self, is_better: bool, is_worse: bool) -> Self {
        match (is_better, is_worse) {
            (true, _) => other,
            (_, true) => self,
            _ if other.unit < self.unit => other,
            _ => self,
        }
    }
}

impl Counted {
    /// This and another one of the same counter.
    ///
    /// # Errors
    /// They are of unlike counters, or their sum is too large.
    pub fn with(self, other: Self) -> Result<Self, String> {
        Ok(match (self, other) {
            (Self::Sum(a), Self::Sum(b)) => Self::Sum(a.plus(b)?),
            (Self::Min(a), Self::Min(b)) => {
                Self::Min(a.or(b, b.value.is_below(a.value), a.value.is_below(b.value)))
            }
            (Self::Max(a), Self::Max(b)) => {
                let above = |a: Value, b: Value| !a.real().is_nan() && (b.real().is_nan() || b.is_below(a));
                Self::Max(a.or(b, above(b.value, a.value), above(a.value, b.value)))
            }
            _ => return Err("runs tell of one counter in two ways".to_owned()),
        })
    }
}

impl Report {
    /// Another report, of later units, is added to this one.
    ///
    /// # Errors
    /// As of [`Counted::with`], or there are more than [`REPORT_HITS_MAX`] hits.
    pub fn add(&mut self, other: Self) -> Result<(), String> {
        if self.hits.len() + other.hits.len() > REPORT_HITS_MAX {
            return Err(format!(
                "there are more than {REPORT_HITS_MAX} hits, which is the most of a merged report: `starfarm results` \
                 prints those of each run, and [merge] with kind = \"concat\" puts these one behind another"
            ));
        }
        self.hits.extend(other.hits);
        for (name, counted) in other.counters {
            let both = match self.counters.get(&name) {
                Some(before) => before.with(counted)?,
                None => counted,
            };
            self.counters.insert(name, both);
        }
        Ok(())
    }

    /// It says something.
    pub fn says_something(&self) -> bool {
        !(self.hits.is_empty() && self.counters.is_empty())
    }

    /// Its line, with the line break.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a report has text keys only") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(value: f64, unit: u128) -> Best {
        Best { value: Value::Real(value), unit: Units(unit) }
    }

    #[test]
    fn a_line_is_what_it_was() {
        let counters = [
            ("inside".to_owned(), Counted::Sum(Value::Whole(i128::from(u64::MAX) * 3))),
            ("best".to_owned(), Counted::Min(best(-0.5, 7))),
        ];
        let report = Report { hits: vec![(Units(1 << 100), 9)], counters: counters.into() };
        let line = r#"{"hits":[["1267650600228229401496703205376",9]],"counters":{"best":{"min":{"value":-0.5,"unit":"7"}},"inside":{"sum":"55340232221128654845"}}}"#;
        assert_eq!(report.line().trim(), line);
        assert_eq!(serde_json::from_str::<Report>(line).unwrap(), report);
        assert_eq!(Report::default().line(), "{}\n");
        for (written, real) in
            [("\"Infinity\"", f64::INFINITY), ("\"-Infinity\"", f64::NEG_INFINITY), ("1e308", 1e308)]
        {
            assert_eq!(serde_json::from_str::<Value>(written).unwrap(), Value::Real(real));
            assert_eq!(
                serde_json::to_value(Value::Real(real)).unwrap(),
                serde_json::from_str::<serde_json::Value>(written).unwrap()
            );
        }
        let nothing: Value = serde_json::from_str("null").unwrap();
        assert!(nothing.real().is_nan());
        assert_eq!(serde_json::to_string(&nothing).unwrap(), "null");
        for wrong in ["\"infinity\"", "\"\"", "true", "[]"] {
            assert!(serde_json::from_str::<Value>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_first_of_equals_stands_and_what_is_no_number_loses() {
        let min = |a, b| Counted::Min(a).with(Counted::Min(b)).unwrap();
        let max = |a, b| Counted::Max(a).with(Counted::Max(b)).unwrap();
        assert_eq!(min(best(1.0, 9), best(1.0, 4)), Counted::Min(best(1.0, 4)));
        assert_eq!(min(best(1.0, 4), best(0.5, 9)), Counted::Min(best(0.5, 9)));
        assert_eq!(max(best(1.0, 4), best(0.5, 9)), Counted::Max(best(1.0, 4)));
        for (one, other) in [(best(f64::NAN, 1), best(2.0, 5)), (best(2.0, 5), best(f64::NAN, 1))] {
            assert_eq!(
                (min(one, other), max(one, other)),
                (Counted::Min(best(2.0, 5)), Counted::Max(best(2.0, 5)))
            );
        }
        assert!(Counted::Min(best(1.0, 1)).with(Counted::Max(best(1.0, 1))).is_err());
    }
}
