//! The end of the way, for measurements of the way itself.

use super::settings::{OUT, in_and_out, unknown};
use crate::ids;
use crate::stage::{Context, Module, Stage, Type};
use crate::values::Triples;
use crate::words::{Hook, Word};

pub(super) const MODULE: Module =
    Module { name: "blackhole", types: &[Type { name: "blackhole", new: &|| Box::<Blackhole>::default() }] };

/// Any number of inputs. All that comes is counted and gone; on the output `out` it tells how many messages these were since
/// its start, whenever one of its timers fires.
#[derive(Default)]
struct Blackhole {
    messages: u64,
}

impl Stage for Blackhole {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        in_and_out("blackhole", hook)
    }

    fn data(&mut self, _: usize, _: Triples<'_>, _: &mut Context<'_>) {
        self.messages += 1;
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::Fired(_) => {
                context.emit(OUT, |message| message.put_number(ids::MESSAGES, self.messages));
                Ok(())
            }
            Word::Set { key, .. } => unknown("blackhole", key, &[]),
            _ => Ok(()),
        }
    }
}
