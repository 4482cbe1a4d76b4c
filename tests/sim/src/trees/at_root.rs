//! What simulated schedulers do for their tree.

use std::collections::BTreeMap;

use starfarm_agent_core::Picture;
use starfarm_overlay_core::children::{Children, Said};
use starfarm_overlay_core::forest::Forest;
use starfarm_overlay_core::front::{Front, NodeFacts, Settings};
use starfarm_overlay_core::lanes::Lane;
use starfarm_overlay_core::pipe::{End, Links};
use starfarm_overlay_core::plan::Features;
use starfarm_overlay_core::ring::Ring;
use starfarm_protocol::link::{Message, Table};
use starfarm_protocol::orders::{FRONT_LEVEL, PostId};

use super::agenda::What;
use super::clock::Clock;
use super::model::SECOND_US;
use super::node::machine;
use super::post::period_of;
use super::root::{FarmNode, Root};
use super::wires::{Call, Mine, Who};
use super::world::{Happening, Trees};
use crate::violation::{Broken, rule};

/// The rim's pauses.
const PAUSE_US: u64 = SECOND_US / 10;
const ROLL_US: u64 = SECOND_US;
const TIDY_US: u64 = 5 * SECOND_US;
const STRANGERS_US: u64 = 30 * SECOND_US;
/// The farm takes a node for lost that it has not heard for so long.
const LOST_US: u64 = 15 * SECOND_US;
/// What the farm's clock shows at the start of a run.
const EPOCH_US: u64 = 1_700_000_000 * SECOND_US;

impl Trees {
    /// A scheduler starts, whose clock is behind by so much of what it should show.
    pub(super) fn start_scheduler(&mut self, behind_us: u64) {
        if self.root.is_some() {
            return;
        }
        (self.processes, self.incarnation) = (self.processes + 1, self.incarnation + 1);
        let (who, incarnation) = (Who(self.processes), self.incarnation);
        let clock = Clock::new(self.now_us, EPOCH_US + self.now_us - behind_us, 0);
        let settings = Settings { fanout: self.model.fanout, ..Settings::default() };
        let front = Front::new(self.key.clone(), u64::from(incarnation), machine(self.scheduler_host()))
            .with(settings);
        // Its journal knows all nodes.
        let known = self.nodes.iter().filter(|node| node.life > 0);
        let farm = known.map(|node| (node.name.clone(), FarmNode::default())).collect();
        self.root = Some(Root {
            who,
            incarnation,
            clock,
            forest: Forest::new(front),
            picture: Picture::default(),
            children: Children::of(FRONT_LEVEL),
            ring: Ring::default(),
            late: 0,
            table: Table::default(),
            farm,
            bells: BTreeMap::new(),
            roll_us: 0,
            tidy_us: 0,
            strangers_us: 0,
        });
        self.agenda.at(self.now_us + 1, What::Root(incarnation));
        self.agenda.at(self.now_us + self.look_us(), What::Look(who));
    }

    pub(super) fn end_scheduler(&mut self) {
        if let Some(root) = self.root.take() {
            self.wires.forget(root.who);
            self.judge.forget(root.who);
        }
    }

    /// The tree thread's next look.
    pub(super) fn root(&mut self, incarnation: u32) {
        if self.root.as_ref().is_some_and(|root| root.incarnation == incarnation) {
            self.agenda.at(self.now_us + PAUSE_US, What::Root(incarnation));
            self.root_turn(incarnation);
        }
    }

    /// Does what is to be done by now.
    pub(super) fn root_turn(&mut self, incarnation: u32) {
        let Some(root) = self.root.as_mut().filter(|root| root.incarnation == incarnation) else { return };
        let now_us = root.clock.shows(self.now_us);
        let mut links = Mine(&mut self.wires, root.who);
        if root.table != self.table {
            root.table = self.table.clone();
            root.children.tell(&mut links, &Message::Table(root.table.clone()), now_us);
            root.picture.set_periods(period_of(&root.table), BTreeMap::new(), BTreeMap::new());
        }
        root.forest.settle(now_us);
        let (watched, watchers) = &**root.forest.farm().watches();
        root.ring.place(&mut links, (PostId::FRONT, None), watched, watchers);
        root.bells.extend(root.forest.take_bells());
        if now_us >= root.tidy_us {
            root.tidy_us = now_us + TIDY_US;
            root.picture.tidy(now_us);
            let gone = root.forest.gone();
            let mut posts: Vec<_> = gone.iter().flat_map(|node| root.forest.forget(node)).collect();
            posts.extend(root.forest.take_ended(now_us));
            for post in posts {
                root.picture.forget(post);
                root.children.end(&mut links, post);
            }
            root.children.tell(&mut links, &Message::Welcome { now_us }, now_us);
        }
        let mut rings = Vec::new();
        if !root.bells.is_empty() || now_us >= root.roll_us {
            root.roll_us = now_us + ROLL_US;
            for (name, newest) in std::mem::take(&mut root.bells) {
                let Some(node) = root.farm.get_mut(&name) else { continue };
                node.orders = newest;
                rings.extend(node.place.map(|place| (place, newest)));
            }
            let facts = |of: &FarmNode| NodeFacts {
                is_up: of.heard_us.is_some_and(|heard_us| heard_us + LOST_US > now_us),
                carries_only: false,
                features: Features::default(),
            };
            let roll: BTreeMap<_, _> = root.farm.iter().map(|(name, of)| (name.clone(), facts(of))).collect();
            root.forest.on_roll(&roll);
            // Which nodes have tasks of a job a scheduler that has just started has yet to hear from them.
            let is_heard = |name: &String| root.farm.get(name).is_some_and(|of| of.heard_us.is_some());
            let name = |number: &usize| Some(self.nodes[*number].name.clone()).filter(is_heard);
            let names = |job| self.jobs[job].iter().filter_map(name).collect();
            let own_trees = self.own_trees.iter().map(|job| (*job, names(job))).collect();
            root.forest.want(&own_trees, now_us);
            if now_us >= root.strangers_us {
                root.strangers_us = now_us + STRANGERS_US;
                let there = roll.iter().filter(|(_, facts)| facts.is_up).map(|(name, _)| name.as_str());
                let strangers = root.forest.farm().strangers(there).into_iter().map(str::to_owned);
                root.bells.extend(strangers.map(|name| (name, now_us)));
            }
        }
        rings.into_iter().for_each(|(place, newest)| self.ring(place, newest));
        self.call_watched(now_us);
    }

    /// The front calls whom it watches, if it is time.
    fn call_watched(&mut self, local_us: u64) {
        while let Some(root) = &mut self.root
            && let Some((watched, to)) = root.ring.next_call(local_us)
        {
            let (who, post, key) = (root.who, PostId::FRONT, self.key.public());
            let call = Call { post, key, ancestor: watched.clone(), to };
            let link = self.dial((who, self.scheduler_host()), call, local_us);
            self.root.as_mut().expect("it was just there").ring.on_calling(link, &watched);
        }
    }

    /// Something has happened to a link of the front.
    pub(super) fn root_hears(&mut self, happening: Happening) -> Result<(), Broken> {
        let root = self.root.as_mut().expect("it was asked for");
        let (who, now_us) = (root.who, root.clock.shows(self.now_us));
        let (mut links, mut suspects) = (Mine(&mut self.wires, who), Vec::new());
        match happening {
            Happening::Up(link) => drop(root.ring.on_up(&mut links, link, now_us)),
            Happening::Called(link, post, key, first) => {
                if !root.ring.on_called(&mut links, link, post, &first)
                    && root.children.arrive(&mut links, link, (post, key), &first, (now_us, now_us))
                {
                    let table = Message::Table(root.table.clone());
                    links.send(link, Lane::Control, &table, now_us);
                }
            }
            Happening::Record(link, record)
                if let Some(suspect) = root.ring.on_record(&mut links, link, &record, now_us) =>
            {
                suspects.extend(suspect);
            }
            Happening::Record(link, record) => match root.children.hear(&mut links, link, &record) {
                Said::Data(post, data) => {
                    let (is_news, refused) = root.take(post, &data, now_us);
                    root.late += u64::from(!is_news);
                    is_none_refused(post, refused)?;
                    self.took(who, link, &record)?;
                }
                Said::Standing(child, standing) => {
                    if root.forest.may_speak(child, standing.post, now_us) {
                        root.forest.on_standing(standing, now_us);
                    } else {
                        is_none_refused(child, root.wrongly_refused(standing.post))?;
                    }
                }
                Said::Gone(post) => root.on_gone(post),
                Said::Suspect(child, post) => {
                    suspects.extend(Some(post).filter(|_| root.forest.may_suspect(child, post, now_us)));
                }
                Said::Alarms(..)
                | Said::AlarmAcks(..)
                | Said::Part(..)
                | Said::Answer(..)
                | Said::Nothing => {}
            },
            Happening::Gone(link, end) => {
                suspects.extend(root.ring.on_end(&mut links, (link, &end), now_us).flatten());
                let post = root.children.gone(link);
                post.into_iter().for_each(|post| root.on_gone(post));
                suspects.extend(post.filter(|_| end == End::Silent));
            }
            Happening::Turn | Happening::Close | Happening::Place(..) => {}
        }
        suspects.into_iter().for_each(|post| self.suspect(post));
        Ok(())
    }
}

/// Here all are honest.
fn is_none_refused(child: PostId, refused: Option<PostId>) -> Result<(), Broken> {
    rule(refused.is_none(), "no honest post is refused", || format!("{child} of {refused:?}"))
}
