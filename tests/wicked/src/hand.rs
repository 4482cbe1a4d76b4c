//! A worker by hand: it acknowledges offers and beats, so that the scheduler counts on it, and says beside that what a
//! test tells it to say.

use std::io;
use std::time::{Duration, Instant};

use starfarm_protocol::ids::Boot;
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::seal::StaticKey;
use starfarm_protocol::wire::{
    CommandUnit, Heartbeat, Held, Hello, Message, Offer, Outcome, Outputs, Packer, ResultEntry, Stream,
    messages,
};

use crate::attack::hello;
use crate::member::Member;
use crate::wicked::reachable;

/// A heartbeat is sent so often.
const BEAT: Duration = Duration::from_millis(300);
/// Between two looks at what has come.
const LOOK: Duration = Duration::from_millis(5);
/// What does not come within this does not come.
const GUARD: Duration = Duration::from_secs(100);

/// A worker by hand.
#[expect(missing_debug_implementations, reason = "it holds keys")]
pub struct Hand {
    /// Its sessions.
    pub member: Member,
    /// What it says first.
    pub hello: Hello,
    /// What its heartbeats list.
    pub held: Vec<Held>,
    /// It beats.
    pub beats: bool,
    /// It acknowledges offers.
    pub acknowledges: bool,
    /// Datagrams that came, each with its session, since it forgot them last.
    pub heard: Vec<(usize, Vec<u8>)>,
    number: u32,
    beat_at: Instant,
}

impl Hand {
    /// Shakes hands with the scheduler of a join file, and says nothing yet.
    ///
    /// # Errors
    /// Nobody answers, or the scheduler refuses; the words are its own.
    pub fn shake(join: &JoinFile, key: &StaticKey, name: &str) -> io::Result<Self> {
        let boot = Boot(7);
        let member = Member::join((join, reachable(join)?), key, name, boot)?;
        let (held, heard) = (Vec::new(), Vec::new());
        let (beats, acknowledges) = (false, true);
        Ok(Self {
            member,
            hello: hello(boot),
            held,
            beats,
            acknowledges,
            heard,
            number: 0,
            beat_at: Instant::now(),
        })
    }

    /// Joins with a new key and is welcomed.
    ///
    /// # Panics
    /// It is not.
    pub fn join(join: &JoinFile, name: &str, say: impl FnOnce(&mut Hello)) -> Self {
        let key = StaticKey::generate().expect("the system has random numbers");
        let mut hand = Self::shake(join, &key, name).unwrap_or_else(|error| panic!("{name}: {error}"));
        say(&mut hand.hello);
        hand.greet();
        hand.beats = true;
        hand
    }

    /// Says hello, and waits for the welcome.
    ///
    /// # Panics
    /// There is none.
    pub fn greet(&mut self) {
        let (hello, newest) = (self.hello.clone(), self.member.newest());
        self.say(|packer| packer.hello(&hello));
        self.wait("a welcome", |session, message| {
            (session == newest && matches!(message, Message::Welcome(_))).then_some(())
        });
    }

    /// Says something in the newest session.
    pub fn say(&mut self, say: impl FnOnce(&mut Packer)) {
        self.member.say(&packed(say));
    }

    /// Says something in that session, counted from the first one.
    pub fn say_by(&mut self, session: usize, say: impl FnOnce(&mut Packer)) {
        self.member.say_by(session, &packed(say));
    }

    /// Units are done, as result `sequence`: those from `lo` on of the job of an offer.
    pub fn done(&mut self, sequence: u64, offer: &Offer, (lo, units): (u128, u64)) {
        let entry = entry(sequence, offer, (lo, units));
        let body = passed(units);
        self.say(|packer| packer.result(&ResultEntry { body: &body, ..entry }));
    }

    /// Listens for so long.
    pub fn listen(&mut self, lasts: Duration) {
        let start = Instant::now();
        while start.elapsed() < lasts {
            self.look();
        }
    }

    /// Listens until something has come that is looked for, with its session; what came before counts too.
    ///
    /// # Panics
    /// It does not come.
    pub fn wait<T>(&mut self, what: &str, mut find: impl FnMut(usize, &Message<'_>) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = self.seen(&mut find).into_iter().next() {
                return found;
            }
            assert!(start.elapsed() < GUARD, "waited in vain for {what}");
            self.look();
        }
    }

    /// All that has come and is looked for.
    pub fn seen<T>(&self, mut find: impl FnMut(usize, &Message<'_>) -> Option<T>) -> Vec<T> {
        let mut found = Vec::new();
        for (session, datagram) in &self.heard {
            found.extend(messages(datagram).flatten().filter_map(|message| find(*session, &message)));
        }
        found
    }

    /// Offers that have come, each once.
    pub fn offers(&self) -> Vec<Offer> {
        offers_in(&self.heard)
    }

    /// Waits for so many offers.
    ///
    /// # Panics
    /// They do not come.
    pub fn wait_offers(&mut self, count: usize) -> Vec<Offer> {
        let start = Instant::now();
        while self.offers().len() < count {
            assert!(start.elapsed() < GUARD, "{} of {count} offers came", self.offers().len());
            self.look();
        }
        self.offers()
    }

    /// Waits until the result of that sequence is acknowledged; the session that this came by.
    ///
    /// # Panics
    /// It is not.
    pub fn wait_ack(&mut self, sequence: u64) -> usize {
        self.wait("an acknowledgement", |session, message| match message {
            Message::ResultAck(_, ranges) => {
                ranges.clone().any(|(first, last)| (first..=last).contains(&sequence)).then_some(session)
            }
            _ => None,
        })
    }

    /// Beats once, whatever is due; the heartbeat's number.
    pub fn beat(&mut self) -> u32 {
        self.number += 1;
        let (number, held) = (self.number, self.held.clone());
        self.say(|packer| packer.heartbeat(&Heartbeat { number, parts: 1, held, ..Heartbeat::default() }));
        number
    }

    fn look(&mut self) {
        let from = self.heard.len();
        self.heard.extend(self.member.hear());
        let new = offers_in(&self.heard[from..]);
        if self.acknowledges && !new.is_empty() {
            let ranges: Vec<_> = new.iter().map(|offer| (offer.attempt.0, offer.attempt.0)).collect();
            self.say(|packer| packer.task_ack(&ranges));
        }
        if self.beats && Instant::now() >= self.beat_at {
            self.beat_at = Instant::now() + BEAT;
            self.beat();
        }
        std::thread::sleep(LOOK);
    }
}

/// A done result of some units of the job of an offer, without a body.
pub fn entry(sequence: u64, offer: &Offer, (lo, units): (u128, u64)) -> ResultEntry<'static> {
    let &Offer { job, spec, attempt, .. } = offer;
    let (duration_us, outcome) = (1_000, Outcome::Done);
    ResultEntry { job, spec, sequence, attempt, lo, units, duration_us, outcome, body: &[] }
}

/// The body of programs that passed and wrote nothing.
pub fn passed(units: u64) -> Vec<u8> {
    let nothing = || Stream::Inline(Vec::new());
    let mut body = Vec::new();
    for _ in 0..units {
        let outputs = Outputs { files: None, stdout: nothing(), stderr: nothing() };
        CommandUnit { units: 1, failed: None, code: 0, duration_us: 1, outputs }.write(&mut body);
    }
    body
}

/// Datagrams of messages.
pub fn packed(say: impl FnOnce(&mut Packer)) -> Vec<Vec<u8>> {
    let mut packer = Packer::new();
    say(&mut packer);
    packer.finish()
}

fn offers_in(datagrams: &[(usize, Vec<u8>)]) -> Vec<Offer> {
    let all = datagrams.iter().flat_map(|(_, datagram)| messages(datagram).flatten());
    let lists = all.filter_map(|message| match message {
        Message::Offers(offers) => Some(offers),
        _ => None,
    });
    let mut offers: Vec<Offer> = lists.flat_map(Iterator::flatten).collect();
    offers.sort_by_key(|offer| offer.attempt);
    offers.dedup_by_key(|offer| offer.attempt);
    offers
}
