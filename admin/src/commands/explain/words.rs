//! Words that all sentences share.

use std::borrow::Cow;

use crate::human::seconds;

/// A reason's code, and the verdict where it decides: the end of a sentence that begins with the subject.
pub(super) type Head<'a> = (&'a str, Cow<'static, str>);

/// A time that has passed or is to pass.
pub(super) fn time(us: u64) -> String {
    seconds(us as f64 / 1e6)
}

/// When something happens that is due in so long.
pub(super) fn due(us: u64) -> String {
    if us == 0 { "at once".to_owned() } else { format!("in {}", time(us)) }
}
