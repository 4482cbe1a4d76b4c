//! One line of a script: its words, and what they name. Nothing here touches a farm.

use std::fmt::Debug;
use std::str::FromStr;

use starfarm_protocol::ids::{ContentHash, JobId, from_hex};
use starfarm_protocol::job::Per;
use starfarm_protocol::resources::Resources;
use starfarm_protocol::spec::Stop;
use starfarm_protocol::terms::{Limit, Monitored};
use starfarm_protocol::trust::Share;
use starfarm_protocol::wire::{CommandUnit, FailReason, Held, HitEntry, Outputs, Stream};
use starfarm_scheduler_core::{MaxFailures, NewJob, NodeId, Place, Sizing, Terms, Trust, WorkFacts};

pub struct Line<'a> {
    pub words: Vec<&'a str>,
    /// The next one belongs to the same turn.
    pub goes_on: bool,
}

pub fn parse<T: FromStr<Err: Debug>>(word: &str) -> T {
    word.parse().unwrap_or_else(|why| panic!("`{word}` in a script: {why:?}"))
}

/// Nodes are called by a letter; its place in the alphabet is the index.
pub fn node(word: &str) -> NodeId {
    NodeId(u32::from(word.as_bytes()[0] - b'a'))
}

/// What a word says of a unit or an interval, and of which job: `J:WHAT`, or `WHAT` of `job`.
fn of_job(word: &str, job: u64) -> (JobId, &str) {
    let (job, what) = word.split_once(':').map_or((job, word), |(job, what)| (parse(job), what));
    (JobId(job), what)
}

fn interval(word: &str) -> (u128, u64) {
    let (lo, units) = word.split_once('+').unwrap_or_else(|| panic!("`{word}` is not LO+UNITS"));
    (parse(lo), parse(units))
}

impl<'a> Line<'a> {
    pub fn new(text: &'a str) -> Self {
        let (goes_on, text) = text.strip_prefix("& ").map_or((false, text), |rest| (true, rest));
        Self { words: text.split_whitespace().collect(), goes_on }
    }

    pub fn verb(&self) -> &'a str {
        self.words[0]
    }

    pub fn word(&self, at: usize) -> &'a str {
        self.words[at]
    }

    pub fn number(&self, at: usize) -> u64 {
        parse(self.words[at])
    }

    pub fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    pub fn node(&self) -> NodeId {
        node(self.words[1])
    }

    pub fn interval(&self, at: usize) -> (u128, u64) {
        interval(self.words[at])
    }

    /// The word behind `name`.
    pub fn after(&self, name: &str) -> Option<&'a str> {
        self.words.iter().position(|word| *word == name).map(|at| self.words[at + 1])
    }

    /// `limit JOB max-nodes N` or `limit JOB may-store BYTES`, or `none` in the place of the number.
    pub fn limit(&self) -> Limit {
        let number = self.word(3);
        match (self.word(2), number != "none") {
            ("max-nodes", is_limited) => Limit::MaxNodes(is_limited.then(|| parse(number))),
            ("may-store", is_limited) => Limit::StorageLimit(is_limited.then(|| parse(number))),
            (other, _) => panic!("`{other}` is no limit"),
        }
    }

    pub fn named(&self, name: &str, default: u64) -> u64 {
        self.after(name).map_or(default, parse)
    }

    /// `MS`, or `+MS` from now on.
    pub fn until_us(&self, now_us: u64) -> u64 {
        match self.word(1).strip_prefix('+') {
            Some(ms) => now_us + parse::<u64>(ms) * 1_000,
            None => self.number(1) * 1_000,
        }
    }

    /// `0+10,20+5`, or `none`; `2:0+10` is of job 2.
    pub fn held(&self, word: &str) -> Vec<Held> {
        let words = word.split(',').filter(|word| *word != "none");
        let held = words.map(|word| of_job(word, self.named("job", 1)));
        held.map(|(job, what)| (job, interval(what)))
            .map(|(job, (lo, units))| Held { job, lo, units })
            .collect()
    }

    /// The jobs behind `name`: `1,2`.
    fn jobs(&self, name: &str) -> Vec<JobId> {
        self.after(name).into_iter().flat_map(|words| words.split(',')).map(|id| JobId(parse(id))).collect()
    }

    /// The units behind `name`: `3,4`; `2:3` is of job 2.
    pub fn units(&self, name: &str) -> Vec<(JobId, u128)> {
        let words = self.after(name).into_iter().flat_map(|words| words.split(','));
        words.map(|word| of_job(word, 1)).map(|(job, unit)| (job, parse(unit))).collect()
    }

    pub fn new_job(&self, spec: ContentHash) -> NewJob {
        let needs = Resources::new(self.named("takes", 1) as u16, self.named("memory", 0));
        let work = if self.has("search") {
            let targets = self.named("search", 1) as u32;
            let stop = match () {
                () if self.has("never") => Stop::Never,
                () if self.has("first-hit") => Stop::FirstHit,
                () => Stop::AllTargets,
            };
            WorkFacts::search(stop, targets)
        } else if self.has("command") {
            let per = if self.has("together") { Per::Task } else { Per::Unit };
            WorkFacts { per, ..WorkFacts::command(self.named("retries", 0) as u32) }
        } else {
            WorkFacts::NOTHING
        };
        let place = match () {
            () if self.has("head") => Place::Front,
            () if self.has("now") => Place::Now,
            () => Place::Tail,
        };
        let sizing = match self.after("units") {
            Some(units) => Sizing::Units(parse(units)),
            None => Sizing::TargetUs(self.named("target", 8) * 1_000_000),
        };
        let max_failures = match self.after("max-failures") {
            Some("never") => MaxFailures::Never,
            Some(units) => MaxFailures::Units(parse(units)),
            None => MaxFailures::Usual,
        };
        let planted = self.after("planted").into_iter().flat_map(|all| all.split(','));
        let planted = planted.map(|one| one.split_once(':').expect("UNIT:TARGET"));
        let trust = Trust {
            check: Share::of_millionths(self.named("check", 0) as u32).expect("it is a share"),
            planted: planted.map(|(unit, target)| (parse(unit), parse(target))).collect(),
        };
        NewJob {
            name: String::new(),
            user: String::new(),
            spec,
            units: parse(self.words[1]),
            work: WorkFacts { needs, ..work },
            sizing,
            max_failures,
            speculative: self.has("copies"),
            trust,
            terms: Terms {
                after: self.jobs("after"),
                after_any: self.jobs("after-any"),
                max_nodes: self.after("max-nodes").map(parse),
                storage_limit: self.after("may-store").map(parse),
                monitor: self.has("own-tree").then_some(Monitored {
                    period_us: 1_000_000,
                    metrics: Vec::new(),
                    own_tree: true,
                }),
                ..Terms::default()
            },
            place,
        }
    }

    /// The body of a result, by its verb.
    pub fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        if let Some(hex) = self.after("body") {
            return from_hex(hex).expect("a script writes bodies in hex");
        }
        let (lo, _) = self.interval(2);
        match self.verb() {
            "ran" => self.words[3].split(',').for_each(|word| outcome(word).write(&mut body)),
            "refuse" => body.extend_from_slice(self.words[3].as_bytes()),
            _ => {
                let hits = self.after("hits").into_iter().flat_map(|hits| hits.split(','));
                for (unit, target) in hits.map(|hit| hit.split_once(':').expect("UNIT:TARGET")) {
                    let offset = (parse::<u128>(unit) - lo) as u64;
                    HitEntry { offset, target: parse(target) }.write(&mut body);
                }
            }
        }
        body
    }
}

/// `ok`, `exit3`, `signal9`, `timeout` or `room`; `ok*8` is of eight units that were computed together.
fn outcome(word: &str) -> CommandUnit {
    let (word, units) = word.split_once('*').map_or((word, 1), |(word, units)| (word, parse(units)));
    let code = |prefix: &str| word.strip_prefix(prefix).map(parse::<i32>);
    let (failed, code) = match (code("exit"), code("signal"), word) {
        (Some(code), ..) => (Some(FailReason::Exit), code),
        (_, Some(signal), _) => (Some(FailReason::Signal), signal),
        (.., "timeout") => (Some(FailReason::Timeout), 9),
        (.., "room") => (Some(FailReason::Room), 0),
        (.., "ok") => (None, 0),
        _ => panic!("unknown outcome `{word}`"),
    };
    let nothing = || Stream::Inline(Vec::new());
    let outputs = Outputs { files: None, stdout: nothing(), stderr: nothing() };
    CommandUnit { units, failed, code, duration_us: 1_000, outputs }
}
