//! The worker's half: one stream, one order after another. An order that breaks off goes on where it was once the
//! scheduler is back, for as long as it is wanted. What is to be done is asked for with [`Client::next`], and what came
//! of it told by the `on_...` calls.

use std::collections::VecDeque;

use std::fmt::Debug;
use std::io;

use super::{BulkError, CHUNK_BYTES, Chunk, Few, IDLE_US, Incoming, Reply, Request};
use crate::ids::{ContentHash, JobId};

/// How long the scheduler may take to answer before the stream is given up.
pub const PATIENCE_US: u64 = 10_000_000;
/// The same for its word on a whole content: a slow link still has much of it on the way.
const PATIENCE_STORED_US: u64 = 60_000_000;
/// Wait between two attempts: it doubles from the first ...
const RETRY_MIN_US: u64 = 100_000;
/// ... to this.
const RETRY_MAX_US: u64 = 5_000_000;
/// Where the scheduler has no room for an output it is asked again after this, for one output at a time; once it has stored
/// one, for the next of them at once.
const NO_ROOM_WAIT_US: u64 = 1_000_000;
/// How long an output of a task that is to stop is waited for while nothing of it gets through: what was computed is worth
/// some time, but a worker that must leave while the scheduler is away cannot wait for ever.
const TRIMMED_PATIENCE_US: u64 = 5_000_000;

/// A content that is to be stored: in memory, or wherever it can be read from in pieces.
pub trait Source: Debug + Send {
    /// How many bytes it has.
    fn bytes(&self) -> u64;

    /// Up to `max` bytes of it from `offset` on, one at least before its end.
    ///
    /// # Errors
    /// Those of where it lies.
    fn read(&self, offset: u64, max: usize) -> io::Result<Vec<u8>>;
}

impl Source for Vec<u8> {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let rest = &self[usize::try_from(offset).unwrap_or(usize::MAX).min(self.len())..];
        Ok(rest[..max.min(rest.len())].to_vec())
    }
}

/// What is to be fetched or stored.
#[derive(Debug)]
pub enum Work {
    /// Fetch what is missing of this.
    Get(Incoming),
    /// Store this.
    Put {
        /// The content's.
        hash: ContentHash,
        /// All of it.
        content: Box<dyn Source>,
    },
    /// Store these, which [`Few::add`] put one behind the other: one question and one answer for all of them.
    PutAll(Vec<u8>),
    /// Ask which content has the value of a unit.
    Locate {
        /// The unit's.
        job: JobId,
        /// Which.
        unit: u128,
    },
}

impl Work {
    /// How long it goes on after the task that wants it was told to stop, while nothing gets through.
    pub fn trimmed_patience_us(&self) -> u64 {
        match self {
            Work::Get(_) | Work::Locate { .. } => 0,
            Work::Put { .. } | Work::PutAll(_) => TRIMMED_PATIENCE_US,
        }
    }

    fn question(&self) -> Request<'_> {
        match self {
            Work::Get(incoming) => Request::Get { hash: incoming.hash(), offset: incoming.offset() },
            Work::Put { hash, content } => Request::Put { hash: *hash, total: content.bytes() },
            Work::PutAll(all) => Request::PutAll(Few::new(all)),
            &Work::Locate { job, unit } => Request::Locate { job, unit },
        }
    }

    /// How long the answer to its question may take: a slow link still has the question on the way where that is long.
    fn patience_us(&self) -> u64 {
        if let Work::PutAll(_) = self { PATIENCE_STORED_US } else { PATIENCE_US }
    }
}

/// What is to be done next.
#[derive(Debug)]
pub enum Deed<T> {
    /// Nothing, until that time, `u64::MAX` being never; or there is an order.
    Rest(u64),
    /// Open a stream: [`Client::on_opened`].
    Connect,
    /// See whether the open stream is silent, as it must be before a question: [`Client::on_looked`].
    Look,
    /// Send a record.
    Send(Vec<u8>),
    /// Wait so many microseconds for a record: [`Client::on_record`].
    Receive(u64),
    /// Close the stream.
    Close,
    /// Tell who gave the order that this came of it: the whole content where it was to be fetched, nothing where it is
    /// stored, the reply where a unit is located; or why not, in words.
    Settle(T, Result<Vec<u8>, String>),
}

#[derive(Debug)]
struct Order<T> {
    work: Work,
    ticket: T,
}

/// How far the stream is with what is asked on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Closed,
    /// To be closed.
    Closing,
    /// Nothing is asked. Whatever it has to say answers an earlier question, or it was closed by the other end.
    Open,
    /// Nothing is asked, and it is silent.
    Silent,
    Asked,
    /// A content of so many bytes comes.
    Getting(u64),
    /// From here on the content is to be sent.
    Putting(u64),
    /// All of it was sent.
    Sent,
}

/// The worker's half. `T` says who gave an order.
#[derive(Debug)]
pub struct Client<T> {
    orders: VecDeque<Order<T>>,
    /// Those for which the scheduler had no room.
    waiting: VecDeque<Order<T>>,
    /// When it is asked again for the first of these.
    room_at_us: u64,
    current: Option<Order<T>>,
    settled: Option<(T, Result<Vec<u8>, String>)>,
    /// Whether the channel is to be had at all is to be seen.
    probing: bool,
    stage: Stage,
    /// No attempt before, and the wait after the next one that fails.
    retry_at_us: u64,
    retry_us: u64,
    /// When something happened last.
    busy_us: u64,
    /// Until then an output that is on its way is waited for, see [`Client::moves_until_us`].
    moves_us: u64,
}

impl<T> Default for Client<T> {
    fn default() -> Self {
        Self {
            orders: VecDeque::new(),
            waiting: VecDeque::new(),
            room_at_us: 0,
            current: None,
            settled: None,
            probing: false,
            stage: Stage::Closed,
            retry_at_us: 0,
            retry_us: RETRY_MIN_US,
            busy_us: 0,
            moves_us: 0,
        }
    }
}

/// What a record meant to the order.
enum Heard {
    /// There is more to come or to send.
    More,
    Settled(Result<Vec<u8>, String>),
    /// Try again, but let others go first.
    NoRoom,
}

impl<T> Client<T> {
    /// There is something to do.
    pub fn order(&mut self, work: Work, ticket: T) {
        self.orders.push_back(Order { work, ticket });
    }

    /// See whether the channel can be had, before any task needs it, and until it can.
    pub fn probe(&mut self) {
        if self.current.is_none() && !self.probing {
            (self.retry_at_us, self.retry_us) = (0, RETRY_MIN_US);
        }
        self.probing = true;
    }

    /// What is to be done. `wanted` says whether anybody still waits for an order.
    pub fn next(&mut self, now_us: u64, wanted: impl Fn(&T) -> bool) -> Deed<T> {
        if let Some((ticket, result)) = self.settled.take() {
            return Deed::Settle(ticket, result);
        }
        if matches!(self.stage, Stage::Closed | Stage::Open | Stage::Silent) {
            self.take_up(now_us, wanted);
            if self.current.is_none() && !self.probing {
                return self.rest(now_us);
            }
        }
        match (self.stage, &self.current) {
            (Stage::Closing, _) => {
                self.stage = Stage::Closed;
                Deed::Close
            }
            (Stage::Closed, _) if now_us < self.retry_at_us => Deed::Rest(self.retry_at_us),
            (Stage::Closed, _) => Deed::Connect,
            (Stage::Silent, Some(order)) => {
                self.stage = Stage::Asked;
                if let Work::PutAll(_) = order.work {
                    self.moves_us = now_us + PATIENCE_STORED_US;
                }
                Deed::Send(order.work.question().to_bytes())
            }
            (Stage::Putting(offset), Some(Order { work: Work::Put { content, .. }, .. })) => {
                if offset >= content.bytes() {
                    self.stage = Stage::Sent;
                    // A slow link still has much of it on the way.
                    self.moves_us = now_us + PATIENCE_STORED_US;
                    return Deed::Receive(PATIENCE_STORED_US);
                }
                match content.read(offset, CHUNK_BYTES) {
                    Ok(bytes) if !bytes.is_empty() => {
                        self.stage = Stage::Putting(offset + bytes.len() as u64);
                        self.moves_us = now_us + PATIENCE_US;
                        Deed::Send(Request::Chunk(Chunk { offset, bytes: &bytes }).to_bytes())
                    }
                    cut => {
                        // The other end waits for the rest of it.
                        let why = cut.err().map_or_else(|| "it became shorter".to_owned(), |e| e.to_string());
                        self.settle(Err(format!("what is to be stored cannot be read: {why}")));
                        self.stage = Stage::Closed;
                        Deed::Close
                    }
                }
            }
            (Stage::Sent, _) => Deed::Receive(PATIENCE_STORED_US),
            (Stage::Asked, Some(order)) => Deed::Receive(order.work.patience_us()),
            (Stage::Asked | Stage::Getting(_), _) => Deed::Receive(PATIENCE_US),
            (Stage::Open | Stage::Silent | Stage::Putting(_), _) => Deed::Look,
        }
    }

    /// Until then a content that is to be stored is on its way, as far as anybody can tell: its parts get through, or the
    /// scheduler has not had the time to say that it has it all. Who asks again hears a later time while that goes on.
    pub fn moves_until_us(&self) -> u64 {
        self.moves_us
    }

    /// Sees to it that the current order is one that is wanted, if there is any.
    fn take_up(&mut self, now_us: u64, wanted: impl Fn(&T) -> bool) {
        while self.current.as_ref().is_none_or(|order| !wanted(&order.ticket)) {
            // However much others ask meanwhile: slots that run would else keep out for ever those that wait.
            let waited = if now_us >= self.room_at_us { self.waiting.pop_front() } else { None };
            self.current = waited.or_else(|| self.orders.pop_front());
            if self.current.is_none() {
                return;
            }
            (self.retry_at_us, self.retry_us) = (0, RETRY_MIN_US);
        }
    }

    /// Nothing is to be done.
    fn rest(&mut self, now_us: u64) -> Deed<T> {
        let idle_us = self.busy_us + IDLE_US;
        match self.stage {
            _ if !self.waiting.is_empty() => Deed::Rest(self.room_at_us),
            Stage::Closed => Deed::Rest(u64::MAX),
            _ if now_us >= idle_us => {
                self.stage = Stage::Closed;
                Deed::Close
            }
            _ => {
                self.stage = Stage::Open;
                Deed::Rest(idle_us)
            }
        }
    }

    /// The stream is open; or cannot be had now (`None`), or never, and why.
    pub fn on_opened(&mut self, opened: Result<(), Option<String>>, now_us: u64) {
        match opened {
            Ok(()) => self.on_looked(true, now_us),
            Err(None) => self.on_broken(now_us),
            Err(Some(why)) => {
                (self.probing, self.busy_us) = (false, now_us);
                self.settle(Err(why));
                self.stage = Stage::Closed;
            }
        }
    }

    /// The open stream is silent, or it is of no more use: another one is opened at once.
    pub fn on_looked(&mut self, silent: bool, now_us: u64) {
        self.busy_us = now_us;
        self.stage = if silent { Stage::Silent } else { Stage::Closing };
        self.probing &= !silent;
    }

    /// The stream broke, or nothing came by it for too long.
    pub fn on_broken(&mut self, now_us: u64) {
        self.busy_us = now_us;
        self.moves_us = self.moves_us.min(now_us + TRIMMED_PATIENCE_US);
        self.stage = Stage::Closing;
        self.retry_at_us = now_us + self.retry_us;
        self.retry_us = (self.retry_us * 2).min(RETRY_MAX_US);
    }

    /// A record came.
    pub fn on_record(&mut self, record: &[u8], now_us: u64) {
        self.busy_us = now_us;
        match self.hear(record) {
            Ok(Heard::More) => {}
            Ok(Heard::Settled(result)) => {
                self.moves_us = self.moves_us.min(now_us + TRIMMED_PATIENCE_US);
                let is_put = |order: &Order<T>| matches!(order.work, Work::Put { .. } | Work::PutAll(_));
                if result.is_ok() && self.current.as_ref().is_some_and(is_put) {
                    self.room_at_us = now_us;
                }
                self.settle(result);
            }
            Ok(Heard::NoRoom) => {
                self.waiting.extend(self.current.take());
                self.room_at_us = now_us + NO_ROOM_WAIT_US;
                self.stage = Stage::Open;
            }
            Err(_) => self.on_broken(now_us),
        }
    }

    /// A reply that fits no question is an error: the stream has lost count.
    fn hear(&mut self, record: &[u8]) -> Result<Heard, BulkError> {
        let work = &mut self.current.as_mut().ok_or(BulkError::OutOfPlace)?.work;
        match (work, self.stage, Reply::read(record)?) {
            (_, Stage::Asked | Stage::Getting(_) | Stage::Sent, Reply::Refused(why)) => {
                return Ok(Heard::Settled(Err(why)));
            }
            (Work::Get(incoming), Stage::Asked, Reply::Found { total }) => {
                self.stage = Stage::Getting(total);
                return whole(incoming, total);
            }
            (Work::Get(incoming), Stage::Getting(total), Reply::Chunk(chunk)) => {
                incoming.take(&chunk, total)?;
                return whole(incoming, total);
            }
            (Work::Put { content, .. }, Stage::Asked, Reply::Have { bytes }) => {
                match bytes.cmp(&content.bytes()) {
                    std::cmp::Ordering::Less => self.stage = Stage::Putting(bytes),
                    std::cmp::Ordering::Equal => return Ok(Heard::Settled(Ok(Vec::new()))),
                    std::cmp::Ordering::Greater => return Err(BulkError::OutOfPlace),
                }
            }
            (&mut Work::Locate { unit, .. }, Stage::Asked, Reply::Located(located)) if located.has(unit) => {
                return Ok(Heard::Settled(Ok(record.to_vec())));
            }
            (Work::Put { .. }, Stage::Sent, Reply::Stored)
            | (Work::PutAll(_), Stage::Asked, Reply::Stored) => {
                return Ok(Heard::Settled(Ok(Vec::new())));
            }
            (Work::Put { .. }, Stage::Asked | Stage::Sent, Reply::NoRoom(_))
            | (Work::PutAll(_), Stage::Asked, Reply::NoRoom(_)) => return Ok(Heard::NoRoom),
            _ => return Err(BulkError::OutOfPlace),
        }
        Ok(Heard::More)
    }

    fn settle(&mut self, result: Result<Vec<u8>, String>) {
        self.settled = self.current.take().map(|order| (order.ticket, result));
        self.stage = Stage::Open;
    }
}

/// The content, if all of it came. What does not have its hash is fetched from the start.
fn whole(incoming: &mut Incoming, total: u64) -> Result<Heard, BulkError> {
    if incoming.offset() < total {
        return Ok(Heard::More);
    }
    let anew = Incoming::new(incoming.hash());
    Ok(Heard::Settled(Ok(std::mem::replace(incoming, anew).finish()?)))
}

#[cfg(test)]
mod tests;
