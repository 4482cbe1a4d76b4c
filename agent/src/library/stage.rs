//! A stage whose functions are in C.

use std::ffi::{CString, c_char, c_int, c_void};

use starfarm_agent_core::{Context, Hook, Side, Stage, Triples, Word};

use super::host::{HOST, during};
use super::table::{self, Calls, Create};

/// Bytes of the words in which a stage refuses something.
const WHY_BYTES: usize = 256;

/// A stage in C. What is called is of a library that is never unloaded, on the one thread that the runtime is on: it is not `Send`.
pub(super) struct CStage {
    type_name: &'static str,
    calls: Calls,
    /// What its `create` gave; null where it could not make one.
    of: *mut c_void,
    /// Of each output, whether it has ever been one.
    outputs: Vec<bool>,
}

impl CStage {
    pub(super) fn new(type_name: &'static str, create: Create, calls: Calls) -> Self {
        // SAFETY: the header says what `create` is given, and that it may be called at any time.
        let of = unsafe { create(&HOST) };
        Self { type_name, calls, of, outputs: Vec::new() }
    }

    /// Asks what may be refused.
    fn may_refuse(&self, ask: impl FnOnce(*mut c_char, usize) -> c_int) -> Result<(), String> {
        if self.of.is_null() {
            return Err(format!("the module could not make a `{}`", self.type_name));
        }
        let mut why = [0_u8; WHY_BYTES];
        if ask(why.as_mut_ptr().cast(), WHY_BYTES) == 0 {
            return Ok(());
        }
        let words = why.split(|byte| *byte == 0).next().unwrap_or_default();
        let words = String::from_utf8_lossy(words);
        let words = if words.is_empty() { "it is refused, and the module does not say why" } else { &words };
        Err(words.chars().map(|of| if of.is_control() { ' ' } else { of }).collect())
    }

    fn set(&self, key: &str, value: &str) -> Result<(), String> {
        let Some(set) = self.calls.set else { return Err(format!("`{}` has no settings", self.type_name)) };
        let (key, value) = (c_string(key)?, c_string(value)?);
        // SAFETY: it is what `create` gave, and the words end in a 0 and live until the call is back.
        self.may_refuse(|why, bytes| unsafe { set(self.of, key.as_ptr(), value.as_ptr(), why, bytes) })
    }

    fn fired(&self, timers: &[String]) {
        let Some(fired) = self.calls.fired else { return };
        let timers: Vec<_> = timers.iter().filter_map(|timer| c_string(timer).ok()).collect();
        let names: Vec<_> = timers.iter().map(|timer| timer.as_ptr()).collect();
        // SAFETY: as for a setting.
        unsafe { fired(self.of, names.as_ptr(), names.len()) };
    }
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| "what a module is told has no byte 0".to_owned())
}

/// A hook as C has it, and its name.
fn hook_of(hook: Hook<'_>) -> Result<(table::Hook, CString), String> {
    let name = c_string(hook.name)?;
    let side = u32::from(hook.side == Side::Output);
    let port = u32::try_from(hook.port).map_err(|error| error.to_string())?;
    Ok((table::Hook { side, port, name: name.as_ptr() }, name))
}

impl Stage for CStage {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        let (raw, _name) = hook_of(hook)?;
        match self.calls.edge_made {
            // SAFETY: as for a setting.
            Some(made) => self.may_refuse(|why, bytes| unsafe { made(self.of, &raw, why, bytes) })?,
            None if hook.side == Side::Input || hook.name == "out" => self.may_refuse(|_, _| 0)?,
            None => return Err(format!("`{}` has one output, `out`, not `{}`", self.type_name, hook.name)),
        }
        if hook.side == Side::Output {
            self.outputs.resize(self.outputs.len().max(hook.port + 1), false);
            self.outputs[hook.port] = true;
        }
        Ok(())
    }

    fn edge_gone(&mut self, hook: Hook<'_>) {
        if let (Some(gone), Ok((raw, _name))) = (self.calls.edge_gone, hook_of(hook)) {
            // SAFETY: as for a setting; there is no edge to a stage that could not be made.
            unsafe { gone(self.of, &raw) };
        }
    }

    fn data(&mut self, input: usize, values: Triples<'_>, context: &mut Context<'_>) {
        let (Some(data), Ok(input)) = (self.calls.data, u32::try_from(input)) else { return };
        let bytes = values.bytes();
        // SAFETY: as for a setting; the bytes live until the call is back.
        let call = || unsafe { data(self.of, input, bytes.as_ptr().cast(), bytes.len()) };
        during(context, &self.outputs, call);
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        if let Word::Set { key, value } = word {
            return during(context, &self.outputs, || self.set(key, value));
        }
        if self.of.is_null() {
            return Ok(());
        }
        match (word, self.calls.wave_is_over) {
            (Word::Fired(timers), _) => during(context, &self.outputs, || self.fired(timers)),
            // SAFETY: it is what `create` gave.
            (Word::WaveIsOver, Some(over)) => during(context, &self.outputs, || unsafe { over(self.of) }),
            _ => {}
        }
        Ok(())
    }
}

impl Drop for CStage {
    fn drop(&mut self) {
        if let Some(destroy) = self.calls.destroy
            && !self.of.is_null()
        {
            // SAFETY: it is what `create` gave, and nobody asks it any more.
            unsafe { destroy(self.of) };
        }
    }
}
