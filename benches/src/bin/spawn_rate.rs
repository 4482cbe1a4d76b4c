//! How many programs a second the `command` executor runs, against a bare loop of `posix_spawn`, two
//! pipes and `waitpid`, and what CPU time a program costs, the program's own included. Both run `true`
//! on two threads, in short rounds by turns within this one process, so that whatever else the machine
//! does meets both alike.
//!
//! ```sh
//! cargo run --release -p starfarm-benches --bin spawn_rate -- [PROGRAMS_PER_ROUND [ROUNDS]]
//! ```

use starfarm_benches::{THREADS, bare, median, rate};
use starfarm_exec::{CancelFlag, CommandLine, End, become_subreaper, run};

const PROGRAM: &str = "true";
const USAGE: &str = "usage: spawn_rate [PROGRAMS_PER_ROUND [ROUNDS]]";

fn main() {
    let counts: Vec<usize> =
        std::env::args().skip(1).map(|count| count.parse().unwrap_or_else(|_| panic!("{USAGE}"))).collect();
    let programs = counts.first().copied().unwrap_or(500);
    let rounds = counts.get(1).copied().unwrap_or(20);
    become_subreaper().expect("the figure is for a worker that clears strays away");
    let command = CommandLine { program: PROGRAM.into(), output_limit: 65_536, ..CommandLine::default() };
    let cancel = CancelFlag::new().expect("a fresh process has a file descriptor to spare");
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
