//! What the farm cannot see of a result and yet can be shown: whether a hit is one, whether an output is stored. What a
//! worker says of these counts only after a look.

use std::fmt;

use starfarm_protocol::ids::ContentHash;

/// Who looks.
pub trait Evidence: fmt::Debug + Send + Sync {
    /// Whether `unit` of the search with the specification `spec` is a hit of `target`; none where that cannot be told,
    /// since the specification cannot be read.
    fn is_hit(&self, spec: &ContentHash, unit: u128, target: u32) -> Option<bool>;

    /// Whether a content of `bytes` bytes is stored under its hash.
    fn is_stored(&self, hash: &ContentHash, bytes: u64) -> bool;
}
