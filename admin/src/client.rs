//! Talking to a scheduler: one request, one answer, over the local socket of a farm on this machine or a
//! sealed stream to one elsewhere. What is asked is decided by the commands.

mod identity;
mod local;
mod sealed;

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use starfarm_protocol::admin::frames::{FrameError, FrameReader, frame};
use starfarm_protocol::admin::pieces::{self, PIECE_BYTES_MAX, Pieces};
use starfarm_protocol::admin::{
    AlarmPage, AlarmsInfo, EventLine, Explanation, GraphInfo, JobCommand, JobInfo, NodeInfo, PlaceCps,
    Request, Response, StatusInfo, Subject, TracePage, TreeInfo, UsageLine,
};
use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::units::Units;
use starfarm_scheduler::AtRest;

use crate::failure::{Exit, Failure};
use crate::output::say;

pub(crate) use identity::user;
pub(crate) use local::holds_lock;
use local::{SILENCE_MAX, Wire};

/// A scheduler that says nothing for this long is worth a word to who waits for it.
const UNTOLD_MAX: Duration = Duration::from_secs(3);

/// So long a scheduler may look through a job's outputs.
const LOOK_MAX: Duration = Duration::from_secs(3_600);

/// So long a scheduler that went away is waited for by who waits for a job: somebody starts it again ...
const AWAY_MAX: Duration = Duration::from_secs(600);
/// ... and so often it is looked for.
const AWAY_LOOK: Duration = Duration::from_millis(500);

/// Asks, and takes the wanted answer apart.
macro_rules! ask {
    ($client:expr, $request:expr, $answer:pat => $value:expr) => {
        match $client.ask($request)? {
            $answer => Ok($value),
            _ => Err($client.surprise()),
        }
    };
}
pub(crate) use ask;

/// A farm that answers.
pub(crate) struct Client {
    peer: Peer,
    /// Where the scheduler is, for messages.
    whereabouts: String,
    /// Whether it says on standard error that it waits.
    tells: bool,
    farm: PathBuf,
    /// A scheduler that goes away is waited for, until this time at most.
    waits: Option<Option<Instant>>,
    /// How often it was waited for and came back.
    returns: u32,
}

/// Why there is no answer.
struct Broken {
    failure: Failure,
    /// The connection is at fault, so another one may do.
    is_lost: bool,
}

/// Who answers.
enum Peer {
    /// A scheduler, and what has come from it of an answer.
    Scheduler(Box<dyn Wire>, FrameReader),
    /// Nobody runs the farm: it is answered in its scheduler's place, from what lies on the disk.
    AtRest(Box<AtRest>),
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
        let peer = Peer::Scheduler(wire, FrameReader::default());
        Ok(Self { peer, whereabouts, tells: false, farm: farm.to_owned(), waits: None, returns: 0 })
    }

    /// The same, to look at jobs and results only: where no scheduler runs in a state directory, what lies there is
    /// read, and a message says so.
    ///
    /// # Errors
    /// As [`Client::connect`]; [`Exit::Conflict`] where what lies there is damaged.
    pub(crate) fn connect_or_look(farm: &Path) -> Result<Self, Failure> {
        let failure = match Self::connect(farm) {
            Err(failure) if farm.is_dir() && local::nobody_listens(farm) => failure,
            connected => return connected,
        };
        let at_rest = AtRest::read(farm).map_err(|error| Failure::new(Exit::Conflict, error.to_string()))?;
        let Some(at_rest) = at_rest else { return Err(failure) };
        let whereabouts = farm.display().to_string();
        say(&format!("no scheduler runs in {whereabouts}: this is what lies there"));
        let peer = Peer::AtRest(Box::new(at_rest));
        Ok(Self { peer, whereabouts, tells: false, farm: farm.to_owned(), waits: None, returns: 0 })
    }

    /// The same, and whoever waits at a terminal or reads a log is told so.
    pub(crate) fn telling(self) -> Self {
        Self { tells: true, ..self }
    }

    /// How often a scheduler that had gone away came back. What it has no result of any more, which it had not acknowledged,
    /// may come in another order.
    pub(crate) fn returns(&self) -> u32 {
        self.returns
    }

    /// From now on a scheduler that goes away is waited for, up to `deadline` if there is one, where it is asked for what
    /// it knows.
    pub(crate) fn wait_for_scheduler(&mut self, deadline: Option<Instant>) {
        self.waits = Some(deadline);
    }

    /// Asks, and waits for the answer. An answer that is an error becomes a failure.
    ///
    /// # Errors
    /// The scheduler's own, see [`Failure`]'s conversion; [`Exit::Unreachable`] where the connection ends.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Response, Failure> {
        self.ask_with(request, b"")
    }

    /// The same, with the content that the request announces, if any.
    fn ask_with(&mut self, request: &Request, content: &[u8]) -> Result<Response, Failure> {
        let answer = match self.ask_once(request, content) {
            Err(Broken { failure, is_lost: true }) if asks_only(request) => match self.waits {
                Some(deadline) => self.ask_when_back(request, failure, deadline)?,
                None => return Err(failure),
            },
            answer => answer.map_err(|broken| broken.failure)?,
        };
        match answer {
            Response::Error(error) => Err(error.into()),
            answer => Ok(answer),
        }
    }

    fn ask_once(&mut self, request: &Request, content: &[u8]) -> Result<Response, Broken> {
        match &mut self.peer {
            Peer::AtRest(farm) => Ok(farm.answer(request)),
            Peer::Scheduler(wire, reader) => {
                ask_scheduler(&mut **wire, reader, (request, content), &self.whereabouts, self.tells)
            }
        }
    }

    /// Asks the scheduler once it is back; `failure` if it does not come.
    fn ask_when_back(
        &mut self,
        request: &Request,
        failure: Failure,
        deadline: Option<Instant>,
    ) -> Result<Response, Failure> {
        let latest = Instant::now() + AWAY_MAX;
        let until = deadline.map_or(latest, |deadline| deadline.min(latest));
        let (place, minutes) = (self.whereabouts.clone(), AWAY_MAX.as_secs() / 60);
        say(&format!(
            "the scheduler at {place} went away: waiting for it to come back, {minutes} min at most; Ctrl-C ends it"
        ));
        while Instant::now() < until {
            std::thread::sleep(AWAY_LOOK.min(until.saturating_duration_since(Instant::now())));
            match Self::connect(&self.farm) {
                Ok(new) => self.peer = new.peer,
                Err(failure) if failure.exit == Exit::Unreachable => continue,
                Err(failure) => return Err(failure),
            }
            match self.ask_once(request, b"") {
                Ok(answer) => {
                    self.returns += 1;
                    say(&format!("the scheduler at {place} is back"));
                    return Ok(answer);
                }
                Err(Broken { is_lost: true, .. }) => {}
                Err(broken) => return Err(broken.failure),
            }
        }
        Err(failure)
    }

    /// An answer that does not belong to the question.
    pub(crate) fn surprise(&self) -> Failure {
        Failure::unreachable(format!(
            "the scheduler at {} answers something else than it was asked: install the same version here \
             and there",
            self.whereabouts
        ))
    }

    /// Asks for something that is answered with `Done`.
    pub(crate) fn command(&mut self, request: &Request) -> Result<(), Failure> {
        ask!(self, request, Response::Done => ())
    }

    /// Sends a content that a submission needs, which has this hash.
    ///
    /// # Errors
    /// It is too long to be sent ([`Exit::Usage`]); as [`Client::ask`].
    pub(crate) fn put(&mut self, hash: ContentHash, content: &[u8]) -> Result<(), Failure> {
        let bytes = content.len() as u64;
        Pieces::of(bytes).map_err(Failure::usage)?;
        match self.ask_with(&Request::Put { hash, bytes }, content)? {
            Response::Done => Ok(()),
            _ => Err(self.surprise()),
        }
    }

    /// All jobs, or those with these numbers.
    pub(crate) fn jobs(&mut self, ids: Vec<JobId>) -> Result<Vec<JobInfo>, Failure> {
        ask!(self, &Request::Jobs { ids }, Response::Jobs(jobs) => jobs)
    }

    pub(crate) fn job(&mut self, id: JobId) -> Result<JobInfo, Failure> {
        let job = self.jobs(vec![id])?.into_iter().find(|job| job.id == id);
        job.ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("no job {}: `starfarm jobs` lists them", id.0))
        })
    }

    /// The job when it has ended, or as it is after `timeout`.
    pub(crate) fn wait(&mut self, id: JobId, timeout: Duration) -> Result<JobInfo, Failure> {
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let jobs = ask!(self, &Request::Wait { id, timeout_ms }, Response::Jobs(jobs) => jobs)?;
        jobs.into_iter().find(|job| job.id == id).ok_or_else(|| self.surprise())
    }

    pub(crate) fn job_verb(&mut self, id: JobId, command: JobCommand) -> Result<(), Failure> {
        self.command(&Request::Job { id, command })
    }

    /// The results of a job are merged again.
    pub(crate) fn merge(&mut self, id: JobId) -> Result<(), Failure> {
        self.command(&Request::Merge { id })
    }

    /// Units whose outputs are lost are wanted again; how many they are.
    pub(crate) fn rerun(&mut self, id: JobId) -> Result<Units, Failure> {
        ask!(self, &Request::Rerun { id }, Response::Rerun(units) => units)
    }

    pub(crate) fn status(&mut self) -> Result<StatusInfo, Failure> {
        ask!(self, &Request::Status, Response::Status(status) => status)
    }

    pub(crate) fn nodes(&mut self) -> Result<Vec<NodeInfo>, Failure> {
        ask!(self, &Request::Nodes, Response::Nodes(nodes) => nodes)
    }

    pub(crate) fn tree(&mut self) -> Result<TreeInfo, Failure> {
        ask!(self, &Request::Tree, Response::Tree(tree) => tree)
    }

    pub(crate) fn alarms(&mut self) -> Result<AlarmsInfo, Failure> {
        ask!(self, &Request::Alarms, Response::Alarms(alarms) => alarms)
    }

    /// What became of alarms behind a number.
    pub(crate) fn alarms_after(&mut self, after: u64) -> Result<AlarmPage, Failure> {
        ask!(self, &Request::AlarmsAfter { after }, Response::AlarmPage(page) => page)
    }

    /// What programs have told, by a `Request::Trace`.
    pub(crate) fn trace(&mut self, request: &Request) -> Result<TracePage, Failure> {
        ask!(self, request, Response::TracePage(page) => page)
    }

    /// The graph of a node's agent.
    pub(crate) fn graph(&mut self, node: &str) -> Result<GraphInfo, Failure> {
        ask!(self, &Request::Graph { node: node.to_owned() }, Response::Graph(graph) => graph)
    }

    /// What a job or node used of late.
    pub(crate) fn usage_line(&mut self, subject: Subject) -> Result<UsageLine, Failure> {
        ask!(self, &Request::UsageLine(subject), Response::UsageLine(line) => line)
    }

    /// Has the tree planned anew; the tree as it begins to be then.
    pub(crate) fn form_tree(
        &mut self,
        strategy: PlaceCps,
        fanout: u32,
        topology: Option<String>,
    ) -> Result<TreeInfo, Failure> {
        ask!(self, &Request::FormTree { strategy, fanout, topology }, Response::Tree(tree) => tree)
    }

    /// Event lines after a number, or the tasks' by `Request::TaskEvents`, and how many more there were.
    pub(crate) fn events(&mut self, request: &Request) -> Result<(Vec<EventLine>, u64), Failure> {
        ask!(self, request, Response::Events { events, missed } => (events, missed))
    }

    pub(crate) fn explain(&mut self, subject: Subject) -> Result<Explanation, Failure> {
        ask!(self, &Request::Explain(subject), Response::Explanation(explanation) => explanation)
    }
}

fn ask_scheduler(
    wire: &mut dyn Wire,
    reader: &mut FrameReader,
    (request, content): (&Request, &[u8]),
    place: &str,
    tells: bool,
) -> Result<Response, Broken> {
    let asked_to_wait = match request {
        Request::Wait { timeout_ms, .. } => Duration::from_millis(*timeout_ms),
        // All outputs of the job are read.
        Request::Rerun { .. } | Request::LostOutputs { .. } => LOOK_MAX,
        _ => Duration::ZERO,
    };
    let too_long = |error: FrameError| Broken { failure: Failure::usage(error.to_string()), is_lost: false };
    let frame = frame(request).map_err(too_long)?;
    // A scheduler that turns the caller away answers and closes without reading: look for its words
    // even where the request could not be sent.
    let sent = wire.send(&frame);
    let sent = sent.and_then(|()| pieces::frames(content).try_for_each(|piece| wire.send(&piece)));
    if tells && sent.is_ok() && !is_readable(wire, asked_to_wait + UNTOLD_MAX) {
        let (silent, max) = (UNTOLD_MAX.as_secs(), SILENCE_MAX.as_secs());
        say(&format!(
            "the scheduler at {place} has not answered for {silent} s: waiting for {max} s at most; Ctrl-C ends it"
        ));
    }
    let received = receive_answer(wire, reader, asked_to_wait + SILENCE_MAX, place);
    received.map_err(|broken| sent.map_or_else(|error| lost(place, &error), |()| broken))
}

/// The farm is the same after such a request, however often it comes.
fn asks_only(request: &Request) -> bool {
    matches!(
        request,
        Request::Jobs { .. }
            | Request::Wait { .. }
            | Request::Results { .. }
            | Request::LostOutputs { .. }
            | Request::Merged { .. }
            | Request::Tree
            | Request::Alarms
            | Request::UsageLine(_)
            | Request::Fetch { .. }
    )
}

/// The next answer, with the bytes that follow it.
fn receive_answer(
    wire: &mut dyn Wire,
    reader: &mut FrameReader,
    patience: Duration,
    place: &str,
) -> Result<Response, Broken> {
    let answer = receive(wire, reader, patience, place, FrameReader::next_message)?;
    let Response::Bytes { bytes, mut content } = answer else { return Ok(answer) };
    let mut pieces = Pieces::of_answer(bytes).map_err(|why| not_understood(place, &why))?;
    while !pieces.are_whole() {
        let piece = receive(wire, reader, SILENCE_MAX, place, |reader| reader.next_bytes(PIECE_BYTES_MAX))?;
        content.extend_from_slice(pieces.take(&piece).map_err(|error| not_understood(place, &error))?);
    }
    Ok(Response::Bytes { bytes, content })
}

fn not_understood(place: &str, why: &dyn Display) -> Broken {
    let words =
        format!("cannot understand the scheduler at {place}: {why}: install the same version here and there");
    Broken { failure: Failure::unreachable(words), is_lost: false }
}

fn receive<T>(
    wire: &mut dyn Wire,
    reader: &mut FrameReader,
    patience: Duration,
    place: &str,
    next: impl Fn(&mut FrameReader) -> Result<Option<T>, FrameError>,
) -> Result<T, Broken> {
    loop {
        if let Some(found) = next(reader).map_err(|error| not_understood(place, &error))? {
            return Ok(found);
        }
        let bytes = wire.receive(patience).map_err(|error| lost(place, &error))?;
        if bytes.is_empty() {
            return Err(lost(place, &ErrorKind::UnexpectedEof.into()));
        }
        reader.push(&bytes);
    }
}

fn lost(place: &str, error: &io::Error) -> Broken {
    let what = match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            "closed the connection".to_owned()
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "does not answer".to_owned(),
        _ => format!("cannot be talked to: {error}"),
    };
    let words = format!("the scheduler at {place} {what}: see whether it still runs, and try again");
    Broken { failure: Failure::unreachable(words), is_lost: true }
}

/// Whether there is something to read, or the stream has ended, before `patience` is over.
fn is_readable(wire: &dyn Wire, patience: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(wire.socket(), PollFlags::IN)];
    // What is no time for the system is for ever; after a signal, reading goes on waiting.
    poll(&mut fds, Timespec::try_from(patience).ok().as_ref()) != Ok(0)
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
