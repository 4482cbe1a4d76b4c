//! One end of a link, but for its socket: what waits to leave, and when the other end was heard and told something last.

use starfarm_protocol::link::{BEAT_US, DEAD_US, LINK, Message};

use crate::lanes::{Full, Lane, Lanes};
use crate::sending::Sending;

/// A link of a process: no later one of it has its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u64);

/// How often links are looked after, in microseconds.
pub const LOOK_US: u64 = BEAT_US / 4;

/// Of so many records of data that have come the other end hears at the next look: it keeps them until then.
const UNTOLD_MAX: u64 = 256;
/// A link that is refused ends after so long.
const PART_US: u64 = 1_000_000;

/// The links of a process, as those use them who decide what is said and to whom.
pub trait Links {
    /// Puts a message into a lane of a link. A link that has no room for it in a lane other than that of data is of no use:
    /// it ends, as one that is not there has.
    fn send(&mut self, link: LinkId, lane: Lane, message: &Message<'_>, now_us: u64);

    /// The same for the first message of a link that this process has called, which says what the link is for.
    fn open(&mut self, link: LinkId, lane: Lane, message: &Message<'_>, now_us: u64);

    /// Sends what waits for a parent, as far as the link has room for it.
    fn send_data(&mut self, link: LinkId, waiting: &mut Sending, now_us: u64);

    /// Says why a link is not taken. It ends a moment later: until then that may leave.
    fn refuse(&mut self, link: LinkId, why: String, now_us: u64);

    /// Ends a link; what waits to leave by it is lost.
    fn close(&mut self, link: LinkId);
}

/// Why a link has ended by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// Nothing was heard of the other end for [`DEAD_US`]: its machine, or the way to it, may be gone.
    Silent,
    /// Anything else, in words: the other end's process has hung up, or has broken the rules.
    Broken(String),
}

impl End {
    /// The other end has said what it may not say.
    pub(crate) fn against_the_rules() -> Self {
        Self::Broken("it breaks the rules".to_owned())
    }
}

impl core::fmt::Display for End {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Silent => write!(f, "nothing was heard of it for {} s", DEAD_US / 1_000_000),
            Self::Broken(why) => f.write_str(why),
        }
    }
}

/// One end of a link.
#[derive(Debug)]
pub struct Pipe {
    lanes: Lanes,
    heard_us: u64,
    said_us: u64,
    /// Records of data that came, and of how many of them the other end was told.
    data: u64,
    told: u64,
    /// More was to leave than the other end takes.
    is_full: bool,
    /// When it ends, as it was refused.
    ends_us: Option<u64>,
}

impl Pipe {
    /// That of a link that begins.
    pub fn new(now_us: u64) -> Self {
        let (data, told, is_full, ends_us) = (0, 0, false, None);
        Self { lanes: Lanes::default(), heard_us: now_us, said_us: now_us, data, told, is_full, ends_us }
    }

    /// Puts a record into a lane.
    ///
    /// # Errors
    /// It has no room.
    pub fn put(&mut self, lane: Lane, record: Vec<u8>, now_us: u64) -> Result<(), Full> {
        self.said_us = now_us;
        self.lanes.put(lane, record)
    }

    /// As [`Links::send`].
    pub fn send(&mut self, lane: Lane, message: &Message<'_>, now_us: u64) {
        self.write(lane, (Vec::new(), message), now_us);
    }

    /// As [`Links::open`].
    pub fn open(&mut self, lane: Lane, message: &Message<'_>, now_us: u64) {
        self.write(lane, (vec![LINK], message), now_us);
    }

    fn write(&mut self, lane: Lane, (mut record, message): (Vec<u8>, &Message<'_>), now_us: u64) {
        message.write(&mut record);
        if self.put(lane, record, now_us).is_err() {
            // The next look ends it.
            self.is_full = true;
        }
    }

    /// As [`Links::refuse`].
    pub fn refuse(&mut self, why: String, now_us: u64) {
        self.send(Lane::Control, &Message::Refuse { why }, now_us);
        self.ends_us = Some(now_us + PART_US);
    }

    /// As [`Links::send_data`].
    pub fn send_data(&mut self, waiting: &mut Sending, now_us: u64) {
        while let Some(record) = waiting.next_record(self.lanes.room(Lane::Data)) {
            self.put(Lane::Data, record, now_us).expect("there is room");
        }
    }

    /// Takes the record that goes next.
    pub fn take_next(&mut self) -> Option<Vec<u8>> {
        self.lanes.take_next()
    }

    /// Something has come whole of the other end.
    pub fn on_heard(&mut self, now_us: u64) {
        self.heard_us = now_us;
    }

    /// A record has come whole.
    pub fn on_record(&mut self, record: &[u8]) {
        self.data += u64::from(Message::is_data(record));
    }

    /// To be called each [`LOOK_US`]: a link that is up says that it lives.
    ///
    /// # Errors
    /// The link is of no use any more, and why.
    pub fn look(&mut self, is_up: bool, now_us: u64) -> Result<(), End> {
        if now_us.saturating_sub(self.heard_us) >= DEAD_US {
            return Err(End::Silent);
        }
        if self.ends_us.is_some_and(|ends_us| ends_us <= now_us) {
            return Err(End::Broken("it was refused".to_owned()));
        }
        let full = || End::Broken("it does not read".to_owned());
        if self.is_full {
            return Err(full());
        }
        let is_silent = now_us.saturating_sub(self.said_us) + LOOK_US > BEAT_US;
        if is_up && (is_silent || self.data - self.told >= UNTOLD_MAX) {
            self.told = self.data;
            let mut beat = Vec::new();
            Message::Beat { heard: self.data }.write(&mut beat);
            self.put(Lane::Control, beat, now_us).map_err(|_| full())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(pipe: &mut Pipe) -> Option<Vec<u8>> {
        pipe.take_next()
    }

    #[test]
    fn who_says_nothing_else_beats_and_who_hears_nothing_gives_up() {
        let mut pipe = Pipe::new(0);
        pipe.on_record(&[6, 0]);
        for look_us in (0..DEAD_US).step_by(LOOK_US as usize) {
            pipe.look(false, look_us).unwrap();
            assert_eq!(next(&mut pipe), None, "it is not up");
        }
        pipe.look(true, DEAD_US - 1).unwrap();
        assert_eq!(next(&mut pipe).as_deref(), Some(&[5, 1, 0, 0, 0, 0, 0, 0, 0][..]));
        pipe.look(true, DEAD_US - 1).unwrap();
        assert_eq!(next(&mut pipe), None, "it has just said something");
        assert_eq!(pipe.look(true, DEAD_US), Err(End::Silent));
        pipe.on_heard(DEAD_US);
        pipe.look(true, 2 * DEAD_US - 1).unwrap();
    }

    #[test]
    fn one_that_is_refused_is_told_why_and_ends_though_it_goes_on_to_say_something() {
        let mut pipe = Pipe::new(0);
        pipe.refuse("no".to_owned(), 0);
        assert_eq!(next(&mut pipe).as_deref(), Some(&[3, b'n', b'o'][..]));
        pipe.look(true, PART_US - 1).unwrap();
        pipe.on_heard(PART_US);
        assert_eq!(pipe.look(true, PART_US), Err(End::Broken("it was refused".into())));
    }

    #[test]
    fn who_tells_much_hears_sooner_that_it_came() {
        let mut pipe = Pipe::new(0);
        let mut looks = |records: u64| {
            (0..records).for_each(|_| pipe.on_record(&[6]));
            pipe.look(true, 0).unwrap();
            next(&mut pipe).is_some()
        };
        let said = [UNTOLD_MAX - 1, 1, UNTOLD_MAX - 1, 0, 1].map(&mut looks);
        assert_eq!(said, [false, true, false, false, true]);
    }

    #[test]
    fn one_that_lets_too_much_wait_is_of_no_use() {
        let mut pipe = Pipe::new(DEAD_US);
        let why = "x".repeat(1_000);
        for _ in 0..300 {
            pipe.send(Lane::Control, &Message::Refuse { why: why.clone() }, DEAD_US);
        }
        assert_eq!(pipe.look(true, DEAD_US), Err(End::Broken("it does not read".into())));
    }
}
