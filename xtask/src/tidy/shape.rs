//! Rules over the shape of a Rust file: what it is called, how long its functions are, and that it says what lives
//! in it.

use proc_macro2::Span;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, Signature, TraitItemFn};

use super::problem::Problem;

/// Longest function, in lines from its `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// All rules over the shape.
pub(super) fn check(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::from_iter(module_text(path, text));
    problems.extend(module_name(path));
    match syn::parse_file(text) {
        Ok(file) => problems.extend(long_functions(path, &file)),
        Err(error) => {
            let what = format!("not Rust as tidy can read it ({error}): make it compile");
            problems.push(Problem::at(path, error.span().start().line, what));
        }
    }
    problems
}

fn module_text(path: &str, text: &str) -> Option<Problem> {
    let opens_well = text.starts_with("//!");
    (!opens_well)
        .then(|| Problem::at(path, 1, "no `//!` at the top: say what lives in this module and what does not"))
}

/// A module with others below it is `a.rs` beside `a/`. What integration tests share is not: cargo would take
/// `tests/a.rs` for a test of its own.
fn module_name(path: &str) -> Option<Problem> {
    let in_sources = path.ends_with("/mod.rs") && path.split('/').any(|folder| folder == "src");
    in_sources.then(|| Problem::at(path, 1, "a `mod.rs`: call it like its folder and put it beside it"))
}

fn long_functions(path: &str, file: &syn::File) -> Vec<Problem> {
    let mut functions = Functions::default();
    functions.visit_file(file);
    let too_long = functions.found.iter().filter(|function| function.lines() > FUNCTION_LINES_MAX);
    too_long.map(|function| function.problem(path)).collect()
}

/// Collects the functions of a file, also those inside of others.
#[derive(Default)]
struct Functions {
    found: Vec<Function>,
}

struct Function {
    name: String,
    first_line: usize,
    last_line: usize,
}

impl Function {
    fn new(signature: &Signature, block: &Block) -> Self {
        let end: Span = block.brace_token.span.close();
        Self {
            name: signature.ident.to_string(),
            first_line: signature.fn_token.span.start().line,
            last_line: end.end().line,
        }
    }

    fn lines(&self) -> usize {
        self.last_line - self.first_line + 1
    }

    fn problem(&self, path: &str) -> Problem {
        let (name, lines) = (&self.name, self.lines());
        let what =
            format!("`{name}` has {lines} lines, more than {FUNCTION_LINES_MAX}: cut it into named parts");
        Problem::at(path, self.first_line, what)
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.found.push(Function::new(&function.sig, &function.block));
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.found.push(Function::new(&function.sig, &function.block));
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.found.push(Function::new(&function.sig, block));
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function of this many lines, its two braces' lines among them.
    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    fn found(code: &str) -> Vec<usize> {
        check("a.rs", &format!("//! Text.\n{code}")).iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn a_function_has_at_most_70_lines_wherever_it_stands() {
        assert_eq!(found(&function(71)), [2]);
        assert_eq!(found(&format!("impl A {{\n{}}}\n", function(71))), [3]);
        assert_eq!(found(&format!("trait A {{\n{}}}\n", function(71))), [3]);
        assert_eq!(found(&format!("mod a {{\n{}}}\n", function(71))), [3]);
        assert_eq!(found(&format!("fn outer() {{\n{}}}\n", function(71))), [2, 3]);
        assert_eq!(found(&function(70)), []);
    }

    #[test]
    fn text_and_attributes_above_a_function_do_not_count() {
        assert_eq!(found(&format!("{}#[inline]\n{}", "/// Why.\n".repeat(9), function(70))), []);
    }

    #[test]
    fn a_module_opens_with_its_text() {
        assert_eq!(module_text("a.rs", "//! Text.\nfn a() {}\n"), None);
        assert!(module_text("a.rs", "fn a() {}\n").is_some());
        assert!(module_text("a.rs", "// Text.\n").is_some());
    }

    #[test]
    fn a_module_is_called_like_its_folder() {
        let is_wrong = |path: &str| !check(path, "//! Text.\n").is_empty();
        assert!(is_wrong("logs/src/xml/mod.rs") && is_wrong("tests/e2e/src/power/mod.rs"));
        assert!(!is_wrong("logs/src/xml.rs") && !is_wrong("worker/tests/fake/mod.rs"));
    }

    #[test]
    fn code_that_does_not_parse_is_named_with_its_line() {
        assert_eq!(found("fn a() {}\nfn 7() {}\n"), [3]);
    }
}
