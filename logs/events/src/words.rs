//! Parts of what events say to a person.

use std::fmt;

use starfarm_protocol::admin::AlarmChange;
use starfarm_protocol::link::AlarmLevel;

/// `1 slot`, `2 slots`.
pub fn counted<N: fmt::Display + PartialEq + From<u8>>(number: N, what: &str) -> String {
    if number == N::from(1) { format!("{number} {what}") } else { format!("{number} {what}s") }
}

/// What may be absent, with what leads to it.
pub(crate) fn after(lead: &str, value: &Option<impl fmt::Display>) -> String {
    value.as_ref().map_or_else(String::new, |value| format!("{lead}{value}"))
}

/// A number, or that there is none.
pub(crate) fn or_none(number: Option<u64>) -> String {
    number.map_or_else(|| "none".to_owned(), |number| number.to_string())
}

/// What such a task takes elsewhere.
pub(crate) fn usual(usual_us: u64) -> String {
    match usual_us {
        0 => "no unit of the job has ended yet".to_owned(),
        _ => format!("such a task takes {:.1} s", usual_us as f64 / 1e6),
    }
}

/// What became of an alarm, behind its name.
pub(crate) fn became(change: AlarmChange, level: AlarmLevel) -> String {
    match change {
        AlarmChange::Begun => format!(", {level}"),
        AlarmChange::Changed => format!(" is {level} now"),
        AlarmChange::Over => " is over; it was".to_owned(),
    }
}
