//! The graph that a back end begins with: what its machine does leaves as one message a wave, what its units do as one for
//! each job.

use std::path::Path;
use std::rc::Rc;

use starfarm_agent_core::{Module, Order, PURE, Refusal, Runtime, When, Who, Word};
use starfarm_protocol::ids::{FarmId, to_hex};
use starfarm_protocol::link::Stream;

use crate::sensors::SENSORS;
use crate::up::{Leaving, Up};

/// The timer of all sensors, and its period in microseconds.
const TIMER: &str = "period";
const PERIOD_US: u64 = 1_000_000;
/// The sensors of the machine.
const MACHINE: [&str; 4] = ["cpuload", "memory", "network", "disks"];

/// What an agent can make stages of.
pub(crate) fn modules() -> Vec<Module> {
    PURE.into_iter().chain(SENSORS).collect()
}

/// Makes the stages and edges. `running` is the worker's file of that name.
pub(crate) fn build(
    runtime: &mut Runtime,
    running: &Path,
    farm: FarmId,
    leaving: &Leaving,
) -> Result<(), Refusal> {
    for (name, stream) in [("system", Stream::System), ("job", Stream::Job)] {
        runtime.add("up", Box::new(Up { stream, leaving: Rc::clone(leaving) }), Some(name))?;
    }
    let mut order = |order| runtime.order(order, 0).map(drop);
    let create = |type_name: &str, name: &str| Order::Create {
        type_name: type_name.to_owned(),
        name: Some(name.to_owned()),
    };
    let link = |from: &str, to: &str, input: &str| {
        Order::Link((Who::from(from), "out".to_owned()), (Who::from(to), input.to_owned()))
    };
    order(create("wavebuf", "wave"))?;
    for sensor in MACHINE {
        order(create(sensor, sensor))?;
        order(link(sensor, "wave", sensor))?;
    }
    order(link("wave", "system", "in"))?;
    order(create("units", "units"))?;
    let settings = [("running", running.display().to_string()), ("farm", to_hex(&farm.0))];
    for (key, value) in settings {
        order(Order::Tell(Who::from("units"), Word::Set { key: key.to_owned(), value }))?;
    }
    order(link("units", "job", "in"))
}

/// Sets the timer by the farm's clock; the first time, the sensors subscribe to it.
pub(crate) fn set_timers(runtime: &mut Runtime, now_us: u64) -> Result<(), Refusal> {
    runtime.order(Order::Timer(TIMER.to_owned(), When::Every(PERIOD_US)), now_us)?;
    for sensor in MACHINE.into_iter().chain(["units"]) {
        runtime.order(Order::Subscribe(TIMER.to_owned(), Who::from(sensor), true), now_us)?;
    }
    Ok(())
}
