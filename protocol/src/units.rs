//! A number of units, or the number of one, as JSON has it: decimal digits in a string, since it may pass 2^53.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of units.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Units(pub u128);

impl Units {
    /// A single one.
    pub fn one() -> Self {
        Self(1)
    }

    /// It is a single one.
    pub fn is_one(&self) -> bool {
        self.0 == 1
    }
}

impl From<u128> for Units {
    fn from(units: u128) -> Self {
        Self(units)
    }
}

impl PartialEq<u128> for Units {
    fn eq(&self, other: &u128) -> bool {
        self.0 == *other
    }
}

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Units {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Units {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse()
            .map(Self)
            .map_err(|_| serde::de::Error::custom(format_args!("`{text}` is no number of units")))
    }
}

/// For `#[serde(with)]`: a bare number of units in the same form.
pub mod decimal {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Units};

    /// Writes it as [`Units`] are.
    ///
    /// # Errors
    /// As the serializer.
    pub fn serialize<S: Serializer>(units: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        Units(*units).serialize(serializer)
    }

    /// Reads it as [`Units`] are.
    ///
    /// # Errors
    /// As the deserializer, and where it is no such text.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        Units::deserialize(deserializer).map(|units| units.0)
    }
}

/// For `#[serde(with)]`: microseconds, as a number of seconds.
pub mod seconds {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes them as seconds.
    ///
    /// # Errors
    /// As the serializer.
    pub fn serialize<S: Serializer>(us: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        (*us as f64 / 1e6).serialize(serializer)
    }

    /// Reads seconds.
    ///
    /// # Errors
    /// As the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        f64::deserialize(deserializer).map(|seconds| (seconds * 1e6).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_decimal_text_in_json() {
        let all = Units(u128::MAX);
        let json = serde_json::to_string(&all).unwrap();
        assert_eq!(json, format!("\"{}\"", u128::MAX));
        assert_eq!(serde_json::from_str::<Units>(&json).unwrap(), all);
        for wrong in ["1", "\"\"", "\"-1\"", "\"1e3\"", "\"340282366920938463463374607431768211456\""] {
            assert!(serde_json::from_str::<Units>(wrong).is_err(), "{wrong}");
        }
    }
}
