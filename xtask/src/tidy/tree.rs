//! The files that tidy looks at, held in memory so that the rules touch no disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::text::BYTES_MAX;

/// Files by their path from the repository's top, with `/` between folders.
pub(super) struct Tree {
    files: BTreeMap<String, File>,
}

/// One file.
pub(super) struct File {
    pub(super) bytes: u64,
    /// The content, where it is UTF-8 and not too big to belong here.
    pub(super) text: Option<String>,
}

impl Tree {
    /// Reads all that git tracks under `root`; without git, as in an unpacked archive, all that is there.
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let paths = match tracked(root) {
            Some(paths) => paths,
            None => walk(root).map_err(|error| format!("cannot list {}: {error}", root.display()))?,
        };
        let mut files = BTreeMap::new();
        for path in paths {
            // Deleted in the work tree but not yet in git: nothing to look at.
            if root.join(&path).is_file() {
                let file =
                    read_file(&root.join(&path)).map_err(|error| format!("cannot read {path}: {error}"))?;
                files.insert(path, file);
            }
        }
        Ok(Self { files })
    }

    /// A tree for tests.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file = |text: &str| File { bytes: text.len() as u64, text: Some(text.to_owned()) };
        Self { files: files.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect() }
    }

    /// Number of files.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Path and file, in the order of paths.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// The text of the file at `path`, if it is there and has one.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.text.as_deref()
    }

    /// Whether `path` is a file or a folder with one in it; the empty path is the top.
    pub(super) fn has(&self, path: &str) -> bool {
        let inside = |file: &String| file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        path.is_empty() || self.files.contains_key(path) || self.files.keys().any(inside)
    }
}

fn read_file(path: &Path) -> std::io::Result<File> {
    let bytes = path.metadata()?.len();
    let text = if bytes <= BYTES_MAX { String::from_utf8(std::fs::read(path)?).ok() } else { None };
    Ok(File { bytes, text })
}

fn tracked(root: &Path) -> Option<Vec<String>> {
    // A checkout that another user owns, as CI often has it, is listed too.
    let arguments = ["-c", "safe.directory=*", "ls-files", "-z"];
    let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
    let listed = output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())?;
    Some(listed.split_terminator('\0').map(str::to_owned).collect())
}

fn walk(root: &Path) -> std::io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let generated = path.file_name().is_some_and(|name| name == "target" || name == ".git");
            if path.is_dir() && !generated {
                folders.push(path);
            } else if path.is_file() {
                found.extend(path.strip_prefix(root).map(|relative| relative.to_string_lossy().into_owned()));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_when_a_file_is_in_it() {
        let tree = Tree::of(&[("docs/adr/0001-wire.md", "")]);
        assert!(["", "docs", "docs/adr", "docs/adr/0001-wire.md"].iter().all(|path| tree.has(path)));
        assert!(["doc", "docs/ad", "docs/adr/0002.md"].iter().all(|path| !tree.has(path)));
    }

    #[test]
    fn without_git_the_same_sources_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = walk(root).unwrap();
        assert!(found.contains(&"src/tidy/tree.rs".to_owned()), "{found:?}");
    }
}
