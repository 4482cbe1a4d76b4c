//! The turns of simulated agents.

use starfarm_agent_core::up::Values;
use starfarm_agent_core::{Triples, without_others};
use starfarm_overlay_core::closing::Closing;
use starfarm_overlay_core::member::{self, Deed};
use starfarm_overlay_core::pipe::LinkId;
use starfarm_overlay_core::posts::News;
use starfarm_protocol::orders::PostId;

use super::agenda::What;
use super::post::Agent;
use super::wires::{Call, Mine, Who};
use super::world::{Happening, Trees};
use crate::violation::{Broken, rule};

impl Trees {
    /// A turn of an agent, as its process has them: it hears, does what comes of that, and says what is to be said.
    pub(super) fn agent_turn(&mut self, who: Who, happening: Happening) -> Result<(), Broken> {
        let Some(agent) = self.agents.get_mut(&who) else { return Ok(()) };
        let local_us = agent.clock.shows(self.now_us);
        let (mut links, mut deeds, mut came) = (Mine(&mut self.wires, who), Vec::new(), None);
        let before = agent.member.children().count();
        match happening {
            Happening::Turn => {}
            Happening::Close => agent.closing = Some(Closing::begin(local_us)),
            Happening::Place(order, scheduler) => {
                agent.vouchers = member::vouchers(&order);
                agent.limit = order.children_max as usize;
                order.apart.clone_into(&mut agent.apart.borrow_mut());
                let (who, watched) = ((order.post, Some(scheduler)), &order.watched);
                agent.ring.place(&mut links, who, watched, &order.watchers);
                agent.member.on_place(&mut links, (*order, scheduler), &mut deeds);
            }
            Happening::Up(link) => {
                if !agent.ring.on_up(&mut links, link, local_us) {
                    agent.member.on_up(&mut links, link, local_us);
                }
            }
            Happening::Called(link, post, key, first) => {
                if !agent.ring.on_called(&mut links, link, post, &first) {
                    agent.member.on_called(&mut links, link, (post, key), &first, local_us, &mut deeds);
                }
            }
            Happening::Record(link, record) => {
                match agent.ring.on_record(&mut links, link, &record, local_us) {
                    Some(suspect) => agent.suspect(&mut links, suspect, local_us),
                    None => agent.member.on_record(&mut links, link, &record, local_us, &mut deeds),
                }
                came = Some((link, record));
            }
            Happening::Gone(link, end) => match agent.ring.on_end(&mut links, (link, &end), local_us) {
                Some(suspect) => agent.suspect(&mut links, suspect, local_us),
                None => agent.member.on_end(&mut links, (link, &end), local_us, &mut deeds),
            },
        }
        let children = agent.member.children().count();
        let fits = children <= before || children <= agent.limit;
        rule(fits, "nobody takes in more than it may", || format!("{children} of {}", agent.limit))?;
        self.perform(who, deeds, came)?;
        self.call_next(who, local_us);
        let agent = self.agents.get_mut(&who).expect("it lives");
        agent.measure(local_us);
        agent.member.say(&mut Mine(&mut self.wires, who), agent.late.get(), local_us);
        if agent.closing.is_some_and(|closing| closing.is_over(&agent.member, local_us)) {
            return self.end_in_peace(who);
        }
        let due_us = agent.due_us(local_us).map_or(u64::MAX, |due_us| agent.clock.when(due_us, self.now_us));
        let due_us = due_us.max(self.now_us + 1);
        if due_us != agent.turn_us {
            agent.turn_us = due_us;
            self.agenda.at(due_us, What::Turn(who));
        }
        self.has_parent_or_tries(who)
    }

    /// An agent that nobody wants any more has said what it knew, or had no time for that.
    fn end_in_peace(&mut self, who: Who) -> Result<(), Broken> {
        self.balances(who)?;
        self.tally.closed += u64::from(self.agents[&who].member.sending().is_empty());
        self.end_agent(who, true);
        Ok(())
    }

    fn perform(&mut self, who: Who, deeds: Vec<Deed>, came: Option<(LinkId, Vec<u8>)>) -> Result<(), Broken> {
        for deed in deeds {
            let agent = self.agents.get_mut(&who).expect("it lives");
            let farm_us = agent.member.farm_us(agent.clock.shows(self.now_us)).unwrap_or_default();
            match deed {
                Deed::Take(child, stream, at_us, triples) => {
                    let own = Triples::read(&triples).ok().and_then(|triples| {
                        without_others(triples, |about| agent.member.may_tell(child, stream, about))
                    });
                    agent.late.set(agent.late.get() + u64::from(own.is_some()));
                    agent.take(child, Values { stream, at_us, triples: own.unwrap_or(triples) });
                    let (link, record) = came.as_ref().expect("a record has brought it");
                    self.took(who, *link, record)?;
                }
                Deed::Forget(post) => agent.tell_gather("gone", post.to_string(), farm_us),
                Deed::BeginAnew => agent.tell_gather("anew", String::new(), farm_us),
                Deed::Heed => agent.heed(farm_us),
                // Alarms and questions from afar are for real processes.
                Deed::Arrived(_)
                | Deed::Alarms(..)
                | Deed::AlarmAcks(_)
                | Deed::Control(_)
                | Deed::Answer(_) => {}
                Deed::Tell(state, parent) => {
                    let news = News::State(state, parent);
                    self.agenda.at(self.now_us + 100, What::Tell(agent.place, agent.process, news));
                    if parent.is_some() {
                        self.tally.adopted += u64::from(!agent.member.is_home());
                        self.is_below_no_child(who)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// An agent calls the next one above it, and whom it watches, if it is time.
    fn call_next(&mut self, who: Who, local_us: u64) {
        let agent = self.agents.get_mut(&who).expect("it lives");
        let (key, host) = (agent.key, self.nodes[agent.place.node].host);
        let Some(post) = agent.member.post() else { return };
        let above = agent.member.next_call(local_us);
        let watched: Vec<_> = core::iter::from_fn(|| agent.ring.next_call(local_us)).collect();
        if let Some((ancestor, to)) = above {
            let call = Call { post, key, ancestor: ancestor.clone(), to };
            let link = self.dial((who, host), call, local_us);
            self.agents.get_mut(&who).expect("it lives").member.on_calling(link, &ancestor);
        }
        for (watched, to) in watched {
            let call = Call { post, key, ancestor: watched.clone(), to };
            let link = self.dial((who, host), call, local_us);
            self.agents.get_mut(&who).expect("it lives").ring.on_calling(link, &watched);
        }
    }

    /// A process calls another.
    pub(super) fn dial(&mut self, from: (Who, usize), call: Call, local_us: u64) -> LinkId {
        let link = self.wires.call(from, call, local_us);
        let at_us = self.now_us + self.latency();
        self.agenda.at(at_us, What::Connect(link));
        link
    }
}

impl Agent {
    /// Nothing is heard of a member of the ring.
    fn suspect(&self, links: &mut Mine<'_>, post: Option<PostId>, local_us: u64) {
        post.into_iter().for_each(|post| self.member.suspect(links, post, local_us));
    }
}
