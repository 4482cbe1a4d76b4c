//! Thinning out: of many messages some go on, and the others are dropped, as they are meant to be.

use super::kept::Kept;
use super::messages::{About, Draft};
use super::settings::{OUT, in_and_out, number, seconds, unknown};
use crate::stage::{Context, Module, Stage, Type};
use crate::values::Triples;
use crate::words::{Hook, Word};

pub(super) const MODULE: Module =
    Module { name: "rate", types: &[Type { name: "rate", new: &|| Box::<Rate>::default() }] };

/// Any number of inputs, and one output, `out`. Of the messages about each job and post some pass; of a message about several,
/// the values of those whose turn it is. It remembers 65 536 jobs and posts, and values beyond are counted as not taken.
///
/// | setting | means |
/// | --- | --- |
/// | `every = SECONDS` | the first of each period passes; periods begin where timers of this length fire, so a message that is a little early or late changes nothing |
/// | `nth = N` | the first of N passes; 1 at first. Of this and `every` the last one that is set counts |
/// | `forget = SECONDS` | how long it is remembered what passed last; 600 at first |
#[derive(Default)]
struct Rate {
    kept: Kept<About, Turn>,
    draft: Draft,
    pace: Pace,
    /// Messages that have come.
    messages: u64,
}

#[derive(Clone, Copy)]
enum Pace {
    Nth(u64),
    EveryUs(u64),
}

impl Default for Pace {
    fn default() -> Self {
        Self::Nth(1)
    }
}

/// Of a job and post: which of its messages passed last.
#[derive(Default)]
struct Turn {
    count: u64,
    last_us: Option<u64>,
    /// Number of the message that was judged last, and whether it passes.
    judged: u64,
    passes: bool,
}

impl Turn {
    fn passes(&mut self, pace: Pace, message: u64, now_us: u64) -> bool {
        if self.judged == message {
            return self.passes;
        }
        self.judged = message;
        self.passes = match pace {
            Pace::Nth(n) => self.count.is_multiple_of(n),
            Pace::EveryUs(us) => self.last_us.is_none_or(|last_us| last_us / us != now_us / us),
        };
        self.count += 1;
        if self.passes {
            self.last_us = Some(now_us);
        }
        self.passes
    }
}

impl Stage for Rate {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        in_and_out("rate", hook)
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        let now_us = context.now_us();
        let period_us = if let Pace::EveryUs(us) = self.pace { us } else { 0 };
        self.kept.sweep(now_us, period_us);
        self.messages += 1;
        let mut about = About::default();
        for triple in values {
            if about.reads(triple) {
                self.draft.put(triple.id, triple.value);
                continue;
            }
            let Some(turn) = self.kept.hear(about, now_us, |_, _| 1) else {
                context.not_taken(1);
                continue;
            };
            if turn.passes(self.pace, self.messages, now_us) {
                self.draft.put(triple.id, triple.value);
            }
        }
        self.draft.end(Some(OUT), context);
    }

    fn told(&mut self, word: &Word, _: &mut Context<'_>) -> Result<(), String> {
        let Word::Set { key, value } = word else { return Ok(()) };
        match key.as_str() {
            "every" => self.pace = Pace::EveryUs(seconds(key, value)?),
            "nth" => self.pace = Pace::Nth(number(key, value, 1..=u64::MAX)?),
            "forget" => self.kept.forget_us = seconds(key, value)?,
            _ => return unknown("rate", key, &["every", "nth", "forget"]),
        }
        Ok(())
    }
}
