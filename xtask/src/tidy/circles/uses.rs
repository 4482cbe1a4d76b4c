//! What the code of one module names: imports, paths, calls of methods, and the methods it gives to types. Bodies of
//! macros are read as plain tokens. Modules inside of the module are not looked into, tests neither.

use proc_macro2::{Ident, Spacing, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{
    Attribute, ExprMethodCall, ImplItem, ImplItemFn, Item, ItemImpl, ItemMod, ItemTrait, ItemUse, Macro,
    Meta, Path, Signature, TraitItem, Type, UseTree, Visibility,
};

/// All that a module names.
#[derive(Default)]
pub(super) struct Uses {
    pub(super) imports: Vec<Import>,
    pub(super) paths: Vec<Named>,
    pub(super) calls: Vec<Call>,
    pub(super) methods: Vec<Method>,
}

/// One name that a `use` brings in.
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// What it is called here, or `ALL`.
    pub(super) binds: String,
    /// Whether others see it: a re-export.
    pub(super) shown: bool,
    pub(super) line: usize,
}

impl Import {
    /// `use path::*`.
    pub(super) const ALL: &str = "*";
}

/// A path in the code.
pub(super) struct Named {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// A call of a method.
pub(super) struct Call {
    /// The type whose `impl` it stands in, where it is a call of `self` or `Self`.
    pub(super) of: Option<Vec<String>>,
    pub(super) name: String,
    pub(super) line: usize,
}

/// A method that an `impl` without a trait gives to a type, or a trait's own.
pub(super) struct Method {
    pub(super) of: Vec<String>,
    pub(super) name: String,
    /// Whether code outside of its module can call it.
    pub(super) shown: bool,
}

/// What the module of these `items` names.
pub(super) fn of(items: &[Item]) -> Uses {
    let mut reader = Reader::default();
    items.iter().for_each(|item| reader.visit_item(item));
    reader.uses
}

/// The attributes of an item of any kind that can have them in this code.
pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name that an item declares; modules and imports are not asked.
pub(super) fn name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// Whether what has these attributes is compiled for tests only.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    let says_test = |attribute: &Attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        Meta::Path(path) => path.is_ident("test"),
        Meta::NameValue(_) => false,
    };
    attributes.iter().any(says_test)
}

fn is_shown(visibility: &Visibility) -> bool {
    !matches!(visibility, Visibility::Inherited)
}

#[derive(Default)]
struct Reader {
    uses: Uses,
    /// The type whose `impl` is being read.
    of: Option<Vec<String>>,
}

impl Reader {
    fn import(&mut self, tree: &UseTree, mut path: Vec<String>, shown: bool) {
        let mut add = |path: Vec<String>, binds: String, ident: &Ident| {
            let line = ident.span().start().line;
            self.uses.imports.push(Import { path, binds, shown, line });
        };
        match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                self.import(&inner.tree, path, shown);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, path.clone(), shown))
            }
            UseTree::Name(name) if name.ident == "self" => {
                let binds = path.last().cloned().unwrap_or_default();
                path.push("self".to_owned());
                add(path, binds, &name.ident);
            }
            UseTree::Name(name) => {
                path.push(name.ident.to_string());
                add(path, name.ident.to_string(), &name.ident);
            }
            UseTree::Rename(rename) => {
                path.push(rename.ident.to_string());
                add(path, rename.rename.to_string(), &rename.ident);
            }
            UseTree::Glob(glob) => {
                let line = glob.star_token.spans[0].start().line;
                self.uses.imports.push(Import { path, binds: Import::ALL.to_owned(), shown, line });
            }
        }
    }

    /// A path in the code, where `Self::name` is a call.
    fn path(&mut self, path: Vec<String>, line: usize) {
        match path.as_slice() {
            [first, name, ..] if first == "Self" => self.call(true, name.clone(), line),
            [only] if only == "Self" || only == "self" => {}
            _ => self.uses.paths.push(Named { path, line }),
        }
    }

    fn call(&mut self, of_self: bool, name: String, line: usize) {
        let of = self.of.clone().filter(|_| of_self);
        self.uses.calls.push(Call { of, name, line });
    }

    fn method(&mut self, of: &[String], signature: &Signature, shown: bool) {
        self.uses.methods.push(Method { of: of.to_vec(), name: signature.ident.to_string(), shown });
    }

    /// The body of a macro: paths and calls as they look, since nobody knows what it will be.
    fn tokens(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut next = 0;
        while next < tokens.len() {
            if let TokenTree::Group(group) = &tokens[next] {
                self.tokens(group.stream());
            }
            let (path, behind) = path_at(&tokens, next);
            let Some(first) = path.first() else {
                next += 1;
                continue;
            };
            let line = tokens[next].span().start().line;
            if next > 0 && is_sign(&tokens[next - 1], '.') {
                let of_self =
                    next > 1 && matches!(&tokens[next - 2], TokenTree::Ident(word) if word == "self");
                self.call(of_self, first.clone(), line);
            } else {
                self.path(path, line);
            }
            next = behind;
        }
    }
}

/// The words joined by `::` from `start` on, and the index behind them.
fn path_at(tokens: &[TokenTree], start: usize) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    let mut next = start;
    while let Some(TokenTree::Ident(word)) = tokens.get(next) {
        path.push(word.to_string());
        next += 1;
        match tokens.get(next..next + 2) {
            Some([first, second]) if is_joined(first) && is_sign(second, ':') => next += 2,
            _ => break,
        }
    }
    (path, next)
}

fn is_joined(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(sign) if sign.as_char() == ':' && sign.spacing() == Spacing::Joint)
}

fn is_sign(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == sign)
}

fn segments(path: &Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.import(&item.tree, Vec::new(), is_shown(&item.vis));
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let of = match item.self_ty.as_ref() {
            Type::Path(path) => Some(segments(&path.path)),
            _ => None,
        };
        if let Some(of) = of.as_ref().filter(|_| item.trait_.is_none()) {
            for inner in &item.items {
                if let ImplItem::Fn(function) = inner {
                    self.method(of, &function.sig, is_shown(&function.vis));
                }
            }
        }
        let outer = std::mem::replace(&mut self.of, of);
        visit::visit_item_impl(self, item);
        self.of = outer;
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        for inner in &item.items {
            if let TraitItem::Fn(function) = inner {
                self.method(&[item.ident.to_string()], &function.sig, true);
            }
        }
        visit::visit_item_trait(self, item);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let line = path.segments.first().map_or(1, |segment| segment.ident.span().start().line);
        self.path(segments(path), line);
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let of_self = matches!(call.receiver.as_ref(), syn::Expr::Path(path) if path.path.is_ident("self"));
        self.call(of_self, call.method.to_string(), call.method.span().start().line);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }
}
