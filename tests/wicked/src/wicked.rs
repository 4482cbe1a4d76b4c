//! The worker: it joins, acknowledges offers and beats as a good one does, so that it is given work.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use starfarm_protocol::ids::{Attempt, Boot, JobId};
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::seal::StaticKey;
use starfarm_protocol::wire::{Feedback, Heartbeat, Held, Message, Offer, Packer, ResultEntry, messages};

use crate::attack::{Answer, Attack, Known, Said, hello};
use crate::beside::Beside;
use crate::member::Member;

/// A heartbeat is sent so often.
const BEAT: Duration = Duration::from_millis(500);
/// What is said again and again is said in bursts of at most so many datagrams ...
const BURST: u64 = 64;
/// ... with a pause between two.
const PAUSE: Duration = Duration::from_millis(1);
/// Intervals that a heartbeat lists.
const HELD_MAX: usize = 40;

/// What it did.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Datagrams sent.
    pub sent: u64,
    /// Tasks that it was offered.
    pub offers: u64,
    /// Results that it sent.
    pub results: u64,
    /// What it did beside that: contents that it had stored or keys that it let in, and how often it was refused.
    pub beside: (u64, u64),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, offers, results, beside: (taken, refused) } = self;
        write!(f, "{sent} datagrams sent, {offers} tasks offered, {results} results sent, ")?;
        write!(f, "{taken} contents or keys taken, {refused} refused")
    }
}

/// A wicked worker.
#[expect(missing_debug_implementations, reason = "it holds keys")]
pub struct Wicked {
    member: Member,
    beside: Option<Beside>,
    attack: Attack,
    known: Known,
    welcomed: bool,
    beats: u32,
    offers: u64,
    /// What it holds and says nothing of.
    held: BTreeMap<(JobId, u128), u64>,
    seen: BTreeSet<Attempt>,
    out: Packer,
}

impl Wicked {
    /// Joins the farm of a join file.
    ///
    /// # Errors
    /// The file cannot be read, nobody answers, or the scheduler refuses.
    pub fn join(join: &JoinFile, name: &str, attack: Attack) -> io::Result<Self> {
        let key = StaticKey::generate().map_err(|e| io::Error::other(e.to_string()))?;
        let boot = Boot(7);
        let address = reachable(join)?;
        let mut member = Member::join((join, address), &key, name, boot)?;
        // The key has its name from its first word on.
        let mut first = Packer::new();
        first.hello(&hello(boot));
        member.say(&first.finish());
        let beside = Beside::begin(attack, (join, address), (&key, name), boot)?;
        Ok(Self {
            member,
            beside,
            attack,
            known: Known { boot, answered: 0, last_offer: None },
            welcomed: false,
            beats: 0,
            offers: 0,
            held: BTreeMap::new(),
            seen: BTreeSet::new(),
            out: Packer::new(),
        })
    }

    /// Does its worst for so long, then leaves.
    pub fn run(mut self, lasts: Duration) -> Report {
        let (start, mut beat_at, mut round, mut late) = (Instant::now(), Instant::now(), 0, 0);
        while start.elapsed() < lasts {
            for (_, datagram) in self.member.hear() {
                self.heard(&datagram);
            }
            if Instant::now() >= beat_at {
                beat_at += BEAT;
                self.beat();
            }
            let due = (start.elapsed().as_secs_f64() * self.attack.rounds_a_second() as f64) as u64;
            let burst = if self.welcomed { (due - round - late).min(BURST) } else { 0 };
            for _ in 0..burst {
                match self.attack.go_on(&self.known, round) {
                    None => break,
                    Some(Said::Result(offer, answer)) => self.result(&offer, &answer),
                    Some(Said::Messages(mut packer)) => self.member.say(&packer.finish()),
                    Some(Said::Incarnation(boot, mut packer)) => {
                        // Without an answer it tries the next one.
                        if self.member.shake_hands(boot).is_ok() {
                            self.member.say(&packer.finish());
                        }
                    }
                    Some(Said::Datagram(bytes)) => self.member.say(&[bytes]),
                }
                round += 1;
            }
            // What it is too late for is not made good.
            late = due - round;
            self.flush();
            std::thread::sleep(PAUSE);
        }
        self.out.bye();
        self.flush();
        let beside = self.beside.map_or((0, 0), Beside::end);
        Report { sent: self.member.sent, offers: self.offers, results: self.known.answered, beside }
    }

    fn heard(&mut self, datagram: &[u8]) {
        for message in messages(datagram).flatten() {
            match message {
                Message::Welcome(_) => self.welcomed = true,
                Message::Offers(offers) => {
                    for offer in offers.flatten() {
                        self.out.task_ack(&[(offer.attempt.0, offer.attempt.0)]);
                        if self.seen.insert(offer.attempt) {
                            self.offers += 1;
                            self.known.last_offer = Some(offer);
                            self.take(&offer);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn beat(&mut self) {
        if !self.welcomed {
            self.out.hello(&hello(self.known.boot));
            self.out.feedback(&Feedback::default());
        }
        self.beats += 1;
        let held = self.held.iter().map(|(&(job, lo), &units)| Held { job, lo, units });
        let held: Vec<Held> = held.take(HELD_MAX).collect();
        self.out.heartbeat(&Heartbeat { number: self.beats, parts: 1, held, ..Heartbeat::default() });
        self.flush();
    }

    /// It has a task: it says what it has to say, or keeps it and lists it.
    fn take(&mut self, offer: &Offer) {
        let answers = self.attack.answer(&self.known, offer);
        if answers.is_empty() {
            self.held.insert((offer.job, offer.lo), offer.units);
        }
        answers.iter().for_each(|answer| self.result(offer, answer));
    }

    fn result(&mut self, offer: &Offer, answer: &Answer) {
        let &Answer { lo, units, outcome, duration_us, ref body } = answer;
        let Offer { job, spec, attempt, .. } = *offer;
        self.known.answered += 1;
        let sequence = self.known.answered;
        self.out.result(&ResultEntry { job, spec, sequence, attempt, lo, units, duration_us, outcome, body });
    }

    fn flush(&mut self) {
        if !self.out.is_empty() {
            let datagrams = self.out.finish();
            self.member.say(&datagrams);
        }
    }
}

/// The first address of the join file that the system knows.
pub(crate) fn reachable(join: &JoinFile) -> io::Result<SocketAddr> {
    let mut known = join.addresses.iter().filter_map(|address| address.to_socket_addrs().ok()?.next());
    known.next().ok_or_else(|| io::Error::other("the join file has no address that this machine knows"))
}
