//! What the tests could not run. A test that lacks something appends one line `need: test: why` to the file
//! that the environment variable [`VARIABLE`] names, and returns; this module reads the file. The helper
//! that writes lives with the tests.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

/// Names the file to which a test that cannot run appends its line.
pub(crate) const VARIABLE: &str = "STARFARM_SKIPS";

/// What CI promises to have: a test that skips there for one of these is an error, not a skip.
const PROMISED: &[&str] = &[
    "root",
    "netns",
    "loop",
    "tmpfs",
    "mount",
    "cgroup",
    "ss",
    "bash",
    "zsh",
    "fish",
    "man",
    "xmllint",
    "page",
    "chromium",
    "povray",
    "/usr/bin/convert",
    "blastn",
    "nft",
    "pidstat",
    "stress-ng",
    "promtool",
    "dot",
    "hashcat",
    "pocl",
];

#[derive(Debug, PartialEq)]
struct Skip<'a> {
    need: &'a str,
    test: &'a str,
    why: &'a str,
}

impl fmt::Display for Skip<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (needs {}: {})", self.test, self.need, self.why)
    }
}

/// Forgets the skips of an earlier run, and makes a place for those of this one.
pub(crate) fn empty(file: &Path) -> Result<(), String> {
    let cannot = |error| format!("cannot write {}: {error}; remove it by hand", file.display());
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(cannot)?;
    }
    std::fs::write(file, "").map_err(cannot)
}

/// Prints what was skipped. In CI it is an error where the need was promised.
pub(crate) fn report(file: &Path, in_ci: bool) -> Result<(), String> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
    };
    let skips = parse(&text)?;
    print!("{}", summary(&skips));
    if in_ci { keep_promises(&skips) } else { Ok(()) }
}

/// The skips, each once: a test may be run twice.
fn parse(text: &str) -> Result<Vec<Skip<'_>>, String> {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    lines.dedup();
    lines.into_iter().map(parse_line).collect()
}

fn parse_line(line: &str) -> Result<Skip<'_>, String> {
    let mut parts = line.splitn(3, ": ");
    match (parts.next(), parts.next(), parts.next()) {
        (Some(need), Some(test), Some(why)) => Ok(Skip { need, test, why }),
        _ => Err(format!("a test noted its skip as `{line}`; it must write `need: test: why`")),
    }
}

fn summary(skips: &[Skip<'_>]) -> String {
    if skips.is_empty() {
        return "skipped: nothing\n".to_owned();
    }
    std::iter::once("skipped:\n".to_owned()).chain(skips.iter().map(|skip| format!("  {skip}\n"))).collect()
}

fn keep_promises(skips: &[Skip<'_>]) -> Result<(), String> {
    let broken: Vec<_> =
        skips.iter().filter(|skip| PROMISED.contains(&skip.need)).map(Skip::to_string).collect();
    if broken.is_empty() {
        return Ok(());
    }
    let promised = PROMISED.join(" and ");
    Err(format!("CI promises {promised}, so these tests must run: {}; repair the machine", broken.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "netns: links::cut: no permission\navx512: search::wide: this processor has none\n";

    #[test]
    fn lines_are_sorted_and_each_counts_once() {
        let text = format!("{TWO}\n{TWO}");
        let skips = parse(&text).unwrap();
        assert_eq!(skips.len(), 2);
        assert_eq!(
            summary(&skips),
            "skipped:\n  search::wide (needs avx512: this processor has none)\n  \
             links::cut (needs netns: no permission)\n"
        );
    }

    #[test]
    fn a_line_without_its_parts_is_an_error_that_shows_it() {
        assert!(parse("root: links::cut").unwrap_err().contains("`root: links::cut`"));
    }

    #[test]
    fn ci_refuses_a_skip_of_what_it_promises_and_allows_others() {
        let skips = parse(TWO).unwrap();
        let error = keep_promises(&skips).unwrap_err();
        assert!(error.contains("links::cut") && !error.contains("search::wide"), "{error}");
        assert_eq!(keep_promises(&skips[..1]), Ok(()));
    }

    #[test]
    fn a_missing_file_means_that_nothing_was_skipped() {
        assert_eq!(report(Path::new("no/such/file"), true), Ok(()));
        assert_eq!(summary(&[]), "skipped: nothing\n");
    }
}
