//! The life of an agent: a process that holds a post, runs its graph, and tells its worker how far it is. It ends when its
//! worker does.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use starfarm_agent_core::{Order, Runtime, Who, Word};
use starfarm_overlay::{Children, Happening, LinkId, Reactor, Said, Watch};
use starfarm_overlay_core::lanes::Lane;
use starfarm_overlay_core::parts::Parts;
use starfarm_overlay_core::sending::Sending;
use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::link::{Message, Part, Standing, Table};
use starfarm_protocol::orders::{Descendant, PostId, PostKind, PostState};
use starfarm_protocol::seal::{StaticKey, Vouchers, post_name, post_of};

use crate::alarms::{Desk, Who as Caller};
use crate::control::{self, Asking};
use crate::door::{introduction, listen, random};
use crate::farm::Farm;
use crate::graph::{self, Doors};
use crate::own::Own;
use crate::pipe::Worker;
use crate::place::{Place, Up};
use crate::reaction::Reaction;
use crate::up::Values;
use crate::watched;
use crate::wishes::Wishes;
use crate::words::{Begin, FromAgent, ToAgent};

/// Longest pause of the loop.
const PAUSE_US: u64 = 1_000_000;
/// How often a post says how it stands, if nothing else has it say so before.
const STANDING_US: u64 = 2_000_000;
/// The farm's clock went back where it is behind by more than this, in microseconds.
const CLOCK_BACK_US: u64 = 1_000_000;

/// The worker's end of standard input.
pub(crate) const STDIN: Watch = Watch(0);

/// An agent that has begun.
pub(crate) struct Agent {
    start: Instant,
    begin: Begin,
    key: StaticKey,
    reactor: Reactor,
    runtime: Runtime,
    worker: Worker,
    doors: Doors,
    place: Option<Place>,
    /// So far the farm's clock is ahead of this process's, in microseconds; none before it was told.
    ahead_us: Option<u64>,
    sending: Sending,
    wishes: Wishes,
    alarms: Desk,
    own: Own,
    farm: Farm,
    children: Children,
    /// How the posts below stand, as they told last.
    below: BTreeMap<PostId, Standing>,
    /// What those above want of all below.
    parts: Parts,
    /// When it says next how it stands.
    standing_us: u64,
}

impl Agent {
    pub(crate) fn new(begin: Begin, mut reactor: Reactor, mut worker: Worker) -> io::Result<Self> {
        let key = StaticKey::generate().map_err(random)?;
        let port = if begin.level > 0 { Some(listen(&mut reactor, &begin, &key)?) } else { None };
        let (mut runtime, doors) = (Runtime::new(&graph::modules()), Doors::default());
        graph::build(&mut runtime, &begin, &doors)
            .map_err(|refusal| io::Error::other(refusal.to_string()))?;
        let reaction = begin.on_alarm.clone().map(Reaction::start).transpose()?;
        let own = Own::begin(&begin, &mut runtime);
        worker.tell(&FromAgent::Ready { key: key.public(), port })?;
        Ok(Self {
            alarms: Desk::new(Rc::clone(&doors.seeing), reaction),
            start: Instant::now(),
            children: Children::of(begin.level),
            begin,
            key,
            reactor,
            runtime,
            worker,
            doors,
            place: None,
            ahead_us: None,
            sending: Sending::default(),
            wishes: Wishes::default(),
            own,
            farm: Farm::default(),
            below: BTreeMap::new(),
            parts: Parts::default(),
            standing_us: 0,
        })
    }

    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut happenings = Vec::new();
        loop {
            let start = self.start;
            let clock = || start.elapsed().as_micros() as u64;
            let patience = Duration::from_micros(self.due_us().saturating_sub(clock()).min(PAUSE_US));
            self.reactor.turn(patience, clock, &mut happenings)?;
            for happening in std::mem::take(&mut happenings) {
                match happening {
                    Happening::Readable(STDIN) => match self.worker.hear()? {
                        Some(words) => words.into_iter().try_for_each(|word| self.hear(word))?,
                        None => return Ok(()),
                    },
                    Happening::Readable(watch) => {
                        watched::readable(watch);
                        self.own.on_readable(watch);
                    }
                    Happening::Up(link) => self.on_up(link),
                    Happening::Called(link, claim, first) => {
                        self.on_called(link, &claim.name, claim.key, &first)?;
                    }
                    Happening::Record(link, record) => self.on_record(link, &record)?,
                    Happening::Gone(link, _) => self.on_gone(link)?,
                }
            }
            self.link_up();
            self.own.turn(&self.reactor, clock());
            self.measure();
            self.alarm();
            self.say();
        }
    }

    fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// The farm's clock, once somebody has told it.
    fn farm_us(&self) -> Option<u64> {
        self.ahead_us.map(|ahead_us| self.now_us() + ahead_us)
    }

    fn parent(&self) -> Option<&Up> {
        self.place.as_ref()?.parent.as_ref()
    }

    /// When something is to be done.
    fn due_us(&self) -> u64 {
        let timer = self.runtime.next_due_us().zip(self.ahead_us);
        let timer = timer.map(|(due_us, ahead_us)| due_us.saturating_sub(ahead_us));
        let call = self.place.as_ref().and_then(Place::due_us);
        let says = self.place.as_ref().is_some_and(|place| place.parent.is_some() && !place.is_greeted);
        let standing = says.then_some(self.standing_us);
        let alarm = self.alarms.due_us(self.parent().is_some(), self.begin.kind);
        let watched = self.ahead_us.and_then(|_| watched::due_us());
        [timer, call, standing, alarm, watched, self.own.due_us()]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(u64::MAX)
    }

    fn hear(&mut self, word: ToAgent) -> io::Result<()> {
        let ToAgent::Place { order, scheduler } = word else {
            return Err(io::Error::other("the worker begins twice"));
        };
        let mut vouchers = Vouchers::default();
        order.below.iter().for_each(|below| vouchers.add(below.secret.clone(), below.post.0, below.key));
        self.reactor.vouch(vouchers);
        self.children.limit(order.children_max as usize);
        self.alarms.place(&order, &mut self.reactor);
        let is_below = |post: &PostId| order.below.iter().any(|below| below.post == *post);
        self.below.retain(|post, _| is_below(post));
        let strangers: BTreeSet<_> = self.children.posts().filter(|post| !is_below(post)).collect();
        let before = self.place.iter().flat_map(|place| &place.order.below).map(|below| below.post);
        let gone: BTreeSet<_> =
            before.filter(|post| !is_below(post)).chain(strangers.iter().copied()).collect();
        strangers.into_iter().for_each(|post| self.children.end(&mut self.reactor, post));
        gone.into_iter().for_each(|post| self.forget(post));
        match &mut self.place {
            Some(place) => {
                // Whoever is called now may be nobody who is above it.
                place.called.take().into_iter().for_each(|up| self.reactor.close(up.link));
                place.is_greeted = false;
                place.change(order, scheduler);
            }
            None => self.place = Some(Place::new(order, scheduler)),
        }
        if self.parent().is_none() {
            self.worker.tell(&FromAgent::State(PostState::Linking, None))?;
        }
        Ok(())
    }

    /// The farm's clock went back: what was measured by the one before would be of a time that has yet to come.
    fn begin_anew(&mut self, farm_us: u64) {
        self.sending.clear();
        graph::tell_gather(&mut self.runtime, self.begin.kind, ("anew", String::new()), farm_us);
    }

    /// A post tells nothing here any more.
    fn forget(&mut self, post: PostId) {
        let now_us = self.farm_us().unwrap_or_default();
        graph::tell_gather(&mut self.runtime, self.begin.kind, ("gone", post.to_string()), now_us);
    }

    /// Calls the next one of the lineage, where there is no parent, or not the right one, and it is time.
    fn link_up(&mut self) {
        let now_us = self.now_us();
        let Some(place) = &mut self.place else { return };
        let Some((ancestor, address)) = place.next(now_us) else { return };
        let name = post_name(place.order.post.0);
        let who = introduction(&self.key, &ancestor, &name);
        // Without a socket it is tried again like without a parent.
        let link = self.reactor.call(address, &who, self.begin.farm, now_us).ok();
        place.called = link.map(|link| Up { link, post: ancestor.post, key: ancestor.key });
    }

    /// The one that was called is who it should be: this post says who it is, or what it is about.
    fn on_up(&mut self, link: LinkId) {
        let now_us = self.now_us();
        if self.alarms.on_up(link, &mut self.reactor, now_us) {
            return;
        }
        let Some(place) = &mut self.place else { return };
        if place.called.as_ref().is_some_and(|up| up.link == link) {
            place.is_greeted = true;
            let attach = self.sending.attach(place.order.post, self.begin.level);
            self.reactor.open(link, Lane::Control, &Message::Attach(attach), now_us);
        }
    }

    fn on_called(&mut self, link: LinkId, name: &str, key: PublicKey, first: &[u8]) -> io::Result<()> {
        // Without a clock it has no parent either, and nothing to say to children.
        let (Some(post), Some(farm_us)) = (post_of(name), self.farm_us()) else {
            self.reactor.close(link);
            return Ok(());
        };
        let (reactor, now_us) = (&mut self.reactor, self.start.elapsed().as_micros() as u64);
        let order = self.place.as_ref().map(|place| &place.order).expect("who has a clock has a place");
        if self.alarms.on_called((link, PostId(post)), first, reactor, (order, (now_us, farm_us))) {
            return Ok(());
        }
        if self.children.arrive(reactor, link, (PostId(post), key), first, (now_us, farm_us)) {
            self.standing_us = 0;
            let table = Message::Table(self.wishes.table.clone());
            self.reactor.send(link, Lane::Control, &table, now_us);
            for message in self.farm.messages() {
                self.reactor.send(link, Lane::Control, &message, now_us);
            }
        }
        Ok(())
    }

    fn on_record(&mut self, link: LinkId, record: &[u8]) -> io::Result<()> {
        let (place, now) = (self.place.as_ref(), (self.now_us(), self.farm_us().unwrap_or_default()));
        if let Some(order) = place.map(|place| &place.order)
            && self.alarms.on_record(link, record, &mut self.reactor, (order, now))
        {
            return Ok(());
        }
        if place.is_some_and(|place| place.called.as_ref().is_some_and(|up| up.link == link)) {
            return self.on_answer(link, record);
        }
        if self.parent().is_some_and(|up| up.link == link) {
            return match Message::read(record) {
                Ok(Some(Message::Beat { heard })) => {
                    if place.is_some_and(|place| !place.is_greeted) {
                        self.sending.on_heard(heard);
                    }
                    Ok(())
                }
                Ok(Some(Message::Table(table))) => self.on_table(table),
                Ok(Some(Message::AlarmAcks(acks))) => {
                    self.alarms.on_acks(acks);
                    Ok(())
                }
                // The post that runs a program hears of the alarms of all.
                Ok(Some(Message::Alarms(alarms))) if self.begin.kind == PostKind::Ap => {
                    self.alarms.take((link, PostId::FRONT), alarms, &mut self.reactor, now);
                    Ok(())
                }
                Ok(Some(Message::Part(part))) => {
                    self.on_part(part);
                    Ok(())
                }
                Ok(Some(Message::Control(control))) => {
                    let Self { reactor, children, runtime, farm, begin, place, .. } = self;
                    let place = place.as_ref().expect("it has a parent");
                    Asking { reactor, children, runtime, farm, begin, place, now }.on_control(&control);
                    Ok(())
                }
                Ok(None) => Ok(()),
                // What no parent says.
                _ => {
                    self.reactor.close(link);
                    self.on_gone(link)
                }
            };
        }
        match self.children.hear(&mut self.reactor, link, record) {
            Said::Data(child, data) => {
                let triples = data.triples.to_vec();
                let values = Values { stream: data.stream, at_us: data.at_us, triples };
                self.doors.coming.borrow_mut().push_back((child, values));
            }
            Said::Standing(standing) => self.pass_on(standing),
            Said::Answer(answer) => {
                if let Some(place) = &self.place {
                    control::pass_up(&answer, place, &mut self.reactor, now.0);
                }
            }
            Said::Gone(post) => self.on_child_gone(post),
            Said::Alarms(post, alarms) => {
                self.alarms.take((link, post), alarms, &mut self.reactor, now);
            }
            Said::Part(post, part) => {
                let sum = self.parts.up(post, &part);
                self.say_parts(sum);
            }
            Said::AlarmAcks(..) | Said::Nothing => {}
        }
        Ok(())
    }

    /// Those above want something of all: a back end says it, others have it said.
    fn on_part(&mut self, Part { round, value, .. }: Part) {
        let own = (self.begin.level == 0).then_some(value);
        let sum = self.parts.down(round, own, self.children.posts());
        self.children.begin(&mut self.reactor, round, value, self.start.elapsed().as_micros() as u64);
        self.say_parts(sum);
    }

    /// Says sums of what those below have said.
    fn say_parts(&mut self, sums: impl IntoIterator<Item = Part>) {
        let (now_us, link) = (self.now_us(), self.parent().map(|up| up.link));
        let Some(link) = link else { return };
        for part in sums {
            self.reactor.send(link, Lane::Collective, &Message::Part(part), now_us);
        }
    }

    /// Something else is to be measured, or at other times: here, and below.
    fn on_table(&mut self, table: Table) -> io::Result<()> {
        let Some(farm_us) = self.farm_us() else { return Ok(()) };
        if self.wishes.table != table {
            self.wishes.take(table);
            self.heed(farm_us);
        }
        let (now_us, table) = (self.now_us(), Message::Table(self.wishes.table.clone()));
        self.children.tell(&mut self.reactor, &table, now_us);
        Ok(())
    }

    /// Does what the table says, by the farm's clock.
    fn heed(&mut self, farm_us: u64) {
        let Some(place) = &self.place else { return };
        let (who, doors) = ((&self.begin, place.order.post), &self.doors);
        // What cannot be had, as where there are too many wishes, is left as it is.
        let _ = self.wishes.apply(&mut self.runtime, who, (doors, self.own.names()), farm_us);
    }

    /// Whoever was called takes the post in, or does not.
    fn on_answer(&mut self, link: LinkId, record: &[u8]) -> io::Result<()> {
        let now_us = self.now_us();
        match Message::read(record) {
            Ok(Some(Message::Welcome { now_us: farm_us })) => {
                let Some(place) = &mut self.place else { return Ok(()) };
                let before = place.join(now_us);
                let parent = place.parent.as_ref().map(|up| up.post);
                before.into_iter().for_each(|up| self.reactor.close(up.link));
                self.sending.begin();
                self.alarms.on_joined();
                self.parts.clear();
                self.standing_us = 0;
                let ahead_us = farm_us.saturating_sub(now_us);
                let is_back = self.ahead_us.is_some_and(|before| ahead_us + CLOCK_BACK_US < before);
                self.ahead_us = Some(ahead_us);
                // The clock may be another scheduler's.
                if is_back {
                    self.begin_anew(farm_us);
                }
                self.heed(farm_us);
                for standing in std::mem::take(&mut self.below).into_values() {
                    self.pass_on(standing);
                }
                self.worker.tell(&FromAgent::State(PostState::Joined, parent))
            }
            Ok(Some(Message::Beat { .. }) | None) => Ok(()),
            // A refusal, or what no parent says.
            _ => {
                self.reactor.close(link);
                self.on_gone(link)
            }
        }
    }

    fn on_gone(&mut self, link: LinkId) -> io::Result<()> {
        let now_us = self.now_us();
        if self.alarms.on_gone(link, now_us) {
            return Ok(());
        }
        if let Some(place) = &mut self.place
            && place.gone(link, now_us)
        {
            return self.worker.tell(&FromAgent::State(PostState::Orphan, None));
        }
        if let Some(post) = self.children.gone(link) {
            self.on_child_gone(post);
        }
        Ok(())
    }

    /// What a CP told the posts below it tell whoever takes them in, and one that was taken in has gone home. A back end of
    /// this post comes back, or is missed.
    fn on_child_gone(&mut self, post: PostId) {
        self.standing_us = 0;
        let sums = self.parts.gone(post);
        self.say_parts(sums);
        let is_cp = self.below.remove(&post).is_none_or(|child| child.level > 0);
        let is_own = self.place.as_ref().is_some_and(|place| {
            let own = |below: &Descendant| below.post == post && below.parent == place.order.post;
            place.order.below.iter().any(own)
        });
        if is_cp || !is_own {
            self.forget(post);
        }
    }

    /// A post below says how it stands: so those above hear of it.
    fn pass_on(&mut self, standing: Standing) {
        let now_us = self.now_us();
        let place = self.place.as_ref();
        if place.is_some_and(|place| place.order.below.iter().any(|below| below.post == standing.post)) {
            self.below.insert(standing.post, standing);
            if let Some(up) = self.parent() {
                self.reactor.send(up.link, Lane::Control, &Message::Standing(standing), now_us);
            }
        }
    }

    /// Fires what is due, and takes in what children have told.
    fn measure(&mut self) {
        let (Some(farm_us), now_us) = (self.farm_us(), self.now_us()) else { return };
        watched::serve(&mut self.runtime, &self.reactor, now_us, farm_us);
        if self.runtime.next_due_us().is_some_and(|due_us| due_us <= farm_us) {
            self.runtime.on_time(farm_us);
        }
        if !self.doors.coming.borrow().is_empty() {
            let ready = self.runtime.order(Order::Tell(Who::from(graph::DOWN), Word::Ready), farm_us);
            debug_assert!(ready.is_ok(), "who has children has the stage");
            self.doors.coming.borrow_mut().clear();
        }
        let Some(place) = &self.place else { return };
        let leaving = Rc::clone(&self.doors.leaving);
        for Values { stream, at_us, triples } in leaving.borrow_mut().drain(..) {
            self.sending.put(place.order.post, stream, at_us, &triples);
        }
        self.sending.tidy(farm_us);
    }

    /// Says what somebody must know.
    fn alarm(&mut self) {
        let (Some(farm_us), Some(place)) = (self.farm_us(), &self.place) else { return };
        let parent = place.parent.as_ref().filter(|_| !place.is_greeted).map(|up| up.link);
        let who = Caller { key: &self.key, farm: self.begin.farm, node: &self.begin.node };
        let now = (self.start.elapsed().as_micros() as u64, farm_us);
        self.alarms.act(&who, &place.order, parent, &mut self.reactor, now);
    }

    /// Sends what waits, as far as the link takes it, and how this post stands.
    fn say(&mut self) {
        let now_us = self.now_us();
        let Some(place) = self.place.as_ref().filter(|place| !place.is_greeted) else { return };
        let (Some(up), post) = (&place.parent, place.order.post) else { return };
        self.reactor.send_data(up.link, &mut self.sending, now_us);
        if now_us >= self.standing_us {
            self.standing_us = now_us + STANDING_US;
            let counts = self.children.counts(self.sending.counts(), self.doors.late.get());
            let (parent, level, children) = (up.post, self.begin.level, self.children.count() as u32);
            let standing = Message::Standing(Standing { post, parent, level, children, counts });
            self.reactor.send(up.link, Lane::Control, &standing, now_us);
        }
    }
}
