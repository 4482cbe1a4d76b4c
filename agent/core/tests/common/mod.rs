//! Stages for tests, and what they have noted.
#![allow(dead_code)] // each test crate uses some of it

use std::cell::RefCell;
use std::rc::Rc;

use starfarm_agent_core::{
    Context, Hook, Order, PURE, Runtime, Side, Stage, StageNumber, Summary, Triple, Triples, ValueId, When,
    Who, Word,
};

pub(crate) const SECOND: u64 = 1_000_000;

/// What a sink has seen: each message as a line.
#[derive(Clone, Default)]
pub(crate) struct Seen(Rc<RefCell<Vec<String>>>);

impl Seen {
    pub(crate) fn note(&self, line: String) {
        self.0.borrow_mut().push(line);
    }

    /// All since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.borrow_mut())
    }
}

/// Emits its own id, and a value that grows by one, whenever one of its timers fires.
pub(crate) struct Sensor {
    pub(crate) id: u32,
    pub(crate) value: u64,
}

impl Stage for Sensor {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        match (hook.side, hook.name) {
            (Side::Output, "out-u64") => Ok(()),
            (Side::Output, other) => Err(format!("a sensor has the output `out-u64`, not `{other}`")),
            (Side::Input, _) => Err("a sensor has no inputs".into()),
        }
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::Fired(_) => {
                self.value += 1;
                context.emit(0, |message| message.put_number(ValueId(self.id), self.value));
                Ok(())
            }
            Word::Set { key, value } if key == "value" => {
                self.value = value.parse().map_err(|_| format!("`{value}` is no number"))?;
                Ok(())
            }
            Word::Set { key, .. } => Err(format!("there is no setting `{key}`")),
            _ => Ok(()),
        }
    }
}

/// Notes what comes: time, input, ids and values.
pub(crate) struct Sink(pub(crate) Seen);

impl Stage for Sink {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        if hook.side == Side::Input { Ok(()) } else { Err("a sink has no outputs".into()) }
    }

    fn edge_gone(&mut self, hook: Hook<'_>) {
        self.0.note(format!("{} is gone", hook.name));
    }

    fn data(&mut self, input: usize, values: Triples<'_>, context: &mut Context<'_>) {
        let values: Vec<String> = values.into_iter().map(shown).collect();
        self.0.note(format!("{:.1} s, {input}: {}", context.now_us() as f64 / 1e6, values.join(" ")));
    }
}

/// Id and value: numbers with commas between them, summaries as count, sum, least and greatest, text.
fn shown(triple: Triple<'_>) -> String {
    let value = match (triple.numbers(), Summary::read_each(triple.value)) {
        (Some(numbers), _) => numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(","),
        (None, Some(each)) => {
            let each = each.iter().map(|of| format!("{}/{}/{}/{}", of.count, of.sum, of.min, of.max));
            each.collect::<Vec<_>>().join(",")
        }
        (None, None) => format!("'{}", String::from_utf8_lossy(triple.value)),
    };
    format!("{}={value}", triple.id.0)
}

/// Reads what a sink writes.
pub(crate) fn read(shown: &str) -> (ValueId, Vec<u8>) {
    let (id, value) = shown.split_once('=').unwrap();
    let number = |text: &str| text.parse::<u64>().unwrap();
    let summary = |text: &str| {
        let [count, sum, min, max] = text.split('/').map(number).collect::<Vec<_>>()[..] else {
            panic!("{text}")
        };
        Summary { count, sum, min, max }
    };
    let value = if let Some(text) = value.strip_prefix('\'') {
        text.as_bytes().to_vec()
    } else if value.contains('/') {
        Summary::write_each(&value.split(',').map(summary).collect::<Vec<_>>())
    } else {
        value.split(',').flat_map(|text| number(text).to_le_bytes()).collect()
    };
    (ValueId(id.parse().unwrap()), value)
}

pub(crate) fn who(name: &str) -> Who {
    name.into()
}

pub(crate) fn runtime() -> Runtime {
    Runtime::new(&PURE)
}

/// Carries out what must go well.
pub(crate) fn order(runtime: &mut Runtime, order: Order) -> Option<StageNumber> {
    runtime.order(order, 0).unwrap()
}

pub(crate) fn link(runtime: &mut Runtime, from: (&str, &str), to: (&str, &str)) {
    order(runtime, link_order(from, to));
}

pub(crate) fn link_order(from: (&str, &str), to: (&str, &str)) -> Order {
    Order::Link((who(from.0), from.1.into()), (who(to.0), to.1.into()))
}

pub(crate) fn every(runtime: &mut Runtime, name: &str, period_us: u64, subscribers: &[&str]) {
    order(runtime, Order::Timer(name.into(), When::Every(period_us)));
    for stage in subscribers {
        order(runtime, Order::Subscribe(name.into(), who(stage), true));
    }
}

/// Lets time pass until then, from timer to timer.
pub(crate) fn run_to(runtime: &mut Runtime, end_us: u64) {
    while let Some(due_us) = runtime.next_due_us().filter(|due_us| *due_us <= end_us) {
        runtime.on_time(due_us);
    }
}

/// Two sensors, a consolidation, a sink: the smallest agent.
pub(crate) fn smallest() -> (Runtime, Seen) {
    let (mut runtime, seen) = (runtime(), Seen::default());
    for (id, name) in [(1, "cpu"), (2, "memory")] {
        runtime.add("sensor", Box::new(Sensor { id, value: 0 }), Some(name)).unwrap();
    }
    runtime.add("sink", Box::new(Sink(seen.clone())), Some("up")).unwrap();
    order(&mut runtime, Order::Create { type_name: "wavebuf".into(), name: Some("wave".into()) });
    link(&mut runtime, ("cpu", "out-u64"), ("wave", "in"));
    link(&mut runtime, ("memory", "out-u64"), ("wave", "in"));
    link(&mut runtime, ("wave", "out"), ("up", "in"));
    (runtime, seen)
}
