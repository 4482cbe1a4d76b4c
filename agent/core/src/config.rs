//! What a file adds to an agent's graph: stages, edges and timers. It is all in force, or none of it. How a file is read is
//! known elsewhere; where in it each thing stands comes along, so that an error can point there.

use std::collections::BTreeSet;

use crate::refusal::Refusal;
use crate::runtime::Runtime;
use crate::stage::Module;
use crate::words::{Order, StageNumber, TimerName, When, Who, Word};

/// Something of a file, and the byte at which it stands there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct At<T>(pub usize, pub T);

/// What a file says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Config {
    /// The modules whose types it may use; none: all that are compiled in.
    pub modules: Option<Vec<At<String>>>,
    /// Stages, in the order in which they are made.
    pub stages: Vec<StageEntry>,
    /// Edges. Each end is a stage, a dot, and an output or input; the stage may be one that the agent begins with.
    pub edges: Vec<EdgeEntry>,
    /// Timers.
    pub timers: Vec<TimerEntry>,
}

/// A stage of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StageEntry {
    /// Its name.
    pub name: At<String>,
    /// Its type.
    pub type_name: At<String>,
    /// Its settings, in the order in which it is told.
    pub settings: Vec<(At<String>, String)>,
}

/// An edge of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EdgeEntry {
    /// `STAGE.OUTPUT`.
    pub from: At<String>,
    /// `STAGE.INPUT`.
    pub to: At<String>,
}

/// A timer of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimerEntry {
    /// Its name.
    pub name: At<String>,
    /// When it fires. One that fires at a moment that has passed by the time that the file is taken up does not fire.
    pub when: At<When>,
    /// Stages of the file that it fires for.
    pub subscribers: Vec<At<String>>,
}

/// Why a file cannot be in force, and at which byte of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// Where.
    pub at: usize,
    /// Why, in words.
    pub why: String,
}

/// What a file has made of a graph, so that it can be taken back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Applied {
    stages: Vec<StageNumber>,
    edges: Vec<Order>,
    timers: Vec<(TimerName, When)>,
}

/// A timer of a file whose moment has passed never fires: else it would with each start of an agent.
fn from_now_on(when: When, now_us: u64) -> When {
    match when {
        When::At(at_us) if at_us <= now_us => When::At(u64::MAX),
        when => when,
    }
}

fn wrong(at: usize) -> impl FnOnce(Refusal) -> Wrong {
    move |refusal| Wrong { at, why: refusal.to_string() }
}

impl Config {
    /// All types are of modules that the file names, and all of these are known. One with a `/` in its name is a file: it is
    /// for others to find.
    ///
    /// # Errors
    /// A module that is not known, or a type of one that is not named.
    pub fn check_modules(&self, known: &[Module]) -> Result<(), Wrong> {
        let Some(named) = &self.modules else { return Ok(()) };
        for At(at, name) in named.iter().filter(|At(_, name)| !name.contains('/')) {
            if !known.iter().any(|module| module.name == name) {
                let all: Vec<_> = known.iter().map(|module| format!("`{}`", module.name)).collect();
                let why = format!(
                    "there is no module `{name}`: write ./{name} if it is a file here, or one of {}",
                    all.join(", ")
                );
                return Err(Wrong { at: *at, why });
            }
        }
        for StageEntry { type_name: At(at, type_name), .. } in &self.stages {
            let of_type = |module: &&Module| module.types.iter().any(|of| of.name == type_name);
            if let Some(module) = known.iter().find(of_type)
                && !named.iter().any(|At(_, name)| name == module.name)
            {
                let why = format!(
                    "the type `{type_name}` is of the module `{}`: add that to `modules`",
                    module.name
                );
                return Err(Wrong { at: *at, why });
            }
        }
        Ok(())
    }

    /// Makes all of it. After an error nothing of it is there.
    ///
    /// # Errors
    /// The first thing that cannot be had, and where it stands.
    pub fn apply(&self, runtime: &mut Runtime, now_us: u64) -> Result<Applied, Wrong> {
        let mut applied = Applied::default();
        let made = self
            .make_stages(runtime, now_us, &mut applied)
            .and_then(|()| self.make_edges(runtime, now_us, &mut applied))
            .and_then(|()| self.make_timers(runtime, now_us, &mut applied));
        match made {
            Ok(()) => Ok(applied),
            Err(wrong) => {
                applied.end(runtime, now_us);
                Err(wrong)
            }
        }
    }

    fn make_stages(&self, runtime: &mut Runtime, now_us: u64, applied: &mut Applied) -> Result<(), Wrong> {
        for StageEntry { name: At(name_at, name), type_name: At(type_at, type_name), settings } in
            &self.stages
        {
            let create = Order::Create { type_name: type_name.clone(), name: Some(name.clone()) };
            let number = runtime.order_of_file(create, now_us).map_err(|refusal| {
                let at = if matches!(refusal, Refusal::NoType(_)) { *type_at } else { *name_at };
                wrong(at)(refusal)
            })?;
            let number = number.expect("a stage that was made has a number");
            applied.stages.push(number);
            for (At(at, key), value) in settings {
                let word = Word::Set { key: key.clone(), value: value.clone() };
                runtime.order_of_file(Order::Tell(Who::from(number), word), now_us).map_err(wrong(*at))?;
            }
        }
        Ok(())
    }

    fn make_edges(&self, runtime: &mut Runtime, now_us: u64, applied: &mut Applied) -> Result<(), Wrong> {
        for edge in &self.edges {
            let EdgeEntry { from: At(from_at, from), to: At(to_at, to) } = edge;
            let (from, to) = (end_of(*from_at, from, "OUTPUT")?, end_of(*to_at, to, "INPUT")?);
            let order = Order::Link(from.clone(), to.clone());
            runtime.order_of_file(order, now_us).map_err(|refusal| {
                let at = if runtime.knows(&from.0) && !runtime.knows(&to.0) { *to_at } else { *from_at };
                let why = format!("no edge leads from `{}` to `{}`: {refusal}", edge.from.1, edge.to.1);
                Wrong { at, why }
            })?;
            applied.edges.push(Order::Unlink(from, to));
        }
        Ok(())
    }

    fn make_timers(&self, runtime: &mut Runtime, now_us: u64, applied: &mut Applied) -> Result<(), Wrong> {
        let mut names: BTreeSet<String> =
            runtime.timers().into_iter().map(|timer| timer.name.to_owned()).collect();
        for TimerEntry { name: At(name_at, name), when: At(when_at, when), subscribers } in &self.timers {
            if !names.insert(name.clone()) {
                return Err(Wrong { at: *name_at, why: format!("another timer is named `{name}`") });
            }
            let order = Order::Timer(name.clone(), from_now_on(*when, now_us));
            runtime.order_of_file(order, now_us).map_err(|refusal| {
                wrong(if refusal == Refusal::PeriodTooShort { *when_at } else { *name_at })(refusal)
            })?;
            applied.timers.push((name.clone(), *when));
            for At(at, stage) in subscribers {
                if !self.stages.iter().any(|entry| entry.name.1 == *stage) {
                    let why = format!("a timer fires for stages of this file, and `{stage}` is none");
                    return Err(Wrong { at: *at, why });
                }
                let order = Order::Subscribe(name.clone(), Who::from(stage.as_str()), true);
                runtime.order_of_file(order, now_us).map_err(wrong(*at))?;
            }
        }
        Ok(())
    }
}

/// `STAGE.HOOK`.
fn end_of(at: usize, text: &str, hook: &str) -> Result<(Who, String), Wrong> {
    let why = || format!("`{text}` is no end of an edge: write STAGE.{hook}");
    let (stage, name) = text.split_once('.').ok_or_else(|| Wrong { at, why: why() })?;
    Ok((Who::from(stage), name.to_owned()))
}

impl Applied {
    /// The farm's clock is known from now on: timers that fire once are set by it. Those that fire again and again go by it
    /// anyhow.
    pub fn on_clock(&self, runtime: &mut Runtime, now_us: u64) {
        for (name, when) in self.timers.iter().filter(|(_, when)| !matches!(when, When::Every(_))) {
            // One that a stage has ended meanwhile stays so.
            if runtime.timers().iter().any(|timer| timer.name == name) {
                let set = runtime.order(Order::Timer(name.clone(), from_now_on(*when, now_us)), now_us);
                assert!(set.is_ok(), "a timer that is there can be set to fire once");
            }
        }
    }

    /// Takes all of it back.
    pub fn end(self, runtime: &mut Runtime, now_us: u64) {
        // What is gone already, as a stage that a stage has ended, is as it should be.
        let edges = self.edges.into_iter();
        let timers = self.timers.into_iter().map(|(name, _)| Order::EndTimer(name));
        let stages = self.stages.into_iter().map(|number| Order::End(Who::from(number)));
        edges.chain(timers).chain(stages).for_each(|order| drop(runtime.order(order, now_us)));
    }
}
