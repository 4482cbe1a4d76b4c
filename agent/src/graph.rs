//! The graphs that posts begin with. A back end: what its machine does leaves as one message a wave, what its units do as one
//! for each job. A communication process: what those below tell is summed up by job, and put together by machine.

use std::cell::Cell;
use std::rc::Rc;

use starfarm_agent_core::{Gather, Module, Order, PURE, Refusal, Runtime, When, Who, Word};
use starfarm_protocol::ids::to_hex;
use starfarm_protocol::link::Stream;
use starfarm_protocol::orders::PostKind;

use crate::sensors::SENSORS;
use crate::up::{Coming, Down, Leaving, Up};
use crate::words::Begin;

/// The timer of all sensors, and its period in microseconds.
const TIMER: &str = "period";
const PERIOD_US: u64 = 1_000_000;
/// The sensors of the machine.
const MACHINE: [&str; 4] = ["cpuload", "memory", "network", "disks"];
/// The stages of a communication process.
pub(crate) const DOWN: &str = "down";
pub(crate) const GATHER: &str = "gather";
/// Where values leave, by stream.
const UP: [(&str, Stream); 2] = [("system", Stream::System), ("job", Stream::Job)];

/// Where values come in and leave, and how many came too late.
#[derive(Default)]
pub(crate) struct Doors {
    pub(crate) leaving: Leaving,
    pub(crate) coming: Coming,
    pub(crate) late: Rc<Cell<u64>>,
}

/// What an agent can make stages of.
pub(crate) fn modules() -> Vec<Module> {
    PURE.into_iter().chain(SENSORS).collect()
}

/// Makes the stages and edges.
pub(crate) fn build(runtime: &mut Runtime, begin: &Begin, doors: &Doors) -> Result<(), Refusal> {
    for (name, stream) in UP {
        runtime.add("up", Box::new(Up { stream, leaving: Rc::clone(&doors.leaving) }), Some(name))?;
    }
    match begin.kind {
        PostKind::Be => back_end(runtime, begin),
        _ => communication_process(runtime, doors),
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
    runtime.order(create("wavebuf", "wave"), 0)?;
    for sensor in MACHINE {
        runtime.order(create(sensor, sensor), 0)?;
        link(runtime, (sensor, "out"), ("wave", sensor))?;
    }
    link(runtime, ("wave", "out"), ("system", "in"))?;
    runtime.order(create("units", "units"), 0)?;
    let settings = [("running", begin.running.display().to_string()), ("farm", to_hex(&begin.farm.0))];
    for (key, value) in settings {
        runtime.order(Order::Tell(Who::from("units"), Word::Set { key: key.to_owned(), value }), 0)?;
    }
    link(runtime, ("units", "out"), ("job", "in"))
}

fn communication_process(runtime: &mut Runtime, doors: &Doors) -> Result<(), Refusal> {
    runtime.add("down", Box::new(Down::new(Rc::clone(&doors.coming))), Some(DOWN))?;
    runtime.add("gather", Box::new(Gather::new(PERIOD_US, Rc::clone(&doors.late))), Some(GATHER))?;
    for (name, _) in UP {
        link(runtime, (DOWN, name), (GATHER, "in"))?;
        link(runtime, (GATHER, name), (name, "in"))?;
    }
    Ok(())
}

/// Sets the timer by the farm's clock; the first time, the sensors subscribe to it.
pub(crate) fn set_timers(
    runtime: &mut Runtime,
    kind: PostKind,
    (now_us, is_first): (u64, bool),
) -> Result<(), Refusal> {
    if kind != PostKind::Be {
        return Ok(());
    }
    runtime.order(Order::Timer(TIMER.to_owned(), When::Every(PERIOD_US)), now_us)?;
    for sensor in MACHINE.into_iter().chain(["units"]).filter(|_| is_first) {
        runtime.order(Order::Subscribe(TIMER.to_owned(), Who::from(sensor), true), now_us)?;
    }
    Ok(())
}
