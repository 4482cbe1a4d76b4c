//! Programs and threads that compute, and what is found about them. The clock of the test goes a second from look to look
//! whatever the machine's does, so a rate is what was used between both: it is compared with what the kernel says elsewhere.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use starfarm_exec::{Relative, become_subreaper, spawn};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::metric::Metric;

use crate::common::*;

/// CPU time that a test has a program use, in microseconds.
const ENOUGH_US: u64 = 300_000;
/// A process is counted in ticks, a thread whenever it is switched.
const WIDE_US: u64 = 50_000;

fn start(script: &str) -> Relative {
    let mut command = Command::new("sh");
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    spawn(command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped())).unwrap()
}

/// CPU time of a process of one thread, by the scheduler's own count. None where the kernel keeps none.
fn exact_us(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?;
    Some(text.split(' ').next()?.parse::<u64>().unwrap() / 1_000)
}

fn skip(test: &str) {
    let Some(path) = std::env::var_os("STARFARM_SKIPS") else { return };
    let line = format!("schedstat: {test}: the kernel keeps no exact CPU time\n");
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, line.as_bytes()).unwrap();
}

fn is_exact() -> bool {
    exact_us(std::process::id()).is_some_and(|us| us > 0)
}

/// Waits until a process has used enough.
fn compute(process: u32) {
    while exact_us(process).unwrap() < ENOUGH_US {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn parent(process: u32) -> u32 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    text.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap()
}

fn kill(process: u32) {
    let process = rustix::process::Pid::from_raw(process as i32).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
}

/// The next line that a program writes: a number.
fn line(from: &mut Relative) -> u32 {
    let mut text = String::new();
    let stdout = from.child.stdout.as_mut().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut text).unwrap();
    text.trim().parse().unwrap()
}

fn assert_near(found: Option<u64>, process: u32, least: u64) {
    let (found, most) = (found.unwrap(), exact_us(process).unwrap());
    assert!(found + WIDE_US >= least && found <= most + WIDE_US, "{least} <= {found} <= {most}");
}

#[test]
fn a_program_that_computes_is_found_with_what_it_used() {
    if !is_exact() {
        return skip("a_program_that_computes_is_found_with_what_it_used");
    }
    let mut board = Board::new(1);
    let mut bench = units_at(Path::new("/proc"), &board);
    assert_eq!(bench.wave(1), []);
    let program = start("while :; do :; done");
    let number = program.child.id();
    board.run(0, (1, 0), number);
    compute(number);
    let least = exact_us(number).unwrap();
    let said = bench.said(2).unwrap();
    assert_near(said.sum(Metric::Cpu), number, least);
    assert!(said.sum(Metric::Memory).unwrap() >= 100_000, "a shell has more");
    kill(number);
    let used = exact_us(number).unwrap();
    program.wait().unwrap();
    board.ended(0, used);
    let all = said.sum(Metric::Cpu).unwrap() + bench.said(3).unwrap().sum(Metric::Cpu).unwrap_or(0);
    assert!(all.abs_diff(used) <= WIDE_US, "{all} of {used}");
}

/// A daemon in a session of its own, whose parent has ended before anybody looked: only its mark tells whose it is.
#[test]
fn a_daemon_that_a_program_has_made_is_found() {
    if !is_exact() {
        return skip("a_daemon_that_a_program_has_made_is_found");
    }
    become_subreaper().unwrap();
    let mut board = Board::new(2);
    let mut bench = units_at(Path::new("/proc"), &board);
    assert_eq!(bench.wave(1), []);
    // Two units, so that it has to be told whose it is.
    let other = start("exec sleep 1000");
    let mut program = start("(setsid sh -c 'echo $$; while :; do :; done' &); exec sleep 1000");
    let daemon = line(&mut program);
    for (slot, number) in [other.child.id(), program.child.id()].into_iter().enumerate() {
        board.run(slot, (slot as u64 + 1, 0), number);
    }
    compute(daemon);
    while parent(daemon) != std::process::id() {
        std::thread::yield_now();
    }
    let least = exact_us(daemon).unwrap();
    let said = bench.wave(2);
    let [one, two] = &said[..] else { panic!("{said:?}") };
    assert!(one.sum(Metric::Cpu).unwrap() <= WIDE_US, "{one:?}");
    assert_near(two.sum(Metric::Cpu), daemon, least);
    [daemon, program.child.id(), other.child.id()].into_iter().for_each(kill);
    for program in [program, other] {
        program.wait().unwrap();
    }
}

#[test]
fn a_thread_that_computes_is_told_from_others() {
    if !is_exact() {
        return skip("a_thread_that_computes_is_told_from_others");
    }
    let mut board = Board::new(1);
    let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let used_us = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec as u64 * SECOND + now.tv_nsec as u64 / 1_000
    };
    let compute = |us: u64| {
        let begun = used_us();
        while used_us() < begun + us {
            std::hint::spin_loop();
        }
    };
    compute(WIDE_US * 3);
    let mut bench = units_at(Path::new("/proc"), &board);
    assert_eq!(bench.wave(1), []);
    let before = used_us();
    board.slots[0].computes(JobId(1), 0);
    board.slots[0].in_thread(thread, before);
    board.write();
    // Another thread of this process computes as well, and is not this one.
    std::thread::scope(|scope| scope.spawn(|| compute(ENOUGH_US * 2)).join().unwrap());
    compute(ENOUGH_US);
    let found = bench.said(2).unwrap().sum(Metric::Cpu).unwrap();
    let used = used_us() - before;
    assert!(found + WIDE_US >= ENOUGH_US && found <= used + WIDE_US, "{found} of {used}");
}
