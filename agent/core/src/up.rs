//! The stages at which values leave the agent for the post above it, and those of the posts below it come in.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use starfarm_protocol::link::Stream;
use starfarm_protocol::orders::PostId;

use crate::ids;
use crate::stage::{Context, Stage};
use crate::trace;
use crate::values::{Triple, Triples};
use crate::whole::Whole;
use crate::words::{Hook, Side, Word};

/// Values on their way.
pub struct Values {
    /// What they are for.
    pub stream: Stream,
    /// When they were measured, by the farm's clock, in microseconds.
    pub at_us: u64,
    /// The values themselves.
    pub triples: Vec<u8>,
}

/// Messages that wait to leave; they go at the end of each turn of the runtime.
pub type Leaving = Rc<RefCell<VecDeque<Values>>>;

/// Messages of children that wait to come in.
pub type Coming = Rc<RefCell<VecDeque<(PostId, Values)>>>;

/// A stage with any number of inputs, whose values leave by one stream.
pub struct Up {
    stream: Stream,
    leaving: Leaving,
    metrics: Rc<Cell<u64>>,
    whole: Whole,
}

impl Up {
    /// Values leave by that stream, and wait there until then; of the metrics those whose bits are set.
    pub fn new(stream: Stream, leaving: Leaving, metrics: Rc<Cell<u64>>) -> Self {
        Self { stream, leaving, metrics, whole: Whole::default() }
    }
}

impl Stage for Up {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        match hook.side {
            Side::Input => Ok(()),
            Side::Output => Err("`up` has no output: its values leave the agent".into()),
        }
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        // What sums up others says first when they measured.
        let first = values.into_iter().next().filter(|first| first.id == ids::AT);
        let at_us = first.and_then(|first| first.number()).unwrap_or(context.now_us());
        let leaves = |triple: &Triple<'_>| {
            ids::metric(triple.id).is_none_or(|metric| self.metrics.get() & (1 << metric as u8) != 0)
        };
        let is_machines = self.stream == Stream::System;
        let lacking = if is_machines { self.whole.lacks(values, context.now_us()) } else { Vec::new() };
        let all = values.into_iter().chain(Triples::of_checked(&lacking));
        let triples = Triples::written(all.filter(leaves));
        self.leaving.borrow_mut().push_back(Values { stream: self.stream, at_us, triples });
    }
}

/// The outputs of [`Down`], by stream.
const OUTPUTS: [Stream; 3] = [Stream::System, Stream::Job, Stream::Trace];

/// A stage without inputs, whose outputs `system`, `job` and `trace` say what children have told. What comes out at `trace` leaves
/// by [`Up`] as it came, but for the post that has told it: who sums up nothing keeps its order, and its time.
#[derive(Default)]
pub struct Down {
    coming: Coming,
    outputs: [Option<usize>; OUTPUTS.len()],
}

impl Down {
    /// Those that wait there; it hands them on when it is told that they are ready.
    pub fn new(coming: Coming) -> Self {
        Self { coming, outputs: [None; OUTPUTS.len()] }
    }

    fn at(name: &str) -> Result<usize, String> {
        let at = OUTPUTS.iter().position(|stream| stream.word() == name);
        at.ok_or_else(|| format!("`down` has the outputs `system`, `job` and `trace`, and not `{name}`"))
    }
}

impl Stage for Down {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        match hook.side {
            Side::Input => Err("`down` has no input: its values come from the posts below".into()),
            Side::Output => {
                self.outputs[Self::at(hook.name)?] = Some(hook.port);
                Ok(())
            }
        }
    }

    fn edge_gone(&mut self, hook: Hook<'_>) {
        if let Ok(at) = Self::at(hook.name) {
            self.outputs[at] = None;
        }
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::Ready => {
                for (child, Values { stream, at_us, triples }) in self.coming.borrow_mut().drain(..) {
                    let at = OUTPUTS.iter().position(|known| *known == stream);
                    let (Some(output), Ok(triples)) =
                        (at.and_then(|at| self.outputs[at]), Triples::read(&triples))
                    else {
                        context.not_taken(1);
                        continue;
                    };
                    context.emit(output, |message| match stream {
                        Stream::Trace => trace::pass_on(child, at_us, triples, message),
                        _ => {
                            message.put_number(ids::POST, child.0);
                            message.put_number(ids::AT, at_us);
                            message.put_all(triples);
                        }
                    });
                }
                Ok(())
            }
            Word::Set { key, .. } => Err(format!("there is no setting `{key}`")),
            _ => Ok(()),
        }
    }
}
