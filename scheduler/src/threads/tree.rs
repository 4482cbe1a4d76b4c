//! The tree thread: it has the links of the posts below the front, and puts what they say into the picture. It owns
//! nothing that counts: the farm goes on without it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use starfarm_agent_core::LINE_STEP_US;
use starfarm_overlay::{Children, End, Happening, LinkId, Reactor, Said, this_host};
use starfarm_overlay_core::front::{Front, Neighbours};
use starfarm_overlay_core::lanes::Lane;
use starfarm_overlay_core::ring::Ring;
use starfarm_protocol::admin::Response;
use starfarm_protocol::ids::{Boot, JobId, PublicKey};
use starfarm_protocol::link::{Control, Message, Piece, Table};
use starfarm_protocol::orders::{FRONT_LEVEL, PostId};
use starfarm_protocol::seal::packet::Mode;
use starfarm_protocol::seal::{Introduction, StaticKey, post_name};
use starfarm_protocol::terms::Monitored;
use starfarm_scheduler_core::{Deeds, NodeCommand, OnRoll};
use tokio::sync::oneshot;

use super::{House, Input, Question};
use crate::Options;
use crate::error::SchedulerError;
use crate::guard::caught;
use crate::store::state::StateDir;
use crate::tree::{Arrival, Ask, Stages, Tree};

/// Links that wait for the thread at most.
const ARRIVALS_MAX: usize = 1_024;
/// Longest pause between two looks at what else there is to do.
const PAUSE: Duration = Duration::from_millis(100);
/// How often what is of no use any more is dropped, and how often the farm is asked which nodes there are, in microseconds.
const TIDY_US: u64 = 5_000_000;
const ROLL_US: u64 = 1_000_000;
/// And how often at most where there is nothing new but that nodes are silent.
const DOUBTS_US: u64 = 200_000;
/// How often nodes that are there and do not call are rung.
const STRANGERS_US: u64 = 30_000_000;

/// The tree of posts and its links, where somebody wants to see.
#[expect(clippy::type_complexity, reason = "what the thread takes")]
pub(crate) fn tree_of(
    options: &Options,
    key: &StaticKey,
    state: &StateDir,
) -> Result<Option<(Arc<Tree>, (Reactor, Receiver<Arrival>))>, SchedulerError> {
    if options.no_monitor {
        return Ok(None);
    }
    let reactor = Reactor::new().map_err(|e| SchedulerError::State(format!("no monitor: {e}")))?;
    let (arrive, arrivals) = bounded(ARRIVALS_MAX);
    let front = Front::new(key.clone(), state.farm.epoch.0, this_host());
    let tree = Tree::new(front, arrive, reactor.waker());
    tree.load_again(state);
    Ok(Some((Arc::new(tree), (reactor, arrivals))))
}

/// Starts the thread.
pub(crate) fn spawn(
    house: &Arc<House>,
    tree: Arc<Tree>,
    (reactor, arrivals): (Reactor, Receiver<Arrival>),
    dispatcher: &Sender<Input>,
) -> JoinHandle<()> {
    let (house, dispatcher) = (Arc::clone(house), dispatcher.clone());
    super::spawn("tree", move || {
        let mut reactor = reactor;
        loop {
            let (children, table) = (Children::of(FRONT_LEVEL), Table::default());
            let dispatcher = dispatcher.clone();
            let (bells, answer) = (BTreeMap::new(), Arc::default());
            let root = Root {
                house: &house,
                tree: &tree,
                dispatcher,
                children,
                ring: Ring::default(),
                watches: Arc::default(),
                late: 0,
                table,
                stages: tree.stages(),
                bells,
                drain: Vec::new(),
                doubted: BTreeSet::new(),
                answer,
                strangers_us: 0,
            };
            match caught(|| root.run(&mut reactor, &arrivals)) {
                Ok(Ok(())) => return,
                Ok(Err(error)) => {
                    return starfarm_net::say(&format!("the monitor has ended, the farm goes on: {error}"));
                }
                // Whoever had a link calls again.
                Err(why) => {
                    starfarm_net::say(&format!("the monitor begins anew, the farm goes on: {why}"));
                    reactor.close_all();
                }
            }
        }
    })
}

/// The front's end of the links.
struct Root<'a> {
    house: &'a Arc<House>,
    tree: &'a Arc<Tree>,
    dispatcher: Sender<Input>,
    children: Children,
    /// The ring's links: whom the front watches, and who watches it.
    ring: Ring,
    /// Whom it was told to watch, and who may.
    watches: Arc<Neighbours>,
    /// Messages that brought nothing that is newer than what was known.
    late: u64,
    /// What posts were told to measure.
    table: Table,
    /// The stages that back ends were told to have beside their own.
    stages: Arc<Stages>,
    /// Whom to ring, and for which orders.
    bells: BTreeMap<String, u64>,
    /// Nodes that are to get no more tasks.
    drain: Vec<String>,
    /// Nodes of whose posts nothing was heard for a while.
    doubted: BTreeSet<String>,
    /// What the farm has said since it was looked at last.
    answer: Arc<Mutex<Option<Answer>>>,
    /// When nodes that do not call are rung next.
    strangers_us: u64,
}

/// What the farm says of itself.
struct Answer {
    roll: Vec<OnRoll>,
    /// Jobs that it was asked about, those of them that there are, and those that have not ended.
    asked: BTreeSet<JobId>,
    known: BTreeSet<JobId>,
    live: BTreeSet<JobId>,
    /// What the files of jobs say of their measurement.
    monitored: BTreeMap<JobId, Monitored>,
    /// Jobs that are to have trees of their own, and the nodes that have tasks of each.
    own_trees: BTreeMap<JobId, BTreeSet<String>>,
}

impl Root<'_> {
    fn run(mut self, reactor: &mut Reactor, arrivals: &Receiver<Arrival>) -> std::io::Result<()> {
        let (mut happenings, mut tidy_us, mut roll_us, mut step_us) = (Vec::new(), 0, 0, 0);
        let shared = Arc::clone(&self.house.shared);
        let clock = || shared.now_us();
        while !shared.stopping() {
            reactor.turn(PAUSE, clock, &mut happenings)?;
            let now_us = clock();
            for happening in happenings.drain(..) {
                match happening {
                    Happening::Record(link, record) => self.hear(reactor, link, &record, now_us),
                    Happening::Gone(link, end) => self.gone(reactor, link, &end, now_us),
                    Happening::Up(link) => drop(self.ring.on_up(reactor, link, now_us)),
                    Happening::Called(..) | Happening::Readable(_) => {}
                }
            }
            for Arrival { socket, stream, post, key, first } in arrivals.try_iter() {
                let Ok(link) = reactor.adopt(socket, *stream, now_us) else { continue };
                if self.ring.on_called(reactor, link, post, &first) {
                    continue;
                }
                if self.children.arrive(reactor, link, (post, key), &first, (now_us, now_us)) {
                    self.tree.on_arrived(post);
                    reactor.send(link, Lane::Control, &Message::Table(self.table.clone()), now_us);
                    for message in self.stages.messages() {
                        reactor.send(link, Lane::Control, &message, now_us);
                    }
                }
            }
            let table = self.tree.table();
            if table != self.table {
                self.children.tell(reactor, &Message::Table(table.clone()), now_us);
                self.table = table;
            }
            self.alarm(reactor, now_us);
            let stages = self.tree.stages();
            if stages.number != self.stages.number {
                stages.messages().for_each(|message| self.children.tell(reactor, &message, now_us));
                self.stages = stages;
            }
            self.ask_agents(reactor, now_us);
            self.watch(reactor, now_us);
            self.tree.stands(self.children.count() as u32, self.children.counts((0, 0), self.late));
            self.pick_up(now_us);
            self.bells.extend(self.tree.settle(now_us));
            if now_us >= step_us {
                // After a pause none is made up for.
                step_us = if now_us > step_us + LINE_STEP_US { now_us } else { step_us } + LINE_STEP_US;
                self.tree.step(now_us);
            }
            let has_doubts = !self.doubted.is_empty() && now_us + ROLL_US >= roll_us + DOUBTS_US;
            if !self.bells.is_empty() || has_doubts || now_us >= roll_us {
                roll_us = now_us + ROLL_US;
                self.drain.extend(self.tree.tidy_alarms(now_us));
                self.ask();
            }
            self.tell(now_us);
            if now_us >= tidy_us {
                tidy_us = now_us + TIDY_US;
                self.tidy(reactor, now_us);
            }
        }
        Ok(())
    }

    /// Passes on what is asked of agents. Of one to whom no way is known yet whoever asked hears nothing.
    fn ask_agents(&self, reactor: &mut Reactor, now_us: u64) {
        for Ask { post, number, asked, text } in self.tree.asked() {
            for piece in Piece::all(number, text.as_bytes()) {
                let control = Control { post, asked: asked as u8, piece };
                self.children.send_to(reactor, post, &Message::Control(control), now_us);
            }
        }
    }

    /// Has the dispatcher ring for new orders, and say which nodes there are. Nobody waits for that, and it waits for nobody:
    /// what it says is picked up at the next turn.
    fn ask(&mut self) {
        let (bells, asked, answer) = (self.bells.clone(), self.tree.jobs_to_ask(), Arc::clone(&self.answer));
        let (drain, doubted) = (self.drain.clone(), self.doubted.clone());
        let act = move |farm: &mut starfarm_scheduler_core::Farm, now_us: u64, deeds: &mut Deeds| {
            farm.ring(&bells);
            farm.doubt(doubted.iter().map(String::as_str), now_us);
            for node in drain {
                // One that is not there any more gets no tasks either.
                let _ = farm.command_node(&node, NodeCommand::Drain, deeds);
            }
            let roll = farm.roll();
            let live = asked.iter().copied().filter(|job| farm.has_live(*job)).collect();
            let known = asked.iter().copied().filter(|job| farm.has_job(*job)).collect();
            let (monitored, own_trees) = (farm.monitored(), farm.own_trees());
            let said = Answer { roll, asked, known, live, monitored, own_trees };
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
            Response::Done
        };
        let question = Question { act: Box::new(act), reply: oneshot::channel().0 };
        // Without room it is asked again, and the bells are rung then.
        if self.dispatcher.try_send(Input::Ask(question)).is_ok() {
            self.bells.clear();
            self.drain.clear();
            self.doubted.clear();
        }
    }

    /// Tells the log what has happened, by the dispatcher, so that its times ascend. Nobody waits for that: without room it
    /// counts as missing.
    fn tell(&self, now_us: u64) {
        let (events, missed) = self.tree.happened(now_us);
        let unheard = if events.is_empty() {
            missed
        } else {
            let count = events.len() as u64;
            let told = self.dispatcher.try_send(Input::Events(events));
            if let Err(TrySendError::Full(_)) = told { missed + count } else { missed }
        };
        self.house.shared.unheard.fetch_add(unheard, Ordering::Relaxed);
    }

    /// Takes up what the farm has said.
    fn pick_up(&mut self, now_us: u64) {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Answer { roll, asked, known, live, monitored, own_trees }) = answer else { return };
        let roll = self.tree.on_roll(roll, now_us);
        self.tree.on_live((&asked, &known, &live), (monitored, &own_trees), now_us);
        // Nodes that are there, and of which the tree knows nothing: it may have forgotten them.
        if now_us >= self.strangers_us {
            self.strangers_us = now_us + STRANGERS_US;
            self.bells.extend(self.tree.strangers(&roll).into_iter().map(|name| (name, now_us)));
        }
    }

    fn tidy(&mut self, reactor: &mut Reactor, now_us: u64) {
        let nodes = self.tree.nodes();
        let keys = self.house.keys.lock().expect("a panic under the lock ends the process");
        let is_gone = |node: &PublicKey| keys.key(node).is_none_or(|entry| entry.revoked);
        let gone: Vec<_> = nodes.into_iter().filter(is_gone).collect();
        drop(keys);
        for post in self.tree.tidy(gone, now_us) {
            self.children.end(reactor, post);
        }
        // Their clocks go a little apart, and ours may be set.
        self.children.tell(reactor, &Message::Welcome { now_us }, now_us);
    }

    /// Tells the post that runs a program what it does not know.
    fn alarm(&mut self, reactor: &mut Reactor, now_us: u64) {
        let due = self.tree.alarms_due(|post| self.children.link(post).is_some(), now_us);
        let Some((post, messages)) = due else { return };
        let link = self.children.link(post).expect("it was just seen there");
        for alarms in messages {
            reactor.send(link, Lane::Alarm, &Message::Alarms(alarms), now_us);
        }
    }

    /// Calls whom the front watches, when it is time.
    fn watch(&mut self, reactor: &mut Reactor, now_us: u64) {
        let watches = self.tree.watches();
        if !Arc::ptr_eq(&watches, &self.watches) {
            self.ring.place(reactor, (PostId::FRONT, None), &watches.0, &watches.1);
            self.watches = watches;
        }
        let (state, name) = (&self.house.state, post_name(PostId::FRONT.0));
        while let Some((called, address)) = self.ring.next_call(now_us) {
            let who = Introduction {
                key: &state.key,
                scheduler: &called.key,
                join_secret: &called.secret,
                name: &name,
                boot: Boot(0),
                mode: Mode { stream: true, ..Mode::default() },
            };
            if let Ok(link) = reactor.call(address, &who, state.farm.id, now_us) {
                self.ring.on_calling(link, &called);
            } else if let Some(post) = self.ring.on_no_call(reactor, &called, now_us) {
                self.suspect(post, now_us);
            }
        }
    }

    /// Nothing is heard of a post, or nobody can call it. The node of one that the front hears itself is not silent.
    fn suspect(&mut self, post: PostId, now_us: u64) {
        let is_linked = self.children.link(post).is_some();
        self.doubted.extend(self.tree.node_of(post).filter(|_| !is_linked));
        self.tree.on_suspect(post, is_linked, now_us);
    }

    fn hear(&mut self, reactor: &mut Reactor, link: LinkId, record: &[u8], now_us: u64) {
        if let Some(suspect) = self.ring.on_record(reactor, link, record, now_us) {
            suspect.into_iter().for_each(|post| self.suspect(post, now_us));
            return;
        }
        match self.children.hear(reactor, link, record) {
            Said::Data(post, data) => self.late += u64::from(!self.tree.take(post, &data, now_us)),
            Said::Standing(child, standing) => {
                if self.tree.on_standing(child, standing, now_us) {
                    self.children.leads(child, standing.post);
                }
            }
            Said::Alarms(post, alarms) => {
                let acks = self.tree.take_alarms(post, alarms, now_us);
                reactor.send(link, Lane::Alarm, &Message::AlarmAcks(acks), now_us);
            }
            Said::AlarmAcks(post, acks) => self.tree.on_alarm_acks(post, acks),
            Said::Answer(child, answer) => self.tree.on_answer(child, &answer, now_us),
            Said::Gone(post) => self.tree.on_gone(post),
            Said::Suspect(child, post) => {
                if self.tree.may_suspect(child, post, now_us) {
                    self.suspect(post, now_us);
                }
            }
            // The front has begun none.
            Said::Part(..) | Said::Nothing => {}
        }
    }

    fn gone(&mut self, reactor: &mut Reactor, link: LinkId, end: &End, now_us: u64) {
        if let Some(suspect) = self.ring.on_end(reactor, (link, end), now_us) {
            suspect.into_iter().for_each(|post| self.suspect(post, now_us));
            return;
        }
        let Some(post) = self.children.gone(link) else { return };
        self.tree.on_gone(post);
        if *end == End::Silent {
            self.suspect(post, now_us);
        }
    }
}
