//! The rules of the house as code, run by `cargo xtask tidy` and as a test of this crate. Here are the tree
//! they look at and the list of all rules; each rule is a pure function over text in a file beside.

mod arrows;
mod circles;
mod links;
mod problem;
mod shape;
mod text;
mod tokens;
mod tree;
mod words;

use std::path::Path;

use problem::Problem;
use tree::Tree;

/// Checks every file of the repository at `root`; the error lists all that is wrong.
///
/// # Errors
/// One line for each broken rule, or why the files cannot be read.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let problems = check(&tree);
    if problems.is_empty() {
        println!("{} files are tidy", tree.len());
        return Ok(());
    }
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    Err(format!("{}\nproblems: {}", lines.join("\n"), lines.len()))
}

/// All that is wrong with `tree`, in the order of files and lines.
fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems: Vec<Problem> =
        tree.files().flat_map(|(path, file)| check_file(tree, path, file)).collect();
    problems.extend(circles::check(tree));
    problems.sort();
    problems.dedup();
    problems
}

fn check_file(tree: &Tree, path: &str, file: &tree::File) -> Vec<Problem> {
    let mut problems = text::size(path, file.bytes);
    let Some(text) = file.text.as_deref() else {
        return problems;
    };
    problems.extend(text::check(path, text));
    if path.ends_with(".rs") {
        problems.extend(check_rust(path, text));
    } else if path.ends_with("Cargo.toml") {
        problems.extend(arrows::check(path, text));
    } else if path.ends_with(".md") {
        problems.extend(links::check(path, text, tree));
    }
    problems
}

fn check_rust(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = shape::check(path, text);
    match tokens::read(text) {
        Ok(tokens) => problems.extend(words::check(path, text, &tokens)),
        Err(error) => problems.push(Problem::at(path, error.line, error.what)),
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        run(root).unwrap_or_else(|problems| panic!("\n{problems}"));
    }

    #[test]
    fn each_kind_of_file_meets_its_rules() {
        let tree = Tree::of(&[
            ("protocol/src/lib.rs", "fn main() { dbg!(1) }\n"),
            (
                "protocol/Cargo.toml",
                "[package]\nname = \"starfarm-protocol\"\n[dependencies]\nstarfarm = \"1\"\n",
            ),
            ("README.md", "[gone](gone.md) \n"),
        ]);
        let found: Vec<String> = check(&tree).iter().map(Problem::to_string).collect();
        let starts = |start: &str| found.iter().filter(|line| line.starts_with(start)).count();
        assert_eq!(starts("README.md:1:"), 2, "a dead link and trailing white space: {found:?}");
        assert_eq!(starts("protocol/Cargo.toml:4:"), 1, "an upward arrow: {found:?}");
        assert_eq!(starts("protocol/src/lib.rs:1:"), 2, "a debugging macro and no module text: {found:?}");
    }

    #[test]
    fn code_that_does_not_parse_is_a_problem() {
        let tree = Tree::of(&[("logs/src/lib.rs", "//! Text.\nfn (\n")]);
        assert!(!check(&tree).is_empty());
    }
}
