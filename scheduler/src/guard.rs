//! Panics that cost no process: those of sled, which panics where its files are damaged, and those of the monitoring tree, which
//! owns nothing that counts.

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use starfarm_net::say;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// From now on a panic ends the process, in whatever thread, but for those that are caught here and come out as words. For programs whose panics unwind: where they abort nothing can be caught.
pub(crate) fn abort_on_panic() {
    std::panic::set_hook(Box::new(move |panic| {
        if !GUARDED.get() {
            let thread = std::thread::current();
            let trace = Backtrace::capture();
            say(&format!("thread {} {panic}\n{trace}", thread.name().unwrap_or("without a name")));
            std::process::abort();
        }
    }));
}

/// Runs `work`; where it panics that is an error like others, in words.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let before = GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    outcome.map_err(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
    })
}

/// The same of work that may fail otherwise, too.
pub(crate) fn guarded<T, E: for<'a> From<&'a str>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    caught(work).unwrap_or_else(|words| Err(words.as_str().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_words() {
        let number = 7;
        let failed =
            |work: fn(u64) -> Result<(), String>| guarded::<(), String>(|| work(number)).unwrap_err();
        assert_eq!(failed(|number| panic!("page {number}")), "page 7");
        assert_eq!(failed(|_| panic!("no page")), "no page");
        assert_eq!(failed(|_| Err("full".to_owned())), "full");
        assert!(!GUARDED.get());
    }
}
