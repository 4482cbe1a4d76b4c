//! Bugs planted on purpose: a copy of the tree gets one at a time, and the test that is there to catch it must
//! fail, by itself and not because nothing compiles. The bugs are in `tests/mutants/mutants.toml`; that none of
//! them has gone stale is an ordinary test here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::steps::{Steps, cargo};

/// The list, below the repository's top.
const LIST: &str = "tests/mutants/mutants.toml";
/// The copy and what it builds, below the repository's top; ignored by git, kept for the next run.
const COPY: &str = "target/mutants/tree";
const BUILT: &str = "target/mutants/target";

/// A planted bug.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Mutant {
    name: String,
    /// What it changes, below the repository's top.
    file: String,
    /// What must occur exactly once there, and what comes in its place.
    search: String,
    replace: String,
    /// Arguments of `cargo test`, parted by blanks, which build as little as holds the test.
    run: String,
    /// Full name of the test that must catch it, and the file that holds it.
    test: String,
    test_file: String,
}

/// Tries all mutants, or those of these `names`.
pub(crate) fn run(steps: &mut Steps, names: &[String]) {
    let (top, mut all) = (steps.root(), Vec::new());
    let copy = top.join(COPY);
    let prepared = steps.run("a copy of the tree", || {
        all = choose(list(&top)?, names)?;
        copy_tree(&top, &copy)
    });
    if !prepared {
        return;
    }
    let mut sound = BTreeSet::new();
    for mutant in &all {
        if sound.insert((&mutant.run, &mutant.test)) {
            // A test that fails anyway catches nothing.
            let name = format!("without a bug: {}", mutant.test);
            if !steps.run(&name, || passes(&test(&top, mutant)?)) {
                return;
            }
        }
    }
    for mutant in &all {
        steps.run(&format!("mutant: {}", mutant.name), || try_one(&top, &copy, mutant));
    }
}

/// Plants the bug, runs the test, takes the bug away again.
fn try_one(top: &Path, copy: &Path, mutant: &Mutant) -> Result<(), String> {
    let path = copy.join(&mutant.file);
    let text = read(&path)?;
    write(&path, mutant.planted(&text)?.as_bytes())?;
    let outcome = test(top, mutant);
    write(&path, text.as_bytes())?;
    is_caught(&outcome?)?;
    println!("caught by {}", mutant.test);
    Ok(())
}

impl Mutant {
    fn read(table: &toml::Table) -> Result<Self, String> {
        let field = |name: &str| {
            let text = table.get(name).and_then(toml::Value::as_str);
            text.map(str::to_owned).ok_or_else(|| format!("{LIST}: a mutant without `{name}`: {table:?}"))
        };
        Ok(Self {
            name: field("name")?,
            file: field("file")?,
            search: field("search")?,
            replace: field("replace")?,
            run: field("run")?,
            test: field("test")?,
            test_file: field("test_file")?,
        })
    }

    /// `text` with the bug in it.
    fn planted(&self, text: &str) -> Result<String, String> {
        let found = text.matches(&self.search).count();
        if found != 1 {
            return Err(format!(
                "mutant `{}` is stale: what it looks for is {found} times in {}; write it anew in {LIST}",
                self.name, self.file
            ));
        }
        Ok(text.replace(&self.search, &self.replace))
    }
}

/// All mutants of the list.
fn list(top: &Path) -> Result<Vec<Mutant>, String> {
    let parsed: toml::Table = toml::from_str(&read(&top.join(LIST))?).map_err(|e| format!("{LIST}: {e}"))?;
    let mutants = parsed.get("mutant").and_then(toml::Value::as_array).ok_or("no [[mutant]] in the list")?;
    mutants.iter().map(|mutant| Mutant::read(mutant.as_table().ok_or("a mutant is a table")?)).collect()
}

fn choose(all: Vec<Mutant>, names: &[String]) -> Result<Vec<Mutant>, String> {
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|mutant| mutant.name != **name)) {
        let known: Vec<&str> = all.iter().map(|mutant| mutant.name.as_str()).collect();
        return Err(format!("no mutant is called `{unknown}`; there are: {}", known.join(", ")));
    }
    Ok(all.into_iter().filter(|mutant| names.is_empty() || names.contains(&mutant.name)).collect())
}

/// Makes `to` hold what git knows of the tree, as it is now, and nothing else. What is the same stays untouched,
/// so that the next run builds little.
fn copy_tree(top: &Path, to: &Path) -> Result<(), String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(top);
    let output = git.output().map_err(|e| format!("cannot start git: {e}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let listed = String::from_utf8(output.stdout).map_err(|_| "a file's name is not text")?;
    let names: BTreeSet<PathBuf> =
        listed.split('\0').filter(|name| top.join(name).is_file()).map(PathBuf::from).collect();
    for name in &names {
        let bytes = fs::read(top.join(name)).map_err(|e| format!("cannot read {}: {e}", name.display()))?;
        if fs::read(to.join(name)).ok().as_ref() != Some(&bytes) {
            write(&to.join(name), &bytes)?;
        }
    }
    remove_others(to, Path::new(""), &names)
}

fn remove_others(top: &Path, folder: &Path, names: &BTreeSet<PathBuf>) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("cannot clear {}: {e}", top.join(folder).display());
    for entry in fs::read_dir(top.join(folder)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = folder.join(entry.file_name());
        if entry.file_type().map_err(failed)?.is_dir() {
            remove_others(top, &name, names)?;
        } else if !names.contains(&name) {
            fs::remove_file(entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}

/// Builds in the copy, then runs the mutant's test there. An error is a tree that does not compile.
fn test(top: &Path, mutant: &Mutant) -> Result<Output, String> {
    let cargo = |further: &[&str]| {
        let mut command = cargo();
        command.arg("test").args(mutant.run.split_whitespace()).args(further);
        command.env("CARGO_TARGET_DIR", top.join(BUILT)).env("CARGO_PROFILE_DEV_DEBUG", "0");
        command.current_dir(top.join(COPY)).output().map_err(|e| format!("cannot start cargo: {e}"))
    };
    let built = cargo(&["--no-run"])?;
    if !built.status.success() {
        return Err(format!("it does not compile:\n{}", String::from_utf8_lossy(&built.stderr)));
    }
    cargo(&["--", "--exact", &mutant.test])
}

fn words(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

/// The one test that should run did.
fn ran(output: &Output) -> Result<(), String> {
    let words = words(output);
    if words.contains("running 1 test\n") { Ok(()) } else { Err(format!("no such test:\n{words}")) }
}

fn passes(output: &Output) -> Result<(), String> {
    ran(output)?;
    if output.status.success() { Ok(()) } else { Err(format!("it fails without a bug:\n{}", words(output))) }
}

fn is_caught(output: &Output) -> Result<(), String> {
    ran(output)?;
    if output.status.success() {
        Err("the test passes all the same: the bug survives".to_owned())
    } else {
        Ok(())
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, bytes));
    written.map_err(|e| format!("cannot write {}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn top() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn no_mutant_is_stale_and_the_test_of_each_is_there() {
        let all = list(top()).unwrap();
        assert!(all.len() >= 6, "{all:?}");
        for mutant in all {
            let planted = mutant.planted(&read(&top().join(&mutant.file)).unwrap()).unwrap();
            assert!(planted.contains(&mutant.replace));
            assert_ne!(mutant.search, mutant.replace, "{} changes nothing", mutant.name);
            let function = mutant.test.rsplit("::").next().unwrap();
            let tests = read(&top().join(&mutant.test_file)).unwrap();
            assert!(tests.contains(&format!("fn {function}(")), "{}: no {function}", mutant.test_file);
            // A unit test's name begins with its module.
            if let Some((_, module)) = mutant.test_file.split_once("/src/") {
                let module = module.trim_end_matches(".rs").replace('/', "::");
                assert!(mutant.test.starts_with(&module), "{} is not in {module}", mutant.test);
            }
        }
    }

    fn mutant() -> Mutant {
        let toml = "name = 'n'\nfile = 'f'\nsearch = 'a < b'\nreplace = 'true'\nrun = 'r'\ntest = 't'\ntest_file = 'f'";
        Mutant::read(&toml::from_str(toml).unwrap()).unwrap()
    }

    #[test]
    fn what_it_looks_for_must_be_there_exactly_once() {
        assert_eq!(mutant().planted("if a < b {}").unwrap(), "if true {}");
        for text in ["if a <= b {}", "if a < b { a < b }"] {
            let why = mutant().planted(text).unwrap_err();
            assert!(why.contains("stale"), "{why}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let why = choose(vec![mutant()], &["x".to_owned()]).unwrap_err();
        assert_eq!(why, "no mutant is called `x`; there are: n");
        assert_eq!(choose(vec![mutant()], &["n".to_owned()]).unwrap(), [mutant()]);
        assert_eq!(choose(vec![mutant()], &[]).unwrap().len(), 1);
    }

    #[test]
    fn caught_is_a_test_that_ran_and_failed() {
        let output = |code: i32, stdout: &str| {
            let (status, stdout, stderr) = (ExitStatus::from_raw(code << 8), stdout.into(), Vec::new());
            Output { status, stdout, stderr }
        };
        assert!(is_caught(&output(101, "running 1 test\ntest t ... FAILED")).is_ok());
        assert!(is_caught(&output(0, "running 1 test\ntest t ... ok")).unwrap_err().contains("survives"));
        assert!(is_caught(&output(101, "error: could not compile")).unwrap_err().contains("no such test"));
        assert!(passes(&output(0, "running 0 tests")).is_err());
        assert!(passes(&output(101, "running 1 test\ntest t ... FAILED")).is_err());
        assert!(passes(&output(0, "running 1 test\ntest t ... ok")).is_ok());
    }

    #[test]
    fn a_copy_holds_what_git_knows_and_nothing_else() {
        let dir = std::env::temp_dir().join(format!("starfarm-mutants-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let (tree, copy) = (dir.join("tree"), dir.join("copy"));
        write(&tree.join("src/a.rs"), b"a").unwrap();
        write(&tree.join(".gitignore"), b"/target\n").unwrap();
        write(&tree.join("target/junk"), b"j").unwrap();
        write(&copy.join("src/old.rs"), b"o").unwrap();
        assert!(Command::new("git").args(["init", "-q"]).current_dir(&tree).status().unwrap().success());
        copy_tree(&tree, &copy).unwrap();
        assert_eq!(read(&copy.join("src/a.rs")).unwrap(), "a");
        assert!(!copy.join("target/junk").exists() && !copy.join("src/old.rs").exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
