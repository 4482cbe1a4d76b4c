//! Writes stories. A seed says what a story is about: which lines come often, which nodes fail, which units are bad.
//! Most lines mean something on the farm as it stands; some are late, stale, or nonsense.

use starfarm_scheduler_core::Body;

use crate::chance::Chance;
use crate::ending::{OUTCOMES_MAX, facts, hits, is_together, returned, spec, true_hit};
use crate::play::Play;
use crate::terms;
use crate::workers::{Task, Worker, letter, listed};

const NODES_MAX: u32 = 6;
const JOBS_MAX: u64 = 4;

type Write = fn(&mut Writer, &Play) -> Option<String>;

/// What may come next, and how often.
const LINES: &[(u64, Write)] = &[
    (8, Writer::submit),
    (10, Writer::join),
    (32, Writer::ack),
    (48, Writer::compute),
    (10, Writer::beat),
    (12, Writer::pass),
    (10, Writer::live),
    (5, Writer::return_),
    (2, Writer::refuse),
    (3, Writer::again),
    (5, Writer::stray),
    (3, Writer::die),
    (2, Writer::greet),
    (1, Writer::leave),
    (3, Writer::say),
    (3, Writer::hold),
    (2, Writer::restart),
    (5, Writer::command_job),
    (3, Writer::command_node),
    (1, Writer::trouble),
];
/// Of these there are always some.
const ALWAYS: usize = 8;

pub struct Writer {
    chance: Chance,
    weights: Vec<u64>,
    submitted: u64,
    holding: bool,
    /// Most programs fail on these nodes.
    sick: Vec<u32>,
    /// Each such unit fails everywhere; 0: none.
    bad_units: u128,
    /// Units of programs fail now and then: one in so many.
    flaky: u64,
    lies: u64,
    /// Workers die of each such unit; 0: of any.
    deadly: u128,
    /// It is about programs of which many fail, and whose fault that is.
    blames: bool,
    /// Of the farm, where its turns are short: tasks and nodes.
    limits: (u64, u64),
    /// One line in so many is not alone in its turn; 0: none.
    hurry: u64,
    /// The last one was not.
    goes_on: bool,
    /// Who said it.
    spoke: Option<u32>,
    lines: u64,
    lines_max: u64,
}

impl Writer {
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let mut weigh = |(at, (weight, _)): (usize, &(u64, Write))| {
            let factors: &[u64] = if at < ALWAYS { &[4, 4, 4, 8] } else { &[0, 1, 4, 4, 8, 24] };
            weight * factors[chance.below(factors.len() as u64) as usize]
        };
        let weights = LINES.iter().enumerate().map(&mut weigh).collect();
        Self {
            weights,
            submitted: 0,
            holding: false,
            sick: (0..NODES_MAX).filter(|_| chance.one_in(5)).collect(),
            bad_units: [0, 0, 2, 7, 20][chance.below(5) as usize],
            flaky: [1_000, 10, 4][chance.below(3) as usize],
            lies: [1_000, 1_000, 30][chance.below(3) as usize],
            deadly: [0, 3, 10, 50][chance.below(4) as usize],
            blames: chance.one_in(5),
            limits: if chance.one_in(3) { (chance.within(1, 12), chance.within(3, 12)) } else { (0, 0) },
            hurry: [0, 0, 6, 2][chance.below(4) as usize],
            goes_on: false,
            spoke: None,
            lines: 0,
            lines_max: chance.within(10, 120),
            chance,
        }
    }

    /// The next line; none where the story is over.
    pub fn next(&mut self, play: &Play) -> Option<String> {
        let line = self.choose(play).filter(|_| self.lines < self.lines_max)?;
        self.lines += 1;
        let alone = ["at", "live", "stall", "limits", "restart", "checkpoint", "hold", "durable"];
        let is_alone = alone.iter().any(|verb| line.starts_with(verb));
        self.goes_on = !is_alone && self.hurry > 0 && self.chance.one_in(self.hurry);
        Some(if self.goes_on { format!("& {line}") } else { line })
    }

    fn choose(&mut self, play: &Play) -> Option<String> {
        match self.lines {
            0 if self.limits.0 > 0 => return Some(self.limited()),
            1 if self.limits.0 > 0 => return Some("restart".into()),
            _ if self.submitted == 0 => return self.submit(play),
            _ if play.workers.0.is_empty() => return self.join(play),
            _ => {}
        }
        loop {
            let at = self.chance.weighed(&self.weights);
            if let Some(line) = LINES[at].1(self, play) {
                return Some(line);
            }
        }
    }

    fn submit(&mut self, play: &Play) -> Option<String> {
        let waits = play.bench.farm.jobs(0).iter().any(|job| !job.state.ended());
        if self.submitted == if waits { JOBS_MAX } else { 2 * JOBS_MAX } || waits && self.chance.one_in(2) {
            return None;
        }
        self.submitted += 1;
        if self.blames {
            let (units, size) = (self.chance.within(60, 400), self.chance.within(1, 8));
            return Some(format!(
                "submit {units} command retries {} units {size} max-failures never",
                self.chance.below(3)
            ));
        }
        let most = [4, 20, 60, 400][self.chance.below(4) as usize];
        let mut line = format!("submit {}", self.chance.within(1, most));
        line += &terms::work(&mut self.chance);
        match self.chance.below(3) {
            0 => line += &format!(" target {}", self.chance.below(30)),
            _ => line += &format!(" units {}", self.chance.within(1, most.min(30))),
        }
        match self.chance.below(4) {
            0 => line += &format!(" max-failures {}", self.chance.within(1, 10)),
            1 | 2 => line += " max-failures never",
            _ => {}
        }
        if self.chance.one_in(2) {
            line += " copies";
        }
        line += ["", "", " head", " now"][self.chance.below(4) as usize];
        if self.chance.one_in(5) {
            let before = self.job();
            line += &format!(" {} {before}", ["after", "after-any"][self.chance.below(2) as usize]);
        }
        if self.chance.one_in(5) {
            line += &format!(" max-nodes {}", self.chance.within(1, 3));
        }
        Some(line)
    }

    fn limited(&mut self) -> String {
        let lost = if self.chance.one_in(2) {
            String::new()
        } else {
            format!(" lost {}", self.chance.within(10, 60) * 1_000)
        };
        format!("limits {} {}{lost}", self.limits.0, self.limits.1)
    }

    fn job(&mut self) -> u64 {
        let unknown = self.chance.one_in(20);
        self.chance.within(1, self.submitted + u64::from(unknown))
    }

    /// A node that can say something.
    fn node<'a>(&mut self, play: &'a Play) -> Option<(u32, &'a Worker)> {
        let here = play.workers.0.iter().filter(|(_, worker)| !worker.gone);
        let mut here: Vec<(u32, &Worker)> = here.map(|(&id, worker)| (id, worker)).collect();
        if self.goes_on && self.chance.one_in(2) {
            // More of the same node in this turn.
            here.retain(|(id, _)| Some(*id) == self.spoke);
        }
        let chosen = self.chance.pick(&here);
        self.spoke = chosen.map(|(id, _)| id);
        chosen
    }

    fn join(&mut self, play: &Play) -> Option<String> {
        let known = play.workers.0.len() as u32;
        if known == NODES_MAX || known > 1 && self.chance.one_in(2) {
            return None;
        }
        let queue = match self.chance.below(6) {
            0 | 1 => format!(" queue {}", self.chance.within(1, 20)),
            2 => " queue 200 receives 1".into(),
            _ => String::new(),
        };
        Some(format!("join {} slots {}{queue}", letter(known), self.chance.within(0, 4)))
    }

    fn ack(&mut self, play: &Play) -> Option<String> {
        self.node(play).map(|(id, _)| format!("ack {}", letter(id)))
    }

    /// A part of a task: all of it, mostly.
    fn part(&mut self, task: Task) -> (u128, u128) {
        let units = task.hi - task.lo;
        if units == 1 || !self.chance.one_in(3) {
            return (task.lo, task.hi);
        }
        let size = 1 + u128::from(self.chance.below((units - 1) as u64));
        match self.chance.below(3) {
            0 | 1 => (task.lo, task.lo + size),
            _ => {
                let lo = task.lo + u128::from(self.chance.below((units - size + 1) as u64));
                (lo, lo + size)
            }
        }
    }

    /// A result as the kind of the job wants it.
    fn result(&mut self, play: &Play, id: u32, (job, lo, hi): (u64, u128, u128)) -> String {
        let spec = spec(play, job);
        let (letter, ms) = (letter(id), [10, 100, 1_000, 8_000, 60_000][self.chance.below(5) as usize]);
        let tail = format!(" job {job}{spec} ms {}", ms + self.chance.below(ms));
        match facts(play, job).map(|facts| facts.work.body) {
            Some(Body::Outcomes { .. }) if is_together(play, job) => {
                let units = (hi - lo) as u64 - u64::from(self.chance.one_in(self.lies));
                let bad = (lo..hi).map(|unit| self.outcome(id, unit)).find(|outcome| *outcome != "ok");
                format!("ran {letter} {lo}+{} {}*{}{tail}", hi - lo, bad.unwrap_or("ok"), units.max(1))
            }
            Some(Body::Outcomes { .. }) => {
                let hi = hi.min(lo + OUTCOMES_MAX);
                let outcomes: Vec<&str> = (lo..hi).map(|unit| self.outcome(id, unit)).collect();
                format!("ran {letter} {lo}+{} {}{tail}", hi - lo, outcomes.join(","))
            }
            Some(Body::Hits { .. }) => {
                let hits = hits(lo, hi, |unit| true_hit(unit) != self.chance.one_in(self.lies));
                format!("done {letter} {lo}+{}{hits}{tail}", hi - lo)
            }
            _ => format!("done {letter} {lo}+{}{tail}", hi - lo),
        }
    }

    fn outcome(&mut self, id: u32, unit: u128) -> &'static str {
        let is_bad = self.bad_units > 0 && unit.is_multiple_of(self.bad_units);
        let is_sick = self.sick.contains(&id) && !self.chance.one_in(10);
        match is_bad || is_sick || self.chance.one_in(self.flaky) {
            true => ["exit1", "exit3", "signal9", "timeout"][self.chance.below(4) as usize],
            false => "ok",
        }
    }

    fn compute(&mut self, play: &Play) -> Option<String> {
        let (id, worker) = self.node(play)?;
        let task = self.chance.pick(&worker.held)?;
        if task.let_go && !self.chance.one_in(3) {
            return Some(returned(play, id, &task));
        }
        let (lo, hi) = match self.chance.one_in(6) {
            // Several tasks that are neighbours in one result.
            true => {
                let all = worker.intervals();
                let (_, lo, hi) =
                    *all.iter().find(|of| of.0 == task.job && (of.1..of.2).contains(&task.lo))?;
                (lo, hi)
            }
            false => self.part(task),
        };
        Some(self.result(play, id, (task.job, lo, hi)))
    }

    fn return_(&mut self, play: &Play) -> Option<String> {
        let (id, worker) = self.node(play)?;
        let task = self.chance.pick(&worker.held)?;
        let (lo, hi) = self.part(task);
        let (letter, spec) = (letter(id), spec(play, task.job));
        Some(format!("return {letter} {lo}+{} job {}{spec} attempt {}", hi - lo, task.job, task.attempt))
    }

    fn refuse(&mut self, play: &Play) -> Option<String> {
        let (id, worker) = self.node(play)?;
        let task = self.chance.pick(&worker.held)?;
        let (letter, spec, units) = (letter(id), spec(play, task.job), task.hi - task.lo);
        Some(format!(
            "refuse {letter} {}+{units} no-python job {}{spec} attempt {}",
            task.lo, task.job, task.attempt
        ))
    }

    fn again(&mut self, play: &Play) -> Option<String> {
        let (id, worker) = self.node(play)?;
        worker.has_result.then(|| format!("again {}", letter(id)))
    }

    /// What no worker should say, or says late.
    fn stray(&mut self, play: &Play) -> Option<String> {
        let (id, worker) = self.node(play)?;
        let others: Vec<Task> = play.workers.0.values().flat_map(|other| &other.held).copied().collect();
        let job = self.job();
        let units = facts(play, job).map_or(50, |facts| facts.units);
        let lo = u128::from(self.chance.below(units as u64));
        let hi = lo + 1 + u128::from(self.chance.below(((units - lo) as u64).min(30)));
        let anything = Task { job, lo, hi, attempt: 0, let_go: false };
        let task = match self.chance.below(8) {
            0..4 => self.chance.pick(&worker.past)?,
            4..6 => self.chance.pick(&others)?,
            _ => anything,
        };
        let (lo, hi) = self.part(task);
        let mut line = self.result(play, id, (task.job, lo, hi));
        match self.chance.below(6) {
            0..3 => line += &format!(" attempt {}", task.attempt),
            3 => {
                line = format!(
                    "return {} {lo}+{} job {} attempt {}",
                    letter(id),
                    hi - lo,
                    task.job,
                    task.attempt
                )
            }
            4 if !line.contains(" body ") => {
                line += ["", " body ff", " body 00ff"][self.chance.below(3) as usize]
            }
            _ => {}
        }
        if self.chance.one_in(12) && !line.contains(" spec ") {
            line += " spec 9";
        }
        Some(line)
    }

    /// What a worker lists: all, a part, nothing; of something it no longer has.
    fn listing(&mut self, worker: &Worker) -> String {
        let mut intervals = worker.intervals();
        match self.chance.below(8) {
            0 => intervals.clear(),
            1 | 2 => intervals.retain(|_| !self.chance.one_in(3)),
            3 => intervals.extend(self.chance.pick(&worker.past).map(|task| (task.job, task.lo, task.hi))),
            4 => {
                let units = intervals
                    .iter()
                    .flat_map(|&(job, lo, hi)| (lo..hi).map(move |unit| (job, unit, unit + 1)));
                intervals = units.step_by(1 + self.chance.below(2) as usize).collect();
            }
            _ => {}
        }
        listed(&intervals)
    }

    fn beat(&mut self, play: &Play) -> Option<String> {
        let (id, worker) = self.node(play)?;
        let mut line = format!("beat {} {}", letter(id), self.listing(worker));
        if let Some(task) = self.chance.pick(&worker.held)
            && self.chance.one_in(2)
        {
            let last = (task.hi - task.lo).min(worker.slots.into());
            let units: Vec<_> =
                (task.lo..task.lo + last).map(|unit| format!("{}:{unit}", task.job)).collect();
            line += &format!(" running {}", units.join(","));
        }
        if self.chance.one_in(2) {
            line += &format!(" queued {}", self.chance.below(10));
        }
        line += match self.chance.below(60) {
            0 => " draining",
            1 => " same",
            2..5 => " only 0",
            _ => "",
        };
        Some(line)
    }

    fn pass(&mut self, _: &Play) -> Option<String> {
        let (lo, hi) = [
            (0, 30),
            (30, 100),
            (900, 2_500),
            (900, 2_500),
            (4_000, 7_000),
            (12_000, 30_000),
            (60_000, 700_000),
        ][self.chance.weighed(&[6, 6, 4, 4, 3, 2, 1])];
        let ms = self.chance.within(lo, hi);
        Some(if self.chance.one_in(30) { format!("stall {ms}") } else { format!("at +{ms}") })
    }

    fn live(&mut self, play: &Play) -> Option<String> {
        let mut beats = String::new();
        for (&id, worker) in play.workers.0.iter().filter(|(_, worker)| !worker.gone) {
            if !self.chance.one_in(8) {
                beats += &format!(" {} {}", letter(id), self.listing(worker));
                if let Some(task) = worker.held.first()
                    && self.chance.one_in(3)
                {
                    beats += &format!("/{}:{}", task.job, task.lo);
                }
            }
        }
        let (lo, hi) = [(1_000, 6_000), (6_000, 20_000), (60_000, 150_000)][self.chance.weighed(&[8, 4, 1])];
        (!beats.is_empty()).then(|| format!("live +{}{beats}", self.chance.within(lo, hi)))
    }

    /// A worker dies and starts again, or starts again after it had left.
    fn die(&mut self, play: &Play) -> Option<String> {
        let back: Vec<_> = play.workers.0.iter().filter(|(_, worker)| !worker.revoked).collect();
        let (&id, worker) = self.chance.pick(&back)?;
        let mut line = format!("hello {} boot {}", letter(id), worker.boot + 1);
        let held = worker.held.iter().flat_map(|task| (task.lo..task.hi).map(|unit| (task.job, unit)));
        let is_deadly = |unit: u128| self.deadly == 0 || unit.is_multiple_of(self.deadly);
        let mut died: Vec<_> =
            held.filter(|of| is_deadly(of.1)).map(|(job, unit)| format!("{job}:{unit}")).collect();
        // It takes its tasks in order, so what is deadly for it is so again.
        died.truncate(self.chance.below(3) as usize);
        if !died.is_empty() {
            line += &format!(" died {}", died.join(","));
        }
        Some(line)
    }

    fn greet(&mut self, play: &Play) -> Option<String> {
        let (id, _) = self.node(play)?;
        let what = ["", "", " slots 3", " version 9", " knows 9 forged"][self.chance.below(5) as usize];
        Some(format!("hello {}{what}", letter(id)))
    }

    fn leave(&mut self, play: &Play) -> Option<String> {
        let (id, _) = self.node(play)?;
        Some(format!("{} {}", if self.chance.one_in(3) { "revoke" } else { "bye" }, letter(id)))
    }

    fn say(&mut self, play: &Play) -> Option<String> {
        let (id, _) = self.node(play)?;
        Some(match self.chance.one_in(3) {
            true => format!("able {}", letter(id)),
            false => format!("feedback {} {} {}", letter(id), self.chance.below(6), self.chance.below(6)),
        })
    }

    fn hold(&mut self, play: &Play) -> Option<String> {
        if self.holding {
            let some = self.chance.below((play.bench.records.len() - play.bench.durable) as u64 + 1) as usize;
            if !self.chance.one_in(3) {
                return Some(format!("durable {some}"));
            }
            self.holding = false;
            return Some("durable".into());
        }
        if !self.goes_on && self.chance.one_in(3) && play.bench.durable == play.bench.records.len() {
            return Some("checkpoint".into());
        }
        self.holding = true;
        Some("hold".into())
    }

    fn restart(&mut self, play: &Play) -> Option<String> {
        if !self.chance.one_in(2) {
            return None;
        }
        let kept = self.chance.below((play.bench.records.len() - play.bench.durable) as u64 + 1) as usize;
        self.holding = false;
        Some(if kept == 0 { "restart".into() } else { format!("restart keeping {kept}") })
    }

    fn command_job(&mut self, _: &Play) -> Option<String> {
        let commands = ["pause", "resume", "front", "switch", "retry", "cancel", "delete", "rerun", "limit"];
        let (job, command) = (self.job(), commands[self.chance.weighed(&[4, 6, 3, 4, 6, 1, 2, 3, 6])]);
        let what = match command {
            "rerun" => format!(" {}+{}", self.chance.below(40), 1 + self.chance.below(8)),
            "limit" => format!(" {}", terms::limit(&mut self.chance)),
            _ => String::new(),
        };
        Some(format!("{command} {job}{what}"))
    }

    fn command_node(&mut self, play: &Play) -> Option<String> {
        let id = self.chance.below(play.workers.0.len().max(1) as u64) as u32;
        let commands = ["drain", "undrain", "forget"];
        Some(format!("{} {}", commands[self.chance.weighed(&[2, 3, 1])], letter(id)))
    }

    fn trouble(&mut self, _: &Play) -> Option<String> {
        let stored = format!("stored {} {}", self.job(), self.chance.below(100));
        Some(["overflow", "full", "room", &stored][self.chance.below(4) as usize].into())
    }
}
