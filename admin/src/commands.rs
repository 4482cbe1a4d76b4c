//! From a parsed command line to what is done: one file for each command or family of them. Here: which
//! is which; what they share is in `context`.

mod audit;
mod bench;
mod context;
mod daemons;
mod events;
mod explain;
mod halt;
pub(crate) mod job;
mod joblog;
mod keys;
mod log;
mod monitor;
mod nodes;
mod plan;
pub(crate) mod reference;
mod results;
mod run;
mod selection;
mod status;
mod submit;
mod top;
mod tree;
mod usage;
mod wait;

use crate::cli::{Bench, Cli, Command};
use crate::failure::{Exit, Failure};
use crate::interrupt;
pub(crate) use context::Context;

pub(crate) fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    let mut context = Context::new(cli.global)?;
    if !sees_to_signals(&cli.command) {
        interrupt::end_at_once()?;
    }
    let exit = carry_out(&mut context, cli.command)?;
    context.printer.flush()?;
    Ok(exit)
}

/// Whether the command is a daemon, or has processes to put away before it may end.
fn sees_to_signals(command: &Command) -> bool {
    matches!(
        command,
        Command::Run(_)
            | Command::Top(_)
            | Command::Plan(_)
            | Command::Bench(_)
            | Command::Scheduler(_)
            | Command::Worker(_)
    )
}

fn carry_out(context: &mut Context, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Run(run) => return run::run(context, &run),
        Command::Submit(submit) => return submit::run(context, &submit),
        Command::Job(command) => return job::run(context, &command),
        Command::Audit(audit) => return audit::run(context, &audit),
        Command::Scheduler(scheduler) => daemons::scheduler(*scheduler),
        Command::Worker(options) => daemons::worker(*options, context.printer.format),
        Command::Jobs(jobs) => job::list(context, &jobs)?,
        Command::Nodes => nodes::list(context)?,
        Command::Node(command) => nodes::run(context, &command)?,
        Command::Key(command) => keys::run(context, &command)?,
        Command::Results(results) => results::run(context, &results)?,
        Command::Status(status) => status::run(context, &status)?,
        Command::Events(events) => events::run(context, &events)?,
        Command::Top(top) => top::run(context, &top)?,
        Command::Log(log) => log::run(context, &log)?,
        Command::Monitor(command) => monitor::run(context, &command)?,
        Command::Tree(command) => tree::run(context, &command)?,
        Command::Plan(plan) => plan::run(context, &plan)?,
        Command::Bench(Bench::Dispatch(dispatch)) => bench::run(context, &dispatch)?,
        Command::Bench(Bench::Udp(udp)) => bench::udp(context, &udp)?,
        Command::Bench(Bench::Tree(tree)) => bench::tree(context, &tree)?,
        Command::JobFile => reference::job_file(context)?,
        Command::Schema { name } => reference::schema(context, name.as_deref())?,
        Command::Completions { shell } => reference::completions(context, shell)?,
        Command::Man { out } => reference::pages(context, out.as_deref())?,
    }
    Ok(Exit::Ok)
}
