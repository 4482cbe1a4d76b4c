//! Each message goes its own way, by the value of an id: one job's here, another's there.

use std::collections::BTreeMap;

use super::messages::Draft;
use super::settings::{id, unknown};
use crate::ids;
use crate::stage::{Context, Module, Stage, Type};
use crate::values::{Triples, ValueId};
use crate::words::{Hook, Side, Word};

pub(super) const MODULE: Module =
    Module { name: "demux", types: &[Type { name: "demux", new: &|| Box::<Demux>::default() }] };

/// Any number of inputs. An output is named by a number, such as `7`, or `rest`. A message goes to the output that is named by
/// the value of an id, or else to `rest`; where that leads nowhere, the message is dropped. One with the values of several jobs
/// is cut into theirs.
///
/// | setting | means |
/// | --- | --- |
/// | `by = ID` | the id; `job` at first. Of one that does not say whose values follow, a message's first value counts |
struct Demux {
    outputs: BTreeMap<u64, usize>,
    rest: Option<usize>,
    by: ValueId,
    draft: Draft,
}

impl Default for Demux {
    fn default() -> Self {
        Self { outputs: BTreeMap::new(), rest: None, by: ids::JOB, draft: Draft::default() }
    }
}

/// The number that an output is named by, as numbers are written.
fn number(name: &str) -> Option<u64> {
    name.parse().ok().filter(|number: &u64| number.to_string() == name)
}

impl Demux {
    fn output(&self, number: Option<u64>) -> Option<usize> {
        number.and_then(|number| self.outputs.get(&number)).copied().or(self.rest)
    }
}

impl Stage for Demux {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        match (hook.side, hook.name, number(hook.name)) {
            (Side::Input, ..) => {}
            (Side::Output, "rest", _) => self.rest = Some(hook.port),
            (Side::Output, _, Some(number)) => {
                self.outputs.insert(number, hook.port);
            }
            (Side::Output, other, None) => {
                return Err(format!(
                    "`demux` has outputs that are named by numbers, as `7`, and `rest`, not `{other}`"
                ));
            }
        }
        Ok(())
    }

    fn edge_gone(&mut self, hook: Hook<'_>) {
        match (hook.side, number(hook.name)) {
            (Side::Input, _) => {}
            (Side::Output, Some(number)) => {
                self.outputs.remove(&number);
            }
            (Side::Output, None) => self.rest = None,
        }
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        let cuts = ids::says_whose(self.by);
        let first = values.find(self.by).filter(|_| !cuts).and_then(|triple| triple.number());
        let mut output = self.output(first);
        for triple in values {
            if cuts && triple.id == self.by {
                self.draft.send(output, context);
                output = self.output(triple.number());
            }
            self.draft.put(triple.id, triple.value);
        }
        self.draft.end(output, context);
    }

    fn told(&mut self, word: &Word, _: &mut Context<'_>) -> Result<(), String> {
        let Word::Set { key, value } = word else { return Ok(()) };
        match key.as_str() {
            "by" => self.by = id(key, value)?,
            _ => return unknown("demux", key, &["by"]),
        }
        Ok(())
    }
}
