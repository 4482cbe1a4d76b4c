//! The folders of GNU parallel's `--results`: `DIR/1/VALUE/stdout`, and so on for each list.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use starfarm_decomposers::template::UnitText;

use crate::failure::{Exit, Failure};
use crate::human;

/// Bytes of a file's name.
const NAME_BYTES_MAX: usize = 255;

pub(super) struct Tree {
    dir: PathBuf,
}

impl Tree {
    /// The folder `dir`, which is made if need be.
    pub(super) fn open(dir: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(dir).map_err(|e| cannot_write(dir, &e))?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// Writes what a unit wrote, over what an earlier run left there.
    pub(super) fn write(&self, unit: &UnitText, stdout: &[u8], stderr: &[u8]) -> Result<(), Failure> {
        let folder = self.folder(unit);
        fs::create_dir_all(&folder).map_err(|e| cannot_write(&folder, &e))?;
        let seq = unit.index.saturating_add(1).to_string();
        for (name, content) in [("seq", seq.as_bytes()), ("stdout", stdout), ("stderr", stderr)] {
            let path = folder.join(name);
            fs::write(&path, content).map_err(|e| cannot_write(&path, &e))?;
        }
        Ok(())
    }

    fn folder(&self, unit: &UnitText) -> PathBuf {
        let mut folder = self.dir.clone();
        for (at, value) in unit.values().into_iter().enumerate() {
            let list = unit.fields.get(at).map_or("1", |(name, _)| name);
            folder.extend([folder_name(list.as_bytes(), unit.index), folder_name(value, unit.index)]);
        }
        folder
    }
}

/// A value as the name of a folder: `/` is `\_`, as GNU parallel writes it, and a backslash is doubled. What names no
/// folder begins with a single one. One that is too long ends with the unit's number.
fn folder_name(value: &[u8], unit: u128) -> PathBuf {
    let mut name = Vec::with_capacity(value.len());
    for &byte in value {
        match byte {
            b'/' => name.extend_from_slice(b"\\_"),
            b'\\' => name.extend_from_slice(b"\\\\"),
            0 => name.extend_from_slice(b"\\0"),
            byte => name.push(byte),
        }
    }
    if matches!(&name[..], b"" | b"." | b"..") {
        name.insert(0, b'\\');
    }
    if name.len() > NAME_BYTES_MAX {
        let end = format!("..{}", unit.saturating_add(1));
        name.truncate(NAME_BYTES_MAX - end.len());
        name.extend_from_slice(end.as_bytes());
    }
    PathBuf::from(std::ffi::OsString::from_vec(name))
}

fn cannot_write(path: &Path, e: &std::io::Error) -> Failure {
    Failure::new(
        Exit::Conflict,
        format!("cannot write {}: {e}", human::printable(&path.display().to_string())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_folder_inside() {
        let tree = Tree { dir: "d".into() };
        let folder = |values: &[&str]| {
            let fields: Vec<_> = values.iter().map(|value| value.as_bytes().to_vec()).zip(1..).collect();
            let value = fields[0].0.clone();
            let fields = match fields.len() {
                1 => Vec::new(),
                _ => fields.into_iter().map(|(value, at)| (at.to_string(), value)).collect(),
            };
            tree.folder(&UnitText { index: 6, value, fields }).into_os_string().into_string().unwrap()
        };
        assert_eq!(folder(&["a b"]), "d/1/a b");
        assert_eq!(folder(&["../x", "\\y"]), "d/1/..\\_x/2/\\\\y");
        assert_eq!(folder(&["..", "."]), "d/1/\\../2/\\.");
        assert_eq!(folder(&[""]), "d/1/\\");
        let long = folder(&[&"x".repeat(300)]);
        assert!(long.len() == "d/1/".len() + NAME_BYTES_MAX && long.ends_with("xx..7"), "{long}");
    }
}
