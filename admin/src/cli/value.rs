//! Single values on the command line: what each may be, and what is said of one that may not.

use std::num::NonZeroU32;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap_complete::Shell;
use starfarm_logs::export::Format;
use starfarm_protocol::ids::JobId;
use starfarm_protocol::job::{JOB_NAME, JobState, Per, Sizing, is_job_name};
use starfarm_protocol::resources::size;
use starfarm_protocol::seal::Role;
use starfarm_protocol::terms::{Limit, check_label};
use starfarm_protocol::unit_set::UnitSet;

pub(super) const SLOTS_MAX: i64 = starfarm_protocol::limits::SLOTS_MAX as i64;

/// Longer times are slips, and would not fit into milliseconds.
const SECONDS_MAX: f64 = 1e9;

pub(super) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("write a number above 0, such as 2.5 or 3e8".to_owned()),
    }
}

/// GPUs that a unit has.
pub(super) fn gpus(text: &str) -> Result<f64, String> {
    let cards = text.parse::<f64>().unwrap_or(f64::NAN);
    starfarm_protocol::resources::gpus(cards).map(|_| cards)
}

/// What one run computes.
pub(super) fn per(text: &str) -> Result<Per, &'static str> {
    Per::from_word(text).ok_or("write unit, a run for each, or task, one for all units of a task")
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
        false => Err(JOB_NAME.to_owned()),
    }
}

pub(super) fn target(text: &str) -> Result<Sizing, String> {
    Sizing::target(positive(text)?)
}

pub(super) fn units_per_task(text: &str) -> Result<Sizing, String> {
    Sizing::units(text.parse().map_err(|_| "write a number of units, 1 or more".to_owned())?)
}

/// One of `all`, by its word; help says what each means.
fn choice<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    word: fn(T) -> &'static str,
    help: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let values = all.iter().map(|&of| PossibleValue::new(word(of)).help(help(of)));
    let chosen = move |chosen: String| *all.iter().find(|of| word(**of) == chosen).expect("it is possible");
    PossibleValuesParser::new(values).map(chosen)
}

pub(super) fn job_state() -> impl TypedValueParser<Value = JobState> {
    choice(JobState::ALL, JobState::word, |state| match state {
        JobState::Queued => "Waits in the queue",
        JobState::Running => "Tasks of it are, or were, given out",
        JobState::Paused => "Gives out nothing until it is resumed",
        JobState::Finished => "All units are done",
        JobState::Failed => "Some units have failed for good",
        JobState::Cancelled => "Ended by command, or as a job failed that it was to start after",
        JobState::Waiting => "Waits for other jobs to end",
    })
}

pub(super) fn role() -> impl TypedValueParser<Value = Role> {
    choice(Role::BY_JOIN_KEY, Role::word, |role| match role {
        Role::Worker => "Computes",
        Role::Observer => "Looks at jobs, nodes and results",
        Role::Operator => "Also submits and steers",
        Role::Admin => "Also governs the keys",
        Role::Peer => "Links with other posts",
    })
}

/// Formats that a log is written in.
pub(super) fn log_format() -> impl TypedValueParser<Value = Format> {
    let value = |word, help| PossibleValue::new(word).help(help);
    let values = [
        value("jsonl", "A JSON object a line, for each entry"),
        value("tsv", "The columns of GNU parallel's --joblog, a row for each run of results"),
        value("perfetto", "A trace for ui.perfetto.dev"),
    ];
    PossibleValuesParser::new(values).map(|word| match &*word {
        "jsonl" => Format::Jsonl,
        "tsv" => Format::Tsv,
        _ => Format::Perfetto,
    })
}

/// Shells that completions are made for.
pub(super) fn shell() -> impl TypedValueParser<Value = Shell> {
    PossibleValuesParser::new(["bash", "zsh", "fish"]).try_map(|name| name.parse::<Shell>())
}

pub(super) fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    check_label(key, value)?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(super) fn max_nodes(text: &str) -> Result<u32, String> {
    let nodes = text.parse::<NonZeroU32>();
    nodes.map(NonZeroU32::get).map_err(|_| "write a number of nodes, 1 or more".to_owned())
}

pub(super) fn storage_limit(text: &str) -> Result<u64, String> {
    size(text).and_then(|bytes| if bytes > 0 { Ok(bytes) } else { Err("write 1 byte or more".to_owned()) })
}

/// What `read` reads, or `none`: there is no such limit.
pub(super) fn or_none<T>(
    read: fn(&str) -> Result<T, String>,
    limit: fn(Option<T>) -> Limit,
) -> impl Fn(&str) -> Result<Limit, String> + Clone {
    move |text| match text {
        "none" => Ok(limit(None)),
        _ => read(text).map(|value| limit(Some(value))).map_err(|why| format!("{why}, or none")),
    }
}

pub(super) fn unit(text: &str) -> Result<u128, String> {
    text.parse().map_err(|_| "write a unit's number, 0 or more".to_owned())
}

/// `3,10..20`.
pub(super) fn units(text: &str) -> Result<UnitSet, String> {
    let mut units = UnitSet::default();
    for part in text.split(',') {
        let (lo, hi) = match part.split_once("..") {
            Some((lo, hi)) => (unit(lo)?, unit(hi)?),
            None => {
                let lo = unit(part)?;
                (lo, lo.saturating_add(1))
            }
        };
        if lo >= hi {
            return Err(format!("{part} has no unit: the end of A..B is behind its last unit"));
        }
        units.insert(lo, hi);
    }
    Ok(units)
}

/// Units that run at once: a number, or as GNU parallel has it by the cores of this machine, `+2` or `50%`.
pub(super) fn at_once(text: &str) -> Result<u16, String> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = |digits: &str| digits.parse::<u64>().ok().filter(|_| is_plain(digits));
    let count = match (text.strip_prefix('+'), text.strip_suffix('%')) {
        (Some(more), _) => number(more).map(|more| cores.saturating_add(more)),
        (_, Some(percent)) => number(percent).map(|percent| (cores.saturating_mul(percent) / 100).max(1)),
        _ => number(text),
    };
    let count = count.and_then(|count| u16::try_from(count).ok());
    count.filter(|count| (1..=SLOTS_MAX).contains(&i64::from(*count))).ok_or_else(|| {
        format!("write a number from 1 to {SLOTS_MAX}, +2 for two more than there are cores, or 50% of them")
    })
}

pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_at_once_go_by_the_cores_where_that_is_asked_for() {
        let cores = std::thread::available_parallelism().unwrap().get() as u16;
        assert_eq!((at_once("7"), at_once("+1"), at_once("200%")), (Ok(7), Ok(cores + 1), Ok(2 * cores)));
        assert_eq!(at_once("1%"), Ok(1));
        for none in ["0", "", "+", "%", "++1", "-1", "1.5", "1025", "+1025", "9999999999999999999%"] {
            assert!(at_once(none).is_err_and(|why| why.contains("50%")), "{none}");
        }
    }
}
