//! Where this program keeps files of its own, the folders of the XDG base directory specification; and the one that
//! is the user's: `config.toml` with what holds where neither a flag nor a variable of the environment says otherwise.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::failure::Failure;
use crate::output::Format;

/// The keys of the file; all may be left out.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// As `--farm`.
    pub(crate) farm: Option<PathBuf>,
    /// As `--output`.
    pub(crate) output: Option<Format>,
}

impl Config {
    /// Reads the user's file; without one, or without a home, nothing is set.
    pub(crate) fn read() -> Result<Self, Failure> {
        match folder(&|name| std::env::var_os(name), "XDG_CONFIG_HOME", ".config") {
            Ok(folder) => Self::read_from(&folder.join("config.toml")),
            Err(_) => Ok(Self::default()),
        }
    }

    fn read_from(path: &Path) -> Result<Self, Failure> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => {
                let words = format!("cannot read your settings in {}: {error}", path.display());
                return Err(Failure::usage(words));
            }
        };
        toml::from_str(&text).map_err(|error| {
            let words = format!("your settings in {} are at fault: {error}", path.display());
            Failure::usage(words.trim_end())
        })
    }
}

/// The folder for what must last and is nobody's document: `$XDG_STATE_HOME/starfarm`.
pub(crate) fn state_folder() -> Result<PathBuf, Failure> {
    folder(&|name| std::env::var_os(name), "XDG_STATE_HOME", ".local/state")
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

    fn parsed(name: &str, text: &str) -> Result<Config, Failure> {
        let path = std::env::temp_dir().join(format!("starfarm-config-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let config = Config::read_from(&path);
        std::fs::remove_file(&path).unwrap();
        config
    }

    #[test]
    fn settings_are_read() {
        let config = parsed("good", "farm = \"/srv/farm\"\noutput = \"json\"\n").unwrap();
        assert_eq!(config, Config { farm: Some("/srv/farm".into()), output: Some(Format::Json) });
        assert_eq!(Config::read_from(Path::new("/nowhere/config.toml")), Ok(Config::default()));
    }

    #[test]
    fn a_slip_is_named_with_its_line() {
        let failure = parsed("slip", "farm = \"/srv/farm\"\nfram = 1\n").unwrap_err();
        assert!(failure.message.contains("line 2") && failure.message.contains("fram"), "{failure:?}");
        assert!(parsed("value", "output = \"xml\"").unwrap_err().message.contains("xml"));
    }

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
