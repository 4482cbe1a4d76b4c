//! What people ask of the monitoring tree.

use std::time::Duration;

use serde::de::DeserializeOwned;
use starfarm_overlay_core::front::Settings;
use starfarm_overlay_core::plan::topology::{Fault, Topology};
use starfarm_overlay_core::plan::{Strategy, Weights};
use starfarm_protocol::admin::{
    ErrorCode, MonitorScope, MonitorWish, PlaceCps, Response, Subject, UsageLine,
};
use starfarm_protocol::link::{Asked, PIECE_BYTES};
use starfarm_protocol::metric::PERIODS_US;

use super::desk::Desk;
use crate::answers::error;

/// Fan-outs that a tree can have.
const FANOUTS: std::ops::RangeInclusive<u32> = 2..=1_024;

fn no_tree() -> Response {
    error(ErrorCode::Refused, "this scheduler was started with --no-monitor: there is no tree".to_owned())
}

/// The tree, post by post.
pub(super) fn whole(desk: &Desk) -> Response {
    desk.house
        .tree
        .as_ref()
        .map_or_else(no_tree, |tree| Response::Tree(tree.info(desk.house.shared.now_us())))
}

/// All alarms that stand.
pub(super) fn alarms(desk: &Desk) -> Response {
    let tree = desk.house.tree.as_ref();
    tree.map_or_else(no_tree, |tree| Response::Alarms(tree.alarms(desk.house.shared.now_us())))
}

/// What became of alarms.
pub(super) fn alarms_after(desk: &Desk, after: u64) -> Response {
    let tree = desk.house.tree.as_ref();
    tree.map_or_else(no_tree, |tree| Response::AlarmPage(tree.alarms_after(after)))
}

/// What programs of units have told.
pub(super) fn trace(desk: &Desk, after: u64, take: u64, about: Option<&Subject>) -> Response {
    let tree = desk.house.tree.as_ref();
    tree.map_or_else(no_tree, |tree| Response::TracePage(tree.trace(after, take, about)))
}

/// So long an agent has to answer.
const ANSWERS: Duration = Duration::from_secs(2);

/// The graph of a node's agent, which is asked for it.
pub(super) async fn graph(desk: &Desk, node: &str) -> Response {
    ask(desk, node, (Asked::Graph, "")).await.map_or_else(|wrong| wrong, Response::Graph)
}

/// Has a node's agent carry out an order.
pub(super) async fn order(desk: &Desk, node: &str, order: &str) -> Response {
    if order.len() > PIECE_BYTES {
        return error(ErrorCode::Usage, format!("an order has {PIECE_BYTES} bytes at most"));
    }
    match ask::<Option<String>>(desk, node, (Asked::Order, order)).await {
        Ok(None) => Response::Done,
        Ok(Some(why)) => error(ErrorCode::Refused, format!("the agent of {node} refuses it: {why}")),
        Err(wrong) => wrong,
    }
}

/// What a node's agent answers.
async fn ask<T: DeserializeOwned>(desk: &Desk, node: &str, what: (Asked, &str)) -> Result<T, Response> {
    let tree = desk.house.tree.as_ref().ok_or_else(no_tree)?;
    let answer = match tree.ask(node, what) {
        None => {
            let why =
                format!("no agent of a node `{node}` is in the tree: `starfarm tree` shows those that are");
            return Err(error(ErrorCode::NotFound, why));
        }
        Some(None) => {
            let why = "others ask agents at this moment: try again".to_owned();
            return Err(error(ErrorCode::Conflict, why));
        }
        Some(Some(answer)) => answer,
    };
    let answer = tokio::time::timeout(ANSWERS, answer).await;
    match answer.ok().and_then(Result::ok).map(|json| serde_json::from_slice(&json)) {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(_)) => {
            let why = format!("what the agent of {node} says cannot be read: update the older side");
            Err(error(ErrorCode::Conflict, why))
        }
        None => {
            let why = format!(
                "the agent of {node} did not answer within {} s, and may yet do what it was asked: `starfarm tree` shows whether it is up; one of an earlier release takes no orders",
                ANSWERS.as_secs()
            );
            Err(error(ErrorCode::Conflict, why))
        }
    }
}

/// What a job or node used of late; nothing where nobody looks.
pub(super) fn line(desk: &Desk, subject: &Subject) -> Response {
    let tree = desk.house.tree.as_ref();
    Response::UsageLine(tree.map_or_else(UsageLine::default, |tree| tree.line(subject)))
}

/// Has all back ends have these stages beside their own.
pub(super) fn load(desk: &Desk, text: String) -> Response {
    let Some(tree) = &desk.house.tree else { return no_tree() };
    let loaded = tree.load(&desk.house.state, text);
    loaded.map_or_else(|why| error(ErrorCode::Usage, why), |()| Response::Done)
}

/// Plans the tree anew.
pub(super) fn form(desk: &Desk, (strategy, fanout): (PlaceCps, u32), text: Option<String>) -> Response {
    let Some(tree) = &desk.house.tree else { return no_tree() };
    if !FANOUTS.contains(&fanout) {
        let (least, most) = (FANOUTS.start(), FANOUTS.end());
        return error(
            ErrorCode::Usage,
            format!("a fan-out is a number from {least} to {most}, and not {fanout}"),
        );
    }
    let strategy = match strategy {
        PlaceCps::Average | PlaceCps::Topology => Strategy::Average,
        PlaceCps::Fuzzy => Strategy::Fuzzy(Weights::default()),
    };
    let now_us = desk.house.shared.now_us();
    let wrong = |fault: Fault| error(ErrorCode::Usage, format!("the topology file: {fault}"));
    let topology = match text.as_deref().map(Topology::read).transpose() {
        Ok(topology) => topology,
        Err(fault) => return wrong(fault),
    };
    if let (Some(topology), Some(text)) = (&topology, &text)
        && let Some((at, why)) = tree.cannot_follow(topology)
    {
        return wrong(topology.fault(text, at, why));
    }
    tree.form(Settings { strategy, fanout, topology }, now_us);
    Response::Tree(tree.info(now_us))
}

/// Has something measured otherwise than until now.
pub(super) async fn wish(desk: &Desk, wish: MonitorWish) -> Response {
    let Some(tree) = &desk.house.tree else { return no_tree() };
    if wish.period_us.is_some_and(|period_us| period_us > 0 && !PERIODS_US.contains(&period_us)) {
        return error(ErrorCode::Usage, "a period is 0.1 to 3600 seconds".to_owned());
    }
    match &wish.scope {
        MonitorScope::Job(job) => {
            let job = *job;
            let is_live = desk.find(move |farm| Ok(farm.has_live(job))).await;
            match is_live {
                Err(response) => return response,
                Ok(false) => {
                    let why =
                        format!("there is no job {} that has not ended: `starfarm jobs` lists all", job.0);
                    return error(ErrorCode::NotFound, why);
                }
                Ok(true) => {}
            }
        }
        MonitorScope::Node(name) if !tree.has_node(name) => {
            let why = format!("no node `{name}` is in the tree: `starfarm tree` shows those that are");
            return error(ErrorCode::NotFound, why);
        }
        MonitorScope::Node(_) | MonitorScope::All => {}
    }
    if tree.wish(wish) {
        Response::Done
    } else {
        error(ErrorCode::Refused, "there are too many wishes: take some back with --default".to_owned())
    }
}
