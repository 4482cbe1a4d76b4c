//! `starfarm scheduler` and `starfarm worker`: the same code as the binaries of their own.

use std::io::Read;

use rustix::process::{Signal, getpid, kill_process};
use starfarm_net::say;
use starfarm_worker::ProbeFormat;

use crate::cli::Scheduler;
use crate::output::Format;

/// Runs the scheduling node. Its failures are told here, in its own words, since its exit codes are its own too.
pub(crate) fn scheduler(scheduler: Scheduler) {
    if scheduler.parent_pipe {
        end_with_parent();
    }
    starfarm_scheduler::run(scheduler.args).unwrap_or_else(|error| end(&error, error.exit_code()));
}

/// A worker; `format` is that of what is printed, where a probe names none.
pub(crate) fn worker(mut options: starfarm_worker::Options, format: Format) {
    if options.probe == Some(ProbeFormat::Table) && matches!(format, Format::Json | Format::Jsonl) {
        options.probe = Some(ProbeFormat::Json);
    }
    starfarm_worker::run(&options).unwrap_or_else(|error| end(&error, error.exit_code()));
}

fn end(error: &dyn std::fmt::Display, code: u8) -> ! {
    say(&format!("starfarm: {error}"));
    std::process::exit(code.into())
}

/// When standard input ends, whoever started us has gone: stop as if told to by a signal.
fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        let _ = kill_process(getpid(), Signal::TERM);
    });
}
