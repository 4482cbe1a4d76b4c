//! Rules over the plain text of a file, whatever is written in it.

use super::problem::Problem;

/// Longest source file, in lines.
const LINES_MAX: usize = 500;

/// Largest file, in bytes: what is bigger is data and does not belong into the history.
pub(super) const BYTES_MAX: u64 = 300 * 1024;

/// Words that mark unfinished work. Put together here so that this file does not hold them.
const MARKERS: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];

/// First folders of absolute paths that mean something on one person's machine only.
const PRIVATE_ROOTS: [&str; 3] = ["root", "home", "work"];

/// Byte-exact files, whose white space is part of what they say.
const EXACT_FOLDER: &str = "tests/golden/";

/// Refuses a big file; the lock file's size is cargo's affair.
pub(super) fn size(path: &str, bytes: u64) -> Vec<Problem> {
    if bytes <= BYTES_MAX || path == "Cargo.lock" {
        return Vec::new();
    }
    let what =
        format!("{bytes} bytes, more than {BYTES_MAX}: generate it, or keep it outside the repository");
    vec![Problem::at(path, 1, what)]
}

/// All rules over a text.
pub(super) fn check(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = length(path, text);
    if !path.starts_with(EXACT_FOLDER) {
        problems.extend(white_space(path, text));
    }
    problems.extend(markers(path, text));
    problems.extend(private_paths(path, text));
    problems.extend(doc_tests(path, text));
    problems
}

fn length(path: &str, text: &str) -> Vec<Problem> {
    let lines = text.lines().count();
    let is_source = path.ends_with(".rs") || path.ends_with(".ts");
    if !is_source || lines <= LINES_MAX {
        return Vec::new();
    }
    let what = format!("{lines} lines, more than {LINES_MAX}: give each life stage a file of its own");
    vec![Problem::at(path, LINES_MAX + 1, what)]
}

fn white_space(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in numbered(text) {
        if line.ends_with(char::is_whitespace) {
            problems.push(Problem::at(path, number, "white space at the end of the line: remove it"));
        }
        if path.ends_with(".rs") && line.contains('\t') {
            problems.push(Problem::at(path, number, "a tab: use blanks, or `\\t` in a string"));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        let last = text.lines().count();
        problems.push(Problem::at(path, last, "no newline at the end of the file: add one"));
    }
    problems
}

fn markers(path: &str, text: &str) -> Vec<Problem> {
    let problem = |number, marker| {
        Problem::at(path, number, format!("`{marker}`: finish it now, or open an issue and remove the mark"))
    };
    let found = |line: &str, marker: &str| starts_of(line, marker).any(|at| is_word(line, at, marker.len()));
    numbered(text)
        .flat_map(|(number, line)| {
            MARKERS
                .iter()
                .filter(move |marker| found(line, marker))
                .map(move |marker| problem(number, marker))
        })
        .collect()
}

fn private_paths(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for root in PRIVATE_ROOTS {
        let folder = format!("/{root}/");
        for (number, line) in numbered(text) {
            if starts_of(line, &folder).any(|at| !continues_a_path(line, at)) {
                let what =
                    format!("an absolute path below {folder}: name it from the repository's top instead");
                problems.push(Problem::at(path, number, what));
            }
        }
    }
    problems
}

/// Code in documentation, which nobody runs: building everything once more for it takes minutes.
fn doc_tests(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut is_open = false;
    for (number, line) in numbered(text).filter(|_| path.ends_with(".rs")) {
        let line = line.trim_start();
        let Some(words) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            is_open = false;
            continue;
        };
        let Some(language) = words.trim().strip_prefix("```") else { continue };
        is_open = !is_open;
        let is_other = language.chars().next().is_some_and(char::is_alphabetic)
            && !["rust", "ignore", "no_run", "should_panic", "compile_fail"]
                .iter()
                .any(|of| language.starts_with(of));
        if is_open && !is_other {
            let what = "code in documentation, which no test runs: write a test, or name the language if it is not Rust";
            problems.push(Problem::at(path, number, what));
        }
    }
    problems
}

/// Lines with their numbers from 1; carriage returns stay, so that they count as white space.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split('\n').enumerate().map(|(index, line)| (index + 1, line))
}

/// Where `word` starts in `line`, in bytes.
fn starts_of<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    line.match_indices(word).map(|(at, _)| at)
}

fn is_word(line: &str, at: usize, length: usize) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    !line[..at].ends_with(is_part) && !line[at + length..].starts_with(is_part)
}

/// Whether what stands before byte `at` belongs to the same path or address.
fn continues_a_path(line: &str, at: usize) -> bool {
    line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-~/}>$*".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(problems: &[Problem]) -> Vec<usize> {
        problems.iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn code_in_documentation_that_would_be_run_is_refused() {
        let fence = "```";
        let found = |language: &str, path: &str| {
            lines(&doc_tests(
                path,
                &format!("//! It says:\n//! {fence}{language}\n//! x\n//! {fence}\nfn x() {{}}\n"),
            ))
        };
        for language in ["", "rust", "no_run", "should_panic"] {
            assert_eq!(found(language, "net/src/lib.rs"), [2], "{language}");
        }
        assert_eq!(found("text", "net/src/lib.rs"), []);
        assert_eq!(found("", "README.md"), []);
    }

    #[test]
    fn a_big_file_is_refused_but_the_lock_file() {
        assert_eq!(size("docs/picture.png", BYTES_MAX + 1).len(), 1);
        assert!(size("docs/picture.png", BYTES_MAX).is_empty());
        assert!(size("Cargo.lock", BYTES_MAX + 1).is_empty());
    }

    #[test]
    fn a_source_file_has_at_most_500_lines() {
        assert_eq!(lines(&length("a.rs", &"x\n".repeat(501))), [501]);
        assert_eq!(lines(&length("a.ts", &"x\n".repeat(501))), [501]);
        assert!(length("a.rs", &"x\n".repeat(500)).is_empty());
        assert!(length("a.md", &"x\n".repeat(501)).is_empty());
    }

    #[test]
    fn white_space_at_a_lines_end_and_tabs_are_found() {
        assert_eq!(lines(&white_space("a.md", "good\nbad \nbad\t\nbad\r\n")), [2, 3, 4]);
        assert_eq!(lines(&white_space("a.rs", "good\n\tbad\n")), [2]);
        assert!(white_space("Makefile", "\tgood\n").is_empty());
    }

    #[test]
    fn a_file_ends_with_a_newline() {
        assert_eq!(lines(&white_space("a.md", "one\ntwo")), [2]);
        assert!(white_space("a.md", "one\ntwo\n").is_empty());
        assert!(white_space("a.md", "").is_empty());
    }

    #[test]
    fn byte_exact_files_keep_their_white_space() {
        assert!(check("tests/golden/wire-v1/task.txt", "exact ").is_empty());
        assert_eq!(check("tests/seeds/one.txt", "exact ").len(), 2);
    }

    #[test]
    fn marks_of_unfinished_work_are_found_as_whole_words() {
        for marker in MARKERS {
            assert_eq!(lines(&markers("a.rs", &format!("fine\n// {marker}: later\n"))), [2]);
            assert!(markers("a.rs", &format!("mktemp name.{marker}X\n")).is_empty());
        }
    }

    #[test]
    fn paths_of_one_machine_are_found_and_relative_ones_are_not() {
        for root in PRIVATE_ROOTS {
            assert_eq!(lines(&private_paths("a.md", &format!("good\nsee /{root}/someone/file\n"))), [2]);
            assert_eq!(lines(&private_paths("a.rs", &format!("\"/{root}/x\""))), [1]);
            assert!(
                private_paths("a.md", &format!("https://example.org/{root}/x, $DIR/{root}/x")).is_empty()
            );
            assert!(private_paths("a.md", &format!("the /{root}s/ folder")).is_empty());
        }
    }
}
