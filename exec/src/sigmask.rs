//! An empty signal mask for a program that is about to start. Handlers and dispositions are not touched
//! here: std resets SIGPIPE, and exec resets every signal that has a handler.

use std::mem::MaybeUninit;

/// While it lives, the calling thread blocks no signal.
///
/// A started program inherits the mask of the thread that starts it (std leaves it alone), and a thread
/// that blocks TERM would give programs that cannot be ended politely. A signal that was pending is
/// delivered now: that is right as long as the worker takes its signals by handlers, not by signalfd.
pub(super) struct Unmasked {
    before: libc::sigset_t,
}

#[allow(unsafe_code)]
impl Unmasked {
    pub(super) fn new() -> Self {
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises what it is given and cannot fail for a valid pointer;
        // `pthread_sigmask` reads that set and writes the old one, and fails only for an unknown first
        // argument. Both pointers are to live locals of the right type.
        let before = unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), before.as_mut_ptr());
            before.assume_init()
        };
        Self { before }
    }
}

#[allow(unsafe_code)]
impl Drop for Unmasked {
    fn drop(&mut self) {
        // SAFETY: `before` is a set that the kernel wrote; a null third argument asks for nothing back.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Blocks `signal` in the calling thread, for good.
    #[allow(unsafe_code)]
    pub(crate) fn block_here(signal: libc::c_int) {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the live local that the other two then use; a null third
        // argument asks for nothing back.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), signal);
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        }
    }
}
