//! Single values on the command line: what each may be, and what is said of one that may not.

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap_complete::Shell;
use starfarm_protocol::admin::MaxFailuresField;
use starfarm_protocol::ids::JobId;
use starfarm_protocol::job::is_job_name;

pub(super) const SLOTS_MAX: i64 = starfarm_protocol::limits::SLOTS_MAX as i64;

/// What the command line calls a choice, and the protocol too.
pub(crate) fn name_of(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Longer times are slips, and would not fit into milliseconds.
const SECONDS_MAX: f64 = 1e9;

pub(super) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("write a number above 0, such as 2.5 or 3e8".to_owned()),
    }
}

pub(super) fn positive_seconds(text: &str) -> Result<f64, String> {
    match positive(text)? {
        seconds if seconds <= SECONDS_MAX => Ok(seconds),
        _ => Err(format!("at most {SECONDS_MAX} seconds")),
    }
}

pub(super) fn interval(text: &str) -> Result<f64, String> {
    match positive(text) {
        Ok(seconds) if (0.2..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("write a number of seconds from 0.2 to 60".to_owned()),
    }
}

pub(super) fn job_id(text: &str) -> Result<JobId, String> {
    text.parse().map(JobId).map_err(|_| "a job has a whole number: `starfarm jobs` lists them".to_owned())
}

pub(super) fn job_name(text: &str) -> Result<String, String> {
    match is_job_name(text) {
        true => Ok(text.to_owned()),
        false => Err("a job's name is one line of text, not empty".to_owned()),
    }
}

pub(super) fn max_failures(text: &str) -> Result<MaxFailuresField, String> {
    match text.parse::<u64>() {
        _ if text == "never" => Ok(MaxFailuresField::NEVER),
        Ok(units) if units > 0 => Ok(MaxFailuresField::Units(units)),
        _ => Err("write a number of failed units, 1 or more, or never".to_owned()),
    }
}

/// Shells that completions are made for.
pub(super) fn shell() -> impl TypedValueParser<Value = Shell> {
    PossibleValuesParser::new(["bash", "zsh", "fish"]).try_map(|name| name.parse::<Shell>())
}

pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}
