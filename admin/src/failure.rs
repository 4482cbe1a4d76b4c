//! How a command ends: the exit codes, which scripts rely on, and the one error type of this program.
//! Callers branch on the code, never on the words.

use std::io;

use serde::Serialize;
use starfarm_protocol::admin::{Error, ErrorCode};

use crate::output::json;

/// Exit codes. Their numbers are a contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub(crate) enum Exit {
    /// It was done.
    Ok = 0,
    /// The job has ended with failed units, or was cancelled; or an audit does not hold.
    UnitsFailed = 1,
    /// The command line, a file or this machine is at fault: the user has to change something here.
    Usage = 2,
    /// No scheduler answers.
    Unreachable = 3,
    /// No such job, node or key.
    NotFound = 4,
    /// The caller may not do that.
    Refused = 5,
    /// It does not fit the state of things.
    Conflict = 6,
    /// The farm has paused the job: it waits for a person.
    Paused = 8,
    /// The time limit passed first.
    TimeLimit = 124,
    /// Ctrl-C, or a signal to end.
    Interrupted = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command was not carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// With what the program ends.
    pub(crate) exit: Exit,
    /// What is wrong and what to do; empty where nobody needs to be told.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// Something here is at fault.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self::new(Exit::Unreachable, message)
    }

    /// On one line, as JSON: the schema `error`.
    pub(crate) fn to_json(&self) -> String {
        let (code, message) = (self.exit, &self.message);
        let body = serde_json::json!({ "code": code, "exit_code": code as u8, "message": message });
        json::compact(&json::Tagged::new("error", &body))
    }

    /// Standard output takes no more. A reader that went away, as `head` does, has what it wanted.
    pub(crate) fn of_stdout(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Exit::Ok, ""),
            _ => Self::usage(format!("cannot write to standard output: {error}")),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match error.code {
            ErrorCode::Usage => Exit::Usage,
            ErrorCode::NotFound => Exit::NotFound,
            ErrorCode::Refused => Exit::Refused,
            ErrorCode::Conflict => Exit::Conflict,
        };
        Self::new(exit, error.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_contract() {
        let all = [
            (Exit::Ok, 0),
            (Exit::UnitsFailed, 1),
            (Exit::Usage, 2),
            (Exit::Unreachable, 3),
            (Exit::NotFound, 4),
            (Exit::Refused, 5),
            (Exit::Conflict, 6),
            (Exit::Paused, 8),
            (Exit::TimeLimit, 124),
            (Exit::Interrupted, 130),
        ];
        assert!(all.iter().all(|(exit, number)| *exit as u8 == *number));
    }

    #[test]
    fn the_schedulers_codes_become_exit_codes() {
        for (code, exit) in [
            (ErrorCode::Usage, Exit::Usage),
            (ErrorCode::NotFound, Exit::NotFound),
            (ErrorCode::Refused, Exit::Refused),
            (ErrorCode::Conflict, Exit::Conflict),
        ] {
            let failure = Failure::from(Error { code, message: "why".to_owned() });
            assert_eq!(failure, Failure::new(exit, "why"));
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let gone = Failure::of_stdout(&io::ErrorKind::BrokenPipe.into());
        assert_eq!(gone, Failure::new(Exit::Ok, ""));
        assert_eq!(Failure::of_stdout(&io::ErrorKind::StorageFull.into()).exit, Exit::Usage);
    }
}
