//! The rim of a computing node: sockets, sessions, threads, files and processes around
//! `starfarm-worker-core`, which decides. Start reading at `node`, the main thread; the others are
//! `sockets` (receive), `slot` (one for each slot) and `bulk`.
//!
//! | file | holds |
//! | --- | --- |
//! | `options`, `values`, `state`, `board` | what a person says; what outlives the process |
//! | `facts`, `cards`, `system_files` | what this machine is; cards that programs may be given |
//! | `node`, `event` | the main thread: waits for events, tells the core, does its deeds |
//! | `sockets`, `sessions` | datagrams; keys |
//! | `devices`, `probe` | accelerators, each in a child process; what a person is told of the machine |
//! | `addresses` | where the scheduler may be |
//! | `bulk`, `contents` | what is fetched and stored by hash; whether TCP gets through |
//! | `orders`, `posts`, `agent` | what the scheduler wants of this node beside tasks; its agents; one of these as a process |
//! | `slot`, `report`, `run` | running tasks; `starfarm-exec` has their programs |
//!
//! Not here: what is worth doing and when (`core`), how bytes are laid out (`starfarm-protocol`).
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod addresses;
mod agent;
mod board;
mod bulk;
mod cards;
mod contents;
mod devices;
mod error;
mod event;
mod facts;
mod gauges;
mod held_cards;
mod metrics;
mod node;
mod options;
mod orders;
mod posts;
mod probe;
mod report;
mod run;
mod say;
mod sessions;
mod slot;
mod sockets;
mod state;
mod stop;
mod store;
mod system_files;
#[cfg(test)]
mod testing;
mod values;
mod verbose;

use starfarm_protocol::devices::DeviceNeeds;
use starfarm_protocol::spec::JobSpec;

pub use agent::AgentProcess;
pub use devices::{Choice, Compiled};
pub use error::WorkerError;
pub use options::{Cpus, Options, ProbeFormat, has};
pub use values::Until;

/// Whether a device of this machine can be made ready for a job, as one of a worker that is told nothing else.
///
/// # Errors
/// It cannot, since of the job; in words.
pub fn check(spec: &JobSpec, needs: &DeviceNeeds) -> Result<Compiled, String> {
    devices::check(spec, needs, options::usual_kernel_cache())
}

/// Lives as the slot host that this process was started as, if it was. To be called before arguments are read: a host's first
/// one says what it is, whatever those of its worker are.
pub fn host_if_asked() -> bool {
    let Some(work) = devices::asked_for() else { return false };
    let served = devices::serve(work, run::for_device, gauges::serve);
    // Who reads it may have gone, which is how it ends as a rule.
    if let Err(error) = served
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        say::say(&format!("a process for {work:?} has ended: {error}"));
    }
    true
}

/// Runs a worker until it has drained, is refused or is stopped. Messages go to stderr. It takes over
/// SIGINT and SIGTERM, and all orphans below this process, so that a process can do this once.
///
/// # Errors
/// See [`WorkerError`]; its exit code is [`WorkerError::exit_code`].
pub fn run(options: &Options) -> Result<(), WorkerError> {
    if options.warden {
        starfarm_exec::keep_watch();
        return Ok(());
    }
    if let Some(format) = options.probe {
        return probe::print(options, format);
    }
    // A worker of which a part has panicked must not look alive.
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        std::process::abort();
    }));
    node::Node::start(options)?.run()
}
