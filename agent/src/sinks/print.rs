//! `print`: a line a message, for whoever looks at a graph.

use starfarm_agent_core::{Context, Hook, Side, Stage, Triples, Word};
use starfarm_protocol::foreign;

use super::lines::Lines;
use crate::settings::unknown;

pub(super) const TYPE: &str = "print";

/// Any number of inputs, no output. Each message is a line on standard error, which is the worker's. What is beyond so many a
/// second is counted as not taken, one for each message, and told with the next line. Settings: see [`Lines`].
pub(super) struct Print {
    lines: Lines,
    say: fn(&str),
}

impl Default for Print {
    fn default() -> Self {
        Self { lines: Lines::new(TYPE), say: starfarm_net::say }
    }
}

impl Stage for Print {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        match hook.side {
            Side::Input => Ok(()),
            Side::Output => Err(format!("`{TYPE}` has no output")),
        }
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        match self.lines.next(values) {
            Some(line) => (self.say)(&foreign::line(&format!("starfarm-agent: {line}"))),
            None => context.not_taken(1),
        }
    }

    fn told(&mut self, word: &Word, _: &mut Context<'_>) -> Result<(), String> {
        let Word::Set { key, value } = word else { return Ok(()) };
        let is_its = self.lines.set(key, value)?;
        if is_its { Ok(()) } else { Err(unknown(TYPE, key, &Lines::SETTINGS)) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::RefCell;

    use starfarm_agent_core::{Order, Runtime, When};

    use super::*;

    thread_local! {
        static SAID: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    #[test]
    fn a_message_is_a_line_and_too_many_are_left_out_and_counted() {
        let mut runtime = Runtime::new(&crate::graph::modules());
        let say: fn(&str) = |line| SAID.with_borrow_mut(|said| said.push(line.to_owned()));
        let print = Print { say, ..Print::default() };
        runtime.add(TYPE, Box::new(print), Some("print")).unwrap();
        let mut order = |order| runtime.order(order, 0).map_err(|refusal| refusal.to_string());
        let set = |key: &str, value: &str| {
            Order::Tell("print".into(), Word::Set { key: key.into(), value: value.into() })
        };
        for (key, value, why) in [
            ("rate", "0", "`rate` is lines a second, from 1 to 1000, not `0`"),
            ("rate", "many", "not `many`"),
            ("label", &"x".repeat(65), "64 characters at most"),
            ("colour", "red", "`print` has no setting `colour`: it has `label`, `rate`"),
        ] {
            assert!(order(set(key, value)).unwrap_err().contains(why), "{key}");
        }
        order(set("rate", "2")).unwrap();
        order(set("label", "he\nre")).unwrap();
        order(Order::Create { type_name: "blackhole".into(), name: Some("hole".into()) }).unwrap();
        let link =
            |from: &str, to: &str| Order::Link((from.into(), "out".to_owned()), (to.into(), "in".to_owned()));
        assert!(order(link("print", "hole")).unwrap_err().contains("`print` has no output"));
        order(link("hole", "print")).unwrap();
        order(Order::Timer("t".into(), When::Every(1_000_000))).unwrap();
        order(Order::Subscribe("t".into(), "hole".into(), true)).unwrap();
        (1..=5).for_each(|second| runtime.on_time(second * 1_000_000));
        let said = SAID.take();
        // The clock of this machine is another one, so perhaps a second is over in between.
        assert!(said.len() < 5 && said[0] == "starfarm-agent: he\\nre: messages 0", "{said:?}");
        assert_eq!(runtime.losses().not_taken, 5 - said.len() as u64);
    }
}
