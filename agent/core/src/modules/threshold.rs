//! Alarms: a figure goes beyond its level, and later comes back.

use std::cmp::Ordering;
use std::mem::discriminant;

use super::kept::Kept;
use super::messages::About;
use super::settings::{OUT, figure, in_and_out, number, number_or_none, seconds, unknown};
use crate::ids;
use crate::named::{Amount, Named};
use crate::stage::{Context, Module, Stage, Type};
use crate::summary::Summary;
use crate::values::{Message, Triple, Triples, ValueId};
use crate::words::{Hook, Word};

pub(super) const MODULE: Module =
    Module { name: "threshold", types: &[Type { name: "threshold", new: &|| Box::<Threshold>::default() }] };

/// Any number of inputs, and one output, `out`. A message leaves when a figure of a job and post goes beyond the level, and one
/// when it is not beyond it any more: what it is about, [`ids::ALARM_RAISED`] or [`ids::ALARM_CLEARED`], and the figure. Between
/// them nothing is told. Of a value of several numbers, or a summary, the one counts that is the furthest out. What is not heard
/// of any more, or not looked at, is told as cleared without a figure. It remembers 65 536 jobs and posts; values beyond, and
/// those that are no numbers, are counted as not taken. A figure that has a name only is one, and may have a fraction.
///
/// | setting | means |
/// | --- | --- |
/// | `metric = ID` | the figure; none at first |
/// | `above = N` or `below = N` | the level; none at first, and the last one that is set counts |
/// | `clear = N` | where it is cleared: not above N, or not below N; `none`, at first: at the level itself. Forgotten where `above` follows `below`, or the other way |
/// | `forget = SECONDS` | after how long it is forgotten that was not heard of; 600 at first |
#[derive(Default)]
struct Threshold {
    /// Of each job and post, whether it is beyond.
    kept: Kept<About, bool>,
    metric: Option<ValueId>,
    level: Option<Level>,
    clear: Option<u64>,
}

#[derive(Clone, Copy)]
enum Level {
    Above(u64),
    Below(u64),
}

/// A figure as it is compared, and told.
#[derive(Clone, Copy)]
enum Figure<'a> {
    Number(u64),
    Named(&'a str, f64),
}

impl<'a> Figure<'a> {
    /// Of a triple's numbers the one that is the furthest out, if it has any.
    fn furthest(triple: &Triple<'a>, level: Level) -> Option<Self> {
        if let Some(Named { name, amount }) = Named::read(triple) {
            let number = if let Level::Above(_) = level { amount.max } else { amount.min };
            return Some(Self::Named(name, number));
        }
        let all = Summary::read_each(triple.value)?.into_iter().reduce(Summary::and)?;
        Some(Self::Number(if let Level::Above(_) = level { all.max } else { all.min }))
    }

    /// Whether it is greater than a level, or less.
    fn cmp(self, level: u64) -> Option<Ordering> {
        match self {
            Self::Number(number) => Some(number.cmp(&level)),
            Self::Named(_, number) => number.partial_cmp(&(level as f64)),
        }
    }

    fn put(self, metric: ValueId, message: &mut Message<'_>) {
        match self {
            Self::Number(number) => message.put_number(metric, number),
            Self::Named(name, number) => Named { name, amount: Amount::of(number) }.put(message),
        }
    }
}

impl Level {
    /// Whether a figure is beyond it, which was or was not.
    fn is_beyond(self, figure: Figure<'_>, clear: Option<u64>, was: bool) -> bool {
        let (Self::Above(level) | Self::Below(level)) = self;
        let beyond = if let Self::Above(_) = self { Ordering::Greater } else { Ordering::Less };
        figure.cmp(if was { clear.unwrap_or(level) } else { level }) == Some(beyond)
    }
}

/// Whether it is cleared on the right side of the level, or else in words where that is.
fn check(level: Option<Level>, clear: Option<u64>) -> Result<(), String> {
    match (level, clear) {
        (Some(Level::Above(level)), Some(clear)) if clear > level => {
            Err(format!("`clear` is at most `above`, but {clear} is more than {level}"))
        }
        (Some(Level::Below(level)), Some(clear)) if clear < level => {
            Err(format!("`clear` is at least `below`, but {clear} is less than {level}"))
        }
        _ => Ok(()),
    }
}

impl Threshold {
    fn look_at(&mut self, metric: ValueId, context: &mut Context<'_>) {
        if self.metric == Some(metric) {
            return;
        }
        let before = self.kept.take();
        tell_cleared(self.metric, before, context);
        self.metric = Some(metric);
    }

    fn set_level(&mut self, level: Level) -> Result<(), String> {
        // Where the other side was the bad one, it was cleared on the wrong side.
        let turns = self.level.is_some_and(|before| discriminant(&before) != discriminant(&level));
        let clear = self.clear.filter(|_| !turns);
        check(Some(level), clear)?;
        (self.level, self.clear) = (Some(level), clear);
        Ok(())
    }
}

fn tell(
    id: ValueId,
    about: About,
    (metric, figure): (ValueId, Option<Figure<'_>>),
    context: &mut Context<'_>,
) {
    context.emit(OUT, |message| {
        about.put(message);
        message.put_number(id, metric.0.into());
        figure.into_iter().for_each(|figure| figure.put(metric, message));
    });
}

/// Of these, whoever was beyond is it no more, as far as one knows.
fn tell_cleared(
    metric: Option<ValueId>,
    all: impl IntoIterator<Item = (About, bool)>,
    context: &mut Context<'_>,
) {
    let Some(metric) = metric else { return };
    let beyond = all.into_iter().filter(|(_, beyond)| *beyond);
    beyond.for_each(|(about, _)| tell(ids::ALARM_CLEARED, about, (metric, None), context));
}

impl Stage for Threshold {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        in_and_out("threshold", hook)
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        let now_us = context.now_us();
        tell_cleared(self.metric, self.kept.sweep(now_us, 0), context);
        let (Some(metric), Some(level)) = (self.metric, self.level) else { return };
        let mut about = About::default();
        for triple in values {
            if about.reads(triple) || triple.id != metric {
                continue;
            }
            let figure = Figure::furthest(&triple, level);
            let beyond = figure.and_then(|of| Some((of, self.kept.hear(about, now_us, |_, _| 1)?)));
            let Some((figure, beyond)) = beyond else {
                context.not_taken(1);
                continue;
            };
            let was = std::mem::replace(beyond, level.is_beyond(figure, self.clear, *beyond));
            if *beyond != was {
                let id = if was { ids::ALARM_CLEARED } else { ids::ALARM_RAISED };
                tell(id, about, (metric, Some(figure)), context);
            }
        }
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        let Word::Set { key, value } = word else { return Ok(()) };
        match key.as_str() {
            "metric" => self.look_at(figure(key, value)?, context),
            "above" => self.set_level(Level::Above(number(key, value, 0..=u64::MAX)?))?,
            "below" => self.set_level(Level::Below(number(key, value, 0..=u64::MAX)?))?,
            "clear" => {
                let clear = number_or_none(key, value)?;
                check(self.level, clear)?;
                self.clear = clear;
            }
            "forget" => self.kept.forget_us = seconds(key, value)?,
            _ => return unknown("threshold", key, &["metric", "above", "below", "clear", "forget"]),
        }
        Ok(())
    }
}
