//! How many programs a second the `command` executor runs, against a bare loop of `posix_spawn`, two
//! pipes and `waitpid`, and what CPU time a program costs, the program's own included. Both run `true`
//! on two threads, in short rounds by turns within this one process, so that whatever else the machine
//! does meets both alike.
//!
//! ```sh
//! cargo run --release -p starfarm-benches --bin spawn_rate -- [PROGRAMS_PER_ROUND [ROUNDS]]
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use starfarm_worker::exec::{Cancel, CommandLine, End, become_subreaper, run};

const PROGRAM: &str = "true";
const THREADS: usize = 2;
const USAGE: &str = "usage: spawn_rate [PROGRAMS_PER_ROUND [ROUNDS]]";

fn main() {
    let counts: Vec<usize> =
        std::env::args().skip(1).map(|count| count.parse().unwrap_or_else(|_| panic!("{USAGE}"))).collect();
    let programs = counts.first().copied().unwrap_or(500);
    let rounds = counts.get(1).copied().unwrap_or(20);
    become_subreaper().expect("the figure is for a worker that clears strays away");
    let command = CommandLine { program: PROGRAM.into(), output_limit: 65_536, ..CommandLine::default() };
    let cancel = Cancel::new().expect("a fresh process has a file descriptor to spare");
    let ours = || assert_eq!(run(&command, &cancel).end, End::Exit(0));
    let bare = || assert_eq!(bare::run(PROGRAM), 0);

    let (mut by_run, mut by_bare) = (Series::default(), Series::default());
    for round in 0..rounds {
        // Each is the first one as often as the other.
        if round % 2 == 0 {
            by_run.add(programs, &ours);
            by_bare.add(programs, &bare);
        } else {
            by_bare.add(programs, &bare);
            by_run.add(programs, &ours);
        }
    }
    let rates = by_run.rates.iter().zip(&by_bare.rates).map(|(ours, bare)| ours / bare).collect();
    let costs = by_run.costs.iter().zip(&by_bare.costs).map(|(ours, bare)| ours / bare).collect();
    println!("medians of {rounds} rounds of {programs} x `{PROGRAM}` on {THREADS} threads");
    println!("run   {:6.0}/s  {:5.0} us CPU each", median(by_run.rates), median(by_run.costs));
    println!("bare  {:6.0}/s  {:5.0} us CPU each", median(by_bare.rates), median(by_bare.costs));
    println!("ratio {:6.3}    {:5.3}", median(rates), median(costs));
}

/// One way's measurements, a value a round.
#[derive(Default)]
struct Series {
    /// Programs a second.
    rates: Vec<f64>,
    /// CPU microseconds a program.
    costs: Vec<f64>,
}

impl Series {
    fn add(&mut self, programs: usize, one: &(impl Fn() + Sync)) {
        let cpu = rusage::cpu_time();
        self.rates.push(rate(programs, one));
        self.costs.push((rusage::cpu_time() - cpu).as_secs_f64() * 1e6 / programs as f64);
    }
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
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// What this process and its ended children have used.
#[allow(unsafe_code)]
mod rusage {
    use std::mem::MaybeUninit;
    use std::time::Duration;

    /// User and system time, of this process and all children that it has waited for.
    pub(crate) fn cpu_time() -> Duration {
        of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
    }

    fn of(who: libc::c_int) -> Duration {
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the call fills in the live local; it fails only for an unknown `who`, which is checked.
        let usage = unsafe {
            assert_eq!(libc::getrusage(who, usage.as_mut_ptr()), 0);
            usage.assume_init()
        };
        duration(usage.ru_utime) + duration(usage.ru_stime)
    }

    fn duration(time: libc::timeval) -> Duration {
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
    }
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
