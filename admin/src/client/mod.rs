//! Talking to a scheduler: one request, one answer, over the local socket of a farm on this machine or a
//! sealed stream to one elsewhere. What is asked is decided by the commands.

mod identity;
mod local;
mod sealed;

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use starfarm_protocol::admin::frames::{FrameReader, frame};
use starfarm_protocol::admin::{JobInfo, JobVerb, NodeInfo, NodeVerb, Request, Response, StatusInfo};
use starfarm_protocol::ids::JobId;

use crate::failure::{Exit, Failure};

pub(crate) use identity::user;

/// A scheduler that says nothing for this long, beyond the time it was asked to wait, has gone.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A connection that carries bytes of frames.
trait Wire: Send {
    /// Sends a whole frame.
    fn send(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Waits for more bytes, for at most `patience`; none at the end of the stream.
    fn receive(&mut self, patience: Duration) -> io::Result<Vec<u8>>;
}

/// A connection to a scheduler.
pub(crate) struct Client {
    wire: Box<dyn Wire>,
    reader: FrameReader,
    /// Where the scheduler is, for messages.
    whereabouts: String,
}

impl Client {
    /// Connects to the farm that `--farm` names: a state directory of this machine, or a join file.
    ///
    /// # Errors
    /// [`Exit::Unreachable`] where nobody answers, [`Exit::Refused`] where the caller is not admitted,
    /// [`Exit::Usage`] where the join file is none.
    pub(crate) fn connect(farm: &Path) -> Result<Self, Failure> {
        let (wire, whereabouts): (Box<dyn Wire>, _) = match std::fs::metadata(farm) {
            Ok(metadata) if metadata.is_dir() => {
                (Box::new(local::connect(farm)?), farm.join(local::SOCKET).display().to_string())
            }
            Ok(_) => {
                let (wire, address) = sealed::connect(farm)?;
                (Box::new(wire), address)
            }
            Err(error) => {
                return Err(Failure::unreachable(format!(
                    "--farm {}: {error}: name the scheduler's state directory, or a copy of its admin.join",
                    farm.display()
                )));
            }
        };
        Ok(Self { wire, reader: FrameReader::default(), whereabouts })
    }

    /// Asks, and waits for the answer. An answer that is an error becomes a failure.
    ///
    /// # Errors
    /// The scheduler's own, see [`Failure`]'s conversion; [`Exit::Unreachable`] where the connection ends.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Response, Failure> {
        let patience = match request {
            Request::Wait { timeout_ms, .. } => SILENCE_MAX + Duration::from_millis(*timeout_ms),
            _ => SILENCE_MAX,
        };
        let frame = frame(request).map_err(|error| Failure::usage(error.to_string()))?;
        // A scheduler that turns the caller away answers and closes without reading: look for its words
        // even where the request could not be sent.
        let sent = self.wire.send(&frame);
        match self.receive(patience) {
            Ok(Response::Error(error)) => Err(error.into()),
            Ok(response) => Ok(response),
            Err(lost) => match sent {
                Ok(()) => Err(lost),
                Err(error) => Err(self.lost(&error)),
            },
        }
    }

    fn receive(&mut self, patience: Duration) -> Result<Response, Failure> {
        loop {
            match self.reader.next_message::<Response>() {
                Ok(Some(response)) => return Ok(response),
                Ok(None) => {}
                Err(error) => {
                    return Err(Failure::unreachable(format!(
                        "cannot understand the scheduler at {}: {error}: install the same version here and \
                         there",
                        self.whereabouts
                    )));
                }
            }
            let bytes = self.wire.receive(patience).map_err(|error| self.lost(&error))?;
            if bytes.is_empty() {
                return Err(self.lost(&ErrorKind::UnexpectedEof.into()));
            }
            self.reader.push(&bytes);
        }
    }

    fn lost(&self, error: &io::Error) -> Failure {
        let what = match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                "closed the connection".to_owned()
            }
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "does not answer".to_owned(),
            _ => format!("cannot be talked to: {error}"),
        };
        Failure::unreachable(format!(
            "the scheduler at {} {what}: see whether it still runs, and try again",
            self.whereabouts
        ))
    }

    /// An answer that does not belong to the question.
    fn surprise(&self) -> Failure {
        Failure::unreachable(format!(
            "the scheduler at {} answers something else than it was asked: install the same version here \
             and there",
            self.whereabouts
        ))
    }

    /// Asks for something that is answered with `Done`.
    ///
    /// # Errors
    /// As [`Client::ask`]; also all below.
    pub(crate) fn command(&mut self, request: &Request) -> Result<(), Failure> {
        let answer = self.ask(request)?;
        self.expect(answer, |answer| (answer == Response::Done).then_some(()))
    }

    /// What `take` finds in an answer, or a failure where it finds nothing.
    pub(crate) fn expect<T>(
        &self,
        answer: Response,
        take: impl FnOnce(Response) -> Option<T>,
    ) -> Result<T, Failure> {
        take(answer).ok_or_else(|| self.surprise())
    }

    /// All jobs, or those with these numbers.
    pub(crate) fn jobs(&mut self, ids: Vec<JobId>) -> Result<Vec<JobInfo>, Failure> {
        let answer = self.ask(&Request::Jobs { ids })?;
        self.expect(answer, jobs_of)
    }

    /// One job.
    pub(crate) fn job(&mut self, id: JobId) -> Result<JobInfo, Failure> {
        let job = self.jobs(vec![id])?.into_iter().find(|job| job.id == id);
        job.ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("no job {}: `starfarm jobs` lists them", id.0))
        })
    }

    /// The job when it has ended, or as it is after `timeout`.
    pub(crate) fn wait(&mut self, id: JobId, timeout: Duration) -> Result<JobInfo, Failure> {
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let answer = self.ask(&Request::Wait { id, timeout_ms })?;
        self.expect(answer, |answer| jobs_of(answer)?.into_iter().find(|job| job.id == id))
    }

    /// Does something to a job.
    pub(crate) fn job_verb(&mut self, id: JobId, command: JobVerb) -> Result<(), Failure> {
        self.command(&Request::Job { id, command })
    }

    /// The farm's figures.
    pub(crate) fn status(&mut self) -> Result<StatusInfo, Failure> {
        let answer = self.ask(&Request::Status)?;
        self.expect(answer, |answer| match answer {
            Response::Status(status) => Some(status),
            _ => None,
        })
    }

    /// All nodes.
    pub(crate) fn nodes(&mut self) -> Result<Vec<NodeInfo>, Failure> {
        let answer = self.ask(&Request::Nodes)?;
        self.expect(answer, |answer| match answer {
            Response::Nodes(nodes) => Some(nodes),
            _ => None,
        })
    }

    /// Does something to a node.
    pub(crate) fn node_verb(&mut self, name: &str, command: NodeVerb) -> Result<(), Failure> {
        self.command(&Request::Node { name: name.to_owned(), command })
    }
}

fn jobs_of(answer: Response) -> Option<Vec<JobInfo>> {
    match answer {
        Response::Jobs(jobs) => Some(jobs),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
