//! Finding the program that a command runs. A name on PATH stays a name, since every worker has its own
//! PATH; a file becomes an absolute path, since a worker's folder is another one.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{self, Path};

use starfarm_decomposers::template::Template;

/// `name` as a worker is told it; `search_path` is the content of PATH, `base` the folder that a file is
/// relative to. A name with a placeholder is left alone, known only when a unit is run: `names` are the
/// space's own. The error is a sentence for the user.
pub(super) fn find(
    name: &str,
    names: &[String],
    base: &Path,
    search_path: Option<&OsStr>,
) -> Result<String, String> {
    if !Template::parse(name, names).is_fixed() {
        return Ok(name.to_owned());
    }
    let has_folder = name.contains('/');
    if !has_folder && search_path.is_some_and(|path| on_path(name, path)) {
        return Ok(name.to_owned());
    }
    let file = base.join(name);
    if !file.is_file() {
        return Err(if has_folder {
            format!(
                "the program `{name}` is not a file: check the path, which is relative to {}",
                shown(base)
            )
        } else {
            format!(
                "the program `{name}` is neither on PATH nor a file in {}: install it, or give its path",
                shown(base)
            )
        });
    }
    if !is_executable(&file) {
        return Err(format!("the program `{name}` is not executable: run `chmod +x {}`", file.display()));
    }
    let absolute = path::absolute(&file).map_err(|e| format!("the path of `{name}` cannot be found: {e}"))?;
    absolute
        .into_os_string()
        .into_string()
        .map_err(|_| format!("the path of `{name}` is not UTF-8: move the program, or put it on PATH"))
}

fn on_path(name: &str, search_path: &OsStr) -> bool {
    std::env::split_paths(search_path).any(|folder| is_executable(&folder.join(name)))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn shown(base: &Path) -> String {
    if base.as_os_str().is_empty() { "this folder".to_owned() } else { format!("`{}`", base.display()) }
}
