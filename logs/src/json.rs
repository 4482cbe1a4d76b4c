//! Events and what they tell of as JSON.

use starfarm_events::{Form, Value};

/// A value as JSON: what may pass 2^53 is decimal text.
pub(crate) fn json(value: Value<'_>) -> serde_json::Value {
    match value {
        Value::Number(number) => number.into(),
        Value::Real(real) => real.into(),
        Value::Numbers(numbers) => numbers.into(),
        Value::Text(text) => text.into(),
        Value::Units(_) | Value::Hex(_) | Value::Hash(_) => value.to_string().into(),
    }
}

/// The fields of a form as a JSON object.
pub fn json_object(form: &dyn Form) -> serde_json::Map<String, serde_json::Value> {
    let mut object = serde_json::Map::new();
    form.each(&mut |name, value| {
        object.insert(name.to_owned(), json(value));
    });
    object
}
