//! What admin commands are answered beside the core's own views: streams, and why something was not carried out.

use starfarm_protocol::admin::{Error, ErrorCode, Response, StreamInfo};
use starfarm_protocol::foreign;
use starfarm_protocol::ids::{JobId, to_hex};
use starfarm_protocol::wire::Stream;
use starfarm_scheduler_core::CommandError;

/// What was written to a stream.
pub(crate) fn stream(stream: &Stream) -> StreamInfo {
    match stream {
        Stream::Inline(bytes) => {
            let (text, hex) = text_or_hex(bytes);
            let length = bytes.len() as u64;
            StreamInfo { text, hex, hash: None, kept: length, total: length, cut_at: None }
        }
        Stream::Uploaded { hash, kept, total } => {
            // The worker keeps a head and a tail of half the limit each, the odd byte in the head.
            let cut_at = (kept < total).then(|| kept - kept / 2);
            let (hash, kept, total) = (Some(*hash), *kept, *total);
            StreamInfo { text: String::new(), hex: None, hash, kept, total, cut_at }
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

/// An error of a kind.
pub(crate) fn error(code: ErrorCode, message: impl Into<String>) -> Response {
    Response::Error(Error { code, message: message.into() })
}

/// No job has that number.
pub(crate) fn no_job(id: JobId) -> Response {
    error(ErrorCode::NotFound, format!("no job {}: `starfarm jobs` lists them", id.0))
}

/// A node for `command_error`, by the name that somebody gave.
pub(crate) fn named_node(name: &str) -> String {
    format!("node {}: `starfarm nodes` lists them", foreign::name(name))
}

/// Why a command was not carried out; `what` names the job or node.
pub(crate) fn command_error(e: CommandError, what: &str) -> Response {
    match e {
        CommandError::NotFound => error(ErrorCode::NotFound, format!("no {what}")),
        CommandError::Conflict(message) => error(ErrorCode::Conflict, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nobody_has_is_said_again_tamed_and_cut() {
        let name = format!("w\u{1b}[2J\u{202e}{}", "x".repeat(1_000_000));
        let Response::Error(e) = command_error(CommandError::NotFound, &named_node(&name)) else {
            panic!("no error");
        };
        let shown = format!("w\\u{{1b}}[2J\\u{{202e}}{}…", "x".repeat(74));
        assert_eq!(e.message, format!("no node {shown}: `starfarm nodes` lists them"));
    }
}
