//! The turn: who is told what, and in which order. A turn begins with something from outside: timers that are due, data, an
//! order. First stages are told words, then data goes an edge further, then orders are carried out, and again from the start
//! until nothing is left; then those are told who wait for the end of the wave, and it goes on until nothing is left at all.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};

use crate::flow::Flow;
use crate::graph::Graph;
use crate::refusal::{PERIOD_US_MIN, Refusal};
use crate::stage::{Context, Module, Stage, Type};
use crate::timers::{TimerInfo, Timers};
use crate::values::Triples;
use crate::words::{Maker, Order, StageNumber, When, Who, Word};

/// Stages that a message may pass, at most.
const STEPS_MAX: usize = 64;
/// Words, messages and orders of a turn, at most: stages that keep each other busy come to an end there.
const TURN_MAX: usize = 1_000_000;

/// What an agent has lost, since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// Values that a message had no room for.
    pub left_out: u64,
    /// Messages that would have passed too many stages.
    pub too_far: u64,
    /// Messages that there was no room for, and words, messages and orders of turns that did not come to an end.
    pub cut_off: u64,
    /// Orders of stages, and words for them, that could not be carried out.
    pub refused: u64,
    /// Values that stages could not take.
    pub not_taken: u64,
}

/// What guests may do: those who change the graph while it runs, and are not the agent.
#[derive(Clone, Copy, Debug)]
pub struct Guests {
    /// Types whose stages they may make and change.
    pub types: &'static [&'static str],
    /// Names that they may not give: the agent gives such itself.
    pub is_reserved: fn(&str) -> bool,
}

/// An agent's graph and its timers, with all that is on its way.
pub struct Runtime {
    types: BTreeMap<&'static str, Type>,
    guests: Guests,
    graph: Graph,
    timers: Timers,
    words: VecDeque<(StageNumber, Word)>,
    /// What goes an edge further next, and what stages make of it.
    flow: Flow,
    made: Flow,
    /// Of stages, with who has given them.
    orders: VecDeque<(StageNumber, Order)>,
    waiting: Vec<StageNumber>,
    losses: Losses,
}

impl Runtime {
    /// An agent without stages, which can have those of these modules.
    pub fn new(modules: &[Module]) -> Self {
        let types = modules.iter().flat_map(|module| module.types);
        Self {
            types: types.map(|of| (of.name, *of)).collect(),
            guests: Guests { types: &[], is_reserved: |_| true },
            graph: Graph::default(),
            timers: Timers::default(),
            words: VecDeque::new(),
            flow: Flow::default(),
            made: Flow::default(),
            orders: VecDeque::new(),
            waiting: Vec::new(),
            losses: Losses::default(),
        }
    }

    /// Carries out an order from outside, and what comes of it. The number of the stage that was made, if one was.
    ///
    /// # Errors
    /// It cannot be done, or the stage refuses what it is told; nothing has changed then.
    pub fn order(&mut self, order: Order, now_us: u64) -> Result<Option<StageNumber>, Refusal> {
        let made = self.carry_out_of(order, (Maker::Agent, Maker::Afar), now_us)?;
        self.settle(now_us);
        Ok(made)
    }

    /// Can make stages of one type more.
    ///
    /// # Errors
    /// There is one of that name, which stays.
    pub fn learn(&mut self, of: Type) -> Result<(), Refusal> {
        match self.types.entry(of.name) {
            Entry::Vacant(entry) => {
                entry.insert(of);
                Ok(())
            }
            Entry::Occupied(_) => Err(Refusal::TypeKnown(of.name.to_owned())),
        }
    }

    /// What guests may do from now on with what they or files have made.
    pub fn open_to(&mut self, guests: Guests) {
        self.guests = guests;
    }

    /// Carries out an order of a file: see [`Runtime::order`].
    pub(crate) fn order_of_file(
        &mut self,
        order: Order,
        now_us: u64,
    ) -> Result<Option<StageNumber>, Refusal> {
        let made = self.carry_out(order, Maker::File, now_us)?;
        self.settle(now_us);
        Ok(made)
    }

    /// Ends all that orders from afar have made.
    pub fn take_back(&mut self) {
        self.end_those_of(Maker::Afar);
    }

    /// Ends a stage, and what it has had made.
    fn end(&mut self, number: StageNumber) -> Result<(), Refusal> {
        self.remove(number)?;
        self.end_those_of(Maker::Stage(number));
        Ok(())
    }

    fn remove(&mut self, number: StageNumber) -> Result<(), Refusal> {
        self.graph.remove(number)?;
        self.timers.forget(number);
        self.waiting.retain(|waiting| *waiting != number);
        Ok(())
    }

    /// Ends all that it has had made, and what that has had made, however long such a row is.
    fn end_those_of(&mut self, maker: Maker) {
        let mut makers = vec![maker];
        while let Some(maker) = makers.pop() {
            self.timers.end_those_of(maker);
            for number in self.graph.made_by(maker) {
                self.remove(number).expect("a stage that was made by somebody is there");
                makers.push(Maker::Stage(number));
            }
        }
    }

    /// Adds a stage that was made elsewhere.
    ///
    /// # Errors
    /// There are too many, or the name cannot be had.
    pub fn add(
        &mut self,
        type_name: &'static str,
        stage: Box<dyn Stage>,
        name: Option<&str>,
    ) -> Result<StageNumber, Refusal> {
        self.graph.add(type_name, stage, name, Maker::Agent)
    }

    /// When [`Runtime::on_time`] is due next.
    pub fn next_due_us(&self) -> Option<u64> {
        self.timers.next_due_us()
    }

    /// The clock went back: timers that fire again and again do so by the new one.
    pub fn begin_anew(&mut self, now_us: u64) {
        self.timers.begin_anew(now_us);
    }

    /// Fires what is due.
    pub fn on_time(&mut self, now_us: u64) {
        let fired = self.timers.fire(now_us);
        self.words.extend(fired.into_iter().map(|(stage, timers)| (stage, Word::Fired(timers))));
        self.settle(now_us);
    }

    /// What it has lost.
    pub fn losses(&self) -> Losses {
        let Self { flow, made, losses, .. } = self;
        let cut_off = losses.cut_off + flow.dropped + made.dropped;
        Losses { left_out: flow.left_out + made.left_out, cut_off, ..*losses }
    }

    /// All stages by number, with their names and types.
    pub fn stages(&self) -> Vec<(StageNumber, Option<&str>, &'static str)> {
        self.graph.stages()
    }

    /// The settings that a stage was told, and took: the newest value of each.
    pub fn settings(&self, number: StageNumber) -> Option<&BTreeMap<String, String>> {
        self.graph.settings(self.graph.slot(number).ok()?)
    }

    /// All edges: stage and output, stage and input.
    pub fn edges(&self) -> Vec<(StageNumber, &str, StageNumber, &str)> {
        self.graph.edges()
    }

    /// All timers by name.
    pub fn timers(&self) -> Vec<TimerInfo<'_>> {
        self.timers.all()
    }

    /// There is such a stage.
    pub(crate) fn knows(&self, who: &Who) -> bool {
        self.number(who).is_ok()
    }

    /// Carries out an order: of the first maker, or as a guest, of the second.
    fn carry_out_of(
        &mut self,
        order: Order,
        (maker, guest): (Maker, Maker),
        now_us: u64,
    ) -> Result<Option<StageNumber>, Refusal> {
        let Order::AsGuest(order) = order else { return self.carry_out(order, maker, now_us) };
        self.check_guest(&order)?;
        let order = match *order {
            Order::Timer(name, When::After(us)) => Order::Timer(name, When::After(us.max(PERIOD_US_MIN))),
            order => order,
        };
        self.carry_out(order, guest, now_us)
    }

    fn carry_out(&mut self, order: Order, maker: Maker, now_us: u64) -> Result<Option<StageNumber>, Refusal> {
        match order {
            Order::Create { type_name, name } => {
                let of = *self.types.get(type_name.as_str()).ok_or(Refusal::NoType(type_name))?;
                return self.graph.add(of.name, (of.new)(), name.as_deref(), maker).map(Some);
            }
            Order::End(who) => self.end(self.number(&who)?)?,
            Order::Name(who, name) => self.graph.name(self.number(&who)?, &name)?,
            Order::Link((from, output), (to, input)) => {
                self.graph.link((self.number(&from)?, &output), (self.number(&to)?, &input))?;
            }
            Order::Unlink((from, output), (to, input)) => {
                self.graph.unlink((self.number(&from)?, &output), (self.number(&to)?, &input))?;
            }
            Order::Timer(name, when) => self.timers.set(&name, when, maker, now_us)?,
            Order::EndTimer(name) => self.timers.end(&name)?,
            Order::Subscribe(timer, who, on) => {
                let number = self.number(&who)?;
                self.timers.subscribe(&timer, number, on)?;
            }
            Order::Tell(who, word) => {
                let slot = self.graph.slot(self.number(&who)?)?;
                let told = self.ask(slot, now_us, |stage, context| stage.told(&word, context));
                told.map_err(Refusal::ByStage)?;
                if let Word::Set { key, value } = &word {
                    self.graph.note(slot, key, value);
                }
            }
            Order::AsGuest(order) => return self.carry_out_of(*order, (maker, maker), now_us),
        }
        Ok(None)
    }

    /// Whether a guest may order that: to make stages of some types, and to change what guests and files have made.
    fn check_guest(&self, order: &Order) -> Result<(), Refusal> {
        let refused = |what: String| Err(Refusal::NotForGuests(what));
        if let Order::Create { name: Some(name), .. } | Order::Name(_, name) | Order::Timer(name, _) = order
            && (self.guests.is_reserved)(name)
        {
            return refused(format!("what is named `{name}`"));
        }
        match order {
            Order::Create { type_name, .. } if !self.guests.types.contains(&type_name.as_str()) => {
                let all: Vec<_> = self.guests.types.iter().map(|of| format!("`{of}`")).collect();
                refused(format!("a stage of a type other than {}", all.join(", ")))
            }
            Order::End(who) | Order::Name(who, _) | Order::Tell(who, _) if !self.is_lent(who)? => {
                refused(format!("the stage `{who}`"))
            }
            // What comes of it reaches none but those that guests may have.
            Order::Link(_, (to, input)) | Order::Unlink(_, (to, input)) if !self.is_lent(to)? => {
                refused(format!("what comes to `{to}.{input}`"))
            }
            Order::Timer(name, _) | Order::EndTimer(name) | Order::Subscribe(name, ..)
                if self.timers.is_own(name) =>
            {
                refused(format!("the timer `{name}`"))
            }
            Order::Subscribe(_, who, _) if !self.is_lent(who)? => {
                refused(format!("when the stage `{who}` is asked"))
            }
            _ => Ok(()),
        }
    }

    /// Guests may change that stage.
    fn is_lent(&self, who: &Who) -> Result<bool, Refusal> {
        let of = self.graph.lent(self.graph.slot(self.number(who)?)?);
        Ok(of.is_some_and(|of| self.guests.types.contains(&of)))
    }

    fn number(&self, who: &Who) -> Result<StageNumber, Refusal> {
        match who {
            Who::Number(number) => self.graph.slot(*number).map(|_| *number),
            Who::Name(name) => self.graph.named(name).ok_or_else(|| Refusal::NoStage(name.clone())),
        }
    }

    /// Goes on until nothing is left.
    fn settle(&mut self, now_us: u64) {
        let (mut steps, mut left) = (0, TURN_MAX);
        loop {
            if let Some((number, word)) = self.words.pop_front() {
                self.say(number, &word, now_us);
            } else if !self.made.messages.is_empty() {
                steps += 1;
                std::mem::swap(&mut self.flow, &mut self.made);
                if steps > STEPS_MAX {
                    self.losses.too_far += self.flow.messages.len() as u64;
                } else {
                    left = left.saturating_sub(self.pass_on(left, now_us));
                }
                self.flow.clear();
            } else if let Some((stage, order)) = self.orders.pop_front() {
                let done = self.carry_out_of(order, (Maker::Agent, Maker::Stage(stage)), now_us);
                self.losses.refused += u64::from(done.is_err());
            } else if !self.waiting.is_empty() {
                let waiting = std::mem::take(&mut self.waiting);
                self.words.extend(waiting.into_iter().map(|number| (number, Word::WaveIsOver)));
                steps = 0;
            } else {
                return;
            }
            left = left.saturating_sub(1);
            if left == 0 {
                return self.cut_off();
            }
        }
    }

    /// Stages keep each other busy: what is on its way is dropped, and counted.
    fn cut_off(&mut self) {
        let lost = self.words.len() + self.made.messages.len() + self.orders.len() + self.waiting.len();
        self.losses.cut_off += lost as u64;
        self.words.clear();
        self.made.clear();
        self.orders.clear();
        self.waiting.clear();
    }

    /// A word for a stage that may have ended meanwhile.
    fn say(&mut self, number: StageNumber, word: &Word, now_us: u64) {
        let Ok(slot) = self.graph.slot(number) else { return };
        let told = self.ask(slot, now_us, |stage, context| stage.told(word, context));
        self.losses.refused += u64::from(told.is_err());
    }

    /// All messages on their way go an edge further, over so many edges at most: over how many they went.
    fn pass_on(&mut self, most: usize, now_us: u64) -> usize {
        let flow = std::mem::take(&mut self.flow);
        let (mut start, mut passed) = (0, 0);
        for &(slot, output, end) in &flow.messages {
            let values = Triples::of_checked(&flow.bytes[start..end]);
            start = end;
            let ends = self.graph.ends(slot, output).len();
            let go = ends.min(most - passed);
            for nth in 0..go {
                let to = self.graph.ends(slot, output)[nth];
                self.ask(to.slot, now_us, |stage, context| stage.data(to.port, values, context));
            }
            passed += go;
            self.losses.cut_off += (ends - go) as u64;
        }
        self.flow = flow;
        passed
    }

    fn ask<T>(
        &mut self,
        slot: usize,
        now_us: u64,
        ask: impl FnOnce(&mut dyn Stage, &mut Context<'_>) -> T,
    ) -> T {
        let (number, mut stage) = self.graph.take(slot).expect("a stage is asked one thing at a time");
        let Self { made: flow, orders, waiting, losses, .. } = self;
        let not_taken = &mut losses.not_taken;
        let mut context = Context { number, slot, now_us, flow, orders, waiting, not_taken };
        let answer = ask(&mut *stage, &mut context);
        self.graph.back(slot, stage);
        answer
    }
}
