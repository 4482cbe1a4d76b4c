//! Collecting an ended child together with what it used, which nobody can ask for afterwards.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// Waits for the end of a child: its status, and the CPU time of it and of those of its descendants that were waited for.
///
/// # Errors
/// `ECHILD` if something else has collected it, as the kernel does where SIGCHLD is ignored.
#[allow(unsafe_code)]
pub(super) fn collect(child: &Child) -> io::Result<(ExitStatus, Duration)> {
    let pid = child.id() as libc::pid_t;
    let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::uninit());
    loop {
        // SAFETY: both pointers are to memory of ours that the call may write, of the types that it writes.
        let collected = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if collected == pid {
            // SAFETY: the call has collected a child, so it has filled in what that used.
            let usage = unsafe { usage.assume_init() };
            return Ok((ExitStatus::from_raw(status), time(usage.ru_utime) + time(usage.ru_stime)));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn time(of: libc::timeval) -> Duration {
    let seconds = Duration::from_secs(u64::try_from(of.tv_sec).unwrap_or_default());
    seconds + Duration::from_micros(u64::try_from(of.tv_usec).unwrap_or_default())
}
