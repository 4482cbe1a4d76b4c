//! Where a farm's settings come from: flags, then `config.toml`, then the defaults. What each of them means and may be
//! stands in `protocol::settings`.

use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use starfarm_net::unchanged_by_others;
use starfarm_protocol::settings::{Given, SETTINGS, Settings, place};
use toml::{Table, Value};

use crate::error::SchedulerError;

/// The file in the state directory.
const FILE: &str = "config.toml";

/// The flags, one for each row of the table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flags(pub Given);

impl clap::Args for Flags {
    fn augment_args(command: Command) -> Command {
        SETTINGS.iter().fold(command, |command, setting| {
            let parse = move |text: &str| match text.parse() {
                Ok(value) => setting.check(value),
                Err(_) => Err(format!("it is {} to {} {}", setting.least, setting.most, setting.unit)),
            };
            let (about, least, most, unit) = (setting.about, setting.least, setting.most, setting.unit);
            let flag = Arg::new(setting.key)
                .long(setting.flag)
                .value_name(if unit == "seconds" { "SECONDS" } else { "NUMBER" })
                .help_heading("The farm's settings, also keys of its config.toml")
                .help(format!("{about}: {least} to {most} {unit} [default: {}]", setting.default))
                .allow_negative_numbers(true)
                .value_parser(parse);
            command.arg(flag)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches).map(|()| flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in &SETTINGS {
            if let Some(&value) = matches.get_one::<f64>(setting.key) {
                let set = self.0.set(setting.key, value);
                set.map_err(|why| clap::Error::raw(clap::error::ErrorKind::ValueValidation, why))?;
            }
        }
        Ok(())
    }
}

/// The settings in force: `flags`, over the file that a person named or the one in the state directory, over the
/// defaults.
pub(crate) fn settle(flags: &Given, named: Option<&Path>, state: &Path) -> Result<Settings, SchedulerError> {
    let usual = state.join(FILE);
    let path = named.unwrap_or(&usual);
    let of_file = match unchanged_by_others(path).and_then(|()| std::fs::read_to_string(path)) {
        Ok(text) => read(&text).map_err(|why| format!("{}: {why}", path.display())),
        // Without a state directory that can be entered there is no file in it; what is wrong with that one is said when
        // it is opened.
        Err(_) if named.is_none() && path.symlink_metadata().is_err() => Ok(Given::default()),
        Err(error) => Err(format!("the settings in {} cannot be read: {error}", path.display())),
    };
    let of_file = of_file.map_err(SchedulerError::Usage)?;
    let from =
        if of_file == Given::default() { String::new() } else { format!(" ({} counts)", path.display()) };
    flags.over(&of_file).settle().map_err(|why| SchedulerError::Usage(format!("{why}{from}")))
}

fn read(text: &str) -> Result<Given, String> {
    let table: Table =
        text.parse().map_err(|error: toml::de::Error| error.to_string().trim_end().to_owned())?;
    let mut given = Given::default();
    for (key, value) in &table {
        place(key)?;
        let value = match value {
            Value::Integer(number) => *number as f64,
            Value::Float(number) => *number,
            other => return Err(format!("{key} is a number, not {}", other.type_str())),
        };
        given.set(key, value)?;
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    fn flags(words: &[&str]) -> Result<Given, clap::Error> {
        let command = Flags::augment_args(Command::new("scheduler"));
        let matches = command.try_get_matches_from(["scheduler"].iter().chain(words))?;
        Flags::from_arg_matches(&matches).map(|flags| flags.0)
    }

    fn folder(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("starfarm-settings-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_the_defaults() {
        let state = folder("order");
        assert_eq!(settle(&Given::default(), None, &state).unwrap(), Settings::DEFAULT);
        std::fs::write(state.join(FILE), "# ours\nheartbeat_seconds = 2\nspeed_step = 6\n").unwrap();
        let given = flags(&["--heartbeat-seconds", "0.5"]).unwrap();
        let settings = settle(&given, None, &state).unwrap();
        assert_eq!((settings.heartbeat_us, settings.speed_step), (500_000, 6));
        // A file that is named stands for the one in the state directory.
        let other = state.join("other.toml");
        std::fs::write(&other, "period_seconds = 5.0\n").unwrap();
        let settings = settle(&given, Some(&other), &state).unwrap();
        assert_eq!((settings.heartbeat_us, settings.speed_step, settings.period_us), (500_000, 1, 5_000_000));
        std::fs::remove_dir_all(state).unwrap();
    }

    #[test]
    fn what_is_wrong_in_flags_or_file_is_refused_in_words() {
        let wrong = flags(&["--lost-seconds", "0.1"]).unwrap_err().to_string();
        assert!(wrong.contains("lost_seconds = 0.1: it is 0.3 to 3600 seconds"), "{wrong}");
        let negative = flags(&["--heartbeat-seconds", "-1"]).unwrap_err().to_string();
        assert!(negative.contains("heartbeat_seconds = -1: it is 0.1 to 60 seconds"), "{negative}");
        assert!(flags(&["--speed-step", "many"]).unwrap_err().to_string().contains("it is 1 to 64 tasks"));
        let state = folder("wrong");
        let said = |text: &str| {
            std::fs::write(state.join(FILE), text).unwrap();
            let error = settle(&Given::default(), None, &state).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            error.to_string()
        };
        assert!(said("heartbeat = 1\n").contains("there is no setting \"heartbeat\"; there are speed_step"));
        assert!(said("[heart]\nbeat = 1\n").contains("there is no setting \"heart\""));
        assert!(said("heartbeat_seconds = 61\n").contains("heartbeat_seconds = 61: it is 0.1 to 60 seconds"));
        assert!(said("heartbeat_seconds = \"1 s\"\n").contains("is a number, not string"));
        assert!(said("heartbeat_seconds = \n").contains("config.toml: TOML parse error at line 1"));
        let both = said("suspect_seconds = 9\nlost_seconds = 8\n");
        assert!(
            both.contains("more than suspect_seconds, which is 9") && both.contains("config.toml"),
            "{both}"
        );
        // A link that leads nowhere was put there to be read.
        std::fs::remove_file(state.join(FILE)).unwrap();
        std::os::unix::fs::symlink("gone.toml", state.join(FILE)).unwrap();
        let nowhere = settle(&Given::default(), None, &state).unwrap_err().to_string();
        assert!(nowhere.contains("config.toml cannot be read"), "{nowhere}");
        let gone = settle(&Given::default(), Some(&state.join("gone.toml")), &state).unwrap_err().to_string();
        assert!(gone.contains("gone.toml cannot be read"), "{gone}");
        // A start waited there for ever.
        let pipe = state.join("pipe.toml");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let pipe = settle(&Given::default(), Some(&pipe), &state).unwrap_err().to_string();
        assert!(pipe.contains("is a named pipe"), "{pipe}");
        std::fs::remove_dir_all(state).unwrap();
    }
}
