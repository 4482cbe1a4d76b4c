//! JSON with a versioned `schema` before all else. The schemas themselves are in `admin/schemas`.

use serde::ser::{Serialize, SerializeMap, Serializer};
use starfarm_protocol::admin::SCHEMA_VERSION;

/// The value of `schema` for documents of this name.
pub(crate) fn schema(name: &str) -> String {
    format!("starfarm/{name}/{SCHEMA_VERSION}")
}

/// An object with its `schema`.
#[derive(serde::Serialize)]
pub(crate) struct Tagged<'a, T> {
    schema: String,
    #[serde(flatten)]
    body: &'a T,
}

impl<'a, T: Serialize> Tagged<'a, T> {
    /// `body` must be an object.
    pub(crate) fn new(name: &str, body: &'a T) -> Self {
        Self { schema: schema(name), body }
    }
}

/// A list with its `schema`, under its own name.
pub(crate) struct Listing<'a, T> {
    /// Name of the schema, and key of the list.
    pub(crate) name: &'static str,
    /// The list.
    pub(crate) records: &'a [T],
}

impl<T: Serialize> Serialize for Listing<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("schema", &schema(self.name))?;
        map.serialize_entry(self.name, self.records)?;
        map.end()
    }
}

/// On one line.
pub(crate) fn compact<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("what we print has text keys only")
}

/// On many lines, the last one ended.
pub(crate) fn pretty<T: Serialize>(value: &T) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("what we print has text keys only");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Serialize)]
    struct Point {
        x: u8,
    }

    #[test]
    fn the_schema_comes_first() {
        let point = Point { x: 3 };
        assert_eq!(compact(&Tagged::new("point", &point)), r#"{"schema":"starfarm/point/1","x":3}"#);
        let listing = Listing { name: "points", records: &[point] };
        assert_eq!(compact(&listing), r#"{"schema":"starfarm/points/1","points":[{"x":3}]}"#);
    }
}
