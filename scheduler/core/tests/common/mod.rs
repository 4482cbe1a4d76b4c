//! A farm on a bench: scripts in, a readable story out. This file carries scripts out; `line` reads their
//! lines, `peers` says what its nodes say, `print` words what the farm does, and `replay` doubts its records. No worker, socket or seal is here: a
//! script says what workers send. Times are milliseconds. After each line the farm takes its turn and all of it is
//! checked.
//!
//! | line | means |
//! | --- | --- |
//! | `submit N [search T targets [never/first-hit]] [command [together] retries R] [units U / target S]` | |
//! | ... `[max-failures N/never] [copies] [head/now]` | |
//! | ... `[after JOB,..] [after-any JOB,..] [max-nodes N]` | its terms |
//! | ... `[may-store BYTES]`, `stored JOB BYTES` | what its outputs may take, and what they take |
//! | ... `[takes SLOTS] [memory BYTES]` | what a run of it takes |
//! | ... `[check MILLIONTHS] [planted UNIT:TARGET,..]` | its trust checks |
//! | `submit 0 grows ...`, `grow JOB UNITS[xCOST],.. [from N] [end] [state JSON]` | a job whose units a program names |
//! | `wish JOB`, `halt JOB WORDS` | what its program is to be asked; it did wrong |
//! | `cancel/pause/resume/front/switch/delete/retry JOB`, `drain/undrain/forget/revoke NODE` | what users do |
//! | `limit JOB max-nodes/may-store N/none` | a user changes a limit |
//! | `merge JOB waiting/running/done/failed` | how the merge of its results stands, as the rim says |
//! | `join NODE slots K [queue Q] [memory BYTES]`, `hello NODE [boot B] [died UNIT]`, `session NODE`, `bye NODE`, `able NODE [TIMES]` | |
//! | ... `[version V] [knows EPOCH genuine/forged] [receives DATAGRAMS]` | what else a hello may say |
//! | ... `[left MS]`, `left NODE MS [work MS]` | it leaves by itself after that, and takes tasks for so long |
//! | `ack NODE` | the node acknowledges every offer that it has heard |
//! | `devices NODE COUNT sick COUNT` | it tells of devices, and how many of them are sick |
//! | `done/ran/return/refuse NODE LO+UNITS ...` | a result: `hits UNIT:TARGET,..`, `ok,exit3,ok*8`, words |
//! | ... `[job J] [ms DURATION] [spec S] [attempt A] [body HEX]` | what else it may say |
//! | `again NODE` | its last result, byte for byte |
//! | `beat NODE LO+UNITS,..|none [running UNIT] [queued TASKS] [draining] [job J]`, `feedback NODE UPS DOWNS` | |
//! | ... `[only PART] [same]` | one datagram of a long heartbeat; of the last one |
//! | `live [+]MS NODE HELD[/UNIT] ...` | the nodes beat every two seconds until then; answers are not printed |
//! | ... `J:LO+UNITS`, `running J:UNIT`, `died J:UNIT` | of job J, where that is not job 1 |
//! | `at MS`, `at +MS`, `stall MS` | time passes; the scheduler does nothing for so long |
//! | `hold`, `durable [N]` | records wait from now on; they are durable, now and from now on, or only the first N |
//! | `unread`, `read` | who computed what is not read from the records; it is |
//! | `checkpoint` | the next scheduler starts from this state and the records behind it |
//! | `restart [keeping N]` | the scheduler dies with all that is not durable, but for the next N records; the
//! next one starts from the records |
//! | `limits TASKS NODES [lost MS]` | the next scheduler takes its turns by so many tasks, knows so many nodes at
//! most, and waits for a silent one so long |
//! | `& LINE` | it and the next line are of one turn, and results of one node one datagram |
//! | `doubt NODE ..` | the monitoring tree hears nothing of them |
//! | `overflow` | the receive buffer dropped datagrams |
//! | `full`, `room` | the scheduler's disk is below its low-water mark; it has room again |
//! | `show JOB`, `nodes`, `tasks NODE` | prints a job, the nodes' states, how many tasks a node has |
//! | `credit NODE`, `lease JOB` | prints how many result datagrams it may have under way; up to where units may go |
#![allow(dead_code)] // each test file uses some of it

mod growth;
pub mod line;
mod peers;
pub mod print;
mod replay;
pub mod truth;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use expect_test::Expect;
use starfarm_protocol::admin::MergeState;
use starfarm_protocol::ids::{Boot, ContentHash, Epoch, FarmId, JobId};
use starfarm_protocol::limits::PROTOCOL_VERSION;
use starfarm_protocol::seal::{EpochProofs, Secret, StaticKey};
use starfarm_protocol::settings::Settings;
use starfarm_protocol::wire::{Feedback, HeartbeatAnswer, Hello, Message, Pace, Packer, Welcome, messages};
use starfarm_scheduler_core::{
    Config, Deed, Deeds, Farm, JobCommand, NodeCommand, NodeId, Record, Trace, Tracing,
};

use line::Line;
use peers::Peer;

pub struct Bench {
    pub farm: Farm,
    pub now_us: u64,
    pub story: String,
    peers: BTreeMap<NodeId, Peer>,
    /// Results of a node that wait for its next ones.
    unsent: Option<(NodeId, Packer)>,
    /// The next line belongs to the same turn.
    goes_on: bool,
    next_job: u64,
    config: Config,
    /// Every record, and how many of them are durable.
    pub records: Vec<Record>,
    pub durable: usize,
    /// How many records were replayed last, and what that gave.
    replayed: (usize, Vec<Record>),
    /// What nodes were sent since the script went on last.
    pub sent: Vec<(NodeId, Vec<u8>)>,
    pub records_printed: bool,
    /// The state at a checkpoint, and how many records went before.
    checkpoint: (Vec<Record>, usize),
    holding: bool,
    /// What is to be traced, where it is not read from the records now.
    unread: Option<Vec<Trace>>,
    answers_printed: bool,
}

/// Node a has failed in three places where b passes: it is quarantined.
pub const A_IS_SICK: &str = "submit 100 command units 5 max-failures never\n join a slots 1\n join b slots 1\n ack a
     ack b\n ran b 10+5 ok,ok,ok,ok,ok\n ack b\n ran a 0+5 exit1,exit1,exit1,exit1,exit1\n return a 5+5\n ack a
     ran a 25+1 exit1\n ran b 15+5 ok,ok,ok,ok,ok\n ran b 20+5 ok,ok,ok,ok,ok\n ack b\n ran b 26+5 ok,ok,ok,ok,ok
     ack a\n ran a 31+1 exit1";

pub fn config() -> Config {
    let mut config = Config::new(FarmId([1; 16]), Epoch(1));
    let key = StaticKey::from_secret(Secret([7; 32]));
    config.proofs = Some(EpochProofs::new(&key, config.farm, [5; 8]));
    config
}

/// What a worker of one slot says first.
pub fn hello(boot: u64) -> Hello {
    Hello {
        version: PROTOCOL_VERSION,
        boot: Boot(boot),
        slots: 1,
        queue_tasks_max: 8,
        receive_datagrams_max: 92,
        known_epoch: Epoch(0),
        known_proof: [0; 16],
        died_running: Vec::new(),
    }
}

/// The specification that the script's jobs have, by their numbers.
pub fn spec(number: u64) -> ContentHash {
    ContentHash([number as u8; 32])
}

/// The story of the script is as expected.
pub fn check(script: &str, expected: Expect) {
    expected.assert_eq(&Bench::new(config()).run(script));
}

/// As [`check`], but what the first script brings about is not part of the story.
pub fn check_after(before: &str, script: &str, expected: Expect) {
    let mut bench = Bench::new(config());
    bench.run(before);
    expected.assert_eq(&bench.run(script));
}

impl Bench {
    pub fn new(config: Config) -> Self {
        Self {
            next_job: 1,
            farm: Farm::new(config.clone(), 0),
            config,
            records: Vec::new(),
            durable: 0,
            replayed: (usize::MAX, Vec::new()),
            sent: Vec::new(),
            records_printed: false,
            checkpoint: (Vec::new(), 0),
            now_us: 0,
            story: String::new(),
            peers: BTreeMap::new(),
            unsent: None,
            goes_on: false,
            holding: false,
            unread: None,
            answers_printed: true,
        }
    }

    /// Carries out the script; the story since the last call comes back.
    pub fn run(&mut self, script: &str) -> String {
        self.sent.clear();
        for text in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let line = Line::new(text);
            self.goes_on = line.goes_on;
            self.send_before(&line);
            self.carry_out(&line);
            if !line.goes_on {
                self.turn();
            }
        }
        std::mem::take(&mut self.story)
    }

    fn carry_out(&mut self, line: &Line<'_>) {
        match line.verb() {
            "submit" => self.submit(line),
            "grow" => self.grow(line),
            "wish" => self.print_wish(line),
            "halt" => self.halt(line),
            "cancel" => self.command_job(line, JobCommand::Cancel),
            "pause" => self.command_job(line, JobCommand::Pause),
            "resume" => self.command_job(line, JobCommand::Resume),
            "front" => self.command_job(line, JobCommand::Front),
            "switch" => self.command_job(line, JobCommand::Switch),
            "delete" => self.command_job(line, JobCommand::Delete),
            "retry" => self.command_job(line, JobCommand::Retry),
            "rerun" => self.rerun(line),
            "merge" => {
                let state = MergeState::from_word(line.words[2]).expect("a state of a merge");
                self.farm.note_merge(JobId(line.number(1)), state);
            }
            "drain" => self.command_node(line, NodeCommand::Drain),
            "undrain" => self.command_node(line, NodeCommand::Resume),
            "forget" => self.command_node(line, NodeCommand::Forget),
            "revoke" => self.with_deeds(|farm, _, deeds| {
                farm.on_revoked(line.node(), deeds);
                None
            }),
            "join" | "hello" | "session" => self.greet(line),
            "bye" => self.say(line.node(), Packer::bye),
            "able" => self.able(line),
            "left" => self.time_left(line),
            "ack" => self.acknowledge(line.node()),
            "done" | "ran" | "return" | "refuse" => self.result(line),
            "again" => {
                let bytes = self.peer(line.node()).last_result.clone();
                self.hear(line.node(), &bytes);
            }
            "beat" => self.beat(line.node(), line),
            "feedback" => {
                let (speed_ups, slow_downs) = (line.number(2) as u32, line.number(3) as u32);
                self.say(line.node(), |p| p.feedback(&Feedback { speed_ups, slow_downs }));
            }
            "live" => self.live(line),
            "devices" => self.devices(line),
            "at" => self.advance(line.until_us(self.now_us)),
            "stall" => {
                let stalled_us = line.number(1) * 1_000;
                self.now_us += stalled_us;
                self.farm.on_stall(stalled_us, self.now_us);
                self.advance(self.now_us);
            }
            "hold" | "durable" | "unread" | "read" => self.records_are(line),
            "checkpoint" => {
                assert_eq!(self.durable, self.records.len(), "a checkpoint keeps what is durable");
                self.checkpoint = (self.farm.snapshot(&mut Deeds::default()).1, self.durable);
            }
            "restart" => self.restart(line.named("keeping", 0) as usize),
            "limits" => {
                self.config.tasks_a_turn = line.number(1);
                self.config.nodes_max = line.number(2) as usize;
                let lost_us = self.config.settings.lost_us;
                self.config.settings.lost_us =
                    line.after("lost").map_or(lost_us, |ms| line::parse::<u64>(ms) * 1_000);
            }
            "doubt" => self.farm.doubt(line.words[1..].iter().copied(), self.now_us),
            "overflow" => self.farm.on_receive_overflow(self.now_us),
            "stored" | "limit" => self.stored(line),
            "full" | "room" => self.farm.on_room(line.words[0] == "full"),
            _ => self.show(line),
        }
    }

    fn able(&mut self, line: &Line<'_>) {
        let times = if line.words.len() > 2 { line.number(2) as u32 } else { 1 };
        self.say(line.node(), |packer| packer.able(times));
    }

    /// What a job stores, or what it may.
    fn stored(&mut self, line: &Line<'_>) {
        if line.verb() == "limit" {
            return self.command_job(line, JobCommand::Limit(line.limit()));
        }
        self.with_deeds(|farm, _, deeds| {
            farm.on_stored(JobId(line.number(1)), line.number(2), deeds);
            None
        });
    }

    fn halt(&mut self, line: &Line<'_>) {
        self.with_deeds(|farm, _, deeds| {
            farm.stop_growing(JobId(line.number(1)), line.words[2..].join(" "), deeds);
            None
        });
    }

    fn rerun(&mut self, line: &Line<'_>) {
        let (id, (lo, units)) = (JobId(line.number(1)), line.interval(2));
        self.with_deeds(|farm, _, deeds| {
            let answer = farm.rerun(id, &[(lo, lo + u128::from(units))], deeds);
            Some(format!("rerun: {answer:?}"))
        });
    }

    /// What becomes of records.
    fn records_are(&mut self, line: &Line<'_>) {
        match line.verb() {
            "hold" => self.holding = true,
            "durable" if line.words.len() > 1 => {
                self.durable = self.records.len().min(self.durable + line.number(1) as usize);
                self.farm.on_durable(self.durable as u64, self.now_us);
            }
            "durable" => self.holding = false,
            "unread" => self.unread = Some(Vec::new()),
            _ => {
                let asked = self.unread.take();
                self.trace(&asked.expect("it was told not to read"));
            }
        }
    }

    /// Prints how things stand.
    fn show(&mut self, line: &Line<'_>) {
        match line.verb() {
            "lease" => {
                let lease = print::lease(&self.farm, JobId(line.number(1)));
                self.tell(&lease);
            }
            "credit" => {
                let credit = self.peer(line.node()).credit;
                self.tell(&format!("{} may have {credit} datagrams under way", line.word(1)));
            }
            "show" => self.tell(&print::job(&self.farm, JobId(line.number(1)))),
            "nodes" => {
                let nodes = print::nodes(&mut self.farm, self.now_us);
                self.tell(&nodes);
            }
            "tasks" => {
                let tasks = print::tasks(&mut self.farm, line.node(), self.now_us);
                self.tell(&tasks);
            }
            other => panic!("unknown command `{other}`"),
        }
    }

    fn submit(&mut self, line: &Line<'_>) {
        let new = line.new_job(spec(self.next_job));
        let mut made = 1;
        let grows = line.has("grows");
        self.with_deeds(|farm, now_us, deeds| {
            let answer = match grows {
                true => farm.submit_growing(new, now_us, deeds),
                false => farm.submit(new, now_us, deeds),
            };
            let refused = answer.err()?;
            made = 0;
            Some(format!("submit: {refused:?}"))
        });
        self.next_job += made;
    }

    fn command_job(&mut self, line: &Line<'_>, command: JobCommand) {
        let id = JobId(line.number(1));
        self.with_deeds(|farm, now_us, deeds| {
            let answer = farm.command_job(id, command, now_us, deeds);
            answer.err().map(|why| format!("{command:?}: {why:?}"))
        });
    }

    fn command_node(&mut self, line: &Line<'_>, command: NodeCommand) {
        self.with_deeds(|farm, _, deeds| {
            let answer = farm.command_node(line.word(1), command, deeds);
            answer.err().map(|why| format!("{command:?}: {why:?}"))
        });
    }

    fn say(&mut self, id: NodeId, pack: impl FnOnce(&mut Packer)) {
        let bytes = packed(pack);
        self.hear(id, &bytes);
    }

    pub fn hear(&mut self, id: NodeId, datagram: &[u8]) {
        self.with_deeds(|farm, now_us, deeds| {
            farm.on_datagram(id, datagram, now_us, deeds);
            None
        });
    }

    fn advance(&mut self, to_us: u64) {
        for _ in 0..100_000 {
            let due_us = self.farm.next_deadline_us();
            if due_us > to_us {
                self.now_us = to_us;
                return;
            }
            self.now_us = self.now_us.max(due_us);
            self.with_deeds(|farm, now_us, deeds| {
                farm.on_tick(now_us, deeds);
                None
            });
            self.turn();
        }
        panic!("a tick must do what is due");
    }

    /// A turn, and with durable records as many as it takes: tasks wait for the record of their lease.
    fn turn(&mut self) {
        loop {
            let last = self.farm.last_sequence();
            if !self.holding {
                self.farm.on_durable(last, self.now_us);
            }
            self.with_deeds(|farm, now_us, deeds| {
                farm.turn(now_us, deeds);
                None
            });
            if !self.holding {
                self.durable = last as usize;
            }
            if self.holding || self.farm.last_sequence() == last {
                self.replay_equals_live();
                return;
            }
        }
    }

    /// The scheduler's next start has these settings.
    pub fn set(&mut self, settings: Settings) {
        self.config.settings = settings;
    }

    fn restart(&mut self, keeping: usize) {
        self.records.truncate(self.durable + keeping);
        self.replayed.0 = usize::MAX;
        self.config.epoch.0 += 1;
        if let Some(Record::Trust { .. } | Record::Linked { .. }) = self.records.last() {
            // As each start begins: here it matters.
            self.records.push(Record::Epoch { epoch: self.config.epoch, at_us: 0 });
        }
        let (state, before) = &self.checkpoint;
        self.farm = self.restored(state.iter().chain(&self.records[*before..]));
        self.peers.values_mut().for_each(|peer| peer.to_ack.clear());
        (self.holding, self.unread) = (false, None);
    }

    /// Lets the farm do something, checks it, and tells what came of it.
    fn with_deeds(&mut self, act: impl FnOnce(&mut Farm, u64, &mut Deeds) -> Option<String>) {
        let mut deeds = Deeds::default();
        let answer = act(&mut self.farm, self.now_us, &mut deeds);
        self.farm.check_all().unwrap_or_else(|broken| panic!("{broken}, after\n{}", self.story));
        answer.iter().for_each(|why| self.tell(why));
        let mut traces = Vec::new();
        for deed in deeds.0 {
            match deed {
                Deed::Send(id, datagrams) => datagrams.iter().for_each(|d| self.note_datagram(id, d)),
                Deed::Event(event) => self.tell(&event.to_string()),
                Deed::Record(sequence, record) => {
                    if self.records_printed {
                        self.tell(&format!("record {sequence}: {record:?}"));
                    }
                    self.records.push(record);
                    assert_eq!(sequence as usize, self.records.len(), "sequences have no gap");
                }
                Deed::Trace(trace) => traces.push(trace),
                Deed::Certify(event) => self.tell(&format!("to certify: {event}")),
                Deed::Superseded(epoch) => self.tell(&format!("superseded by epoch {}", epoch.0)),
            }
        }
        match &mut self.unread {
            Some(waiting) => waiting.append(&mut traces),
            None => self.trace(&traces),
        }
    }

    /// Who computed what stands in the records.
    fn trace(&mut self, asked: &[Trace]) {
        let mut tracing = Tracing::new(asked);
        self.records.iter().for_each(|record| tracing.read(record));
        for traced in tracing.end().flatten() {
            self.with_deeds(|farm, now_us, deeds| {
                farm.on_traced(traced, now_us, deeds);
                None
            });
        }
    }

    fn note_datagram(&mut self, id: NodeId, datagram: &[u8]) {
        self.sent.push((id, datagram.to_vec()));
        let mut said = Vec::new();
        for message in messages(datagram).map(Result::unwrap) {
            let is_answer = matches!(message, Message::HeartbeatAnswer(_));
            let peer = self.peers.get_mut(&id).expect("the farm talks to nodes of the script");
            match &message {
                Message::Offers(offers) => {
                    for offer in offers.clone().map(Result::unwrap) {
                        peer.to_ack.push(offer.attempt.0);
                        peer.heard.push(offer);
                    }
                }
                Message::Welcome(Welcome { credit, .. })
                | Message::HeartbeatAnswer(HeartbeatAnswer { credit, .. })
                | Message::ResultAck(credit, _) => peer.credit = *credit,
                _ => {}
            }
            // Every welcome brings the pace: what is usual is not worth a word.
            if message != Message::Pace(Pace::DEFAULT) && (self.answers_printed || !is_answer) {
                said.push(print::message(message));
            }
        }
        if !said.is_empty() {
            self.tell(&format!("to {}: {}", print::name(id), said.join("; ")));
        }
    }

    fn tell(&mut self, what: &str) {
        writeln!(self.story, "{}: {what}", self.now_us / 1_000).unwrap();
    }
}

fn packed(pack: impl FnOnce(&mut Packer)) -> Vec<u8> {
    let mut packer = Packer::new();
    pack(&mut packer);
    packer.finish().concat()
}
