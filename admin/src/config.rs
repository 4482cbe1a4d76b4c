//! The user's settings file, `$XDG_CONFIG_HOME/starfarm/config.toml`: what holds where neither a flag nor
//! a variable of the environment says otherwise.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::failure::Failure;
use crate::output::Format;
use crate::paths;

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
        match paths::config() {
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
}
