//! The stage at whose inputs values leave the agent, for the post above it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use starfarm_agent_core::{Context, Hook, Side, Stage, Triples};
use starfarm_protocol::link::Stream;

/// Messages that wait to leave; they go at the end of each turn of the runtime.
pub(crate) type Leaving = Rc<RefCell<VecDeque<(Stream, Vec<u8>)>>>;

/// A stage with any number of inputs, whose values leave by one stream.
pub(crate) struct Up {
    pub(crate) stream: Stream,
    pub(crate) leaving: Leaving,
}

impl Stage for Up {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        match hook.side {
            Side::Input => Ok(()),
            Side::Output => Err("`up` has no output: its values leave the agent".into()),
        }
    }

    fn data(&mut self, _: usize, values: Triples<'_>, _: &mut Context<'_>) {
        self.leaving.borrow_mut().push_back((self.stream, values.bytes().to_vec()));
    }
}
