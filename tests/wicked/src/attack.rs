//! What a wicked or broken worker does. Each of these has been done to a farm by one rightful key.

use clap::ValueEnum;
use starfarm_protocol::ids::{Boot, ContentHash, JobId};
use starfarm_protocol::limits::PROTOCOL_VERSION;
use starfarm_protocol::wire::{
    CommandUnit, Facts, Feedback, Heartbeat, Held, Hello, HitEntry, Offer, Outcome, Outputs, Packer, Stream,
};

/// Units that are named beyond those that were offered.
const FAR: u128 = 1 << 20;
/// Jobs that do not exist begin here.
const NO_JOB: u64 = 1 << 40;
/// Changes of its facts that one datagram tells of.
const FACTS: u64 = 3;

/// Programs that one result tells of ...
const OUTCOMES: u64 = 16;
/// ... and results that tell of a speed that is none.
const FAST: u64 = 40;

/// What is said of a task.
pub(crate) struct Answer {
    pub(crate) lo: u128,
    pub(crate) units: u64,
    pub(crate) outcome: Outcome,
    pub(crate) duration_us: u64,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// All of it is done.
    fn done(offer: &Offer, body: Vec<u8>) -> Self {
        Self { lo: offer.lo, units: offer.units, outcome: Outcome::Done, duration_us: 1_000, body }
    }
}

/// What is said unasked.
pub(crate) enum Said {
    /// A result, as if that had been offered.
    Result(Offer, Answer),
    /// Something else.
    Messages(Packer),
    /// The first words of another incarnation, in a session of its own.
    Incarnation(Boot, Packer),
    /// Bytes that need not be messages.
    Datagram(Vec<u8>),
}

/// What the worker knows.
pub(crate) struct Known {
    pub(crate) boot: Boot,
    /// Results that it sent.
    pub(crate) answered: u64,
    /// The last task that it was offered.
    pub(crate) last_offer: Option<Offer>,
}

/// An attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Attack {
    /// Results full of hits that are none
    FalseHits,
    /// A false hit, after a result that counts
    FirstHit,
    /// Units that others have are done, without hits
    Steal,
    /// Every second unit is done, the others are given back
    Pieces,
    /// Every second unit is done, the others are kept
    Gaps,
    /// Bodies that nobody can read
    Bodies,
    /// Outputs that were never stored
    Outputs,
    /// Heartbeats that name ever-new jobs that do not exist
    UnknownJobs,
    /// Heartbeats that claim all units of all jobs
    ClaimAll,
    /// Ever-new incarnations, each of which names units that killed the one before
    Boots,
    /// Ever-new facts about its machine
    Facts,
    /// Totals of requests that jump
    Totals,
    /// Programs that took no time at all; then nothing comes back
    LyingSpeed,
    /// Ever-new contents that no result names
    Contents,
    /// The same claims, made to a scheduler that has just come back
    Overclaims,
    /// Heartbeats that are cut short
    Malformed,
    /// Each task is refused, with words that steer a terminal
    Escapes,
    /// All is done, without a hit: noticed where a search asks for trust checks
    LeavesOut,
    /// Handshakes of its own key under ever-new names
    Renames,
    /// Handshakes of ever-new keys, each of which says hello once
    Joins,
}

impl Attack {
    /// All that any job notices.
    pub const ALL: [Self; 18] = [
        Self::FalseHits,
        Self::FirstHit,
        Self::Steal,
        Self::Pieces,
        Self::Bodies,
        Self::Outputs,
        Self::UnknownJobs,
        Self::ClaimAll,
        Self::Boots,
        Self::Facts,
        Self::Totals,
        Self::LyingSpeed,
        Self::Contents,
        Self::Overclaims,
        Self::Malformed,
        Self::Escapes,
        Self::Renames,
        Self::Joins,
    ];

    /// Its name on a command line.
    pub fn name(self) -> String {
        let value = self.to_possible_value().expect("each attack can be asked for");
        value.get_name().to_owned()
    }

    /// It is done to programs.
    pub(crate) fn is_on_programs(self) -> bool {
        matches!(self, Self::Outputs | Self::LyingSpeed | Self::Contents)
    }

    /// It is done to a scheduler that has just come back.
    pub(crate) fn is_after_a_restart(self) -> bool {
        self == Self::Overclaims
    }

    /// Somebody who looks at the node is told of it. A worker that is slow, has much stored at one time or refuses a job
    /// breaks no rule, and whoever is refused at the door is no node.
    pub(crate) fn is_told_of(self) -> bool {
        !matches!(self, Self::LyingSpeed | Self::Contents | Self::Escapes | Self::Renames | Self::Joins)
    }

    /// What is said again and again is said so often each second. As fast as one key has been seen to do it: 0.9 million
    /// false hits, 160 000 incarnations, 21 MB of facts.
    pub(crate) fn rounds_a_second(self) -> u64 {
        if self == Self::FalseHits { 10_000 } else { 20_000 }
    }

    /// What is said of a task that was offered; none where it is kept.
    pub(crate) fn answer(self, known: &Known, offer: &Offer) -> Vec<Answer> {
        let done = |body| vec![Answer::done(offer, body)];
        match self {
            Self::FalseHits => done(hits((0..90).map(|at| HitEntry { offset: at % offer.units, target: 0 }))),
            Self::LeavesOut => done(Vec::new()),
            Self::FirstHit if known.answered < 1 => done(Vec::new()),
            Self::FirstHit => done(hits([HitEntry { offset: 0, target: 0 }])),
            Self::Pieces => pieces(offer),
            Self::Gaps => gaps(offer),
            Self::Bodies => done(vec![1, 2, 3, 4, 5]),
            Self::Outputs => {
                let stored = |unit: u128| {
                    let hash = ContentHash::of(&unit.to_le_bytes());
                    Stream::Uploaded { hash, kept: 600, total: 600 }
                };
                done(outcomes(offer, stored))
            }
            Self::LyingSpeed if known.answered < FAST => {
                let all = (offer.lo..offer.hi()).step_by(OUTCOMES as usize);
                let parts =
                    all.map(|lo| Offer { lo, units: OUTCOMES.min((offer.hi() - lo) as u64), ..*offer });
                let nothing = |part: &Offer| outcomes(part, |_| Stream::Inline(Vec::new()));
                parts.map(|part| Answer { duration_us: 1, ..Answer::done(&part, nothing(&part)) }).collect()
            }
            Self::Escapes => {
                let body = b"\x1b]0;mine\x07\x1b[2J\x1b[1;1Hall is well\r\n".to_vec();
                vec![Answer { outcome: Outcome::Refused, ..Answer::done(offer, body) }]
            }
            _ => Vec::new(),
        }
    }

    /// What is said again and again, as fast as the caller likes; none where nothing is.
    pub(crate) fn go_on(self, known: &Known, round: u64) -> Option<Said> {
        let mut packer = Packer::new();
        // As good as any number: these have no more parts.
        let beat = |held| Heartbeat { number: round as u32, parts: 1, held, ..Heartbeat::default() };
        match self {
            Self::FalseHits | Self::Steal => {
                let last = known.last_offer?;
                let units = if self == Self::Steal { 1 + round % 50 } else { 1 };
                let offer = Offer { lo: u128::from(round * units) % (last.hi() + FAR), units, ..last };
                let body = match self {
                    Self::Steal => Vec::new(),
                    _ => hits((0..90).map(|target| HitEntry { offset: 0, target })),
                };
                return Some(Said::Result(offer, Answer::done(&offer, body)));
            }
            Self::UnknownJobs => {
                let unknown = |n| Held { job: JobId(NO_JOB + round * 40 + n), lo: 0, units: 1 };
                packer.heartbeat(&beat((0..40).map(unknown).collect()));
            }
            Self::ClaimAll | Self::Overclaims => {
                let all = |job| Held { job: JobId(job), lo: 0, units: u64::MAX };
                packer.heartbeat(&beat((1..=40).map(all).collect()));
            }
            Self::Malformed => {
                packer
                    .heartbeat(&beat((0..40).map(|n| Held { job: JobId(1), lo: n * 2, units: 1 }).collect()));
                let mut datagram = packer.finish().swap_remove(0);
                datagram.truncate(1 + round as usize % (datagram.len() - 1));
                return Some(Said::Datagram(datagram));
            }
            Self::Boots => {
                let other = another(known.boot, round);
                packer.hello(&other);
                return Some(Said::Incarnation(other.boot, packer));
            }
            Self::Facts => (0..FACTS).for_each(|nth| packer.facts(&facts(round * FACTS + nth))),
            Self::Totals => {
                let jump = (round as u32).wrapping_mul(0x7fff_ffff);
                packer.feedback(&Feedback { speed_ups: jump, slow_downs: jump / 3 });
            }
            Self::FirstHit
            | Self::LeavesOut
            | Self::Pieces
            | Self::Gaps
            | Self::Bodies
            | Self::Outputs
            | Self::LyingSpeed
            | Self::Contents
            | Self::Escapes
            | Self::Renames
            | Self::Joins => return None,
        }
        Some(Said::Messages(packer))
    }
}

/// Every second unit of the first ones is done, the rest is given back.
fn pieces(offer: &Offer) -> Vec<Answer> {
    let few = offer.hi().min(offer.lo + 64);
    let piece = |lo: u128, hi: u128, outcome| Answer {
        lo,
        units: (hi - lo) as u64,
        outcome,
        ..Answer::done(offer, Vec::new())
    };
    let first = (offer.lo..few)
        .map(|unit| piece(unit, unit + 1, if unit % 2 == 0 { Outcome::Done } else { Outcome::Returned }));
    let rest = (few < offer.hi()).then(|| piece(few, offer.hi(), Outcome::Returned));
    first.chain(rest).collect()
}

/// The hello of an incarnation, which says that the one before died of units.
fn another(first: Boot, nth: u64) -> Hello {
    Hello {
        boot: Boot(first.0 + 1 + nth),
        died_running: (0..32).map(|at| (JobId(1 + nth % 3), u128::from(nth * 32 + at))).collect(),
        ..hello(first)
    }
}

fn facts(nth: u64) -> Facts {
    Facts {
        system: format!("{nth} {}", "x".repeat(110)),
        cpu: "\u{1b}[2Jx".repeat(20),
        cores: nth as u32,
        memory_bytes: nth,
        accelerators: "y".repeat(120),
    }
}

/// Every second unit of a task is done.
fn gaps(offer: &Offer) -> Vec<Answer> {
    let units = (offer.lo + 1..offer.hi()).step_by(2);
    units.map(|lo| Answer { lo, units: 1, ..Answer::done(offer, Vec::new()) }).collect()
}

/// What any worker says first.
pub(crate) fn hello(boot: Boot) -> Hello {
    Hello {
        version: PROTOCOL_VERSION,
        boot,
        slots: 2,
        queue_tasks_max: 4_096,
        receive_datagrams_max: 92,
        known_epoch: starfarm_protocol::ids::Epoch(0),
        known_proof: [0; 16],
        died_running: Vec::new(),
    }
}

/// The first programs of a task passed, and each wrote something.
fn outcomes(offer: &Offer, stdout: impl Fn(u128) -> Stream) -> Vec<u8> {
    let mut body = Vec::new();
    for unit in offer.lo..offer.hi().min(offer.lo + u128::from(OUTCOMES)) {
        let outputs = Outputs { files: None, stdout: stdout(unit), stderr: Stream::Inline(Vec::new()) };
        CommandUnit { units: 1, failed: None, code: 0, duration_us: 1, outputs }.write(&mut body);
    }
    body
}

fn hits(entries: impl IntoIterator<Item = HitEntry>) -> Vec<u8> {
    let mut body = Vec::new();
    entries.into_iter().for_each(|entry| entry.write(&mut body));
    body
}
