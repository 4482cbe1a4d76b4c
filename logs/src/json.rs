//! Events and what they tell of as JSON.

use starfarm_events::Form;

/// The fields of a form as a JSON object.
pub fn json_object(form: &dyn Form) -> serde_json::Map<String, serde_json::Value> {
    let mut object = serde_json::Map::new();
    form.each(&mut |name, value| {
        object.insert(name.to_owned(), serde_json::json!(value));
    });
    object
}
