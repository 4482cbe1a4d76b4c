//! Reading messages. Nothing here trusts its input: a datagram that breaks the rules yields
//! [`Malformed`] and the rest of it is dropped; no length is believed before it is checked. Whoever sent it holds a
//! valid key, so it is a bug or a traitor; either way the datagram is dropped and counted.

use super::*;
use crate::bytes::Reader;

/// One message out of a datagram. Lists that may be long stay in place and are walked.
#[derive(Clone, PartialEq, Debug)]
pub enum Message<'a> {
    /// Kind 1.
    Hello(Hello),
    /// Kind 2.
    TaskAck(Ranges<'a>),
    /// Kind 3.
    Results(Results<'a>),
    /// Kind 4.
    Feedback(Feedback),
    /// Kind 5.
    Heartbeat(Heartbeat),
    /// Kind 6.
    Bye,
    /// Kind 7.
    Facts(Facts),
    /// Kind 8.
    Load(Load),
    /// Kind 9.
    Ages(Ages<'a>),
    /// Kind 10: how often the worker became able to run what it had refused.
    Able(u32),
    /// Kind 33.
    Welcome(Welcome),
    /// Kind 34.
    Offers(Offers<'a>),
    /// Kind 35: credit and ranges of result sequences.
    ResultAck(u16, Ranges<'a>),
    /// Kind 36.
    HeartbeatAnswer(HeartbeatAnswer),
    /// Kind 37.
    Revoke(Revoke),
    /// Kind 38.
    Pace(Pace),
}

/// Walks the messages of an opened datagram. After an error it ends.
pub fn messages(datagram: &[u8]) -> impl Iterator<Item = Result<Message<'_>, Malformed>> {
    let mut rest = Reader(datagram);
    std::iter::from_fn(move || {
        while !rest.0.is_empty() {
            match next(&mut rest) {
                Ok(Some(message)) => return Some(Ok(message)),
                Ok(None) => {}
                Err(malformed) => {
                    rest.0 = &[];
                    return Some(Err(malformed));
                }
            }
        }
        None
    })
}

fn next<'a>(rest: &mut Reader<'a>) -> Result<Option<Message<'a>>, Malformed> {
    let kind = rest.u8()?;
    let length = usize::from(rest.u16()?);
    let mut body = Reader(rest.bytes(length)?);
    let message = match kind {
        kind::HELLO => Message::Hello(Field::read(&mut body)?),
        kind::TASK_ACK => Message::TaskAck(ranges(&mut body)?),
        kind::RESULTS => Message::Results(Results {
            job: JobId(body.u64()?),
            spec: ContentHash(body.array()?),
            rest: std::mem::take(&mut body),
        }),
        kind::FEEDBACK => Message::Feedback(Field::read(&mut body)?),
        kind::HEARTBEAT => Message::Heartbeat(heartbeat(&mut body)?),
        kind::BYE => Message::Bye,
        kind::FACTS => Message::Facts(Field::read(&mut body)?),
        kind::LOAD => Message::Load(Load::read(&mut body)?),
        kind::AGES => Message::Ages(ages(&mut body)?),
        kind::ABLE => Message::Able(body.u32()?),
        kind::WELCOME => Message::Welcome(Field::read(&mut body)?),
        kind::OFFERS => Message::Offers(Offers {
            job: JobId(body.u64()?),
            spec: ContentHash(body.array()?),
            attempt: body.u64()?,
            rest: std::mem::take(&mut body),
        }),
        kind::RESULT_ACK => Message::ResultAck(body.u16()?, ranges(&mut body)?),
        kind::HEARTBEAT_ANSWER => Message::HeartbeatAnswer(Field::read(&mut body)?),
        kind::REVOKE => Message::Revoke(Field::read(&mut body)?),
        kind::PACE => Message::Pace(Field::read(&mut body)?),
        _ => return Ok(None),
    };
    if body.0.is_empty() { Ok(Some(message)) } else { Err(Malformed) }
}

fn heartbeat(body: &mut Reader<'_>) -> Result<Heartbeat, Malformed> {
    let beat = Heartbeat::read(body)?;
    if beat.part < beat.parts { Ok(beat) } else { Err(Malformed) }
}

fn ranges<'a>(body: &mut Reader<'a>) -> Result<Ranges<'a>, Malformed> {
    let rest = std::mem::take(body);
    if rest.0.len().is_multiple_of(16) { Ok(Ranges(rest)) } else { Err(Malformed) }
}

fn ages<'a>(body: &mut Reader<'a>) -> Result<Ages<'a>, Malformed> {
    let rest = std::mem::take(body);
    if rest.0.len().is_multiple_of(AGE_BYTES) { Ok(Ages(rest)) } else { Err(Malformed) }
}

/// How old results are, walked in place: from which sequence on, and microseconds. Each holds up to the next
/// one's sequence.
#[derive(Clone, PartialEq, Debug)]
pub struct Ages<'a>(Reader<'a>);

impl Iterator for Ages<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        Field::read(&mut self.0).ok()
    }
}

/// Inclusive ranges of numbers, walked in place. A reversed range is skipped.
#[derive(Clone, PartialEq, Debug)]
pub struct Ranges<'a>(Reader<'a>);

impl Iterator for Ranges<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        loop {
            let range: (u64, u64) = Field::read(&mut self.0).ok()?;
            if range.0 <= range.1 {
                return Some(range);
            }
        }
    }
}

/// The offers of one message, walked in place.
#[derive(Clone, PartialEq, Debug)]
pub struct Offers<'a> {
    job: JobId,
    spec: ContentHash,
    attempt: u64,
    rest: Reader<'a>,
}

impl Iterator for Offers<'_> {
    type Item = Result<Offer, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.0.is_empty() {
            return None;
        }
        let attempt = Attempt(self.attempt);
        self.attempt = self.attempt.wrapping_add(1);
        let (job, spec, rest) = (self.job, self.spec, &mut self.rest);
        let mut read = || {
            let (lo, units) = (rest.u128()?, interval_units(rest)?);
            in_space(lo, units)?;
            Ok(Offer { job, spec, attempt, lo, units })
        };
        let offer = read();
        if offer.is_err() {
            self.rest.0 = &[];
        }
        Some(offer)
    }
}

/// The results of one message, walked in place.
#[derive(Clone, PartialEq, Debug)]
pub struct Results<'a> {
    job: JobId,
    spec: ContentHash,
    rest: Reader<'a>,
}

impl<'a> Iterator for Results<'a> {
    type Item = Result<ResultEntry<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.0.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.rest.0 = &[];
        }
        Some(entry)
    }
}

impl<'a> Results<'a> {
    fn entry(&mut self) -> Result<ResultEntry<'a>, Malformed> {
        let rest = &mut self.rest;
        let entry = ResultEntry {
            job: self.job,
            spec: self.spec,
            sequence: rest.u64()?,
            attempt: Attempt(rest.u64()?),
            lo: rest.u128()?,
            units: interval_units(rest)?,
            duration_us: rest.u64()?,
            outcome: Field::read(rest)?,
            body: {
                let length = usize::from(rest.u16()?);
                rest.bytes(length)?
            },
        };
        in_space(entry.lo, entry.units)?;
        Ok(entry)
    }
}

fn interval_units(rest: &mut Reader<'_>) -> Result<u64, Malformed> {
    rest.u64().and_then(|units| if units == 0 { Err(Malformed) } else { Ok(units) })
}

fn in_space(lo: u128, units: u64) -> Result<(), Malformed> {
    lo.checked_add(u128::from(units)).map(|_| ()).ok_or(Malformed)
}
