//! What people ask of the monitoring tree.

use starfarm_overlay_core::front::Settings;
use starfarm_overlay_core::plan::{Strategy, Weights};
use starfarm_protocol::admin::{ErrorCode, PlaceCps, Response};

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

/// Plans the tree anew.
pub(super) fn form(desk: &Desk, strategy: PlaceCps, fanout: u32) -> Response {
    let Some(tree) = &desk.house.tree else { return no_tree() };
    if !FANOUTS.contains(&fanout) {
        let (least, most) = (FANOUTS.start(), FANOUTS.end());
        return error(
            ErrorCode::Usage,
            format!("a fan-out is a number from {least} to {most}, and not {fanout}"),
        );
    }
    let strategy = match strategy {
        PlaceCps::Average => Strategy::Average,
        PlaceCps::Fuzzy => Strategy::Fuzzy(Weights::default()),
    };
    let now_us = desk.house.shared.now_us();
    tree.form(Settings { strategy, fanout }, now_us);
    Response::Tree(tree.info(now_us))
}
