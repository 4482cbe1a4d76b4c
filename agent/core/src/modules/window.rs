//! A figure's last values as one.

use std::collections::VecDeque;

use super::kept::{Kept, ROOM};
use super::messages::{About, Draft};
use super::op::{Op, add_each};
use super::settings::{OUT, in_and_out, number, one_of, seconds, unknown};
use crate::stage::{Context, Module, Stage, Type};
use crate::summary::Summary;
use crate::values::{Triples, ValueId};
use crate::words::{Hook, Word};

pub(super) const MODULE: Module =
    Module { name: "window", types: &[Type { name: "window", new: &|| Box::<Window>::default() }] };

/// Any number of inputs, and one output, `out`. In the place of a value leaves what is made of the last ones with the same id
/// about the same job and post, as many as there are; each place of a value on its own. Values that are no numbers or summaries
/// pass. Once a value has more or fewer places, a window begins anew. It remembers 65 536 numbers; where these are too few, a
/// window is as short as it must be. Values that had to go for that, and those that found no room, are counted as not taken.
///
/// | setting | means |
/// | --- | --- |
/// | `size = N` | the last N values; 10 at first |
/// | `seconds = S` | those of the last S seconds. Of this and `size` the last one that is set counts |
/// | `op` | `mean`, at first, rounded down; `min`, `max` or `sum` |
/// | `forget = SECONDS` | how long values are remembered of what is not heard of; 600 at first |
struct Window {
    kept: Kept<(About, ValueId), Samples>,
    draft: Draft,
    span: Span,
    op: Op,
}

impl Default for Window {
    fn default() -> Self {
        Self { kept: Kept::default(), draft: Draft::default(), span: Span::Size(10), op: Op::Mean }
    }
}

/// Timers fire a little late, one time more than another, and what is as old as the window is long is not in it: so it is about to be so
/// old, or a tenth of the window if that is less, in microseconds.
const LATE_US: u64 = 50_000;

#[derive(Clone, Copy)]
enum Span {
    Size(usize),
    Us(u64),
}

/// A figure's last values, and when they came. All have as many places.
#[derive(Default)]
struct Samples(VecDeque<(u64, Vec<Summary>)>);

impl Samples {
    /// Makes way for another one of so many places: what is old goes.
    fn make_way(&mut self, span: Span, now_us: u64, places: usize) {
        if self.0.front().is_some_and(|(_, each)| each.len() != places) {
            self.0.clear();
        }
        let is_old = |(at_us, _): &(u64, Vec<Summary>), count: usize| match span {
            Span::Size(size) => count >= size,
            Span::Us(us) => now_us.abs_diff(*at_us) + (us / 10).min(LATE_US) >= us,
        };
        while self.0.front().is_some_and(|sample| is_old(sample, self.0.len())) {
            self.0.pop_front();
        }
    }

    /// More goes, as long as there would be more numbers than there may be: how many there will be, and how many values went.
    fn make_room(&mut self, places: usize, most: usize) -> (usize, u64) {
        let mut gone = 0;
        while (self.0.len() + 1) * places > most && self.0.pop_front().is_some() {
            gone += 1;
        }
        ((self.0.len() + 1) * places, gone)
    }

    fn combined(&self) -> Vec<Summary> {
        let mut all = Vec::new();
        self.0.iter().for_each(|(_, each)| add_each(&mut all, each));
        all
    }
}

impl Stage for Window {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        in_and_out("window", hook)
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        let (now_us, span) = (context.now_us(), self.span);
        self.kept.sweep(now_us, if let Span::Us(us) = span { us } else { 0 });
        let mut about = About::default();
        for triple in values {
            let is_other = about.reads(triple);
            let Some(each) = Summary::of_each(&triple).filter(|_| !is_other) else {
                self.draft.put(triple.id, triple.value);
                continue;
            };
            let (places, mut gone) = (each.len(), 0);
            let weigh = |samples: &mut Samples, most| {
                samples.make_way(span, now_us, places);
                let (weight, early) = samples.make_room(places, most);
                gone = early;
                weight
            };
            let samples = self.kept.hear((about, triple.id), now_us, weigh);
            context.not_taken(gone + u64::from(samples.is_none()));
            let Some(samples) = samples else { continue };
            samples.0.push_back((now_us, each));
            self.draft.put(triple.id, &self.op.write(&samples.combined()));
        }
        self.draft.end(Some(OUT), context);
    }

    fn told(&mut self, word: &Word, _: &mut Context<'_>) -> Result<(), String> {
        let Word::Set { key, value } = word else { return Ok(()) };
        match key.as_str() {
            "size" => self.span = Span::Size(number(key, value, 1..=ROOM as u64)? as usize),
            "seconds" => self.span = Span::Us(seconds(key, value)?),
            "op" => {
                let words = [("mean", Op::Mean), ("min", Op::Min), ("max", Op::Max), ("sum", Op::Sum)];
                self.op = one_of(key, value, &words)?;
            }
            "forget" => self.kept.forget_us = seconds(key, value)?,
            _ => return unknown("window", key, &["size", "seconds", "op", "forget"]),
        }
        Ok(())
    }
}
