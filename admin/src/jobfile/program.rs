//! Finding the program that a command runs. A name on PATH stays a name, since every worker has its own
//! PATH; a file becomes an absolute path, since a worker's folder is another one. What is not here may be there: a
//! name or an absolute path that nobody knows on this machine is the workers' business.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{self, Path};

use starfarm_decomposers::template::Template;

use super::error::JobFileError;
use super::table::Item;

/// A program as a worker is told it.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Found {
    /// A name, or an absolute path.
    pub(super) word: String,
    /// Why it could not be started on this machine, in a sentence for the user.
    pub(super) not_here: Option<String>,
}

/// `name` as a worker is told it; `base` is the folder that a file is relative to. A name with a placeholder is left
/// alone, known only when a unit is run: `names` are the space's own. The error is a sentence for the user.
pub(super) fn find(name: &str, names: &[String], base: &Path) -> Result<Found, String> {
    if name.is_empty() {
        return Err("the program's name is empty: name a program, or give its path".to_owned());
    }
    let as_it_is = |not_here: Option<String>| Ok(Found { word: name.to_owned(), not_here });
    if !Template::parse(name, names).is_fixed() {
        return as_it_is(None);
    }
    let has_folder = name.contains('/');
    let search_path = std::env::var_os("PATH");
    if !has_folder && search_path.is_some_and(|path| on_path(name, &path)) {
        return as_it_is(None);
    }
    let file = base.join(name);
    let trouble = if !file.is_file() {
        match has_folder {
            false => format!("the program `{name}` is neither on PATH here nor a file in {}", shown(base)),
            true => format!("the program `{name}` is not a file here"),
        }
    } else if !is_executable(&file) {
        format!("the program `{name}` is not executable here")
    } else {
        let absolute =
            path::absolute(&file).map_err(|e| format!("the path of `{name}` cannot be found: {e}"))?;
        let word = absolute.into_os_string().into_string();
        let word = word
            .map_err(|_| format!("the path of `{name}` is not UTF-8: move the program, or put it on PATH"))?;
        return Ok(Found { word, not_here: None });
    };
    if has_folder && !Path::new(name).is_absolute() {
        // It is relative to a folder of this machine, so that it can be meant nowhere else.
        return Err(match file.is_file() {
            true => format!("{trouble}: run `chmod +x {}`", file.display()),
            false => format!("{trouble}: check the path, which is relative to {}", shown(base)),
        });
    }
    as_it_is(Some(trouble))
}

/// The command line of a program that runs on the scheduler's host; a file is relative to `base`. `example` is one.
pub(super) fn here(item: &Item<'_>, base: &Path, example: &str) -> Result<Vec<String>, JobFileError> {
    let words = item.array("a list of strings, the program and its arguments")?;
    let mut line =
        words.iter().map(|word| word.string().map(str::to_owned)).collect::<Result<Vec<_>, _>>()?;
    let (Some(first), Some(word)) = (line.first_mut(), words.first()) else {
        let why = format!("`program` is empty: name a program, e.g. program = [\"{example}\"]");
        return Err(item.error(why));
    };
    // The scheduler's host may have it where this machine has not.
    *first = find(first, &[], base).map_err(|message| word.error(message))?.word;
    Ok(line)
}

fn on_path(name: &str, search_path: &OsStr) -> bool {
    std::env::split_paths(search_path).any(|folder| is_executable(&folder.join(name)))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn shown(base: &Path) -> String {
    if base.as_os_str().is_empty() { "this directory".to_owned() } else { format!("`{}`", base.display()) }
}
