//! The output `counts` of stages at which values leave: how many messages have, and how many are lost.

use starfarm_agent_core::{Context, Hook, Side, ids};

/// The output, where it leads somewhere.
#[derive(Default)]
pub(crate) struct Counts(Option<usize>);

impl Counts {
    /// An edge of a stage of that type, which takes any input and has this output alone.
    pub(crate) fn edge_made(&mut self, of: &str, hook: Hook<'_>) -> Result<(), String> {
        match (hook.side, hook.name) {
            (Side::Input, _) => {}
            (Side::Output, "counts") => self.0 = Some(hook.port),
            (Side::Output, _) => return Err(format!("`{of}` has one output, `counts`")),
        }
        Ok(())
    }

    pub(crate) fn edge_gone(&mut self, hook: Hook<'_>) {
        if hook.side == Side::Output {
            self.0 = None;
        }
    }

    /// So many messages since the stage's start.
    pub(crate) fn tell(&self, (messages, lost): (u64, u64), context: &mut Context<'_>) {
        if let Some(output) = self.0 {
            context.emit(output, |message| {
                message.put_number(ids::MESSAGES, messages);
                message.put_number(ids::LOST, lost);
            });
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use starfarm_agent_core::{Order, Runtime, Stage, Triples, Word};

    use super::*;

    /// Says that three have left and two are lost, when it is asked.
    #[derive(Default)]
    struct Sends(Counts);

    impl Stage for Sends {
        fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
            self.0.edge_made("sends", hook)
        }

        fn edge_gone(&mut self, hook: Hook<'_>) {
            self.0.edge_gone(hook);
        }

        fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
            if matches!(word, Word::Fired(_)) {
                self.0.tell((3, 2), context);
            }
            Ok(())
        }
    }

    #[derive(Default)]
    struct Hears(Rc<RefCell<Vec<[u64; 2]>>>);

    impl Stage for Hears {
        fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
            Ok(())
        }

        fn data(&mut self, _: usize, values: Triples<'_>, _: &mut Context<'_>) {
            let number = |id| values.find(id).unwrap().number().unwrap();
            self.0.borrow_mut().push([ids::MESSAGES, ids::LOST].map(number));
        }
    }

    #[test]
    fn what_has_left_and_what_is_lost_is_said_where_somebody_hears() {
        let (mut runtime, heard) = (Runtime::new(&[]), Rc::default());
        runtime.add("sends", Box::<Sends>::default(), Some("sends")).unwrap();
        runtime.add("hears", Box::new(Hears(Rc::clone(&heard))), Some("hears")).unwrap();
        let fire = |runtime: &mut Runtime| {
            runtime.order(Order::Tell("sends".into(), Word::Fired(vec![])), 0).unwrap();
        };
        let ends = |output: &str| (("sends".into(), output.to_owned()), ("hears".into(), "in".to_owned()));
        fire(&mut runtime);
        let (from, to) = ends("out");
        let refused = runtime.order(Order::Link(from, to), 0).unwrap_err().to_string();
        assert!(refused.contains("`sends` has one output, `counts`"), "{refused}");
        let (from, to) = ends("counts");
        runtime.order(Order::Link(from.clone(), to.clone()), 0).unwrap();
        fire(&mut runtime);
        runtime.order(Order::Unlink(from, to), 0).unwrap();
        fire(&mut runtime);
        assert_eq!(heard.take(), [[3, 2]]);
    }
}
