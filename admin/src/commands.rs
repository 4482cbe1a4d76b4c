//! From a parsed command line to what is done: one file for each command or family of them. Here: which
//! is which, and what they share.

mod audit;
mod bench;
mod daemons;
mod events;
mod explain;
pub(crate) mod job;
mod keys;
mod log;
mod manual;
mod nodes;
mod plan;
pub(crate) mod reference;
mod results;
mod run;
mod status;
mod submit;
mod top;
mod wait;

use std::path::{Path, PathBuf};

use crate::cli::{Bench, Cli, Command, Global};
use crate::client::Client;
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::Printer;
use crate::progress::Show;

/// What every command gets.
pub(crate) struct Context {
    /// The farm, if one is named anywhere.
    pub(crate) farm: Option<PathBuf>,
    /// Where the data goes.
    pub(crate) printer: Printer,
    /// What is shown while something is waited for.
    pub(crate) progress: Show,
}

impl Context {
    fn new(global: Global) -> Result<Self, Failure> {
        let config = Config::read()?;
        // An empty variable is as good as none.
        let farm = global.farm.filter(|farm| !farm.as_os_str().is_empty()).or(config.farm);
        let format = global.output.or(config.output).unwrap_or_default();
        let progress = if global.no_progress { Show::Nothing } else { Show::Progress };
        Ok(Self { farm, printer: Printer::to_stdout(format, global.color), progress })
    }

    /// Connects to the farm; a wait for its scheduler is told.
    ///
    /// # Errors
    /// None is named, or as [`Client::connect`].
    pub(crate) fn connect(&self) -> Result<Client, Failure> {
        Ok(Client::connect(self.named_farm()?)?.telling())
    }

    /// Connects for a look at jobs and results, which a farm at rest has as well.
    ///
    /// # Errors
    /// None is named, or as [`Client::connect_or_look`].
    pub(crate) fn connect_or_look(&self) -> Result<Client, Failure> {
        Ok(Client::connect_or_look(self.named_farm()?)?.telling())
    }

    /// The farm.
    ///
    /// # Errors
    /// None is named.
    pub(crate) fn named_farm(&self) -> Result<&Path, Failure> {
        self.farm.as_deref().ok_or_else(|| {
            Failure::usage(
                "which farm? Give --farm DIR, the scheduler's state directory on this machine, or --farm FILE, \
                 a copy of its admin.join; or set STARFARM_FARM",
            )
        })
    }
}

/// Does what the command line says.
///
/// # Errors
/// Why it was not done, with the exit code.
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
        Command::Run(run) => run::run(context, &run),
        Command::Scheduler(scheduler) => daemons::scheduler(*scheduler),
        Command::Worker(options) => daemons::worker(&options),
        Command::Submit(submit) => submit::run(context, &submit),
        Command::Jobs { state } => job::list(context, &state),
        Command::Job(command) => job::run(context, &command),
        Command::Nodes => nodes::list(context),
        Command::Node(command) => nodes::run(context, &command),
        Command::Key(command) => keys::run(context, &command),
        Command::Results(results) => results::run(context, &results),
        Command::Status => status::run(context),
        Command::Events(events) => events::run(context, &events),
        Command::Top(top) => top::run(context, &top),
        Command::Audit(audit) => audit::run(context, &audit),
        Command::Log(log) => log::run(context, &log),
        Command::Plan(plan) => plan::run(context, &plan),
        Command::Bench(Bench::Dispatch(dispatch)) => bench::run(context, &dispatch),
        Command::JobFile => reference::job_file(context),
        Command::Schema { name } => reference::schema(context, name.as_deref()),
        Command::Completions { shell } => manual::completions(context, shell),
        Command::Man { out } => manual::pages(context, out.as_deref()),
    }
}
