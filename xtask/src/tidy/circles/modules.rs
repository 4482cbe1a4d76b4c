//! The modules of one crate, read from its root on: in which file each stands and what its names mean. Tests are
//! left out. What a name leads to through re-exports is found here too; what code does with names is in `uses`.

use std::collections::BTreeMap;

use syn::{Item, ItemMod};

use super::super::tree::Tree;
use super::uses::{self, Import, Uses};

/// Where crates start.
pub(super) const ROOTS: &[&str] = &["src/lib.rs", "src/main.rs"];

/// The modules of a crate; the first is its root.
pub(super) struct Crate {
    pub(super) modules: Vec<Module>,
}

/// A module, in a file of its own or inside of one.
pub(super) struct Module {
    pub(super) file: String,
    pub(super) uses: Uses,
    parent: usize,
    names: BTreeMap<String, Vec<Name>>,
}

/// What a name means in the module that declares it.
enum Name {
    Module(usize),
    Item,
}

/// What a path leads to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Target {
    Module(usize),
    Item(ItemId),
}

impl Target {
    fn is_module(&self) -> bool {
        matches!(self, Self::Module(_))
    }
}

/// An item by the module that declares it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ItemId {
    pub(super) module: usize,
    pub(super) name: String,
}

impl Crate {
    /// Reads the crate whose root is at `path`; none where there is no such file.
    pub(super) fn read(tree: &Tree, path: &str) -> Option<Self> {
        let mut source = Self { modules: Vec::new() };
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        source.read_file(tree, path, folder, 0)?;
        Some(source)
    }

    /// The file with `id` as its module; `folder` is where its child modules are. None where it cannot be read:
    /// that it does not parse is told elsewhere.
    fn read_file(&mut self, tree: &Tree, path: &str, folder: &str, parent: usize) -> Option<usize> {
        let file = syn::parse_file(tree.text(path)?).ok()?;
        Some(self.add(tree, path, folder, parent, &file.items))
    }

    fn add(&mut self, tree: &Tree, path: &str, folder: &str, parent: usize, items: &[Item]) -> usize {
        let id = self.modules.len();
        let uses = uses::of(items);
        self.modules.push(Module { file: path.to_owned(), uses, parent, names: BTreeMap::new() });
        for item in items.iter().filter(|item| !uses::is_test(uses::attributes(item))) {
            let (name, meaning) = match item {
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let Some(child) = self.child(tree, path, &format!("{folder}/{name}"), id, module) else {
                        continue;
                    };
                    (name, Name::Module(child))
                }
                other => match uses::name(other) {
                    Some(name) => (name, Name::Item),
                    None => continue,
                },
            };
            self.modules[id].names.entry(name).or_default().push(meaning);
        }
        id
    }

    /// The module that `module` declares, here or in a file below `place`.
    fn child(
        &mut self,
        tree: &Tree,
        path: &str,
        place: &str,
        parent: usize,
        module: &ItemMod,
    ) -> Option<usize> {
        if let Some((_, items)) = &module.content {
            return Some(self.add(tree, path, place, parent, items));
        }
        let files = [format!("{place}.rs"), format!("{place}/mod.rs")];
        files.iter().find_map(|file| self.read_file(tree, file, place, parent))
    }

    /// What `path` leads to, as the code of `module` writes it; nothing for what comes from outside the crate.
    pub(super) fn resolve(&self, module: usize, path: &[String]) -> Vec<Target> {
        self.resolve_beside(module, path, &mut Vec::new())
    }

    /// Like `resolve`; `open` are the names that are being looked up, so that a circle of imports ends.
    fn resolve_beside(&self, module: usize, path: &[String], open: &mut Vec<(usize, String)>) -> Vec<Target> {
        let Some((first, rest)) = path.split_first() else {
            return Vec::new();
        };
        let mut targets = match first.as_str() {
            "crate" => vec![Target::Module(0)],
            "self" => vec![Target::Module(module)],
            "super" => vec![Target::Module(self.modules[module].parent)],
            name => self.look_up(module, name, open),
        };
        for segment in rest {
            // Of a module and a function of one name only the module leads on.
            if targets.iter().any(Target::is_module) {
                targets.retain(Target::is_module);
            }
            let step = |target| match target {
                Target::Module(module) if segment == "super" => {
                    vec![Target::Module(self.modules[module].parent)]
                }
                Target::Module(module) if segment == "self" => vec![Target::Module(module)],
                Target::Module(module) => self.member(module, segment, open),
                // A variant, or a function of the type.
                item @ Target::Item(_) => vec![item],
            };
            targets = targets.into_iter().flat_map(step).collect();
        }
        targets.sort();
        targets.dedup();
        targets
    }

    /// What `module::name` is. A name that no item has comes from a macro there, or from outside by way of it.
    fn member(&self, module: usize, name: &str, open: &mut Vec<(usize, String)>) -> Vec<Target> {
        let found = self.look_up(module, name, open);
        let declared = || Target::Item(ItemId { module, name: name.to_owned() });
        if found.is_empty() { vec![declared()] } else { found }
    }

    fn look_up(&self, module: usize, name: &str, open: &mut Vec<(usize, String)>) -> Vec<Target> {
        let this = (module, name.to_owned());
        if open.contains(&this) {
            return Vec::new();
        }
        open.push(this);
        let Module { names, uses, .. } = &self.modules[module];
        let target = |meaning: &Name| match meaning {
            Name::Module(child) => Target::Module(*child),
            Name::Item => Target::Item(ItemId { module, name: name.to_owned() }),
        };
        let mut found: Vec<Target> = names.get(name).into_iter().flatten().map(target).collect();
        for import in uses.imports.iter().filter(|import| import.binds == name) {
            found.extend(self.resolve_beside(module, &import.path, open));
        }
        if found.is_empty() {
            found = self.look_up_in_globs(module, name, open);
        }
        open.pop();
        found
    }

    fn look_up_in_globs(&self, module: usize, name: &str, open: &mut Vec<(usize, String)>) -> Vec<Target> {
        let mut found = Vec::new();
        for glob in self.modules[module].uses.imports.iter().filter(|import| import.binds == Import::ALL) {
            for target in self.resolve_beside(module, &glob.path, open) {
                if let Target::Module(other) = target {
                    found.extend(self.look_up(other, name, open));
                }
            }
        }
        found
    }

    /// Whether `inner` is `outer` or a module below it.
    pub(super) fn is_below(&self, outer: usize, mut inner: usize) -> bool {
        while inner != outer && inner != 0 {
            inner = self.modules[inner].parent;
        }
        inner == outer
    }
}
