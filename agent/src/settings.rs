//! Settings that stages of the rim take, and the words in which they refuse them.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Characters of a value that are shown where it is refused.
const SHOWN_MAX: usize = 64;

pub(crate) fn refusal(key: &str, value: &str, right: &str) -> String {
    format!("`{key}` is {right}, not `{}`", shown(value))
}

pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

/// Refuses a setting that the type has not.
pub(crate) fn unknown(of: &str, key: &str, known: &[&str]) -> String {
    let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
    format!("`{of}` has no setting `{}`: it has {}", shown(key), known.join(", "))
}

/// An address and a port. No names: nobody waits for a name server here.
pub(crate) fn address(key: &str, value: &str) -> Result<SocketAddr, String> {
    let address = value.trim().parse();
    address.map_err(|_| refusal(key, value, "an address and a port, as `10.0.0.9:3457` or `[fd00::9]:3457`"))
}

/// A number of this range, which is called `what`.
pub(crate) fn number<T: FromStr + PartialOrd>(
    key: &str,
    value: &str,
    range: RangeInclusive<T>,
    what: &str,
) -> Result<T, String> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| refusal(key, value, what))
}
