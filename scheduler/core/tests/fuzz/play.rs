//! A story that is told to a farm on the bench, line by line, with all that watches it.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use starfarm_protocol::admin::Subject;
use starfarm_protocol::journal::Record;
use starfarm_protocol::wire::{Message, messages};
use starfarm_scheduler_core::limits::{HITS_KEPT, LOOKS, PIECES_MAX};
use starfarm_scheduler_core::{Config, Deeds, HitsKept, NodeId, Verdicts};

use crate::common::line::Line;
use crate::common::{Bench, config};
use crate::ledger::Ledger;
use crate::workers::Workers;

pub struct Play {
    pub bench: Bench,
    pub workers: Workers,
    pub lines: Vec<String>,
    pub transcript: Option<String>,
    ledger: Ledger,
    /// Nodes are not to idle: it is asked after each turn.
    is_prompt: bool,
    lacks_room: bool,
    /// The most tasks in gq since all nodes were looked at.
    gq: u64,
    /// Before the turn at hand.
    verdicts: Verdicts,
}

/// Why a story failed.
#[derive(Debug)]
pub struct Failure {
    /// What was broken, and where that was seen.
    pub why: String,
    /// The same without numbers: other stories that fail so tell of the same.
    pub kind: String,
    pub lines: Vec<String>,
}

impl Play {
    fn new(seed: u64, transcribed: bool) -> Self {
        let few = seed.is_multiple_of(3);
        let hits_kept = if few { HitsKept { running: 3, ended: 1 } } else { HITS_KEPT };
        let pieces_max = if seed % 5 == 2 { 2 } else { PIECES_MAX };
        let mut bench = Bench::new(Config { watch: true, hits_kept, pieces_max, ..config() });
        bench.records_printed = transcribed;
        Self {
            bench,
            workers: Workers::default(),
            lines: Vec::new(),
            transcript: transcribed.then(String::new),
            ledger: Ledger::new(few),
            is_prompt: seed % 4 == 1 && !transcribed,
            lacks_room: false,
            gq: 0,
            verdicts: Verdicts::default(),
        }
    }

    /// Carries out a line; panics where anything is broken after it.
    pub fn line(&mut self, text: &str) {
        self.lines.push(text.to_owned());
        let line = Line::new(text);
        self.workers.said(&line);
        let story = self.bench.run(text);
        self.workers.heard(&self.bench.sent);
        if let Some(transcript) = &mut self.transcript {
            writeln!(transcript, "> {text}\n{story}= {:016x}", hash(&self.bench.sent)).unwrap();
        }
        if matches!(line.verb(), "done" | "ran" | "return" | "refuse" | "again") {
            self.ledger.told(&line, self.bench.told(line.node()).expect("it has told something"));
        }
        if !line.goes_on {
            let before = std::mem::replace(&mut self.verdicts, self.bench.farm.verdicts());
            self.ledger.judged(before, self.verdicts);
        }
        if line.verb() == "restart" {
            self.ledger.restart();
        }
        let ledger = &mut self.ledger;
        let read = ledger.read(&self.bench.records, self.bench.durable);
        let agrees = read.and_then(|()| ledger.agrees(&self.bench.farm));
        let boot = |id| self.bench.told(id).map_or(0, |(boot, _)| boot);
        let checked = agrees.and_then(|()| ledger.acknowledged(&self.bench.sent, boot));
        checked.unwrap_or_else(|broken| panic!("{broken}, after\n{story}"));
        self.all_is_explained();
        self.lacks_room = match line.verb() {
            "full" => true,
            "room" | "restart" => false,
            _ => self.lacks_room,
        };
        if self.is_prompt && !line.goes_on && !self.lacks_room {
            self.nobody_idles();
        }
    }

    /// Of each job and each node something can be said, and one reason decides.
    fn all_is_explained(&mut self) {
        let (farm, now_us) = (&mut self.bench.farm, self.bench.now_us);
        let jobs = farm.jobs(now_us).into_iter().map(|job| Subject::Job(job.id));
        let nodes: Vec<_> = farm.nodes(now_us).into_iter().map(|node| Subject::Node(node.name)).collect();
        for subject in jobs.chain(nodes) {
            let why = farm.explain(&subject, now_us).expect("it was named by the farm itself");
            assert!(why.verdict < why.reasons.len(), "{why:?}");
        }
    }

    /// Nothing waits that a node with an idle slot could have had: with room on the disk again the farm looks at all its
    /// nodes, and that gives none of them more than a copy. While a lease is on its way to the disk a node may wait for it
    /// beside what is left of the one before.
    fn nobody_idles(&mut self) {
        let gq = self.bench.farm.status(self.bench.now_us).gq;
        self.gq = self.gq.max(gq);
        let on_its_way = &self.bench.records[self.bench.durable..];
        if on_its_way.iter().any(|record| matches!(record, Record::Leased { .. })) {
            return;
        }
        if self.bench.farm.next_deadline_us() == 0 || gq > LOOKS as u64 {
            return; // Its turn had more to do than it could, or what is for a node lies behind what is not.
        }
        let was_behind = std::mem::replace(&mut self.gq, gq) > LOOKS as u64;
        let nodes = self.bench.farm.nodes(self.bench.now_us);
        let idle = |id: NodeId| nodes.iter().any(|node| node.id == id && node.tasks < u64::from(node.slots));
        let story = self.bench.run("& full\n room");
        self.workers.heard(&self.bench.sent);
        let offers = |of: &(NodeId, Vec<u8>)| {
            messages(&of.1).any(|message| matches!(message, Ok(Message::Offers(_)))) && idle(of.0)
        };
        assert!(
            was_behind || story.contains("copy of") || !self.bench.sent.iter().any(offers),
            "a node idled, until\n{story}"
        );
    }

    /// How the farm stands, in all words that it has for that.
    fn shown(&mut self) -> String {
        let (farm, now_us) = (&mut self.bench.farm, self.bench.now_us);
        let mut shown = String::new();
        for job in farm.jobs(now_us) {
            writeln!(shown, "job: {job:?}").unwrap();
            writeln!(shown, "failed: {:?}", farm.failed_units(job.id)).unwrap();
        }
        for node in farm.nodes(now_us) {
            writeln!(shown, "node: {node:?}").unwrap();
        }
        writeln!(shown, "farm: {:?}", farm.status(now_us)).unwrap();
        for record in farm.snapshot(&mut Deeds::default()).1 {
            writeln!(shown, "checkpoint: {record:?}").unwrap();
        }
        shown
    }
}

/// Lets `act` tell a story; its transcript, if it is wanted, and what failed.
pub fn play(seed: u64, transcribed: bool, act: impl FnOnce(&mut Play)) -> (String, Result<(), Failure>) {
    let mut play = Play::new(seed, transcribed);
    let failed = silently(|| act(&mut play)).err();
    let mut transcript = play.transcript.take().unwrap_or_default();
    match failed {
        Some(why) => {
            writeln!(transcript, "> {}\n{}! {why}", play.lines.last().unwrap(), play.bench.story).unwrap();
            let kind = kind(&why);
            (transcript, Err(Failure { why, kind, lines: play.lines }))
        }
        None if transcribed => (transcript + &play.shown(), Ok(())),
        None => (transcript, Ok(())),
    }
}

/// The first two lines (where, and what) without numbers and what stands in brackets.
fn kind(why: &str) -> String {
    let (mut kind, mut depth) = (String::new(), 0_u32);
    for c in why.lines().take(2).flat_map(str::chars).filter(|c| !c.is_ascii_digit()) {
        match c {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => kind.push(c),
            _ => {}
        }
    }
    kind
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static SILENT: RefCell<bool> = const { RefCell::new(false) };
}

/// What `act` panics with is the answer and is not printed.
fn silently(act: impl FnOnce()) -> Result<(), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match SILENT.with_borrow(|silent| *silent) {
            true => PANIC.with_borrow_mut(|said| *said = Some(info.to_string())),
            false => usual(info),
        }));
    });
    SILENT.set(true);
    let done = catch_unwind(AssertUnwindSafe(act));
    SILENT.set(false);
    done.map_err(|_| PANIC.take().expect("the hook has noted it"))
}

/// FNV-1a: what was sent, to the byte.
fn hash(sent: &[(NodeId, Vec<u8>)]) -> u64 {
    let bytes =
        sent.iter().flat_map(|(id, datagram)| [id.0 as u8].into_iter().chain(datagram.iter().copied()));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
