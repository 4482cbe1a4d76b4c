//! A worker on a bench: scripts in, a readable log out. One command a line:
//! `session`, `welcome [credit N] [epoch N] [farm N]`, `offer ATTEMPT LO+UNITS [job N] [slots N] [memory N] [halves N]` (of cards) `[kind N]`,
//! `part SLOT ATTEMPT LO+UNITS`, `device SLOT STATE`,
//! `end SLOT ATTEMPT`, `ack FIRST LAST`, `answer [epoch N]`, `revoke JOB graceful|forced BEFORE`, `drain`, `bytes HEX`,
//! `at MS`. What the scheduler says comes by a session with its last welcome's incarnation, or with `by N`.
#![allow(dead_code)] // each test file uses some of it

use std::fmt::Write as _;

use starfarm_protocol::devices::{DeviceState, SlotKind};
use starfarm_protocol::ids::{Attempt, Boot, ContentHash, Epoch, FarmId, JobId, from_hex};
use starfarm_protocol::limits::PROTOCOL_VERSION;
use starfarm_protocol::resources::{GPU_PARTS, Resource, Resources};
use starfarm_protocol::wire::{
    Cancel, HeartbeatAnswer, Message, Offer, Outcome, Pace, Packer, Revoke, Welcome, messages,
};
use starfarm_worker_core::{Config, Deed, Known, Limits, Part, Worker};

pub const FARM: FarmId = FarmId([1; 16]);

pub fn config(slots: u16) -> Config {
    Config {
        devices: Vec::new(),
        boot: Boot(1),
        slots,
        memory_bytes: 0,
        gpus: 0,
        queue_tasks_max: 8,
        receive_datagrams_max: 92,
        heartbeat_us: 1_000_000,
        seed: 1,
        died_running: Vec::new(),
        farm: FARM,
        known: Known::NONE,
        facts: None,
        limits: Limits::default(),
    }
}

pub fn spec(job: JobId) -> ContentHash {
    ContentHash([job.0 as u8; 32])
}

pub fn packed(pack: impl FnOnce(&mut Packer)) -> Vec<u8> {
    let mut packer = Packer::new();
    pack(&mut packer);
    packer.finish().concat()
}

pub fn welcome(credit: u16, epoch: u64) -> Welcome {
    let (version, proof) = (PROTOCOL_VERSION, [epoch as u8; 16]);
    Welcome { farm: FARM, epoch: Epoch(epoch), heartbeat_ms: 1_000, credit, version, proof }
}

pub struct Bench {
    pub worker: Worker,
    pub now_us: u64,
    pub log: String,
    /// The log tells of loads and facts too.
    pub tells: bool,
    last_heartbeat: u32,
    /// The incarnation that the present session was made with.
    epoch: u64,
}

impl Bench {
    pub fn new(config: Config) -> Self {
        let (worker, log) = (Worker::new(config, 0), String::new());
        Self { worker, now_us: 0, log, tells: false, last_heartbeat: 0, epoch: 1 }
    }

    /// Runs the script and what falls due on the way; the log since the last call comes back.
    pub fn run(&mut self, script: &str) -> String {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            self.command(&words);
            self.due();
        }
        std::mem::take(&mut self.log)
    }

    fn command(&mut self, words: &[&str]) {
        let now = self.now_us;
        let mut deeds = Vec::new();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let named = |name: &str, default: u64| {
            words.iter().position(|w| *w == name).map_or(default, |at| words[at + 1].parse().unwrap())
        };
        let interval = |at: usize| {
            let (lo, units) = words[at].split_once('+').unwrap();
            (lo.parse::<u128>().unwrap(), units.parse::<u64>().unwrap())
        };
        let job = JobId(named("job", 1));
        if words[0] == "welcome" {
            self.epoch = named("epoch", 1);
        }
        let by = Epoch(named("by", self.epoch));
        match words[0] {
            "session" => self.worker.on_session(now, &mut deeds),
            "welcome" => {
                let mut welcome = welcome(named("credit", 8) as u16, named("epoch", 1));
                welcome.farm = FarmId([named("farm", 1) as u8; 16]);
                self.worker.on_datagram(&packed(|p| p.welcome(&welcome)), by, now, &mut deeds);
            }
            "pace" => {
                let [idle_ms, reconnect_ms, period_ms] = [1, 2, 3].map(|at| number(at) as u32);
                let pace = Pace { idle_ms, reconnect_ms, period_ms };
                self.worker.on_datagram(&packed(|p| p.pace(&pace)), by, now, &mut deeds);
            }
            "offer" => {
                let ((lo, units), attempt) = (interval(2), Attempt(number(1)));
                let offer = Offer { job, spec: spec(job), attempt, lo, units };
                let kind = SlotKind(named("kind", 0) as u8);
                let run = Resources::new(named("slots", 1) as u16, named("memory", 0))
                    .with(Resource::Gpus, named("halves", 0) * GPU_PARTS / 2);
                self.worker.on_datagram(&packed(|p| p.offer_of(&offer, run, kind)), by, now, &mut deeds);
            }
            "part" => {
                let ((lo, units), attempt) = (interval(3), Attempt(number(2)));
                let (duration_us, outcome) = (1_000_000, Outcome::Done);
                let body = Vec::new();
                let part = Part { job, spec: spec(job), attempt, lo, units, duration_us, outcome, body };
                self.worker.on_part(number(1) as u16, part, now, &mut deeds);
            }
            "end" => self.worker.on_task_end(number(1) as u16, Attempt(number(2)), now, &mut deeds),
            "ack" => {
                let ranges = [(number(1), number(2))];
                let credit = named("credit", 8) as u16;
                self.worker.on_datagram(&packed(|p| p.result_ack(credit, &ranges)), by, now, &mut deeds);
            }
            "answer" => {
                let (number, epoch) = (self.last_heartbeat, Epoch(named("epoch", 1)));
                let answer = HeartbeatAnswer { number, credit: 8, epoch };
                self.worker.on_datagram(&packed(|p| p.heartbeat_answer(&answer)), by, now, &mut deeds);
            }
            "revoke" => {
                let cancel = if words[2] == "forced" { Cancel::Forced } else { Cancel::Graceful };
                let revoke = Revoke { job: JobId(number(1)), cancel, before: Attempt(number(3)) };
                self.worker.on_datagram(&packed(|p| p.revoke(&revoke)), by, now, &mut deeds);
            }
            "device" => {
                let state = DeviceState::from_word(words[2]).unwrap();
                self.worker.on_device(number(1) as u16, state, now, &mut deeds);
            }
            "drain" => self.worker.drain(now, &mut deeds),
            "bytes" => self.worker.on_datagram(&from_hex(words[1]).unwrap(), by, now, &mut deeds),
            "at" => self.advance(number(1) * 1_000),
            other => panic!("unknown command `{other}`"),
        }
        self.note(deeds);
    }

    fn advance(&mut self, to_us: u64) {
        while self.worker.next_deadline() <= to_us {
            self.now_us = self.now_us.max(self.worker.next_deadline());
            self.due();
        }
        self.now_us = to_us;
    }

    fn due(&mut self) {
        for _ in 0..100 {
            if self.worker.next_deadline() > self.now_us {
                return;
            }
            let mut deeds = Vec::new();
            self.worker.on_tick(self.now_us, &mut deeds);
            self.note(deeds);
        }
        panic!("a tick must do what is due: {:?}", self.worker);
    }

    fn note(&mut self, deeds: Vec<Deed>) {
        for deed in deeds {
            let text = match &deed {
                Deed::Send(datagram) => format!("send {}", self.datagram(datagram)),
                Deed::Start { slot, tasks, cards } => {
                    let tasks: Vec<_> =
                        tasks.iter().map(|t| format!("{}={}+{}", t.attempt.0, t.lo, t.units)).collect();
                    let cards = if cards.is_empty() { String::new() } else { format!(" on cards {cards:?}") };
                    format!("start on {slot}: {}{cards}", tasks.join(" "))
                }
                Deed::Cancel { slot, job, how } => {
                    let how = if *how == Cancel::Forced { "forced" } else { "graceful" };
                    format!("cancel {slot} job {} {how}", job.0)
                }
                Deed::Remember(known) => format!("remember {}", known.epoch.0),
                Deed::Say(words) => format!("say {}", words.split(',').next().unwrap()),
                other => format!("{other:?}"),
            };
            writeln!(self.log, "{}: {text}", self.now_us / 1_000).unwrap();
        }
    }

    fn datagram(&mut self, datagram: &[u8]) -> String {
        let said: Vec<_> = messages(datagram).filter_map(|message| self.said(message.unwrap())).collect();
        said.join("; ")
    }

    fn said(&mut self, message: Message<'_>) -> Option<String> {
        let said = match message {
            Message::Hello(hello) => match hello.known_epoch.0 {
                0 => format!("hello slots {}", hello.slots),
                known => format!("hello slots {} knows {known} by {}", hello.slots, hello.known_proof[0]),
            },
            Message::TaskAck(ranges) => format!("ack {:?}", ranges.collect::<Vec<_>>()),
            Message::Results(results) => {
                let results = results.map(Result::unwrap);
                let results =
                    results.map(|r| format!("#{} {:?} {}+{}", r.sequence, r.outcome, r.lo, r.units));
                format!("results {}", results.collect::<Vec<_>>().join(", "))
            }
            Message::Feedback(f) => format!("faster {} slower {}", f.speed_ups, f.slow_downs),
            Message::Heartbeat(beat) => {
                self.last_heartbeat = beat.number;
                let held: Vec<_> =
                    beat.held.iter().map(|h| format!("{}:{}+{}", h.job.0, h.lo, h.units)).collect();
                let draining = if beat.draining { " draining" } else { "" };
                format!(
                    "beat {} waiting {} holds [{}]{draining}",
                    beat.number,
                    beat.queued_tasks,
                    held.join(" ")
                )
            }
            Message::Devices(of) => {
                let slots: Vec<_> = of.slots.iter().map(|(state, load)| format!("{state} {load}")).collect();
                format!("devices {} waiting {} [{}]", of.kind.0, of.queued_tasks, slots.join(", "))
            }
            Message::SlotKind(kind) => format!("of {}", kind.0),
            Message::Bye => "bye".to_owned(),
            Message::Ages(ages) => format!("ages {:?}", ages.collect::<Vec<_>>()),
            Message::TimeLeft(left) => {
                format!("left {} ms, work {}", left.left_us / 1_000, left.work_us / 1_000)
            }
            Message::Load(_) | Message::Facts(_) | Message::Has(_) if !self.tells => return None,
            Message::Load(load) => format!("load {:?} idle {} ms", load.slots, load.idle_us / 1_000),
            Message::Has(has) => format!("has {has:?}"),
            Message::Facts(facts) => format!("facts {}", facts.system),
            other => panic!("a worker does not say {other:?}"),
        };
        Some(said)
    }
}
