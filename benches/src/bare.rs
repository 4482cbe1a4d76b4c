//! The least that runs a program and reads what it writes: no process group, no timeout, no cancel.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

unsafe extern "C" {
    static environ: *const *mut libc::c_char;
}

/// Runs `program` without arguments, drops its output and returns its wait status.
pub fn run(program: &str) -> i32 {
    let (mut out, out_end) = pipe();
    let (mut err, err_end) = pipe();
    let pid = spawn(program, out_end.as_raw_fd(), err_end.as_raw_fd());
    drop((out_end, err_end));
    let mut output = Vec::new();
    out.read_to_end(&mut output).expect("a pipe of ours can be read");
    err.read_to_end(&mut output).expect("a pipe of ours can be read");
    let mut status = 0;
    // SAFETY: `status` is a live local.
    let waited = unsafe { libc::waitpid(pid, &mut status, 0) };
    assert_eq!(waited, pid);
    status
}

fn pipe() -> (File, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two; on success both are descriptors that nobody else owns.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (File::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

fn spawn(program: &str, out: i32, err: i32) -> libc::pid_t {
    let name = CString::new(program).expect("the name is ours and has no NUL");
    let arguments = [name.as_ptr().cast_mut(), ptr::null_mut()];
    let mut actions = MaybeUninit::<libc::posix_spawn_file_actions_t>::uninit();
    let actions = actions.as_mut_ptr();
    let mut pid = 0;
    // SAFETY: `actions` is initialised before use and destroyed after it; the strings and the
    // NULL-ended argument list outlive the call; `environ` is the C library's, and nothing in this
    // process changes the environment.
    let result = unsafe {
        libc::posix_spawn_file_actions_init(actions);
        libc::posix_spawn_file_actions_addopen(actions, 0, c"/dev/null".as_ptr(), libc::O_RDONLY, 0);
        libc::posix_spawn_file_actions_adddup2(actions, out, 1);
        libc::posix_spawn_file_actions_adddup2(actions, err, 2);
        let arguments = arguments.as_ptr();
        let result = libc::posix_spawnp(&mut pid, name.as_ptr(), actions, ptr::null(), arguments, environ);
        libc::posix_spawn_file_actions_destroy(actions);
        result
    };
    assert_eq!(result, 0, "`{program}` could not be started");
    pid
}
