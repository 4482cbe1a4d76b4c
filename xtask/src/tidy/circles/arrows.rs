//! Which file of a crate needs which other: by a name that it uses, wherever that is re-exported, and by a method
//! that another file gives to a type. Declaring a module and re-exporting what it has needs nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Crate, ItemId, Module, Target};
use super::uses::Call;

/// One file needs another.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Arrow {
    pub(super) from: String,
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) to: String,
    /// What it uses there.
    pub(super) name: String,
}

/// All arrows of a crate, in the order of files and lines.
pub(super) fn between_files(source: &Crate) -> Vec<Arrow> {
    let methods = Methods::of(source);
    let mut arrows = Vec::new();
    for (id, module) in source.modules.iter().enumerate() {
        let named = by_name(source, &methods, id, &mut arrows);
        for call in &module.uses.calls {
            let to = methods.file(id, call, &named).filter(|file| *file != module.file);
            arrows.extend(to.map(|to| arrow(module, call.line, to, &call.name)));
        }
    }
    arrows.sort();
    arrows
}

fn arrow(module: &Module, line: usize, to: &str, name: &str) -> Arrow {
    Arrow { from: module.file.clone(), line, to: to.to_owned(), name: name.to_owned() }
}

/// Adds the arrows of a module's imports and paths; all items that they name come back.
fn by_name(source: &Crate, methods: &Methods, id: usize, arrows: &mut Vec<Arrow>) -> BTreeSet<ItemId> {
    let module = &source.modules[id];
    let mut all = BTreeSet::new();
    for import in &module.uses.imports {
        for item in items(source, id, &import.path) {
            if !(import.shown && source.is_below(id, item.module)) {
                arrows.extend(to_item(source, module, import.line, &item));
                all.insert(item);
            }
        }
    }
    for named in &module.uses.paths {
        for item in items(source, id, &named.path) {
            arrows.extend(to_item(source, module, named.line, &item));
            let function = named.path.last().filter(|name| **name != item.name);
            let to =
                function.and_then(|name| methods.only_file(&item, name, id)).filter(|to| *to != module.file);
            arrows.extend(to.map(|to| arrow(module, named.line, to, &named.path.join("::"))));
            all.insert(item);
        }
    }
    all
}

fn items(source: &Crate, module: usize, path: &[String]) -> Vec<ItemId> {
    let item = |target| match target {
        Target::Item(item) => Some(item),
        // Naming a module uses nothing of it yet.
        Target::Module(_) => None,
    };
    source.resolve(module, path).into_iter().filter_map(item).collect()
}

fn to_item(source: &Crate, module: &Module, line: usize, item: &ItemId) -> Option<Arrow> {
    let to = &source.modules[item.module].file;
    (*to != module.file).then(|| arrow(module, line, to, &item.name))
}

/// Methods by their names: the modules that give them, and whether others may call them.
type ByName<'a> = BTreeMap<&'a str, BTreeSet<(usize, bool)>>;

/// The methods of each type.
struct Methods<'a> {
    source: &'a Crate,
    of: BTreeMap<ItemId, ByName<'a>>,
}

impl<'a> Methods<'a> {
    fn of(source: &'a Crate) -> Self {
        let mut of: BTreeMap<ItemId, ByName<'_>> = BTreeMap::new();
        for (id, module) in source.modules.iter().enumerate() {
            for method in &module.uses.methods {
                for item in items(source, id, &method.of) {
                    of.entry(item).or_default().entry(&method.name).or_default().insert((id, method.shown));
                }
            }
        }
        Self { source, of }
    }

    /// The one file that gives `item` a method of this name which `module` may call.
    fn only_file(&self, item: &ItemId, name: &str, module: usize) -> Option<&'a str> {
        let (giver, shown) = only(self.of.get(item)?.get(name)?.iter().copied())?;
        let may = shown || self.source.is_below(giver, module);
        may.then(|| self.source.modules[giver].file.as_str())
    }

    /// The one file that `call` leads to. Whose method it is can only be guessed where it is not one of `self`: the
    /// name must be of one type alone, that type must have several files, and the module must name it somewhere.
    fn file(&self, module: usize, call: &Call, named: &BTreeSet<ItemId>) -> Option<&'a str> {
        if let Some(of) = &call.of {
            let items = items(self.source, module, of);
            return items.iter().find_map(|item| self.only_file(item, &call.name, module));
        }
        let item = only(self.of.iter().filter(|(_, methods)| methods.contains_key(call.name.as_str())))?.0;
        let givers = self.of[item].values().flatten();
        let files: BTreeSet<&str> = givers.map(|(id, _)| self.source.modules[*id].file.as_str()).collect();
        self.only_file(item, &call.name, module).filter(|_| files.len() > 1 && named.contains(item))
    }
}

/// The only one of `all`, if there is just one.
fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.next().is_none().then_some(first)
}
