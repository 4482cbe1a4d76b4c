//! Counts the memory that a thread takes, so that a reader which trusts a length is caught.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

/// Memory that was taken since the count began.
#[derive(Clone, Copy, Default)]
pub(crate) struct Taken {
    now: usize,
    /// At one time at most.
    pub(crate) peak: usize,
    /// In all, whether or not it was given back.
    pub(crate) sum: usize,
}

thread_local! {
    static TAKEN: Cell<Taken> = const { Cell::new(Taken { now: 0, peak: 0, sum: 0 }) };
}

/// What `act` returns, and the memory that this thread took meanwhile.
pub(crate) fn watch<R>(act: impl FnOnce() -> R) -> (R, Taken) {
    TAKEN.set(Taken::default());
    let outcome = act();
    (outcome, TAKEN.get())
}

fn count(more: usize, less: usize) {
    // A thread that ends has no count any more.
    let _ = TAKEN.try_with(|cell| {
        let Taken { now, peak, sum } = cell.get();
        let now = (now + more).saturating_sub(less);
        cell.set(Taken { now, peak: peak.max(now), sum: sum.saturating_add(more) });
    });
}

// SAFETY: all is handed on to the system's allocator as it is; counting takes no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps to what `alloc` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the memory is the system's, by `alloc` above, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}
