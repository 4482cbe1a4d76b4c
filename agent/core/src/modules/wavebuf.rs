//! Consolidation: what comes within one wave leaves as one message, once the wave is over.

use super::messages::Draft;
use super::settings::{OUT, in_and_out, unknown};
use crate::ids;
use crate::stage::{Context, Module, Stage, Type};
use crate::values::Triples;
use crate::words::{Hook, Word};

pub(super) const MODULE: Module =
    Module { name: "wavebuf", types: &[Type { name: "wavebuf", new: &|| Box::<WaveBuf>::default() }] };

/// Any number of inputs, and one output, `out`. It remembers one message. Of messages that say whose values follow each
/// should say as much: what one leaves out is said by those before it.
#[derive(Default)]
struct WaveBuf {
    /// Values of which nothing says whose they are: they come first, or they would be read as those of whoever was named
    /// before them.
    nobodys: Draft,
    others: Draft,
}

impl Stage for WaveBuf {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        in_and_out("wavebuf", hook)
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        // Also where it has asked already: the turn that was to answer may have been cut off.
        context.wait_for_wave();
        let mut draft = &mut self.nobodys;
        for triple in values {
            if ids::says_whose(triple.id) {
                draft = &mut self.others;
            }
            draft.put(triple.id, triple.value);
        }
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::WaveIsOver => {
                context.emit(OUT, |message| {
                    self.nobodys.copy_to(message);
                    self.others.copy_to(message);
                });
                self.nobodys.clear();
                self.others.clear();
                Ok(())
            }
            Word::Set { key, .. } => unknown("wavebuf", key, &[]),
            _ => Ok(()),
        }
    }
}
