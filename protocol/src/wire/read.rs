//! Reading messages. Nothing here trusts its input: a datagram that breaks the rules yields
//! [`Malformed`] and the rest of it is dropped; no length is believed before it is checked. Whoever sent it holds a
//! valid key, so it is a bug or a traitor; either way the datagram is dropped and counted.

use super::*;
use crate::bytes::Reader;

/// Declares the messages: kind, its name, what a message holds, and what reads each part of that.
macro_rules! kinds {
    ($($(#[$doc:meta])* $number:literal $kind:ident $message:ident $(($($part:ty = $read:expr),+))?;)*) => {
        pub(super) mod kind {
            $(pub(crate) const $kind: u8 = $number;)*
        }

        /// One message out of a datagram. Lists that may be long stay in place and are walked.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Message<'a> {
            $(#[doc = concat!("Kind ", $number, ".")] $(#[$doc])* $message $(($($part),+))?,)*
        }

        /// The message of this kind with this body; none of a kind that this version does not know.
        fn message<'a>(kind: u8, body: &mut Reader<'a>) -> Result<Option<Message<'a>>, Malformed> {
            Ok(match kind {
                $(kind::$kind => Some(Message::$message $(($($read(body)?),+))?),)*
                _ => None,
            })
        }
    };
}

kinds! {
    1 HELLO Hello(Hello = Field::read);
    2 TASK_ACK TaskAck(Ranges<'a> = ranges);
    3 RESULTS Results(Results<'a> = Results::read);
    4 FEEDBACK Feedback(Feedback = Field::read);
    5 HEARTBEAT Heartbeat(Heartbeat = heartbeat);
    6 BYE Bye;
    7 FACTS Facts(Facts = Field::read);
    8 LOAD Load(Load = Field::read);
    9 AGES Ages(Ages<'a> = ages);
    /// How often the worker became able to run what it had refused.
    10 ABLE Able(u32 = Field::read);
    11 TIME_LEFT TimeLeft(TimeLeft = Field::read);
    /// What the worker has for runs, beside the slots of its hello.
    12 HAS Has(Resources = has);
    13 DEVICES Devices(Devices = devices);
    /// For which slots the offers behind it are, or which hold what the heartbeat behind it lists. Without it these are the
    /// cores.
    14 SLOT_KIND SlotKind(SlotKind = Field::read);
    /// How one of the worker's cards does.
    15 CARD Card(Card = Card::of_body);
    33 WELCOME Welcome(Welcome = Field::read);
    34 OFFERS Offers(Offers<'a> = Offers::read);
    /// Credit and ranges of result sequences.
    35 RESULT_ACK ResultAck(u16 = Field::read, Ranges<'a> = ranges);
    36 HEARTBEAT_ANSWER HeartbeatAnswer(HeartbeatAnswer = Field::read);
    37 REVOKE Revoke(Revoke = Field::read);
    38 PACE Pace(Pace = Field::read);
    39 NEEDS Needs(Needs = needs);
    40 DOORBELL Doorbell(Doorbell = Field::read);
}

/// Walks the messages of an opened datagram. After an error it ends.
pub fn messages(datagram: &[u8]) -> impl Iterator<Item = Result<Message<'_>, Malformed>> {
    let mut rest = Reader(datagram);
    std::iter::from_fn(move || walk(&mut rest, next)).filter_map(Result::transpose)
}

/// What stands next in a list that fills all of `rest`. After an error it ends.
fn walk<'a, T>(
    rest: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Option<Result<T, Malformed>> {
    if rest.0.is_empty() {
        return None;
    }
    let found = read(rest);
    if found.is_err() {
        rest.0 = &[];
    }
    Some(found)
}

fn next<'a>(rest: &mut Reader<'a>) -> Result<Option<Message<'a>>, Malformed> {
    let (kind, length): (u8, u16) = Field::read(rest)?;
    let mut body = Reader(rest.bytes(length.into())?);
    let message = message(kind, &mut body)?;
    if body.0.is_empty() || message.is_none() { Ok(message) } else { Err(Malformed) }
}

/// Each hello in an opened datagram names that incarnation. Nothing else is looked at.
pub fn is_of_boot(datagram: &[u8], boot: Boot) -> bool {
    let mut rest = Reader(datagram);
    let head = |rest: &mut Reader<'_>| -> Result<bool, Malformed> {
        let (kind, length): (u8, u16) = Field::read(rest)?;
        let mut body = Reader(rest.bytes(length.into())?);
        if kind != kind::HELLO {
            return Ok(true);
        }
        let (_, said): (u16, Boot) = Field::read(&mut body)?;
        Ok(said == boot)
    };
    // What is cut off is no hello.
    std::iter::from_fn(|| walk(&mut rest, head)).all(|agrees| agrees.unwrap_or(true))
}

fn heartbeat(body: &mut Reader<'_>) -> Result<Heartbeat, Malformed> {
    let beat = Heartbeat::read(body)?;
    if beat.part < beat.parts { Ok(beat) } else { Err(Malformed) }
}

/// The cores are no device.
fn devices(body: &mut Reader<'_>) -> Result<Devices, Malformed> {
    let devices = Devices::read(body)?;
    if devices.kind.is_device() { Ok(devices) } else { Err(Malformed) }
}

/// A later version knows resources that this one does not: no job asks for them here.
fn has(body: &mut Reader<'_>) -> Result<Resources, Malformed> {
    let rows: Vec<(u8, u64)> = Field::read_all(body)?;
    let known =
        rows.into_iter().filter_map(|(number, amount)| Some((Resource::from_number(number)?, amount)));
    Ok(known.fold(Resources::NONE, |all, (of, amount)| all.with(of, amount)))
}

/// What a run takes without a slot, or of a resource that this version does not know, is nothing to run here.
fn needs(body: &mut Reader<'_>) -> Result<Needs, Malformed> {
    let needs = Needs::read(body)?;
    if needs.run.of(Resource::Slots) > 0 { Ok(needs) } else { Err(Malformed) }
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

impl<'a> Offers<'a> {
    fn read(body: &mut Reader<'a>) -> Result<Self, Malformed> {
        let ((job, spec), attempt) = Field::read(body)?;
        Ok(Self { job, spec, attempt, rest: std::mem::take(body) })
    }
}

impl Iterator for Offers<'_> {
    type Item = Result<Offer, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let (job, spec, attempt) = (self.job, self.spec, Attempt(self.attempt));
        self.attempt = self.attempt.wrapping_add(1);
        walk(&mut self.rest, |rest| {
            let (lo, units) = interval(rest)?;
            Ok(Offer { job, spec, attempt, lo, units })
        })
    }
}

/// The results of one message, walked in place.
#[derive(Clone, PartialEq, Debug)]
pub struct Results<'a> {
    job: JobId,
    spec: ContentHash,
    rest: Reader<'a>,
}

impl<'a> Results<'a> {
    fn read(body: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (job, spec) = Field::read(body)?;
        Ok(Self { job, spec, rest: std::mem::take(body) })
    }
}

impl<'a> Iterator for Results<'a> {
    type Item = Result<ResultEntry<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let (job, spec) = (self.job, self.spec);
        walk(&mut self.rest, |rest| {
            let (sequence, attempt) = Field::read(rest)?;
            let (lo, units) = interval(rest)?;
            let (duration_us, outcome) = Field::read(rest)?;
            let length = rest.u16()?;
            let body = rest.bytes(length.into())?;
            Ok(ResultEntry { job, spec, sequence, attempt, lo, units, duration_us, outcome, body })
        })
    }
}

/// First unit and number of units of an interval that has some and does not overflow.
fn interval(rest: &mut Reader<'_>) -> Result<(u128, u64), Malformed> {
    let (lo, units): (u128, u64) = Field::read(rest)?;
    match lo.checked_add(u128::from(units)) {
        Some(hi) if hi > lo => Ok((lo, units)),
        _ => Err(Malformed),
    }
}
