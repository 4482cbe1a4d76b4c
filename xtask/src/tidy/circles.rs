//! No circles between the files of a crate: where two files need each other, neither can be read, tested or moved
//! alone, and a third would have said what they share. Here is what a circle is and how it is told; the modules of
//! a crate are in `modules`, what their code names in `uses`, which file that leads to in `arrows`, and circles in
//! a graph in `graph`.

mod arrows;
mod graph;
mod modules;
mod uses;

use super::problem::Problem;
use super::tree::Tree;
use arrows::Arrow;
use modules::Crate;

/// One problem for each circle in the crates of `tree`.
pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let manifests = tree.files().filter_map(|(path, _)| path.strip_suffix("/Cargo.toml"));
    let crates = manifests.flat_map(|folder| {
        modules::ROOTS.iter().filter_map(move |root| Crate::read(tree, &format!("{folder}/{root}")))
    });
    crates.flat_map(|source| circles_of(&source)).collect()
}

fn circles_of(source: &Crate) -> Vec<Problem> {
    let arrows = arrows::between_files(source);
    let edges: Vec<(&str, &str)> =
        arrows.iter().map(|arrow| (arrow.from.as_str(), arrow.to.as_str())).collect();
    graph::circles(&edges).iter().map(|files| told(files, &arrows)).collect()
}

/// A circle as a problem of its first file: its files, and for each an arrow that keeps it in.
fn told(files: &[&str], arrows: &[Arrow]) -> Problem {
    let within = |arrow: &&Arrow| files.contains(&arrow.to.as_str());
    let one_of = |file: &&str| arrows.iter().filter(|arrow| arrow.from == *file).find(within);
    let lines: Vec<String> = files
        .iter()
        .filter_map(one_of)
        .map(|arrow| format!("\n    {}:{} uses `{}` of {}", arrow.from, arrow.line, arrow.name, arrow.to))
        .collect();
    let what = format!(
        "a circle of {} files: put what they share where both can reach it{}",
        files.len(),
        lines.concat()
    );
    Problem::at(files[0], 1, what)
}

#[cfg(test)]
mod tests;
