//! What admin commands are answered beside the core's own views: streams, and why something was not carried out.

use starfarm_protocol::admin::{Error, ErrorCode, Response, StreamInfo, Subject};
use starfarm_protocol::foreign;
use starfarm_protocol::ids::{JobId, to_hex};
use starfarm_protocol::job::JobState;
use starfarm_protocol::wire::Stream;
use starfarm_scheduler_core::limits::JOBS_MAX;
use starfarm_scheduler_core::{CommandError, Conflict};

/// What was written to a stream.
pub(crate) fn stream(stream: &Stream) -> StreamInfo {
    match stream {
        Stream::Inline(bytes) => {
            let (text, hex) = text_or_hex(bytes);
            let length = bytes.len() as u64;
            StreamInfo { text, hex, hash: None, lost: None, kept: length, total: length, cut_at: None }
        }
        Stream::Uploaded { hash, kept, total } => {
            // The worker keeps a head and a tail of half the limit each, the odd byte in the head.
            let cut_at = (kept < total).then(|| kept - kept / 2);
            let (hash, kept, total) = (Some(*hash), *kept, *total);
            StreamInfo { text: String::new(), hex: None, hash, lost: None, kept, total, cut_at }
        }
    }
}

/// Bytes as text, and as hexadecimal digits where they are not UTF-8.
pub(crate) fn text_or_hex(bytes: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), Some(to_hex(bytes))),
    }
}

pub(crate) fn error(code: ErrorCode, message: impl Into<String>) -> Response {
    Response::Error(Error { code, message: message.into() })
}

pub(crate) fn no_job(id: JobId) -> Response {
    command_error(CommandError::NotFound, &Subject::Job(id))
}

/// Why a command on a job or node was not carried out.
pub(crate) fn command_error(e: CommandError, subject: &Subject) -> Response {
    // The name is as somebody gave it.
    let (name, list) = match subject {
        Subject::Job(id) => (format!("job {}", id.0), "jobs"),
        Subject::Node(name) => (format!("node {}", foreign::name(name)), "nodes"),
    };
    match e {
        CommandError::NotFound => {
            error(ErrorCode::NotFound, format!("no {name}: `starfarm {list}` lists them"))
        }
        CommandError::Conflict(why) => conflict(why, &name),
    }
}

/// Why a command on what is called `name` does not fit.
pub(crate) fn conflict(why: Conflict, name: &str) -> Response {
    if let Conflict::NoSuchJob(id) = why {
        let message = format!("there is no job {} to start after: `starfarm jobs` lists them", id.0);
        return error(ErrorCode::NotFound, message);
    }
    let message = match why {
        Conflict::NoSuchJob(_) => unreachable!("it is answered above"),
        Conflict::Waits(id) => format!("{name} waits for job {}: leave --now out, or cancel that one", id.0),
        Conflict::AfterFailed(id, state) => {
            let id = id.0;
            let how = match state {
                JobState::Finished => "cannot be merged".to_owned(),
                state => format!("is {}", state.word()),
            };
            format!(
                "job {id} {how}, and {name} was to start after it has ended well: see `starfarm job show {id}`"
            )
        }
        Conflict::Awaited(id) => {
            format!(
                "the results of {name} are still to be merged, and job {} waits for that: cancel that one first",
                id.0
            )
        }
        Conflict::NoUnit => "a job has at least one unit".to_owned(),
        Conflict::TooManyJobs => {
            format!("the farm knows {JOBS_MAX} jobs: delete ended ones with `starfarm job delete ID`")
        }
        Conflict::NoSearch => format!("{name} is no search: only a search has trust checks"),
        Conflict::Planted => format!("{name} plants what is no answer of its search"),
        Conflict::NotEnded => {
            format!("{name} has not ended: `starfarm job delete --cancel` cancels it first")
        }
        Conflict::Ended(state) => format!("{name} has ended ({})", state.word()),
        Conflict::EndedForGood(state) => format!("{name} has ended ({}): submit it again", state.word()),
        Conflict::NoFailedUnit => format!("{name} has no failed unit"),
        Conflict::NoOutputs => format!("{name} runs no programs, so it has no outputs"),
        Conflict::NoLostOutput => format!("no output of {name} is missing or damaged"),
        Conflict::NotPaused => format!("{name} is not paused"),
        Conflict::Paused => format!("{name} is paused: resume it first"),
        Conflict::WorkerStops => {
            format!("{name} is draining because its worker stops: start the worker again to have it back")
        }
        Conflict::NotTrusted => {
            format!(
                "{name} is distrusted: revoke its key first, or resume it if you trust it; otherwise it could rejoin \
                 as a trusted one"
            )
        }
        Conflict::NotLost(state) => format!("{name} is {}: only a lost node can be forgotten", state.word()),
    };
    error(ErrorCode::Conflict, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nobody_has_is_said_again_tamed_and_cut() {
        let name = format!("w\u{1b}[2J\u{202e}{}", "x".repeat(1_000_000));
        let Response::Error(e) = command_error(CommandError::NotFound, &Subject::Node(name)) else {
            panic!("no error");
        };
        let shown = format!("w\\u{{1b}}[2J\\u{{202e}}{}…", "x".repeat(74));
        assert_eq!(e.message, format!("no node {shown}: `starfarm nodes` lists them"));
    }
}
