//! What the scheduler can look up of what nodes say: which hits are true, and which outputs are stored.

use std::sync::Arc;

use starfarm_protocol::ids::ContentHash;
use starfarm_scheduler_core::{Config, Evidence};

use super::config;

/// The rule says which unit is a hit of which target. Outputs are stored whose hash begins with 1, of 600 bytes each.
#[derive(Debug)]
struct Truth(fn(u128, u32) -> bool);

impl Evidence for Truth {
    fn is_hit(&self, _: &ContentHash, unit: u128, target: u32) -> Option<bool> {
        Some(self.0(unit, target))
    }

    fn is_stored(&self, hash: &ContentHash, bytes: u64) -> bool {
        hash.0[0] == 1 && bytes == 600
    }
}

/// A farm that knows which unit is a hit of which target.
pub fn knows(is_hit: fn(u128, u32) -> bool) -> Config {
    Config { evidence: Some(Arc::new(Truth(is_hit))), ..config() }
}

/// As [`knows`]: a unit is a hit of target 1 where 10 divides it.
pub fn knows_tens() -> Config {
    knows(|unit, target| target == 1 && unit.is_multiple_of(10))
}
