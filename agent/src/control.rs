//! What is asked of an agent from afar: its graph, other stages, an order.

use starfarm_agent_core::{Losses, Order, Runtime};
use starfarm_overlay::Reactor;
use starfarm_overlay_core::lanes::Lane;
use starfarm_overlay_core::member::Member;
use starfarm_protocol::admin::{EdgeInfo, GraphInfo, GraphLosses, GraphTimer, StageInfo};
use starfarm_protocol::link::{Answer, Asked, Control, Message, Piece};
use starfarm_protocol::orders::{PostId, PostKind};

use crate::alarms::Now;
use crate::farm::Farm;
use crate::words::Begin;

/// What an agent that is asked something has at hand.
pub(crate) struct Asking<'a> {
    pub(crate) reactor: &'a mut Reactor,
    pub(crate) member: &'a Member,
    pub(crate) runtime: &'a mut Runtime,
    pub(crate) farm: &'a mut Farm,
    pub(crate) begin: &'a Begin,
    pub(crate) now: Now,
}

impl Asking<'_> {
    /// Somebody asks this agent something, or one below.
    pub(crate) fn on_control(self, control: &Control<'_>) {
        if control.post == PostId::ALL {
            return self.load(control);
        }
        let Self { reactor, member, runtime, now: (now_us, farm_us), .. } = self;
        let Some(post) = member.post() else { return };
        if control.post != post {
            // Who is asked may be below no more: who asked hears nothing.
            member.children().send_to(reactor, control.post, &Message::Control(*control), now_us);
            return;
        }
        let Some(link) = member.parent_link() else { return };
        let answer = match Asked::from_number(control.asked) {
            Some(Asked::Graph) => graph(runtime),
            Some(Asked::Order) => json(&carry_out(control.piece.bytes, runtime, farm_us).err()),
            Some(Asked::Load) | None => return,
        };
        for piece in Piece::all(control.piece.number, &answer) {
            let answer = Message::Answer(Answer { post, piece });
            reactor.send(link, Lane::Collective, &answer, now_us);
        }
    }

    /// All back ends are to have other stages beside their own.
    fn load(self, control: &Control<'_>) {
        let Self { reactor, member, runtime, farm, begin, now: (now_us, farm_us) } = self;
        if Asked::from_number(control.asked) != Some(Asked::Load) || !farm.take(&control.piece) {
            return;
        }
        for message in farm.messages() {
            member.children().tell(reactor, &message, now_us);
        }
        if begin.kind == PostKind::Be && begin.job.is_none() {
            farm.apply(runtime, begin.file.as_ref(), farm_us);
        }
    }
}

/// An agent below answers.
pub(crate) fn pass_up(answer: &Answer<'_>, member: &Member, reactor: &mut Reactor, now_us: u64) {
    let below = member.order().into_iter().flat_map(|order| &order.below);
    let is_below = below.into_iter().any(|below| below.post == answer.post);
    if let Some(link) = member.parent_link().filter(|_| is_below) {
        reactor.send(link, Lane::Collective, &Message::Answer(*answer), now_us);
    }
}

/// Carries out an order that somebody has written, with the rights of a guest.
fn carry_out(text: &[u8], runtime: &mut Runtime, farm_us: u64) -> Result<(), String> {
    let text = std::str::from_utf8(text).map_err(|_| "an order is UTF-8 text".to_owned())?;
    let order: Order = text.parse()?;
    runtime.order(order.as_guest(), farm_us).map(drop).map_err(|refusal| refusal.to_string())
}

/// Checks that somebody has written an order; whether an agent can carry it out it says itself.
///
/// # Errors
/// It is none; how orders are written.
pub fn check_order(text: &str) -> Result<(), String> {
    text.parse::<Order>().map(drop)
}

fn json(of: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(of).expect("numbers and words are always JSON")
}

/// The graph as JSON.
pub(crate) fn graph(runtime: &Runtime) -> Vec<u8> {
    let stage =
        |(number, name, type_name): (starfarm_agent_core::StageNumber, Option<&str>, &str)| StageInfo {
            number: number.0,
            name: name.map(str::to_owned),
            type_name: type_name.to_owned(),
            settings: runtime.settings(number).cloned().unwrap_or_default(),
        };
    let Losses { not_taken, refused, left_out, too_far, cut_off } = runtime.losses();
    let graph = GraphInfo {
        stages: runtime.stages().into_iter().map(stage).collect(),
        edges: runtime
            .edges()
            .into_iter()
            .map(|(from, output, to, input)| EdgeInfo {
                from: from.0,
                output: output.to_owned(),
                to: to.0,
                input: input.to_owned(),
            })
            .collect(),
        timers: runtime
            .timers()
            .into_iter()
            .map(|timer| GraphTimer {
                name: timer.name.to_owned(),
                period_seconds: timer.period_us.map(|period_us| period_us as f64 / 1e6),
                subscribers: timer.subscribers.into_iter().map(|stage| stage.0).collect(),
            })
            .collect(),
        losses: GraphLosses { not_taken, refused, left_out, too_far, cut_off },
    };
    json(&graph)
}
