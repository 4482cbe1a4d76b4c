//! How files of the system are read that say `KEY : VALUE`, line by line.

/// The value of the first line `KEY : VALUE`.
pub(crate) fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.trim(), value.trim())).find(|(name, _)| *name == key).map(|(_, v)| v)
}
