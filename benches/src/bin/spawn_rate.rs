//! How many programs a second the `command` executor runs, against a bare loop of `posix_spawn`, two
//! pipes and `waitpid`. Both run `true` on two threads, in alternation within this one process, so that
//! the machine's mood meets both alike.
//!
//! ```sh
//! cargo run --release -p starfarm-benches --bin spawn_rate -- [PROGRAMS [ROUNDS]]
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use starfarm_worker::exec::{Cancel, CommandLine, End, become_subreaper, run};

const PROGRAM: &str = "true";
const THREADS: usize = 2;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| {
        argument
            .parse()
            .unwrap_or_else(|_| panic!("`{argument}` is not a count; usage: spawn_rate [PROGRAMS [ROUNDS]]"))
    });
    let programs: usize = arguments.next().unwrap_or(10_000);
    let rounds: usize = arguments.next().unwrap_or(5);
    become_subreaper().expect("the figure is for a worker that clears strays away");
    let command = CommandLine { program: PROGRAM.into(), output_limit: 65_536, ..CommandLine::default() };
    let cancel = Cancel::new().expect("a fresh process has a file descriptor to spare");

    let ours = || assert_eq!(run(&command, &cancel).end, End::Exit(0));
    let bare = || assert_eq!(bare::run(PROGRAM), 0);
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        // Each is the first one as often as the other.
        for which in [round % 2, 1 - round % 2] {
            rates[which].push(if which == 0 { rate(programs, &ours) } else { rate(programs, &bare) });
        }
        println!("round {round}: run {:.0}/s, bare {:.0}/s", rates[0][round], rates[1][round]);
    }
    let mut ratios: Vec<f64> = rates[0].iter().zip(&rates[1]).map(|(ours, bare)| ours / bare).collect();
    let [ours, bare] = &mut rates;
    println!(
        "median: run {:.0}/s, bare {:.0}/s, ratio {:.3}",
        median(ours),
        median(bare),
        median(&mut ratios)
    );
}

/// Calls a second when `THREADS` threads share `count` calls of `one`.
fn rate(count: usize, one: &(impl Fn() + Sync)) -> f64 {
    let taken = AtomicUsize::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while taken.fetch_add(1, Ordering::Relaxed) < count {
                    one();
                }
            });
        }
    });
    count as f64 / start.elapsed().as_secs_f64()
}

/// The median; 0 of nothing.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The least that runs a program and reads what it writes: no process group, no timeout, no cancel.
#[allow(unsafe_code)]
mod bare {
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
    pub(crate) fn run(program: &str) -> i32 {
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
            let result =
                libc::posix_spawnp(&mut pid, name.as_ptr(), actions, ptr::null(), arguments, environ);
            libc::posix_spawn_file_actions_destroy(actions);
            result
        };
        assert_eq!(result, 0, "`{program}` could not be started");
        pid
    }
}
