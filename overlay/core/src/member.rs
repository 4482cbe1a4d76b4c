//! The life of a post below the front: whom it calls, who has taken it in, whom it has taken in, and what it says to both.
//! What it measures, and what it makes of what its children tell, is for its owner, who performs the [`Deed`]s.

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::link::{Alarm, AlarmAck, Message, Part, Standing, Stream, Table};
use starfarm_protocol::orders::{Ancestor, Descendant, PostId, PostKind, PostOrder, PostState};
use starfarm_protocol::seal::Vouchers;

use crate::children::{Children, Said};
use crate::clock::FarmClock;
use crate::lanes::Lane;
use crate::parts::Parts;
use crate::pipe::{End, LinkId, Links};
use crate::place::{Place, Up};
use crate::sending::Sending;

/// How often a post says how it stands, if nothing else has it say so before.
const STANDING_US: u64 = 2_000_000;

/// What the owner of a post is to do, in this order.
#[derive(Clone, PartialEq, Debug)]
pub enum Deed {
    /// A child has told something of a stream, measured at that time by the farm's clock. Of whom it is the message says itself:
    /// see [`Member::may_tell`].
    Take(PostId, Stream, u64, Vec<u8>),
    /// A post tells nothing here any more.
    Forget(PostId),
    /// The farm's clock went back: what was measured by the one before would be of a time that has yet to come.
    BeginAnew,
    /// The post is to measure as its table says, by the farm's clock as it is now.
    Heed,
    /// A child has come by this link: it is to hear what else those above have said to all.
    Arrived(LinkId),
    /// Somebody by that link tells of alarms, and is to be answered.
    Alarms(LinkId, PostId, Vec<Alarm>),
    /// The parent knows of alarms.
    AlarmAcks(Vec<AlarmAck>),
    /// The parent asks an agent something, this one or one below: its record.
    Control(Vec<u8>),
    /// An agent below answers: its record.
    Answer(Vec<u8>),
    /// The worker is to know how far it is, and whose child.
    Tell(PostState, Option<PostId>),
}

/// Who may link with a post of these orders: nobody else gets an answer.
pub fn vouchers(order: &PostOrder) -> Vouchers {
    let mut vouchers = Vouchers::default();
    let all = order.below.iter().chain(&order.watchers);
    all.for_each(|below| vouchers.add(below.secret.clone(), below.post.0, below.key));
    vouchers
}

/// A post. All times but the farm's are by the clock of its process, in microseconds.
pub struct Member {
    level: u8,
    place: Option<Place>,
    clock: FarmClock,
    sending: Sending,
    table: Table,
    children: Children,
    /// The levels of the posts below, as its orders name them.
    levels: BTreeMap<PostId, u8>,
    /// How the posts below stand, as they told last.
    below: BTreeMap<PostId, Standing>,
    /// What those above want of all below.
    parts: Parts,
    /// When it says next how it stands.
    standing_us: u64,
}

impl Member {
    /// A post of that level that nobody has told its place.
    pub fn new(level: u8) -> Self {
        Self {
            level,
            place: None,
            clock: FarmClock::default(),
            sending: Sending::default(),
            table: Table::default(),
            children: Children::of(level),
            levels: BTreeMap::new(),
            below: BTreeMap::new(),
            parts: Parts::default(),
            standing_us: 0,
        }
    }

    /// Its number, once it was told.
    pub fn post(&self) -> Option<PostId> {
        self.place.as_ref().map(|place| place.order.post)
    }

    /// Where it is to be, and who is above and below it, once that was told.
    pub fn order(&self) -> Option<&PostOrder> {
        self.place.as_ref().map(|place| &place.order)
    }

    /// Who has taken it in.
    pub fn parent(&self) -> Option<PostId> {
        self.up().map(|up| up.post)
    }

    fn up(&self) -> Option<&Up> {
        self.place.as_ref()?.parent.as_ref()
    }

    /// The link by which it has.
    pub fn parent_link(&self) -> Option<LinkId> {
        self.up().map(|up| up.link)
    }

    /// The same while something may leave by it: no other parent is about to take the post in.
    pub fn open_link(&self) -> Option<LinkId> {
        let place = self.place.as_ref().filter(|place| !place.is_greeted)?;
        place.parent.as_ref().map(|up| up.link)
    }

    /// That one is the parent that it should have.
    pub fn is_home(&self) -> bool {
        self.place.as_ref().is_some_and(Place::is_home)
    }

    /// It calls somebody at this moment.
    pub fn is_calling(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.called.is_some())
    }

    /// Whom it has taken in.
    pub fn children(&self) -> &Children {
        &self.children
    }

    /// What is to be measured.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// What it says to its parent.
    pub fn sending(&self) -> &Sending {
        &self.sending
    }

    /// The farm's clock, once somebody has told it.
    pub fn farm_us(&self, now_us: u64) -> Option<u64> {
        self.clock.shows(now_us)
    }

    /// When the clock of its process shows that time of the farm's; none before that was told.
    pub fn at_us(&self, farm_us: u64) -> Option<u64> {
        self.clock.when(farm_us)
    }

    /// When it has something to do by itself.
    pub fn due_us(&self) -> Option<u64> {
        let call = self.place.as_ref().and_then(Place::due_us);
        let says = self.place.as_ref().is_some_and(|place| place.parent.is_some() && !place.is_greeted);
        [call, says.then_some(self.standing_us)].into_iter().flatten().min()
    }

    /// The worker says where it is to be, and where the scheduler is.
    pub fn on_place(
        &mut self,
        links: &mut impl Links,
        (order, scheduler): (PostOrder, SocketAddr),
        deeds: &mut Vec<Deed>,
    ) {
        self.children.limit(order.children_max as usize);
        let is_below = |post: &PostId| order.below.iter().any(|below| below.post == *post);
        self.levels = order.below.iter().map(|below| (below.post, below.level)).collect();
        self.below.retain(|post, _| is_below(post));
        let strangers: BTreeSet<_> = self.children.posts().filter(|post| !is_below(post)).collect();
        let before = self.place.iter().flat_map(|place| &place.order.below).map(|below| below.post);
        let gone: BTreeSet<_> =
            before.filter(|post| !is_below(post)).chain(strangers.iter().copied()).collect();
        strangers.into_iter().for_each(|post| self.children.end(links, post));
        deeds.extend(gone.into_iter().map(Deed::Forget));
        match &mut self.place {
            Some(place) => {
                // Whoever is called now may be nobody who is above it.
                place.called.take().into_iter().for_each(|up| links.close(up.link));
                place.is_greeted = false;
                place.change(order, scheduler);
            }
            None => self.place = Some(Place::new(order, scheduler)),
        }
        if self.up().is_none() {
            deeds.push(Deed::Tell(PostState::Linking, None));
        }
    }

    /// Whom to call now, and where, if anybody: the next one of the lineage, where there is no parent, or not the right one.
    pub fn next_call(&mut self, now_us: u64) -> Option<(Ancestor, SocketAddr)> {
        self.place.as_mut()?.next(now_us)
    }

    /// That one is called by this link.
    pub fn on_calling(&mut self, link: LinkId, ancestor: &Ancestor) {
        if let Some(place) = &mut self.place {
            place.called = Some(Up { link, post: ancestor.post, key: ancestor.key });
        }
    }

    /// A link has shaken hands: if it is that of the one that was called, this post says who it is.
    pub fn on_up(&mut self, links: &mut impl Links, link: LinkId, now_us: u64) {
        let place = self.place.as_mut().expect("who has called has a place");
        if place.called.as_ref().is_some_and(|up| up.link == link) {
            place.is_greeted = true;
            let attach = self.sending.attach(place.order.post, self.level);
            links.open(link, Lane::Control, &Message::Attach(attach), now_us);
        }
    }

    /// That post has called and shaken hands with that key; its first record.
    pub fn on_called(
        &mut self,
        links: &mut impl Links,
        link: LinkId,
        (post, key): (PostId, PublicKey),
        first: &[u8],
        now_us: u64,
        deeds: &mut Vec<Deed>,
    ) {
        // Without a clock it has no parent either, and nothing to say to children. Whoever only watches it is none.
        let is_below = self.order().is_some_and(|order| order.below.iter().any(|below| below.post == post));
        let Some(farm_us) = self.farm_us(now_us).filter(|_| is_below) else { return links.close(link) };
        if self.children.arrive(links, link, (post, key), first, (now_us, farm_us)) {
            self.standing_us = 0;
            links.send(link, Lane::Control, &Message::Table(self.table.clone()), now_us);
            deeds.push(Deed::Arrived(link));
        }
    }

    /// Whether that child may speak of that post: of itself, and a CP of those below this post. Which of them are below the CP
    /// now, or were lately, the front knows, and looks again.
    pub fn may_speak(&self, child: PostId, about: PostId) -> bool {
        child == about || self.is_cp(child) && self.levels.contains_key(&about)
    }

    /// The same for what a child tells of a stream. What programs tell one by one is told once, and a CP may know sooner than
    /// this post who is below it now.
    pub fn may_tell(&self, child: PostId, stream: Stream, about: PostId) -> bool {
        self.may_speak(child, about) || stream == Stream::Trace && self.is_cp(child)
    }

    fn is_cp(&self, child: PostId) -> bool {
        self.levels.get(&child).is_some_and(|level| *level > 0)
    }

    /// A record has come.
    pub fn on_record(
        &mut self,
        links: &mut impl Links,
        link: LinkId,
        record: &[u8],
        now_us: u64,
        deeds: &mut Vec<Deed>,
    ) {
        let place = self.place.as_ref();
        if place.is_some_and(|place| place.called.as_ref().is_some_and(|up| up.link == link)) {
            return self.on_answer(links, link, record, now_us, deeds);
        }
        if self.up().is_some_and(|up| up.link == link) {
            return self.on_parent(links, link, record, now_us, deeds);
        }
        match self.children.hear(links, link, record) {
            Said::Data(child, data) => {
                deeds.push(Deed::Take(child, data.stream, data.at_us, data.triples.to_vec()));
            }
            Said::Standing(child, standing) if self.may_speak(child, standing.post) => {
                self.children.leads(child, standing.post);
                self.pass_on(links, standing, now_us);
            }
            Said::Alarms(child, mut alarms) => {
                alarms.retain(|alarm| self.may_speak(child, alarm.key.origin));
                deeds.push(Deed::Alarms(link, child, alarms));
            }
            Said::Part(post, part) => {
                let sum = self.parts.up(post, &part);
                self.say_parts(links, sum, now_us);
            }
            Said::Answer(child, answer) if self.may_speak(child, answer.post) => {
                deeds.push(Deed::Answer(record.to_vec()));
            }
            // The ring's suspicions are of posts that may be anywhere.
            Said::Suspect(child, post) if self.is_cp(child) => self.suspect(links, post, now_us),
            Said::Gone(post) => self.on_child_gone(links, post, now_us, deeds),
            Said::Standing(..)
            | Said::Answer(..)
            | Said::Suspect(..)
            | Said::AlarmAcks(..)
            | Said::Nothing => {}
        }
    }

    fn on_parent(
        &mut self,
        links: &mut impl Links,
        link: LinkId,
        record: &[u8],
        now_us: u64,
        deeds: &mut Vec<Deed>,
    ) {
        match Message::read(record) {
            Ok(Some(Message::Beat { heard })) => {
                if self.place.as_ref().is_some_and(|place| !place.is_greeted) {
                    self.sending.on_heard(heard);
                }
            }
            Ok(Some(Message::Table(table))) => {
                // Something else is to be measured, or at other times: here, and below.
                if self.table != table {
                    self.table = table;
                    deeds.push(Deed::Heed);
                }
                self.children.tell(links, &Message::Table(self.table.clone()), now_us);
            }
            Ok(Some(Message::Welcome { now_us: farm_us })) => {
                let is_back = self.clock.hear(farm_us, now_us);
                self.on_clock(links, is_back, now_us, deeds);
            }
            Ok(Some(Message::AlarmAcks(acks))) => deeds.push(Deed::AlarmAcks(acks)),
            // The post that runs a program hears of the alarms of all.
            Ok(Some(Message::Alarms(alarms)))
                if self.order().is_some_and(|order| order.kind == PostKind::Ap) =>
            {
                deeds.push(Deed::Alarms(link, PostId::FRONT, alarms));
            }
            Ok(Some(Message::Part(part))) => self.on_part(links, &part, now_us),
            Ok(Some(Message::Control(_))) => deeds.push(Deed::Control(record.to_vec())),
            Ok(None) => {}
            // What no parent says.
            _ => {
                links.close(link);
                self.on_gone(links, (link, &End::against_the_rules()), now_us, deeds);
            }
        }
    }

    /// Those above want something of all: a back end says it, others have it said.
    fn on_part(&mut self, links: &mut impl Links, part: &Part, now_us: u64) {
        let own = (self.level == 0).then_some(part.value);
        let sum = self.parts.down(part.round, own, self.children.posts());
        self.children.begin(links, part.round, part.value, now_us);
        self.say_parts(links, sum, now_us);
    }

    /// Says sums of what those below have said.
    fn say_parts(&self, links: &mut impl Links, sums: impl IntoIterator<Item = Part>, now_us: u64) {
        // An orphan has nobody to say them to: its next parent begins anew.
        let Some(link) = self.parent_link() else { return };
        for part in sums {
            links.send(link, Lane::Collective, &Message::Part(part), now_us);
        }
    }

    /// Whoever was called takes the post in, or does not.
    fn on_answer(
        &mut self,
        links: &mut impl Links,
        link: LinkId,
        record: &[u8],
        now_us: u64,
        deeds: &mut Vec<Deed>,
    ) {
        match Message::read(record) {
            Ok(Some(Message::Welcome { now_us: farm_us })) => {
                let place = self.place.as_mut().expect("who has called has a place");
                let before = place.join(now_us);
                before.into_iter().for_each(|up| links.close(up.link));
                self.sending.begin();
                self.parts.clear();
                self.standing_us = 0;
                let is_back = self.clock.begin(farm_us, now_us);
                self.on_clock(links, is_back, now_us, deeds);
                deeds.push(Deed::Heed);
                for standing in std::mem::take(&mut self.below).into_values() {
                    self.pass_on(links, standing, now_us);
                }
                deeds.push(Deed::Tell(PostState::Joined, self.parent()));
            }
            Ok(Some(Message::Beat { .. }) | None) => {}
            // A refusal, or what no parent says.
            _ => {
                links.close(link);
                self.on_gone(links, (link, &End::against_the_rules()), now_us, deeds);
            }
        }
    }

    /// The farm's clock was told: those below hear of it. It may be another scheduler's.
    fn on_clock(&mut self, links: &mut impl Links, is_back: bool, now_us: u64, deeds: &mut Vec<Deed>) {
        if is_back {
            self.sending.clear();
            deeds.extend([Deed::BeginAnew, Deed::Heed]);
        }
        if let Some(farm_us) = self.clock.shows(now_us) {
            self.children.tell(links, &Message::Welcome { now_us: farm_us }, now_us);
        }
    }

    /// A link has ended by itself, and why.
    pub fn on_end(
        &mut self,
        links: &mut impl Links,
        (link, end): (LinkId, &End),
        now_us: u64,
        deeds: &mut Vec<Deed>,
    ) {
        let child = self.children.post(link).filter(|_| *end == End::Silent);
        self.on_gone(links, (link, end), now_us, deeds);
        child.into_iter().for_each(|child| self.suspect(links, child, now_us));
    }

    /// Nothing was heard of a post below, or of one that it watches: so those above hear of it.
    pub fn suspect(&self, links: &mut impl Links, post: PostId, now_us: u64) {
        if let Some(link) = self.parent_link() {
            links.send(link, Lane::Control, &Message::Suspect(post), now_us);
        }
    }

    fn on_gone(
        &mut self,
        links: &mut impl Links,
        (link, end): (LinkId, &End),
        now_us: u64,
        deeds: &mut Vec<Deed>,
    ) {
        if let Some(place) = &mut self.place
            && place.gone(link, end, now_us)
        {
            deeds.push(Deed::Tell(PostState::Orphan, None));
        } else if let Some(post) = self.children.gone(link) {
            self.on_child_gone(links, post, now_us, deeds);
        }
    }

    /// What a CP told the posts below it tell whoever takes them in, and one that was taken in has gone home. A back end of
    /// this post comes back, or is missed.
    fn on_child_gone(&mut self, links: &mut impl Links, post: PostId, now_us: u64, deeds: &mut Vec<Deed>) {
        self.standing_us = 0;
        let sums = self.parts.gone(post);
        self.say_parts(links, sums, now_us);
        let is_cp = self.below.remove(&post).is_none_or(|child| child.level > 0);
        let is_own = self.place.as_ref().is_some_and(|place| {
            let own = |below: &Descendant| below.post == post && below.parent == place.order.post;
            place.order.below.iter().any(own)
        });
        if is_cp || !is_own {
            deeds.push(Deed::Forget(post));
        }
    }

    /// A post below says how it stands: so those above hear of it.
    fn pass_on(&mut self, links: &mut impl Links, standing: Standing, now_us: u64) {
        if self.levels.contains_key(&standing.post) {
            self.below.insert(standing.post, standing);
            if let Some(up) = self.up() {
                links.send(up.link, Lane::Control, &Message::Standing(standing), now_us);
            }
        }
    }

    /// Values of this post, measured at that time by the farm's clock: they leave with whoever is its parent by then.
    pub fn put(&mut self, stream: Stream, at_us: u64, triples: &[u8]) {
        let post = self.post().expect("who measures by the farm's clock has a place");
        self.sending.put(post, stream, at_us, triples);
    }

    /// So many messages of this post were dropped before they came here: they count as made and dropped.
    pub fn lose(&mut self, stream: Stream, messages: u32) {
        self.sending.lose(stream, messages);
    }

    /// Drops what is too old, sends what waits, as far as the link takes it, and says how this post stands. `late` of the
    /// messages of its children came when their wave was over.
    pub fn say(&mut self, links: &mut impl Links, late: u64, now_us: u64) {
        if let Some(farm_us) = self.farm_us(now_us) {
            self.sending.tidy(farm_us);
        }
        let Some(place) = self.place.as_ref().filter(|place| !place.is_greeted) else { return };
        let (Some(up), post) = (&place.parent, place.order.post) else { return };
        links.send_data(up.link, &mut self.sending, now_us);
        if now_us >= self.standing_us {
            self.standing_us = now_us + STANDING_US;
            let counts = self.children.counts(self.sending.counts(), late);
            let (parent, level, children) = (up.post, self.level, self.children.count() as u32);
            let standing = Message::Standing(Standing { post, parent, level, children, counts });
            links.send(up.link, Lane::Control, &standing, now_us);
        }
    }
}
