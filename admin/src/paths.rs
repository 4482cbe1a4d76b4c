//! Where this program keeps files of its own: the folders of the XDG base directory specification. What
//! is in the files is decided elsewhere.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::failure::Failure;

/// The folder for what must last and is nobody's document: `$XDG_STATE_HOME/starfarm`.
pub(crate) fn state() -> Result<PathBuf, Failure> {
    folder(&variable, "XDG_STATE_HOME", ".local/state")
}

/// The folder for settings: `$XDG_CONFIG_HOME/starfarm`.
pub(crate) fn config() -> Result<PathBuf, Failure> {
    folder(&variable, "XDG_CONFIG_HOME", ".config")
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The specification says that a relative path there is to be ignored.
fn folder(
    variable: &dyn Fn(&str) -> Option<OsString>,
    name: &str,
    below_home: &str,
) -> Result<PathBuf, Failure> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(name).or_else(|| absolute("HOME").map(|home| home.join(below_home)));
    base.map(|base| base.join("starfarm")).ok_or_else(|| {
        Failure::usage(format!("neither {name} nor HOME names a folder: set one of them to an absolute path"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<PathBuf, Failure> {
        let find = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        folder(&find, "XDG_STATE_HOME", ".local/state")
    }

    #[test]
    fn the_variable_is_taken_before_the_home() {
        let (xdg, home) = (("XDG_STATE_HOME", "/x"), ("HOME", "/h"));
        assert_eq!(with(&[xdg, home]), Ok("/x/starfarm".into()));
        assert_eq!(with(&[home]), Ok("/h/.local/state/starfarm".into()));
        assert_eq!(with(&[("XDG_STATE_HOME", "x"), home]), Ok("/h/.local/state/starfarm".into()));
        assert_eq!(with(&[("XDG_STATE_HOME", ""), home]), Ok("/h/.local/state/starfarm".into()));
        assert!(with(&[]).unwrap_err().message.contains("XDG_STATE_HOME"));
    }
}
