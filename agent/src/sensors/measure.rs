//! What all sensors have in common: one output, no input, and a measurement whenever a timer fires.

use starfarm_agent_core::{Context, Hook, Side, Stage, Word};

/// Where the system tells of itself.
pub(super) const PROC: &str = "/proc";

/// The only output's number: it is the first that may be used.
pub(super) const OUT: usize = 0;

/// What makes a sensor of its kind.
pub(super) trait Measure {
    const NAME: &'static str;

    /// Reads what it reads, and emits what is known.
    fn measure(&mut self, context: &mut Context<'_>);

    /// Takes a setting.
    fn set(&mut self, key: &str, _value: &str) -> Result<(), String> {
        Err(format!("`{}` has no setting `{key}`", Self::NAME))
    }
}

/// A sensor as a stage.
pub(super) struct Sensor<M>(pub(super) M);

impl<M: Measure> Stage for Sensor<M> {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        match hook.side {
            Side::Output if hook.name == "out" => Ok(()),
            Side::Output => Err(format!("`{}` has one output, `out`, not `{}`", M::NAME, hook.name)),
            Side::Input => Err(format!("`{}` has no inputs", M::NAME)),
        }
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::Fired(_) => {
                self.0.measure(context);
                Ok(())
            }
            Word::Set { key, value } => self.0.set(key, value),
            _ => Ok(()),
        }
    }
}
