//! Says of messages whose values follow.

use super::settings::{OUT, in_and_out, number_or_none, one_of, unknown};
use crate::ids;
use crate::stage::{Context, Module, Stage, Type};
use crate::values::Triples;
use crate::words::{Hook, Word};

pub(super) const MODULE: Module =
    Module { name: "prepend", types: &[Type { name: "prepend", new: &|| Box::<Prepend>::default() }] };

/// Any number of inputs, and one output, `out`. What is set comes in front of each message; what a message says itself is
/// behind it, and so counts.
///
/// | setting | means |
/// | --- | --- |
/// | `job = N`, `post = N` | the job, the post; `none` at first |
/// | `sequence = on` | which message it is, from 0; `off` at first. Turned off and on it goes on where it was |
#[derive(Default)]
struct Prepend {
    job: Option<u64>,
    post: Option<u64>,
    counts: bool,
    /// Messages that were counted.
    count: u64,
}

impl Stage for Prepend {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        in_and_out("prepend", hook)
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        let sequence = self.counts.then_some(self.count);
        let said = [(ids::JOB, self.job), (ids::POST, self.post), (ids::SEQUENCE, sequence)];
        context.emit(OUT, |message| {
            said.into_iter().for_each(|(id, of)| of.into_iter().for_each(|of| message.put_number(id, of)));
            message.put_all(values);
        });
        // Also one that had no room on its way: its number is missing then.
        self.count += u64::from(self.counts);
    }

    fn told(&mut self, word: &Word, _: &mut Context<'_>) -> Result<(), String> {
        let Word::Set { key, value } = word else { return Ok(()) };
        match key.as_str() {
            "job" => self.job = number_or_none(key, value)?,
            "post" => self.post = number_or_none(key, value)?,
            "sequence" => self.counts = one_of(key, value, &[("on", true), ("off", false)])?,
            _ => return unknown("prepend", key, &["job", "post", "sequence"]),
        }
        Ok(())
    }
}
