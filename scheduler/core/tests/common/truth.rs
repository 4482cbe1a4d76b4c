//! What the scheduler can look up of what nodes say: which hits are true, and which outputs are stored.

use std::sync::Arc;

use expect_test::Expect;
use starfarm_protocol::ids::ContentHash;
use starfarm_scheduler_core::{Config, Evidence};

use super::{Bench, config};

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

/// As [`knows`]: a unit is a hit of the target that is its last digit.
pub fn knows_digits() -> Config {
    knows(|unit, target| unit % 10 == u128::from(target))
}

/// What the second story tells, after the first one.
fn check_after(config: Config, before: &str, script: &str, expected: Expect) {
    let mut bench = Bench::new(config);
    bench.run(before);
    expected.assert_eq(&bench.run(script));
}

/// Stories of [`knows_tens`].
pub mod tens {
    use super::{Expect, knows_tens};

    /// Two nodes with tasks of ten units each: a has [0, 20), b [20, 40).
    pub const TWO: &str =
        "submit 200 search 2 targets never units 10\n join a slots 1\n join b slots 1\n ack a\n ack b";

    /// What the second story tells, after the first one.
    pub fn check_after(before: &str, script: &str, expected: Expect) {
        super::check_after(knows_tens(), before, script, expected);
    }
}

/// Stories of [`knows_digits`].
pub mod digits {
    use super::{Expect, knows_digits};

    /// Two nodes with two tasks of ten units each: a has [0, 20), b [20, 40). All that one computed is computed again.
    pub const TWO: &str =
        "submit 40 search 2 never units 10 check 1000000\n join a slots 1\n join b slots 1\n ack a\n ack b";

    /// What the second story tells, after the first one.
    pub fn check_after(before: &str, script: &str, expected: Expect) {
        super::check_after(knows_digits(), before, script, expected);
    }
}
