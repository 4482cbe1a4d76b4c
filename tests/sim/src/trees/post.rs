//! A simulated agent: a real member of the tree, with a real graph of stages inside. Its sensors tell what the simulation says.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;

use starfarm_agent_core::up::{Coming, Down, Leaving, Up, Values};
use starfarm_agent_core::{
    Context, Gather, Hook, Order, Runtime, Side, Stage, When, Who as Stages, Word, ids,
};
use starfarm_overlay_core::closing::Closing;
use starfarm_overlay_core::member::Member;
use starfarm_overlay_core::posts::ProcessId;
use starfarm_overlay_core::ring::Ring;
use starfarm_protocol::ids::{JobId, PublicKey};
use starfarm_protocol::link::{Scope, Stream, Table};
use starfarm_protocol::metric::Metric;
use starfarm_protocol::seal::Vouchers;

use super::agenda::Place;
use super::clock::Clock;
use super::wires::Who;

const SENSOR: &str = "sensor";
const TIMER: &str = "period";
const DOWN: &str = "down";
const GATHER: &str = "gather";
/// The period of waves until somebody says another, in microseconds.
pub(super) const PERIOD_US: u64 = 1_000_000;

/// Units that run on a node, by job. Each uses as many millionths of a core as its job has for a number.
pub(super) type Units = Rc<RefCell<BTreeMap<JobId, u64>>>;

pub(super) struct Agent {
    pub(super) who: Who,
    pub(super) place: Place,
    pub(super) process: ProcessId,
    pub(super) level: u8,
    /// Whose own tree it is in.
    pub(super) job: Option<JobId>,
    pub(super) key: PublicKey,
    pub(super) address: Option<SocketAddr>,
    pub(super) clock: Clock,
    pub(super) member: Member,
    pub(super) ring: Ring,
    pub(super) vouchers: Vouchers,
    /// Children, at most.
    pub(super) limit: usize,
    /// Jobs of whose units others tell.
    pub(super) apart: Rc<RefCell<Vec<JobId>>>,
    runtime: Runtime,
    coming: Coming,
    leaving: Leaving,
    pub(super) late: Rc<Cell<u64>>,
    /// When its next turn is planned.
    pub(super) turn_us: u64,
    /// Nobody wants it any more.
    pub(super) closing: Option<Closing>,
}

/// What tells of a machine and its units.
struct Sensor {
    units: Units,
    /// Of this job alone, or of all but those of whose units others tell, and of the machine.
    job: Option<JobId>,
    apart: Rc<RefCell<Vec<JobId>>>,
    told: BTreeSet<JobId>,
    outputs: [Option<usize>; 2],
}

const OUTPUTS: [(&str, Stream); 2] = [("system", Stream::System), ("job", Stream::Job)];

impl Stage for Sensor {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        let at = OUTPUTS.iter().position(|(name, _)| hook.side == Side::Output && *name == hook.name);
        self.outputs[at.ok_or("no such hook")?] = Some(hook.port);
        Ok(())
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        let (Word::Fired(_), [Some(system), Some(job)]) = (word, self.outputs) else { return Ok(()) };
        if self.job.is_none() {
            context.emit(system, |message| message.put_number(ids::of(Metric::Memory), 4_096));
        }
        let (all, apart) = (self.units.borrow(), self.apart.borrow());
        let is_told = |of: &JobId| match self.job {
            None => !apart.contains(of),
            Some(job) => job == *of && apart.contains(of),
        };
        let units: BTreeMap<_, _> =
            all.iter().map(|(job, count)| (*job, *count)).filter(|(job, _)| is_told(job)).collect();
        let over = self.told.iter().filter(|job| !units.contains_key(job)).map(|job| (*job, 0));
        for (of, count) in units.iter().map(|(job, count)| (*job, *count)).chain(over) {
            context.emit(job, |message| {
                message.put_number(ids::JOB, of.0);
                message.put_number(ids::UNITS, count);
                if count > 0 {
                    message.put_number(ids::of(Metric::Cpu), of.0);
                }
            });
        }
        self.told = units.keys().copied().collect();
        Ok(())
    }
}

impl Agent {
    /// An agent that begins.
    pub(super) fn new(
        (who, place, process): (Who, Place, ProcessId),
        (level, job, key, address): (u8, Option<JobId>, PublicKey, Option<SocketAddr>),
        clock: Clock,
        units: &Units,
    ) -> Self {
        let (runtime, coming, leaving, late) =
            (Runtime::new(&[]), Coming::default(), Leaving::default(), Rc::default());
        let (member, ring, vouchers) = (Member::new(level), Ring::default(), Vouchers::default());
        let mut agent = Self {
            who,
            place,
            process,
            level,
            job,
            key,
            address,
            clock,
            member,
            ring,
            vouchers,
            limit: 0,
            apart: Rc::default(),
            runtime,
            coming,
            leaving,
            late,
            turn_us: u64::MAX,
            closing: None,
        };
        agent.build(units);
        agent
    }

    fn build(&mut self, units: &Units) {
        for (name, stream) in OUTPUTS {
            let (leaving, metrics) = (Rc::clone(&self.leaving), Rc::new(Cell::new(u64::MAX)));
            self.add("up", Box::new(Up::new(stream, leaving, metrics)), name);
        }
        if self.level == 0 {
            let (told, outputs) = (BTreeSet::new(), [None; 2]);
            let (units, job, apart) = (Rc::clone(units), self.job, Rc::clone(&self.apart));
            self.add(SENSOR, Box::new(Sensor { units, job, apart, told, outputs }), SENSOR);
        } else {
            let (coming, late) = (Rc::clone(&self.coming), Rc::clone(&self.late));
            self.add(DOWN, Box::new(Down::new(coming)), DOWN);
            self.add(GATHER, Box::new(Gather::new(PERIOD_US, late)), GATHER);
        }
        for (name, _) in OUTPUTS {
            if self.level == 0 {
                self.link((SENSOR, name), (name, "in"));
            } else {
                self.link((DOWN, name), (GATHER, "in"));
                self.link((GATHER, name), (name, "in"));
            }
        }
    }

    fn add(&mut self, of: &'static str, stage: Box<dyn Stage>, name: &str) {
        self.runtime.add(of, stage, Some(name)).expect("there is room, and no other has the name");
    }

    fn link(&mut self, (from, output): (&str, &str), (to, input): (&str, &str)) {
        let link = Order::Link((Stages::from(from), output.into()), (Stages::from(to), input.into()));
        self.order(link, 0);
    }

    fn order(&mut self, order: Order, farm_us: u64) {
        self.runtime.order(order, farm_us).expect("stages do what the simulation asks of them");
    }

    /// A child has told something.
    pub(super) fn take(&self, child: starfarm_protocol::orders::PostId, values: Values) {
        self.coming.borrow_mut().push_back((child, values));
    }

    /// Sets something of the stage that sums up.
    pub(super) fn tell_gather(&mut self, key: &str, value: String, farm_us: u64) {
        if self.level > 0 {
            let word = Word::Set { key: key.to_owned(), value };
            self.order(Order::Tell(Stages::from(GATHER), word), farm_us);
        }
    }

    /// Measures as the table says.
    pub(super) fn heed(&mut self, farm_us: u64) {
        let period_us = period_of(self.member.table());
        if self.level > 0 {
            return self.tell_gather("periods", period_us.to_string(), farm_us);
        }
        self.order(Order::Timer(TIMER.into(), When::Every(period_us)), farm_us);
        self.order(Order::Subscribe(TIMER.into(), Stages::from(SENSOR), true), farm_us);
    }

    /// Fires what is due, and takes in what children have told. One that ends measures nothing more, and says what it has gathered
    /// once nobody tells it more.
    pub(super) fn measure(&mut self, local_us: u64) {
        let Some(farm_us) = self.member.farm_us(local_us) else { return };
        let is_due = self.runtime.next_due_us().is_some_and(|due_us| due_us <= farm_us);
        if is_due && self.closing.is_none() {
            self.runtime.on_time(farm_us);
        }
        if !self.coming.borrow().is_empty() {
            self.order(Order::Tell(Stages::from(DOWN), Word::Ready), farm_us);
        }
        if self.closing.is_some_and(|closing| closing.is_alone(&self.member, local_us)) {
            self.tell_gather("flush", String::new(), farm_us);
        }
        for Values { stream, at_us, triples } in self.leaving.borrow_mut().drain(..) {
            self.member.put(stream, at_us, &triples);
        }
    }

    /// When it has something to do, by its own clock.
    pub(super) fn due_us(&self, local_us: u64) -> Option<u64> {
        let timer = self.runtime.next_due_us().filter(|_| self.closing.is_none());
        let timer = timer.and_then(|due_us| self.member.at_us(due_us));
        let closing = self.closing.map(|closing| closing.due_us(local_us));
        [timer, self.member.due_us(), self.ring.due_us(), closing].into_iter().flatten().min()
    }
}

/// How often all is measured.
pub(super) fn period_of(table: &Table) -> u64 {
    let all = table.wishes.iter().find(|wish| wish.scope == Scope::All);
    all.map_or(PERIOD_US, |wish| wish.period_us)
}
