//! Waiting for what must come. How long it takes is no matter of these tests; that it never comes is.

use std::time::{Duration, Instant};

/// After this long something hangs, however slow and busy the machine is; the test runner waits longer still.
pub const GUARD: Duration = Duration::from_secs(120);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until `is_so`.
///
/// # Panics
/// It is not so after [`GUARD`]; `what` says what was waited for.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    until_some(what, || is_so().then_some(()));
}

/// Waits until `find` finds something, and returns it.
///
/// # Panics
/// As [`until`].
pub fn until_some<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(start.elapsed() < GUARD, "waited {} s in vain until {what}", GUARD.as_secs());
        std::thread::sleep(LOOK);
    }
}
