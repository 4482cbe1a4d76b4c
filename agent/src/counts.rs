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
