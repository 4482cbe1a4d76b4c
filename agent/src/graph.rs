//! The graphs that posts begin with. A back end: what its machine does leaves as one message a wave, what its units do as one
//! for each job, and what programs tell as they tell it. A communication process: what those below tell is summed up by job, and put
//! together by machine; what programs tell it passes on.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use starfarm_agent_core::up::{Coming, Down, Leaving, Up};
use starfarm_agent_core::{Gather, Guests, Module, Order, PURE, Refusal, Runtime, Who, Word};
use starfarm_protocol::ids::to_hex;
use starfarm_protocol::link::Stream;
use starfarm_protocol::orders::PostKind;

use crate::program;
use crate::raise::{Raise, Seeing};
use crate::sensors::SENSORS;
use crate::sinks::SINKS;
use crate::udp::UDP;
use crate::words::Begin;

/// The timer of all sensors.
pub(crate) const TIMER: &str = "period";
/// The sensors of the machine, and that of units.
pub(crate) const MACHINE: [&str; 5] = ["cpuload", "memory", "network", "disks", ACCELERATORS];
const ACCELERATORS: &str = "accelerators";
pub(crate) const UNITS: &str = "units";
/// The sensor of what is wrong with the machine, its timer, and how often that fires, in microseconds.
pub(crate) const HEALTH: &str = "health";
pub(crate) const HEALTH_US: u64 = 2_000_000;
/// Where all that one timer brings of the machine becomes one message.
pub(crate) const WAVE: &str = "wave";
/// The period of waves until somebody says another, in microseconds.
const PERIOD_US: u64 = 1_000_000;
/// The stages of a communication process.
pub(crate) const DOWN: &str = "down";
pub(crate) const GATHER: &str = "gather";
/// Where values leave, by stream.
const UP: [(&str, Stream); 3] = [("system", Stream::System), ("job", Stream::Job), (TRACE, Stream::Trace)];
const TRACE: &str = "trace";

/// Types that may be had from afar, and that stages may make. The others name something of the node: `health` a file system, `units` and `program` files of the
/// worker, `udp_receive` and `udp_send` ports.
pub(crate) const FROM_AFAR: [&str; 15] = [
    "aggregate",
    "blackhole",
    "control",
    "cpuload",
    "demux",
    "derivative",
    "disks",
    "filter",
    "memory",
    "network",
    "prepend",
    "rate",
    "threshold",
    "wavebuf",
    "window",
];

/// The agent gives such names itself: of its stages for jobs, and its timers.
pub(crate) fn is_reserved(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    [TIMER, HEALTH].contains(&name) || name.rsplit_once('-').is_some_and(|(_, number)| is_number(number))
}

/// Where values come in and leave, and how many came too late.
pub(crate) struct Doors {
    pub(crate) leaving: Leaving,
    pub(crate) coming: Coming,
    pub(crate) late: Rc<Cell<u64>>,
    /// What leaves of machines: bit n is the metric with number n.
    pub(crate) metrics: Rc<Cell<u64>>,
    /// What sensors see that somebody must know.
    pub(crate) seeing: Seeing,
}

impl Default for Doors {
    fn default() -> Self {
        let (leaving, coming, late) = (Leaving::default(), Coming::default(), Rc::default());
        Self { leaving, coming, late, metrics: Rc::new(Cell::new(u64::MAX)), seeing: Seeing::default() }
    }
}

/// What an agent can make stages of.
pub(crate) fn modules() -> Vec<Module> {
    PURE.into_iter().chain(SENSORS).chain(UDP).chain(SINKS).chain([program::MODULE]).collect()
}

/// Makes the stages and edges.
pub(crate) fn build(runtime: &mut Runtime, begin: &Begin, doors: &Doors) -> Result<(), Refusal> {
    runtime.open_to(Guests { types: &FROM_AFAR, is_reserved });
    for (name, stream) in UP {
        let all = Rc::new(Cell::new(u64::MAX));
        let metrics = if stream == Stream::System { Rc::clone(&doors.metrics) } else { all };
        let up = Up::new(stream, Rc::clone(&doors.leaving), metrics);
        runtime.add("up", Box::new(up), Some(name))?;
    }
    match begin.kind {
        PostKind::Be if begin.job.is_some() => units(runtime, begin, UNITS),
        PostKind::Be => {
            back_end(runtime, begin)?;
            programs(runtime, begin)?;
            health(runtime, begin, doors)
        }
        PostKind::Ibe | PostKind::Cp => communication_process(runtime, doors),
        PostKind::Fe | PostKind::Ap => Ok(()),
    }
}

fn link(
    runtime: &mut Runtime,
    (from, output): (&str, &str),
    (to, input): (&str, &str),
) -> Result<(), Refusal> {
    let link = Order::Link((Who::from(from), output.to_owned()), (Who::from(to), input.to_owned()));
    runtime.order(link, 0).map(drop)
}

fn back_end(runtime: &mut Runtime, begin: &Begin) -> Result<(), Refusal> {
    let create = |type_name: &str, name: &str| Order::Create {
        type_name: type_name.to_owned(),
        name: Some(name.to_owned()),
    };
    runtime.order(create("wavebuf", WAVE), 0)?;
    for sensor in MACHINE {
        runtime.order(create(sensor, sensor), 0)?;
        link(runtime, (sensor, "out"), (WAVE, sensor))?;
    }
    link(runtime, (WAVE, "out"), ("system", "in"))?;
    set(runtime, ACCELERATORS, ("file", &begin.cards()))?;
    units(runtime, begin, UNITS)
}

fn set(runtime: &mut Runtime, stage: &str, (key, value): (&str, &Path)) -> Result<(), Refusal> {
    let set = Word::Set { key: key.to_owned(), value: value.display().to_string() };
    runtime.order(Order::Tell(Who::from(stage), set), 0).map(drop)
}

/// Makes a stage that tells what units use.
pub(crate) fn units(runtime: &mut Runtime, begin: &Begin, name: &str) -> Result<(), Refusal> {
    let create = Order::Create { type_name: UNITS.to_owned(), name: Some(name.to_owned()) };
    runtime.order(create, 0)?;
    let settings = [("running", begin.running.display().to_string()), ("farm", to_hex(&begin.farm.0))];
    let only = begin.job.map(|job| ("only", job.0.to_string()));
    for (key, value) in settings.into_iter().chain(only) {
        runtime.order(Order::Tell(Who::from(name), Word::Set { key: key.to_owned(), value }), 0)?;
    }
    link(runtime, (name, "out"), ("job", "in"))
}

/// What programs of units say of themselves. Where their folder cannot be had nobody hears them, and the rest goes on.
fn programs(runtime: &mut Runtime, begin: &Begin) -> Result<(), Refusal> {
    let Some(folder) = &begin.metrics else { return Ok(()) };
    let create = Order::Create { type_name: program::TYPE.to_owned(), name: Some(program::TYPE.to_owned()) };
    runtime.order(create, 0)?;
    link(runtime, (program::TYPE, program::EVENTS), (TRACE, "in"))?;
    if let Err(refusal) = set(runtime, program::TYPE, ("folder", folder)) {
        starfarm_net::say(&format!("starfarm-agent: nobody hears what programs of units say: {refusal}"));
    }
    Ok(())
}

/// How the machine is, by a timer of its own.
fn health(runtime: &mut Runtime, begin: &Begin, doors: &Doors) -> Result<(), Refusal> {
    runtime.add("alarm", Box::new(Raise::new(Rc::clone(&doors.seeing), begin.drains)), Some("alarm"))?;
    let create = Order::Create { type_name: HEALTH.to_owned(), name: Some(HEALTH.to_owned()) };
    runtime.order(create, 0)?;
    link(runtime, (HEALTH, "out"), ("alarm", "in"))?;
    set(runtime, HEALTH, ("cards", &begin.cards()))?;
    set(runtime, HEALTH, ("disk", begin.folder()))
}

fn communication_process(runtime: &mut Runtime, doors: &Doors) -> Result<(), Refusal> {
    runtime.add("down", Box::new(Down::new(Rc::clone(&doors.coming))), Some(DOWN))?;
    runtime.add("gather", Box::new(Gather::new(PERIOD_US, Rc::clone(&doors.late))), Some(GATHER))?;
    link(runtime, (DOWN, TRACE), (TRACE, "in"))?;
    for (name, _) in UP.into_iter().filter(|(name, _)| *name != TRACE) {
        link(runtime, (DOWN, name), (GATHER, "in"))?;
        link(runtime, (GATHER, name), (name, "in"))?;
    }
    Ok(())
}

/// Tells the stage that sums up something; posts of other kinds have none.
pub(crate) fn tell_gather(runtime: &mut Runtime, kind: PostKind, (key, value): (&str, String), now_us: u64) {
    if matches!(kind, PostKind::Cp | PostKind::Ibe) {
        let word = Word::Set { key: key.to_owned(), value };
        let told = runtime.order(Order::Tell(Who::from(GATHER), word), now_us);
        assert!(told.is_ok(), "the stage is there, and knows the setting");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::PathBuf;

    use starfarm_protocol::ids::FarmId;

    use super::*;

    /// Edges of the graph that such a post begins with, that lead to or from what is called so.
    fn edges(kind: PostKind, metrics: Option<PathBuf>, name: &str) -> Vec<String> {
        let begin = Begin { metrics, ..Begin::new(FarmId([0; 16]), kind, 0, PathBuf::from("/dev/null")) };
        let mut runtime = Runtime::new(&modules());
        build(&mut runtime, &begin, &Doors::default()).unwrap();
        let stages = runtime.stages();
        let called = |number| stages.iter().find(|(of, ..)| *of == number).unwrap().1.unwrap();
        let edges = runtime.edges().into_iter();
        let edges = edges
            .map(|(from, output, to, input)| format!("{}.{output} {}.{input}", called(from), called(to)));
        edges.filter(|edge| edge.contains(name)).collect()
    }

    #[test]
    fn what_programs_tell_is_handed_on_and_not_summed_up() {
        for kind in [PostKind::Cp, PostKind::Ibe] {
            assert_eq!(edges(kind, None, "trace"), ["down.trace trace.in"]);
        }
        assert_eq!(edges(PostKind::Be, Some(std::env::temp_dir()), "trace"), ["program.events trace.in"]);
        assert_eq!(edges(PostKind::Be, None, "trace"), [] as [&str; 0]);
    }
}
