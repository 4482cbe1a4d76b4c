//! Programs beside the agent (APs): each line that one prints, `name value`, is the newest value of the figure
//! `SERVICE.name`. One that ends is started again, after a pause that grows; all end with the agent. Whatever they print,
//! the agent takes so much of it and no more.

mod process;

use std::cell::RefCell;
use std::rc::Rc;

use starfarm_agent_core::named::{Amount, Named};
use starfarm_agent_core::{Context, Hook, Side, Stage, Word};

pub(crate) use process::Service;

/// The type of these stages, as others see it.
pub(crate) const TYPE: &str = "service";
/// A figure that was not said for so long is not known any more, in microseconds.
const FRESH_US: u64 = 60_000_000;
/// Names of a service, at most.
const NAMES_MAX: usize = 256;
/// Bytes that the figures of all services take in a message, at most: it has to go by a link with what the machine does.
pub(crate) const MESSAGE_BYTES_MAX: usize = 32 << 10;

/// What a program has said.
#[derive(Default)]
pub(crate) struct Heard {
    /// By full name: the newest value, and when it came by the agent's own clock, in microseconds.
    figures: Vec<(String, f64, u64)>,
    /// Lines that were not taken since the stage told of them.
    not_taken: u64,
    /// The agent's own clock.
    now_us: u64,
}

impl Heard {
    /// A value has come.
    fn take(&mut self, service: &str, name: &str, value: f64) {
        let name = format!("{service}.{name}");
        match self.figures.binary_search_by(|(known, ..)| known.as_str().cmp(&name)) {
            Ok(at) => (self.figures[at].1, self.figures[at].2) = (value, self.now_us),
            Err(_) => {
                if self.figures.len() == NAMES_MAX {
                    self.forget_old();
                }
                if self.figures.len() == NAMES_MAX {
                    self.not_taken += 1;
                    return;
                }
                let at = self.figures.partition_point(|(known, ..)| *known < name);
                self.figures.insert(at, (name, value, self.now_us));
            }
        }
    }

    fn forget_old(&mut self) {
        let now_us = self.now_us;
        self.figures.retain(|(_, _, said_us)| said_us.saturating_add(FRESH_US) > now_us);
    }
}

/// The stage of a service: one output, `out`; whenever a timer fires it says all that is known.
pub(crate) struct Figures {
    pub(crate) heard: Rc<RefCell<Heard>>,
    /// Bytes of a message, at most.
    pub(crate) bytes_max: usize,
}

impl Stage for Figures {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        match hook.side {
            Side::Output if hook.name == "out" => Ok(()),
            Side::Output => Err(format!("`{TYPE}` has one output, `out`, not `{}`", hook.name)),
            Side::Input => Err(format!("`{TYPE}` has no inputs")),
        }
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::Fired(_) => {
                let mut heard = self.heard.borrow_mut();
                heard.forget_old();
                context.not_taken(std::mem::take(&mut heard.not_taken));
                let (mut room, mut too_many) = (self.bytes_max, 0);
                context.emit(0, |message| {
                    for (name, value, _) in &heard.figures {
                        let named = Named { name, amount: Amount::of(*value) };
                        match room.checked_sub(named.bytes()) {
                            Some(rest) => {
                                room = rest;
                                named.put(message);
                            }
                            None => too_many += 1,
                        }
                    }
                });
                context.not_taken(too_many);
                Ok(())
            }
            Word::Set { key, .. } => Err(format!("`{TYPE}` has no setting `{key}`")),
            _ => Ok(()),
        }
    }
}
