//! Rules over the links of Markdown pages: a relative link leads to a file, and a link to `file.rs#name` to a
//! function of that name. Links to the outside are not followed.

use super::problem::Problem;
use super::tokens;
use super::tree::Tree;

/// A link's target and its line, counted from 1.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    target: String,
    line: usize,
}

/// All links of the page at `path` that lead nowhere in `tree`.
pub(super) fn check(path: &str, text: &str, tree: &Tree) -> Vec<Problem> {
    let broken = |link: &Link| Some(Problem::at(path, link.line, objection(path, &link.target, tree)?));
    links(text).iter().filter_map(broken).collect()
}

fn objection(page: &str, target: &str, tree: &Tree) -> Option<String> {
    let is_outside = target.contains("://") || target.starts_with("mailto:");
    let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
    if is_outside || file.is_empty() {
        return None;
    }
    let Some(full) = resolve(page, file).filter(|full| tree.has(full)) else {
        return Some(format!("`{file}` is not in the repository: correct the link, or add the file to git"));
    };
    let must_name_function = full.ends_with(".rs") && !fragment.is_empty();
    let missing = must_name_function && !tree.text(&full).is_some_and(|code| has_function(code, fragment));
    missing.then(|| format!("`{full}` has no function `{fragment}`: correct the link"))
}

/// The path from the top of what `target` means on `page`; none when it leaves the repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    if target.starts_with('/') {
        return None;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn has_function(code: &str, name: &str) -> bool {
    tokens::read(code).is_ok_and(|tokens| !tokens::find(&tokens, &["fn", name]).is_empty())
}

/// The links outside of code, both `[text](target)` and `[name]: target`.
fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            let targets = targets(&without_code(line));
            links.extend(targets.into_iter().map(|target| Link { target, line: index + 1 }));
        }
    }
    links
}

/// The line with what stands between backquotes taken out; a link's text may be code, its target never is.
fn without_code(line: &str) -> String {
    if line.matches('`').count() % 2 == 1 {
        return line.to_owned();
    }
    line.split('`').step_by(2).collect()
}

fn targets(line: &str) -> Vec<String> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let defined = line.starts_with('[').then(|| line.split_once("]: ")).flatten().map(|(_, target)| target);
    // A title may follow the target.
    let first_word =
        |target: &str| target.split_whitespace().next().map(|word| word.trim_matches(['<', '>']).to_owned());
    inline.chain(defined).filter_map(first_word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        Tree::of(&[
            ("README.md", ""),
            ("docs/protocol.md", ""),
            (
                "scheduler/core/src/refill.rs",
                "impl Farm {\n    /// fn other\n    pub fn refill(&mut self) {}\n}\n",
            ),
        ])
    }

    fn found(text: &str) -> Vec<usize> {
        check("docs/life-of-a-task.md", text, &tree()).iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn a_relative_link_leads_to_a_file_or_folder() {
        assert_eq!(found("[a](protocol.md), [b](../README.md#words)\n[c](../scheduler/core/) [d](.)\n"), []);
        assert_eq!(found("[a](protocol.md) and [b](gone.md)\n"), [1]);
        assert_eq!(found("fine\n[a](../../README.md)\n[b](/README.md)\n"), [2, 3]);
    }

    #[test]
    fn links_to_the_outside_and_within_the_page_are_left_alone() {
        assert_eq!(found("[a](https://example.org/x) [b](mailto:a@example.org) [c](#words)\n"), []);
    }

    #[test]
    fn a_link_to_a_function_names_one_that_exists() {
        assert_eq!(found("[refill](../scheduler/core/src/refill.rs#refill)\n"), []);
        assert_eq!(found("[refill](../scheduler/core/src/refill.rs#refil)\n"), [1]);
        assert_eq!(found("[refill](../scheduler/core/src/refill.rs#other)\n"), [1]);
        assert_eq!(found("[refill](../scheduler/core/src/refill.rs)\n"), []);
    }

    #[test]
    fn links_in_code_are_no_links() {
        assert_eq!(found("```\n[a](gone.md)\n```\n`[a](gone.md)`\n"), []);
        assert_eq!(found("[`code`](gone.md)\n"), [1]);
    }

    #[test]
    fn links_of_every_form_are_seen() {
        assert_eq!(found("[a](gone.md \"A title\")\n[b]: gone.md\n[c](<gone.md>)\n"), [1, 2, 3]);
        let all = links("[a](x.md) [b](y.md)");
        assert_eq!(all.iter().map(|link| link.target.as_str()).collect::<Vec<_>>(), ["x.md", "y.md"]);
    }
}
