//! One stage on a bench: a feed before it, a sink behind it. Messages are written as sinks show them: `1000=7 1=5`, with a
//! semicolon between two of one turn.

use starfarm_agent_core::{Context, Hook, Order, Refusal, Runtime, Stage, Word};

use crate::common::*;

pub(crate) const NOTHING: [&str; 0] = [];

/// Emits what it is told.
struct Feed;

impl Stage for Feed {
    fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
        Ok(())
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        let Word::Set { value, .. } = word else { return Ok(()) };
        for message in value.split(';') {
            context.emit(0, |out| {
                message.split_whitespace().map(read).for_each(|(id, value)| out.put(id, &value));
            });
        }
        Ok(())
    }
}

/// The stages `feed`, `it` and, where it has an output `out`, `end`.
pub(crate) struct Bench {
    pub(crate) runtime: Runtime,
    pub(crate) seen: Seen,
    now_us: u64,
}

impl Bench {
    /// A stage of that type, without settings.
    pub(crate) fn new(type_name: &str) -> Self {
        let mut bench = Self::without_output(type_name);
        bench.seen = bench.sink("out");
        bench
    }

    pub(crate) fn with(type_name: &str, settings: &[(&str, &str)]) -> Self {
        let mut bench = Self::new(type_name);
        settings.iter().for_each(|(key, value)| bench.set(key, value).unwrap());
        bench
    }

    pub(crate) fn without_output(type_name: &str) -> Self {
        let mut runtime = runtime();
        runtime.add("feed", Box::new(Feed), Some("feed")).unwrap();
        let mut bench = Self { runtime, seen: Seen::default(), now_us: 0 };
        bench.create(type_name, "it", &[]);
        link(&mut bench.runtime, ("feed", "out"), ("it", "in"));
        bench
    }

    pub(crate) fn create(&mut self, type_name: &str, name: &str, settings: &[(&str, &str)]) {
        order(&mut self.runtime, Order::Create { type_name: type_name.into(), name: Some(name.into()) });
        settings.iter().for_each(|(key, value)| self.set_of(name, key, value).unwrap());
    }

    /// A sink at that output of the stage.
    pub(crate) fn sink(&mut self, output: &str) -> Seen {
        self.sink_of("it", output)
    }

    pub(crate) fn sink_of(&mut self, stage: &str, output: &str) -> Seen {
        let (seen, name) = (Seen::default(), format!("end-{stage}-{output}"));
        self.runtime.add("sink", Box::new(Sink(seen.clone())), Some(&name)).unwrap();
        link(&mut self.runtime, (stage, output), (&name, "in"));
        seen
    }

    /// Why it is refused, if it is.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        self.set_of("it", key, value)
    }

    fn set_of(&mut self, stage: &str, key: &str, value: &str) -> Result<(), String> {
        let word = Word::Set { key: key.into(), value: value.into() };
        match self.runtime.order(Order::Tell(who(stage), word), self.now_us) {
            Ok(_) => Ok(()),
            Err(Refusal::ByStage(why)) => Err(why),
            Err(other) => panic!("{other}"),
        }
    }

    /// What leaves when these messages come at that second.
    pub(crate) fn say(&mut self, second: u64, messages: &str) -> Vec<String> {
        self.say_at(second * SECOND, messages)
    }

    pub(crate) fn say_at(&mut self, now_us: u64, messages: &str) -> Vec<String> {
        self.now_us = now_us;
        let word = Word::Set { key: "say".into(), value: messages.into() };
        self.runtime.order(Order::Tell(who("feed"), word), now_us).unwrap();
        messages_of(&self.seen)
    }

    /// Values that it could not take, since its start.
    pub(crate) fn not_taken(&self) -> u64 {
        self.runtime.losses().not_taken
    }
}

/// What a sink has noted since the last call, without time and input.
pub(crate) fn messages_of(seen: &Seen) -> Vec<String> {
    seen.take().iter().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect()
}
