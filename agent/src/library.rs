//! Modules that are shared objects: a table of functions in C, which `examples/modules/starfarm_module.h` describes. They stand
//! in a node's own file, and are loaded at the agent's start. Nothing can keep a module from crashing, or from writing where
//! it should not: that ends the agent, which the worker starts again. What a module says by the functions it is given is checked.
//!
//! | file | holds |
//! | --- | --- |
//! | `table` | what stands in the header |
//! | `stage` | a stage whose functions are in C |
//! | `host` | what the agent does for it |
//!
//! All unsafe code of the agent is here.

mod host;
mod stage;
mod table;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use starfarm_agent_core::Type;

use stage::CStage;
use table::{Entry, SYMBOL, Table, VERSION};

/// Types of a module, and bytes of a name, at most.
const TYPES_MAX: u32 = 1_000;
const NAME_BYTES_MAX: usize = 64;

/// All that were loaded, by their files: each is loaded once, and never unloaded.
static LOADED: Mutex<BTreeMap<PathBuf, &'static [Type]>> = Mutex::new(BTreeMap::new());

/// The types of the module in that file.
///
/// # Errors
/// It is none that can be had here, in words.
pub(crate) fn load(path: &Path) -> Result<&'static [Type], String> {
    let shown = path.display();
    let file = path.canonicalize().map_err(|error| format!("there is no file {shown}: {error}"))?;
    if !file.is_file() {
        return Err(format!("{shown} is no file"));
    }
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(types) = loaded.get(&file) {
        return Ok(types);
    }
    // SAFETY: what it runs when it is loaded is its own, as all of it: the header says so.
    let library = unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_LOCAL) };
    let library =
        library.map_err(|error| format!("{shown} is no shared object that can be loaded here: {error}"))?;
    // What is of it lives as long as the process, also where it is refused: who has loaded it once may have been called by it.
    let library = Box::leak(Box::new(library));
    let types = types_of(library).map_err(|why| format!("{shown} {why}"))?;
    let types = Box::leak(types.into_boxed_slice());
    loaded.insert(file, types);
    Ok(types)
}

fn types_of(library: &'static Library) -> Result<Vec<Type>, String> {
    let none = || format!("is no module: it has no function `{SYMBOL}`");
    // SAFETY: a symbol of that name is such a function, or the file is no module: the header says so.
    let entry = unsafe { library.get::<Entry>(SYMBOL.as_bytes()) }.map_err(|_| none())?;
    // SAFETY: the header says what the function gives: a table that never changes, or null.
    let table =
        unsafe { entry().as_ref() }.ok_or_else(|| format!("is no module: its `{SYMBOL}` gives nothing"))?;
    let Table { version, types_count, name, types } = *table;
    if version != VERSION {
        return Err(format!(
            "is a module of version {version} of `starfarm_module.h`, and this release loads version {VERSION}: build it anew"
        ));
    }
    name_of(name).map_err(|why| format!("has a name that {why}"))?;
    if types.is_null() || !(1..=TYPES_MAX).contains(&types_count) {
        return Err(format!("has {types_count} types of stages: write 1 to {TYPES_MAX}"));
    }
    // SAFETY: the module says that so many are there, it is not null, and the header that they never change.
    let types = unsafe { std::slice::from_raw_parts(types, types_count as usize) };
    types.iter().map(type_of).collect()
}

fn type_of(of: &'static table::Type) -> Result<Type, String> {
    let name = name_of(of.name).map_err(|why| format!("has a type of stages whose name {why}"))?;
    let create = of.create.ok_or_else(|| format!("has no `create` for its type `{name}`"))?;
    let calls = of.calls;
    let new = move || -> Box<dyn starfarm_agent_core::Stage> { Box::new(CStage::new(name, create, calls)) };
    Ok(Type { name, new: Box::leak(Box::new(new)) })
}

/// A name of a table, which never changes.
fn name_of(name: *const c_char) -> Result<&'static str, String> {
    if name.is_null() {
        return Err("is not there".to_owned());
    }
    // SAFETY: it is not null, and the header says that a 0 ends it and that it never changes.
    let bytes: &'static [u8] = unsafe { CStr::from_ptr(name) }.to_bytes();
    let name = std::str::from_utf8(bytes).map_err(|_| "is no UTF-8 text".to_owned())?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain) {
        return Ok(name);
    }
    let shown: String = name.chars().take(NAME_BYTES_MAX).collect();
    Err(format!("is `{shown}`: write 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`"))
}
