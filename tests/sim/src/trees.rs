//! The monitoring tree under virtual time: a real front, real members with real graphs of stages, and what real workers know of
//! their posts, over links that break, stall and take their time. Machines go out and fall apart into groups, agents, workers
//! and schedulers die, nodes come and go, and the tree is formed anew meanwhile. Sockets, seals, processes and sensors are no
//! part of it. What is judged, and how, is in `rules`.

mod agenda;
mod at_agent;
mod at_node;
mod at_root;
mod clock;
mod doubts;
mod faults;
mod judge;
mod model;
mod network;
mod node;
mod post;
mod root;
mod rules;
mod wires;
mod world;

use self::agenda::What;
use self::model::SECOND_US;
pub use self::model::{TreeModel, TreeTally};
use self::world::{Happening, Trees};
use crate::violation::{Broken, Violation};

/// So long after the last fault everything must be at rest: a CP of which nothing was heard is given up after a minute, and a
/// process that dies again and again is started again after half of one.
const REST_US: u64 = 150 * SECOND_US;

/// Runs a tree under faults by a seed.
///
/// # Errors
/// The first rule that was broken.
pub fn trees(model: &TreeModel, seed: u64) -> Result<TreeTally, Violation> {
    let mut trees = Trees::new(*model, seed);
    trees.start_scheduler(0);
    (0..model.nodes as usize).for_each(|number| trees.start_worker(number));
    trees.agenda.at(SECOND_US, What::Fault);
    trees.agenda.at(2 * SECOND_US, What::Change);
    trees.run().map_err(|(rule, found)| Violation { rule, at_us: trees.now_us, found })?;
    Ok(trees.tally)
}

impl Trees {
    fn run(&mut self) -> Result<(), Broken> {
        while let Some((at_us, what)) = self.agenda.next() {
            if at_us > self.quiet_us + REST_US {
                break;
            }
            self.now_us = at_us;
            self.tally.events += 1;
            self.log.word(at_us);
            self.happen(what)?;
            self.settle_wires();
        }
        self.at_rest()?;
        let root = self.root.as_ref().expect("a scheduler runs at rest");
        (self.tally.posts, self.tally.depth) = (self.agents.len() as u64, root.forest.farm().depth() as u64);
        self.tally.own = root.forest.own().map(|(_, front)| front.posts().count() as u64).sum();
        self.tally.dropped = self.agents.values().map(|agent| agent.member.sending().counts().1).sum();
        self.tally.log = self.log.0;
        Ok(())
    }

    fn happen(&mut self, what: What) -> Result<(), Broken> {
        match what {
            What::Turn(who) => {
                let is_due = self.agents.get(&who).is_some_and(|agent| agent.turn_us == self.now_us);
                return if is_due { self.agent_turn(who, Happening::Turn) } else { Ok(()) };
            }
            What::Look(who) => return self.look(who),
            What::Connect(link) => return self.connect(link),
            What::Answered(link) => return self.answered(link),
            What::Deliver(link, side) => return self.deliver(link, side),
            What::HangUp(link, side) => return self.hang_up(link, side),
            What::Place(who, order, scheduler) => {
                return self.agent_turn(who, Happening::Place(order, scheduler));
            }
            What::Close(who) => return self.agent_turn(who, Happening::Close),
            What::Fault => return self.fault(),
            What::Runs(place, id, what) => self.runs(place, id, what),
            What::Tell(place, id, news) => self.hear(place, id, news),
            What::Worker(place) => self.worker(place),
            What::Report(place, report, incarnation) => self.on_report(place, &report, incarnation),
            What::Called(place, orders) => self.on_called(place, orders),
            What::Heartbeat(place) => self.heartbeat(place),
            What::Bell(place, newest) => self.on_bell(place, newest),
            What::Root(incarnation) => self.root(incarnation),
            What::Wake(incarnation) => self.root_turn(incarnation),
            What::Mend(mend) => self.mend(mend),
            What::Change => self.change(),
        }
        Ok(())
    }
}
