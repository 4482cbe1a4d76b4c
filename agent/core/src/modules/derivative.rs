//! Rates of counters: what only grows becomes an amount in a second.

use std::collections::BTreeSet;

use super::kept::Kept;
use super::messages::{About, Draft};
use super::settings::{OUT, figure, figures, in_and_out, one_of, seconds, unknown};
use crate::named::Named;
use crate::running::a_second;
use crate::stage::{Context, Module, Stage, Type};
use crate::values::{Triples, ValueId};
use crate::words::{Hook, Word};

pub(super) const MODULE: Module = Module {
    name: "derivative",
    types: &[Type { name: "derivative", new: &|| Box::<Derivative>::default() }],
};

/// Any number of inputs, and one output, `out`. Numbers, alone or of each core, become rates between two messages with the
/// same id about the same job and post, by the farm's clock, rounded down; other values pass. The first gives none, nor does
/// one after no time, one of other cores, or one that went down: its counter was reset. It remembers 65 536 numbers, and
/// values beyond are counted as not taken.
///
/// | setting | means |
/// | --- | --- |
/// | `match = ID,..` | these alone are counters; `all`, at first |
/// | `as = ID` | what rates are called; `same` as the counters, at first |
/// | `wrap = 32` or `64` | a counter that goes down has come to its end, at so many bits, and went on from 0; `none`, at first |
/// | `forget = SECONDS` | how long a counter is remembered that is not heard of; 600 at first |
#[derive(Default)]
struct Derivative {
    kept: Kept<(About, ValueId), Last>,
    draft: Draft,
    counters: Option<BTreeSet<ValueId>>,
    called: Option<ValueId>,
    /// The greatest number of a counter that wraps.
    greatest: Option<u64>,
}

/// What a counter said last, and when.
#[derive(Default)]
struct Last {
    at_us: u64,
    numbers: Vec<u64>,
}

impl Last {
    fn rates(&self, numbers: &[u64], now_us: u64, greatest: Option<u64>) -> Option<Vec<u8>> {
        let past_us = now_us.checked_sub(self.at_us).filter(|past_us| *past_us > 0)?;
        if self.numbers.len() != numbers.len() {
            return None;
        }
        let mut rates = Vec::with_capacity(numbers.len() * 8);
        for (then, now) in self.numbers.iter().zip(numbers) {
            rates.extend(a_second(grown(*then, *now, greatest)?, past_us).to_le_bytes());
        }
        Some(rates)
    }
}

/// By how much a counter has grown, if it can be said.
fn grown(then: u64, now: u64, greatest: Option<u64>) -> Option<u64> {
    let wrapped = || Some(greatest?.checked_sub(then)? + now + 1);
    now.checked_sub(then).or_else(wrapped)
}

impl Stage for Derivative {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        in_and_out("derivative", hook)
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        let now_us = context.now_us();
        self.kept.sweep(now_us, 0);
        let mut about = About::default();
        for triple in values {
            let is_other = about.reads(triple)
                || self.counters.as_ref().is_some_and(|counters| !counters.contains(&triple.id));
            let Some(numbers) = triple.numbers().filter(|_| !is_other && Named::read(&triple).is_none())
            else {
                self.draft.put(triple.id, triple.value);
                continue;
            };
            let numbers: Vec<u64> = numbers.collect();
            let Some(last) = self.kept.hear((about, triple.id), now_us, |_, _| numbers.len()) else {
                context.not_taken(1);
                continue;
            };
            if let Some(rates) = last.rates(&numbers, now_us, self.greatest) {
                self.draft.put(self.called.unwrap_or(triple.id), &rates);
            }
            *last = Last { at_us: now_us, numbers };
        }
        self.draft.end(Some(OUT), context);
    }

    fn told(&mut self, word: &Word, _: &mut Context<'_>) -> Result<(), String> {
        let Word::Set { key, value } = word else { return Ok(()) };
        match key.as_str() {
            "match" => self.counters = figures(key, value, "all")?,
            "as" if value == "same" => self.called = None,
            "as" => self.called = Some(figure(key, value)?),
            "wrap" => {
                let words = [("32", Some(u32::MAX.into())), ("64", Some(u64::MAX)), ("none", None)];
                self.greatest = one_of(key, value, &words)?;
            }
            "forget" => self.kept.forget_us = seconds(key, value)?,
            _ => return unknown("derivative", key, &["match", "as", "wrap", "forget"]),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_wraps_at_its_own_end_only() {
        let narrow = Some(u64::from(u32::MAX));
        assert_eq!(grown(u64::from(u32::MAX) - 1, 3, narrow), Some(5));
        assert_eq!(grown(u64::from(u32::MAX) + 1, 3, narrow), None, "it is wider than that");
        assert_eq!(grown(u64::MAX, u64::MAX - 1, Some(u64::MAX)), Some(u64::MAX));
        assert_eq!((grown(7, 3, None), grown(3, 7, narrow)), (None, Some(4)));
    }
}
