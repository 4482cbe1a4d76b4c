//! Many values of one wave become one: of all senders, for each job.

use std::collections::BTreeMap;

use super::kept::ROOM;
use super::op::{Op, add_each};
use super::settings::{OUT, id, in_and_out, list, one_of, unknown};
use crate::ids;
use crate::stage::{Context, Module, Stage, Type};
use crate::summary::Summary;
use crate::values::{Triple, Triples, ValueId};
use crate::words::{Hook, Word};

pub(super) const MODULE: Module =
    Module { name: "aggregate", types: &[Type { name: "aggregate", new: &|| Box::<Aggregate>::default() }] };

/// Ids in the setting `by`, at most.
const BY_MAX: usize = 8;

/// Any number of inputs, and one output, `out`. Once the wave is over, a message leaves for each job: what says whose values
/// follow, and each id's values of all messages as one. What else said whose they were, such as the post, is not true of them
/// any more and is left out. Summaries and numbers may come together, so the outcome of `all` may be combined again, further
/// up, and is exact.
///
/// It remembers 65 536 places of values for one wave. Values beyond, and those that are no numbers, are counted as not taken;
/// so is what is left of a turn that was cut off. Settings hold from the next wave on.
///
/// | setting | means |
/// | --- | --- |
/// | `op` | `count`, `sum`, `min` or `max`: a number; `all`, at first: a summary of all four |
/// | `per` | `whole`, at first: the numbers of a value are as many values; `element`: each place is combined on its own |
/// | `by = ID,..` | what keeps values apart, beside the job: `post`, for example; 8 at most |
#[derive(Default)]
struct Aggregate {
    settings: Settings,
    wave: Option<Wave>,
}

#[derive(Clone)]
struct Settings {
    op: Op,
    per_element: bool,
    /// What keeps values apart; in this order it is said.
    by: Vec<ValueId>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { op: Op::All, per_element: false, by: vec![ids::JOB] }
    }
}

/// Whose values are combined: ids and numbers, in the order of `by`.
type Key = Vec<(ValueId, u64)>;

/// The values of a wave.
struct Wave {
    began_us: u64,
    settings: Settings,
    sums: BTreeMap<Key, BTreeMap<ValueId, Vec<Summary>>>,
    /// Summaries in `sums`.
    count: usize,
}

impl Wave {
    fn new(settings: &Settings, began_us: u64) -> Self {
        Self { began_us, settings: settings.clone(), sums: BTreeMap::new(), count: 0 }
    }

    /// Adds a value; false where it cannot be taken.
    fn add(&mut self, key: &Key, triple: Triple<'_>) -> bool {
        // One more number of what is known, as nearly all are, takes no memory.
        if let Some(number) = triple.number()
            && let Some([first, ..]) =
                self.sums.get_mut(key).and_then(|sums| sums.get_mut(&triple.id)).map(Vec::as_mut_slice)
        {
            *first = first.and(Summary::of(number));
            return true;
        }
        let Some(mut each) = Summary::of_each(&triple) else { return false };
        if !self.settings.per_element {
            each = each.into_iter().reduce(Summary::and).into_iter().collect();
        }
        let known = self.sums.get(key).and_then(|sums| sums.get(&triple.id)).map_or(0, Vec::len);
        let new = each.len().saturating_sub(known);
        if self.count + new > ROOM {
            return false;
        }
        self.count += new;
        let sums = self.sums.entry(key.clone()).or_default();
        add_each(sums.entry(triple.id).or_default(), &each);
        true
    }

    fn emit(&self, context: &mut Context<'_>) {
        for (key, sums) in &self.sums {
            context.emit(OUT, |message| {
                key.iter().for_each(|(id, number)| message.put_number(*id, *number));
                for (id, each) in sums {
                    message.put(*id, &self.settings.op.write(each));
                }
            });
        }
    }
}

impl Stage for Aggregate {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        in_and_out("aggregate", hook)
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        // A turn is one moment: of one whose end was cut off, no sums may come to those of another.
        if let Some(lost) = self.wave.take_if(|wave| wave.began_us != context.now_us()) {
            context.not_taken(lost.count as u64);
        }
        context.wait_for_wave();
        let wave = self.wave.get_or_insert_with(|| Wave::new(&self.settings, context.now_us()));
        let mut key = Key::new();
        for triple in values {
            if let Some(place) = wave.settings.by.iter().position(|id| *id == triple.id) {
                say(&mut key, &wave.settings.by, place, triple.number());
            } else if !ids::says_whose(triple.id) && !wave.add(&key, triple) {
                context.not_taken(1);
            }
        }
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::WaveIsOver => {
                self.wave.take().iter().for_each(|wave| wave.emit(context));
                Ok(())
            }
            Word::Set { key, value } => self.settings.set(key, value),
            _ => Ok(()),
        }
    }
}

/// Says one of the ids of `by` anew; one that is no number is as if nobody had said it.
fn say(key: &mut Key, by: &[ValueId], place: usize, number: Option<u64>) {
    key.retain(|(id, _)| *id != by[place]);
    if let Some(number) = number {
        let before = key.iter().filter(|(id, _)| by[..place].contains(id)).count();
        key.insert(before, (by[place], number));
    }
}

impl Settings {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "op" => {
                let words = [
                    ("count", Op::Count),
                    ("sum", Op::Sum),
                    ("min", Op::Min),
                    ("max", Op::Max),
                    ("all", Op::All),
                ];
                self.op = one_of(key, value, &words)?;
            }
            "per" => self.per_element = one_of(key, value, &[("whole", false), ("element", true)])?,
            "by" => {
                let mut by = vec![ids::JOB];
                for id in list(key, value, id, BY_MAX)? {
                    if !by.contains(&id) {
                        by.push(id);
                    }
                }
                self.by = by;
            }
            _ => return unknown("aggregate", key, &["op", "per", "by"]),
        }
        Ok(())
    }
}
