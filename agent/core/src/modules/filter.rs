//! Some values of a message pass, by their ids.

use std::collections::BTreeSet;

use super::messages::Draft;
use super::settings::{OUT, figures, in_and_out, unknown};
use crate::ids;
use crate::stage::{Context, Module, Stage, Type};
use crate::values::{Triples, ValueId};
use crate::words::{Hook, Word};

pub(super) const MODULE: Module =
    Module { name: "filter", types: &[Type { name: "filter", new: &|| Box::<Filter>::default() }] };

/// Any number of inputs, and one output, `out`. What says whose values follow always passes, where a value follows.
///
/// | setting | means |
/// | --- | --- |
/// | `match = ID,..` | these alone pass; `all`, at first |
/// | `notmatch = ID,..` | these do not pass, also where `match` has them; `none`, at first |
#[derive(Default)]
struct Filter {
    draft: Draft,
    matching: Option<BTreeSet<ValueId>>,
    not_matching: Option<BTreeSet<ValueId>>,
}

impl Filter {
    fn passes(&self, id: ValueId) -> bool {
        let is_in = |ids: &BTreeSet<ValueId>| ids.contains(&id);
        ids::says_whose(id)
            || self.matching.as_ref().is_none_or(is_in) && !self.not_matching.as_ref().is_some_and(is_in)
    }
}

impl Stage for Filter {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        in_and_out("filter", hook)
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        for triple in values {
            if self.passes(triple.id) {
                self.draft.put(triple.id, triple.value);
            }
        }
        self.draft.end(Some(OUT), context);
    }

    fn told(&mut self, word: &Word, _: &mut Context<'_>) -> Result<(), String> {
        let Word::Set { key, value } = word else { return Ok(()) };
        match key.as_str() {
            "match" => self.matching = figures(key, value, "all")?,
            "notmatch" => self.not_matching = figures(key, value, "none")?,
            _ => return unknown("filter", key, &["match", "notmatch"]),
        }
        Ok(())
    }
}
