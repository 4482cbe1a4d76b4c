//! A graph that changes by what it sees: orders for the agent, as values come.

use std::collections::BTreeSet;

use super::kept::ROOM;
use super::messages::About;
use super::settings::{list_with, unknown};
use crate::ids;
use crate::stage::{Context, Module, Stage, Type};
use crate::values::Triples;
use crate::words::{Hook, Order, Side, Word};

pub(super) const MODULE: Module =
    Module { name: "control", types: &[Type { name: "control", new: &|| Box::<Control>::default() }] };

/// Orders of a setting, at most.
const ORDERS_MAX: usize = 100;

/// Any number of inputs, and no output. Of what stages `threshold` say it knows which figures of which jobs and posts are beyond
/// their levels, each by the input that it came by. It remembers 65 536 of them; those beyond are counted as not taken.
///
/// | setting | orders, with semicolons between them, or `none`, that are given when |
/// | --- | --- |
/// | `raised` | a figure goes beyond its level, and none was before |
/// | `cleared` | the last one that was beyond its level is not any more |
/// | `any` | a message comes |
///
/// A threshold says of what it has not heard of for long that it is cleared; what came by an input whose last edge has gone is
/// forgotten. What cannot be carried out is counted as refused. Orders have the rights of a guest, and what they have made goes with
/// this stage.
#[derive(Default)]
struct Control {
    beyond: BTreeSet<(usize, About, u64)>,
    raised: Vec<Order>,
    cleared: Vec<Order>,
    any: Vec<Order>,
}

fn give(orders: &[Order], context: &mut Context<'_>) {
    orders.iter().for_each(|order| context.order(order.clone().as_guest()));
}

fn order(_: &str, line: &str) -> Result<Order, String> {
    line.parse()
}

impl Stage for Control {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        match hook.side {
            Side::Input => Ok(()),
            Side::Output => Err("`control` has no output".to_owned()),
        }
    }

    fn edge_gone(&mut self, hook: Hook<'_>) {
        self.beyond.retain(|(input, ..)| *input != hook.port);
    }

    fn data(&mut self, input: usize, values: Triples<'_>, context: &mut Context<'_>) {
        let was = !self.beyond.is_empty();
        let mut about = About::default();
        for triple in values {
            if about.reads(triple) {
                continue;
            }
            match (triple.id, triple.number()) {
                (ids::ALARM_RAISED, Some(_)) if self.beyond.len() == ROOM => context.not_taken(1),
                (ids::ALARM_RAISED, Some(figure)) => drop(self.beyond.insert((input, about, figure))),
                (ids::ALARM_CLEARED, Some(figure)) => drop(self.beyond.remove(&(input, about, figure))),
                _ => {}
            }
        }
        match (was, !self.beyond.is_empty()) {
            (false, true) => give(&self.raised, context),
            (true, false) => give(&self.cleared, context),
            _ => {}
        }
        give(&self.any, context);
    }

    fn told(&mut self, word: &Word, _: &mut Context<'_>) -> Result<(), String> {
        let Word::Set { key, value } = word else { return Ok(()) };
        let orders = match key.as_str() {
            "raised" => &mut self.raised,
            "cleared" => &mut self.cleared,
            "any" => &mut self.any,
            _ => return unknown("control", key, &["raised", "cleared", "any"]),
        };
        let value = value.trim().trim_end_matches(';');
        *orders = match value {
            "" | "none" => Vec::new(),
            _ => list_with(';', (key, value), order, ORDERS_MAX)?,
        };
        Ok(())
    }
}
