//! What a type of stages is made of, and what a stage can do while it is asked something.

use std::collections::VecDeque;

use crate::flow::Flow;
use crate::values::{Message, Triples};
use crate::words::{Hook, Order, StageNumber, Word};

/// A stage. Its type is what makes it; what it does not take is refused for it.
pub trait Stage {
    /// The first edge of a hook is about to be made, and the stage may refuse it, in words.
    ///
    /// # Errors
    /// There is no such hook, or its type does not fit.
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String>;

    /// The last edge of a hook has gone.
    fn edge_gone(&mut self, _hook: Hook<'_>) {}

    /// Values have come to an input.
    fn data(&mut self, _input: usize, _values: Triples<'_>, _context: &mut Context<'_>) {}

    /// Something else has come.
    ///
    /// # Errors
    /// It has no such setting, or not with this value, in words.
    fn told(&mut self, word: &Word, _context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::Set { key, .. } => Err(format!("there is no setting `{key}`")),
            _ => Ok(()),
        }
    }
}

/// What a stage can do while it is asked.
pub struct Context<'a> {
    pub(crate) number: StageNumber,
    pub(crate) slot: usize,
    pub(crate) now_us: u64,
    pub(crate) flow: &'a mut Flow,
    pub(crate) orders: &'a mut VecDeque<(StageNumber, Order)>,
    pub(crate) waiting: &'a mut Vec<StageNumber>,
    pub(crate) not_taken: &'a mut u64,
}

impl Context<'_> {
    /// The number of the stage that is asked.
    pub fn number(&self) -> StageNumber {
        self.number
    }

    /// The farm's clock, in microseconds.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Sends what `put` puts into a message to everybody whose input is linked to this output; false where there is no room for
    /// it, which is counted.
    pub fn emit(&mut self, output: usize, put: impl FnOnce(&mut Message<'_>)) -> bool {
        self.flow.emit(self.slot, output, put)
    }

    /// Asks to be told [`Word::WaveIsOver`] once all timers that have fired have told all their subscribers, and what came of
    /// it has reached everybody.
    pub fn wait_for_wave(&mut self) {
        if !self.waiting.contains(&self.number) {
            self.waiting.push(self.number);
        }
    }

    /// Counts values that the stage could not take: it had no room for what it would have to remember, or they were none of
    /// those that it computes with.
    pub fn not_taken(&mut self, values: u64) {
        *self.not_taken += values;
    }

    /// Has the runtime do something, after what it is about. What cannot be done is counted.
    pub fn order(&mut self, order: Order) {
        self.orders.push_back((self.number, order));
    }
}

/// A type of stages: its name, and what makes one. Types live as long as the process, whether they are compiled in or come from a
/// library: that is never unloaded.
#[derive(Clone, Copy)]
pub struct Type {
    /// Its name.
    pub name: &'static str,
    /// Makes a stage.
    pub new: &'static (dyn Fn() -> Box<dyn Stage> + Sync),
}

/// Types of stages that come together.
#[derive(Clone, Copy)]
pub struct Module {
    /// Its name.
    pub name: &'static str,
    /// Its types.
    pub types: &'static [Type],
}
