//! Consolidation: what comes within one wave leaves as one message, once the wave is over.

use crate::stage::{Context, Module, Stage, Type};
use crate::values::{Triples, ValueId};
use crate::words::{Hook, Side, Word};

pub(super) const MODULE: Module =
    Module { name: "wavebuf", types: &[Type { name: "wavebuf", new: || Box::<WaveBuf>::default() }] };

/// Any number of inputs, and one output, `out`.
#[derive(Default)]
struct WaveBuf {
    /// Ids, and where their values end in `bytes`.
    triples: Vec<(ValueId, usize)>,
    bytes: Vec<u8>,
}

/// The only output's number: it is the first that may be used.
const OUT: usize = 0;

impl Stage for WaveBuf {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        match hook.side {
            Side::Input => Ok(()),
            Side::Output if hook.name == "out" => Ok(()),
            Side::Output => Err(format!("`wavebuf` has one output, `out`, not `{}`", hook.name)),
        }
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        if self.triples.is_empty() {
            context.wait_for_wave();
        }
        for triple in values {
            self.bytes.extend_from_slice(triple.value);
            self.triples.push((triple.id, self.bytes.len()));
        }
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::WaveIsOver => {
                context.emit(OUT, |message| {
                    let mut start = 0;
                    for &(id, end) in &self.triples {
                        message.put(id, &self.bytes[start..end]);
                        start = end;
                    }
                });
                self.triples.clear();
                self.bytes.clear();
                Ok(())
            }
            Word::Set { key, .. } => Err(format!("`wavebuf` has no setting `{key}`")),
            _ => Ok(()),
        }
    }
}
