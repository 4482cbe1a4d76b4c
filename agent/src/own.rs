//! What a node's own file adds to its agent: stages, edges and timers beside those that it begins with, and programs that it
//! starts. The worker checks the file before it hands it on; both make the same of it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use starfarm_agent_core::config::{Applied, At, Config, Wrong};
use starfarm_agent_core::{Order, Refusal, Runtime, Who};
use starfarm_overlay::{Reactor, Watch};
use starfarm_protocol::ids::FarmId;
use starfarm_protocol::orders::PostKind;

use crate::file::{self, FileError, Said, ServiceEntry};
use crate::graph::{self, Doors, WAVE};
use crate::library;
use crate::service::{Figures, Heard, MESSAGE_BYTES_MAX, Service, TYPE};
use crate::sinks::{self, RUN};
use crate::words::{Begin, OwnFile};

/// Bytes of a file, at most.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Services of an agent, at most.
const SERVICES_MAX: usize = 16;
/// The first number by which the output of a service is watched.
const WATCHES: usize = 600;

/// A service that is to be started, and what its stage hears of it.
type Started = (ServiceEntry, Rc<RefCell<Heard>>);

impl OwnFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or cannot be one; where, and why.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path);
        let bytes = bytes.map_err(|error| FileError::whole(&name, format!("cannot be read: {error}")))?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(FileError::whole(&name, format!("it has more than {FILE_BYTES_MAX} bytes")));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            FileError::at(&name, &text, Wrong { at, why: "this is not UTF-8 text".to_owned() })
        })?;
        let of = Self { path: path.to_owned(), text };
        of.said()?;
        Ok(of)
    }

    fn said(&self) -> Result<Said, FileError> {
        file::read(&self.text, self.base()).map_err(|wrong| self.wrong(wrong))
    }

    fn base(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    fn wrong(&self, wrong: Wrong) -> FileError {
        FileError::at(&self.path.display().to_string(), &self.text, wrong)
    }

    /// Its modules that are shared objects.
    pub fn libraries(&self) -> Vec<String> {
        let said = self.said().unwrap_or_default();
        said.libraries.into_iter().map(|At(_, path)| path.display().to_string()).collect()
    }

    /// Makes all of it of a graph that nobody uses. If it has modules that are shared objects, they run in this process from
    /// now on.
    ///
    /// # Errors
    /// No agent can do what it says; where, and why.
    pub fn check(&self) -> Result<(), FileError> {
        let mut runtime = scratch();
        self.add_to(&mut runtime).map(drop)
    }

    /// Adds what it says to a graph: the services that are to be started, and what was added.
    pub(crate) fn add_to(&self, runtime: &mut Runtime) -> Result<(Vec<Started>, Applied), FileError> {
        add(self.said()?, self.base(), runtime).map_err(|wrong| self.wrong(wrong))
    }
}

/// The graph that a back end begins with, and that measures nothing.
pub(crate) fn scratch() -> Runtime {
    let begin = Begin::new(FarmId([0; 16]), PostKind::Be, 0, PathBuf::from("/dev/null"));
    let mut runtime = Runtime::new(&graph::modules());
    graph::build(&mut runtime, &begin, &Doors::default()).expect("an agent can begin");
    runtime
}

/// The programs of stages are relative to the file's folder, as those of services are.
fn place(config: &mut Config, base: &Path) -> Result<(), Wrong> {
    let run = config.stages.iter_mut().filter(|stage| stage.type_name.1 == RUN);
    let settings = run.flat_map(|stage| &mut stage.settings);
    for (At(at, _), program) in settings.filter(|(key, value)| key.1 == "program" && value.contains('/')) {
        *program = file::program(program, base).map_err(|why| Wrong { at: *at, why })?;
    }
    Ok(())
}

fn add(said: Said, base: &Path, runtime: &mut Runtime) -> Result<(Vec<Started>, Applied), Wrong> {
    let Said { mut config, services, libraries } = said;
    place(&mut config, base)?;
    for At(at, path) in &libraries {
        learn(path, runtime).map_err(|why| Wrong { at: *at, why })?;
    }
    config.check_modules(&graph::modules())?;
    let stages = config.stages.iter().map(|stage| &stage.name);
    let names = stages.chain(config.timers.iter().map(|timer| &timer.name));
    names.chain(services.iter().map(|service| &service.name)).try_for_each(check_name)?;
    if let Some(ServiceEntry { name: At(at, _), .. }) = services.get(SERVICES_MAX) {
        return Err(Wrong { at: *at, why: format!("an agent has {SERVICES_MAX} services at most") });
    }
    let bytes_max = MESSAGE_BYTES_MAX / services.len().max(1);
    let mut all = Vec::new();
    for entry in services {
        let heard = Rc::<RefCell<Heard>>::default();
        let At(at, name) = &entry.name;
        let stage = Figures { heard: Rc::clone(&heard), bytes_max };
        let added = add_service(runtime, stage, name);
        added.map_err(|refusal| Wrong { at: *at, why: refusal.to_string() })?;
        all.push((entry, heard));
    }
    let applied = config.apply(runtime, 0)?;
    Ok((all, applied))
}

/// Loads a module, and lets stages be made of its types.
fn learn(path: &Path, runtime: &mut Runtime) -> Result<(), String> {
    let types = library::load(path)?;
    types.iter().try_for_each(|of| runtime.learn(*of)).map_err(|refusal| refusal.to_string())
}

fn add_service(runtime: &mut Runtime, stage: Figures, name: &str) -> Result<(), Refusal> {
    let number = runtime.add(TYPE, Box::new(stage), Some(name))?;
    let link = Order::Link((Who::from(number), "out".to_owned()), (Who::from(WAVE), name.to_owned()));
    runtime.order(link, 0).map(drop)
}

/// The agent gives names such as `units-7` itself, and has a timer of its own.
pub(crate) fn check_name(At(at, name): &At<String>) -> Result<(), Wrong> {
    if graph::is_reserved(name) {
        let why = format!(
            "agents give such names themselves: choose another than `{name}`, and none that ends in `-` and a number"
        );
        return Err(Wrong { at: *at, why });
    }
    Ok(())
}

/// What the file has added to an agent that lives.
#[derive(Default)]
pub(crate) struct Own {
    services: Vec<Service>,
    /// Stages that are asked in each wave.
    names: Vec<String>,
    /// Beside them, until the farm's clock is known.
    applied: Option<Applied>,
}

impl Own {
    /// Adds what the file says to the agent's graph. What the worker had checked and cannot be had any more is left out, and said.
    pub(crate) fn begin(begin: &Begin, runtime: &mut Runtime) -> Self {
        let Some(file) = &begin.file else { return Self::default() };
        sinks::set_node(&begin.node);
        let (services, applied) = match file.add_to(runtime) {
            Ok(added) => added,
            Err(error) => {
                starfarm_net::say(&format!("starfarm-agent: nothing of this file is in force: {error}"));
                return Self::default();
            }
        };
        let names = services.iter().map(|(entry, _)| entry.name.1.clone()).collect();
        let numbered = services.into_iter().enumerate();
        let services = numbered.map(|(n, (entry, heard))| Service::new(entry, Watch(WATCHES + n), heard));
        Self { services: services.collect(), names, applied: Some(applied) }
    }

    /// The farm's clock is known.
    pub(crate) fn on_clock(&mut self, runtime: &mut Runtime, farm_us: u64) {
        if let Some(applied) = self.applied.take() {
            applied.on_clock(runtime, farm_us);
        }
    }

    /// Stages that are asked in each wave, beside those that each agent has.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// A watched file can be read.
    pub(crate) fn on_readable(&mut self, watch: Watch) {
        self.services.iter_mut().for_each(|service| service.on_readable(watch));
    }

    /// When something is to be done, by the agent's own clock.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.services.iter().filter_map(Service::due_us).min()
    }

    /// Does what is to be done.
    pub(crate) fn turn(&mut self, reactor: &Reactor, now_us: u64) {
        self.services.iter_mut().for_each(|service| service.turn(reactor, now_us));
    }
}
