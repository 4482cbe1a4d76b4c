//! What every command gets: the farm that is meant, and where the output goes.

use std::path::{Path, PathBuf};

use crate::cli::Global;
use crate::client::Client;
use crate::config::Config;
use crate::failure::Failure;
use crate::output::Printer;

pub(crate) struct Context {
    /// The farm, if one is named anywhere.
    pub(crate) farm: Option<PathBuf>,
    /// Where the data goes.
    pub(crate) printer: Printer,
    /// Whether progress is shown while something is waited for.
    pub(crate) progress: bool,
}

impl Context {
    pub(super) fn new(global: Global) -> Result<Self, Failure> {
        let config = Config::read()?;
        // An empty variable is as good as none.
        let farm = global.farm.filter(|farm| !farm.as_os_str().is_empty()).or(config.farm);
        let format = global.output.or(config.output).unwrap_or_default();
        let printer = Printer::to_stdout(format, global.color);
        Ok(Self { farm, printer, progress: !global.no_progress })
    }

    /// Connects to the farm; a wait for its scheduler is told.
    pub(crate) fn connect(&self) -> Result<Client, Failure> {
        Ok(Client::connect(self.named_farm()?)?.telling())
    }

    /// Connects for a look at jobs and results, which a farm at rest has as well.
    pub(crate) fn connect_or_look(&self) -> Result<Client, Failure> {
        Ok(Client::connect_or_look(self.named_farm()?)?.telling())
    }

    pub(crate) fn named_farm(&self) -> Result<&Path, Failure> {
        self.farm.as_deref().ok_or_else(|| {
            Failure::usage(
                "which farm? Give --farm DIR, the scheduler's state directory on this machine, or --farm FILE, \
                 a copy of its admin.join; or set STARFARM_FARM",
            )
        })
    }
}
