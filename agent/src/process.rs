//! The life of an agent: a process that holds a post, runs its graph, and tells its worker how far it is. It ends when its
//! worker does.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use starfarm_agent_core::up::Values;
use starfarm_agent_core::{Order, Runtime, Triples, Who, Word, without_others};
use starfarm_overlay::{Happening, LinkId, Reactor, Watch};
use starfarm_overlay_core::closing::Closing;
use starfarm_overlay_core::lanes::Lane;
use starfarm_overlay_core::member::{self, Deed, Member};
use starfarm_overlay_core::ring::Ring;
use starfarm_protocol::link::{Message, Stream};
use starfarm_protocol::orders::{Ancestor, PostId, PostState};
use starfarm_protocol::seal::{StaticKey, post_name, post_of};

use crate::alarms::{Desk, Now, Who as Caller};
use crate::control::{self, Asking};
use crate::door::{introduction, listen, random};
use crate::farm::Farm;
use crate::graph::{self, Doors};
use crate::own::Own;
use crate::pipe::Worker;
use crate::program;
use crate::reaction::Reaction;
use crate::watched;
use crate::wishes::Wishes;
use crate::words::{ALIVE, ALIVE_US, Begin, FromAgent, ToAgent};

/// Longest pause of the loop.
const PAUSE_US: u64 = 1_000_000;

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
    /// When the worker is told next that it lives.
    alive_us: u64,
    doors: Doors,
    wishes: Wishes,
    alarms: Desk,
    own: Own,
    farm: Farm,
    member: Member,
    ring: Ring,
    /// Nobody wants it any more.
    closing: Option<Closing>,
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
            member: Member::new(begin.level),
            ring: Ring::default(),
            closing: None,
            begin,
            key,
            reactor,
            runtime,
            worker,
            alive_us: 0,
            doors,
            wishes: Wishes::default(),
            own,
            farm: Farm::default(),
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
                    other => self.on_link(other)?,
                }
            }
            if clock() >= self.alive_us {
                self.alive_us = clock() + ALIVE_US;
                self.worker.tell(&ALIVE)?;
            }
            self.link_up();
            self.own.turn(&self.reactor, clock());
            self.measure();
            self.alarm();
            self.say();
            if self.closing.is_some_and(|closing| closing.is_over(&self.member, clock())) {
                return Ok(());
            }
        }
    }

    fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// The clock of this process, and the farm's once somebody has told it.
    fn now(&self) -> Now {
        let now_us = self.now_us();
        (now_us, self.member.farm_us(now_us).unwrap_or_default())
    }

    /// When something is to be done.
    fn due_us(&self) -> u64 {
        let timer = self.runtime.next_due_us().filter(|_| self.closing.is_none());
        let timer = timer.and_then(|due_us| self.member.at_us(due_us));
        let alarm = self.alarms.due_us(self.member.parent().is_some(), self.begin.kind);
        let watched = self.member.farm_us(0).and_then(|_| watched::due_us());
        let closing = self.closing.map(|closing| closing.due_us(self.now_us()));
        [timer, self.member.due_us(), self.ring.due_us(), alarm, watched, self.own.due_us(), closing]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(u64::MAX)
    }

    fn hear(&mut self, word: ToAgent) -> io::Result<()> {
        let (order, scheduler) = match word {
            ToAgent::Place { order, scheduler } => (order, scheduler),
            ToAgent::Close => {
                // Its port may be another's from now on.
                self.reactor.stop_listening();
                self.closing = Some(Closing::begin(self.now_us()));
                return Ok(());
            }
            ToAgent::Begin(_) => return Err(io::Error::other("the worker begins twice")),
        };
        self.reactor.vouch(member::vouchers(&order));
        self.alarms.place(&order, &mut self.reactor);
        let (who, watched) = ((order.post, Some(scheduler)), &order.watched);
        self.ring.place(&mut self.reactor, who, watched, &order.watchers);
        let mut deeds = Vec::new();
        let is_other = self.member.order().is_none_or(|before| before.apart != order.apart);
        self.member.on_place(&mut self.reactor, (order, scheduler), &mut deeds);
        if let Some(farm_us) = self.member.farm_us(self.now_us()).filter(|_| is_other) {
            self.heed(farm_us);
        }
        self.perform(deeds)
    }

    /// Something has happened to a link: to one of the alarms' own way or of the ring, or to one of the tree.
    fn on_link(&mut self, happening: Happening) -> io::Result<()> {
        let (now, mut deeds) = (self.now(), Vec::new());
        let Self { member, reactor, alarms, ring, .. } = self;
        match happening {
            Happening::Up(link) => {
                if !alarms.on_up(link, reactor, now.0) && !ring.on_up(reactor, link, now.0) {
                    member.on_up(reactor, link, now.0);
                }
            }
            Happening::Called(link, claim, first) => {
                let post = post_of(&claim.name).map(PostId);
                if post.is_some_and(|post| ring.on_called(reactor, link, post, &first)) {
                    return Ok(());
                }
                // Without a clock it has no parent either, and nothing to say to others.
                let order = member.order().filter(|_| member.farm_us(now.0).is_some());
                let Some((post, order)) = post.zip(order) else {
                    reactor.close(link);
                    return Ok(());
                };
                if !alarms.on_called((link, post), &first, reactor, (order, now)) {
                    member.on_called(reactor, link, (post, claim.key), &first, now.0, &mut deeds);
                }
            }
            Happening::Record(link, record) => {
                if let Some(suspect) = ring.on_record(reactor, link, &record, now.0) {
                    suspect.into_iter().for_each(|post| member.suspect(reactor, post, now.0));
                    return Ok(());
                }
                let order = member.order();
                if !order.is_some_and(|order| alarms.on_record(link, &record, reactor, (order, now))) {
                    member.on_record(reactor, link, &record, now.0, &mut deeds);
                }
            }
            Happening::Gone(link, end) => {
                if let Some(suspect) = ring.on_end(reactor, (link, &end), now.0) {
                    suspect.into_iter().for_each(|post| member.suspect(reactor, post, now.0));
                } else if !alarms.on_gone(link, now.0) {
                    member.on_end(reactor, (link, &end), now.0, &mut deeds);
                }
            }
            Happening::Readable(_) => {}
        }
        self.perform(deeds)
    }

    fn perform(&mut self, deeds: Vec<Deed>) -> io::Result<()> {
        for deed in deeds {
            let now = self.now();
            match deed {
                Deed::Take(child, stream, at_us, triples) => {
                    self.take(child, Values { stream, at_us, triples });
                }
                Deed::Forget(post) => self.tell_gather("gone", post.to_string(), now.1),
                Deed::BeginAnew => {
                    self.runtime.begin_anew(now.1);
                    self.tell_gather("anew", String::new(), now.1);
                    self.member.post().into_iter().for_each(|post| self.alarms.begin_anew(post, now.1));
                }
                Deed::Heed => self.heed(now.1),
                Deed::Arrived(link) => {
                    for message in self.farm.messages() {
                        self.reactor.send(link, Lane::Control, &message, now.0);
                    }
                }
                Deed::Alarms(link, post, alarms) => {
                    self.alarms.take((link, post), alarms, &mut self.reactor, now);
                }
                Deed::AlarmAcks(acks) => self.alarms.on_acks(acks),
                Deed::Control(record) => self.on_control(&record, now),
                Deed::Answer(record) => {
                    if let Ok(Some(Message::Answer(answer))) = Message::read(&record) {
                        control::pass_up(&answer, &self.member, &mut self.reactor, now.0);
                    }
                }
                Deed::Tell(state, parent) => {
                    if state == PostState::Joined {
                        self.alarms.on_joined();
                    }
                    self.worker.tell(&FromAgent::State(state, parent))?;
                }
            }
        }
        Ok(())
    }

    /// A child has told something. What it says of posts that it may not speak of is not taken, and counts as late.
    fn take(&mut self, child: PostId, values: Values) {
        let own = Triples::read(&values.triples).ok().and_then(|triples| {
            without_others(triples, |about| self.member.may_tell(child, values.stream, about))
        });
        self.doors.late.set(self.doors.late.get() + u64::from(own.is_some()));
        let values = Values { triples: own.unwrap_or(values.triples), ..values };
        self.doors.coming.borrow_mut().push_back((child, values));
    }

    fn on_control(&mut self, record: &[u8], now: Now) {
        let Ok(Some(Message::Control(control))) = Message::read(record) else { return };
        let Self { reactor, member, runtime, farm, begin, .. } = self;
        Asking { reactor, member, runtime, farm, begin, now }.on_control(&control);
    }

    fn tell_gather(&mut self, key: &str, value: String, farm_us: u64) {
        graph::tell_gather(&mut self.runtime, self.begin.kind, (key, value), farm_us);
    }

    /// Calls the next one of the lineage, where there is no parent, or not the right one, and those whom it watches, when it is
    /// time.
    fn link_up(&mut self) {
        let now_us = self.now_us();
        if let Some((ancestor, address)) = self.member.next_call(now_us) {
            // Without a socket it is tried again like without a parent.
            if let Ok(link) = self.call(&ancestor, address, now_us) {
                self.member.on_calling(link, &ancestor);
            }
        }
        while let Some((watched, address)) = self.ring.next_call(now_us) {
            if let Ok(link) = self.call(&watched, address, now_us) {
                self.ring.on_calling(link, &watched);
            } else if let Some(post) = self.ring.on_no_call(&mut self.reactor, &watched, now_us) {
                self.member.suspect(&mut self.reactor, post, now_us);
            }
        }
    }

    fn call(&mut self, called: &Ancestor, address: SocketAddr, now_us: u64) -> io::Result<LinkId> {
        let name = post_name(self.member.post().expect("who calls has a place").0);
        let who = introduction(&self.key, called, &name);
        self.reactor.call(address, &who, self.begin.farm, now_us)
    }

    /// Does what the table says, and who else tells of its node, by the farm's clock.
    fn heed(&mut self, farm_us: u64) {
        let Some(order) = self.member.order() else { return };
        self.wishes.take(self.member.table().clone());
        let (who, what) = ((&self.begin, order), (&self.doors, self.own.names()));
        // What cannot be had, as where there are too many wishes, is left as it is.
        let _ = self.wishes.apply(&mut self.runtime, who, what, farm_us);
    }

    /// Fires what is due, and takes in what children have told. One that ends measures nothing more, and says what it has gathered
    /// once nobody tells it more.
    fn measure(&mut self) {
        let now_us = self.now_us();
        let Some(farm_us) = self.member.farm_us(now_us) else { return };
        self.own.on_clock(&mut self.runtime, farm_us);
        watched::serve(&mut self.runtime, &self.reactor, now_us, farm_us);
        let is_due = self.runtime.next_due_us().is_some_and(|due_us| due_us <= farm_us);
        if is_due && self.closing.is_none() {
            self.runtime.on_time(farm_us);
        }
        if !self.doors.coming.borrow().is_empty() {
            let ready = self.runtime.order(Order::Tell(Who::from(graph::DOWN), Word::Ready), farm_us);
            debug_assert!(ready.is_ok(), "who has children has the stage");
            self.doors.coming.borrow_mut().clear();
        }
        if self.closing.is_some_and(|closing| closing.is_alone(&self.member, now_us)) {
            self.tell_gather("flush", String::new(), farm_us);
        }
        let leaving = Rc::clone(&self.doors.leaving);
        for Values { stream, at_us, triples } in leaving.borrow_mut().drain(..) {
            self.member.put(stream, at_us, &triples);
        }
        self.member.lose(Stream::Trace, program::take_lost());
    }

    /// Says what somebody must know.
    fn alarm(&mut self) {
        let now_us = self.now_us();
        let (Some(farm_us), Some(order)) = (self.member.farm_us(now_us), self.member.order()) else { return };
        let who = Caller { key: &self.key, farm: self.begin.farm, node: &self.begin.node };
        self.alarms.act(&who, order, self.member.open_link(), &mut self.reactor, (now_us, farm_us));
    }

    /// Sends what waits, as far as the link takes it, and how this post stands.
    fn say(&mut self) {
        let now_us = self.now_us();
        self.member.say(&mut self.reactor, self.doors.late.get(), now_us);
    }
}
