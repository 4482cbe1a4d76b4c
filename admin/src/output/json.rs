//! JSON with a versioned `schema` before all else. The schemas themselves are in `admin/schemas`.

use std::collections::BTreeMap;

use serde::Serialize;
use starfarm_protocol::admin::SCHEMA_VERSION;
use starfarm_protocol::foreign;

/// The value of `schema` for documents of this name.
pub(crate) fn schema(name: &str) -> String {
    format!("starfarm/{name}/{SCHEMA_VERSION}")
}

/// An object with its `schema`.
#[derive(Serialize)]
pub(crate) struct Tagged<T> {
    schema: String,
    #[serde(flatten)]
    body: T,
}

impl<T: Serialize> Tagged<T> {
    /// `body` must be an object.
    pub(crate) fn new(name: &str, body: T) -> Self {
        Self { schema: schema(name), body }
    }
}

/// A list with its `schema`, under its own name.
pub(crate) fn listing<'a, T: Serialize>(name: &'a str, records: &'a [T]) -> impl Serialize {
    Tagged::new(name, BTreeMap::from([(name, records)]))
}

/// On one line.
pub(crate) fn compact<T: Serialize>(value: &T) -> String {
    foreign::json(serde_json::to_string(value).expect("what we print has text keys only"))
}

/// On many lines, the last one ended.
pub(crate) fn pretty<T: Serialize>(value: &T) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("what we print has text keys only");
    text.push('\n');
    foreign::json(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Point {
        x: u8,
    }

    #[test]
    fn the_schema_comes_first() {
        let point = Point { x: 3 };
        assert_eq!(compact(&Tagged::new("point", &point)), r#"{"schema":"starfarm/point/1","x":3}"#);
        assert_eq!(
            compact(&listing("points", &[point])),
            r#"{"schema":"starfarm/points/1","points":[{"x":3}]}"#
        );
    }
}
