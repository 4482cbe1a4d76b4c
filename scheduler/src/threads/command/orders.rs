//! The orders channel: a worker says what it has beside tasks, and hears what it should have. Both are states, so that a
//! call that breaks off costs nothing.

use std::io;
use std::time::Duration;

use starfarm_protocol::orders::{self, IDLE_US, Incoming, Report};
use starfarm_protocol::seal::Peer;
use tokio::time::timeout;

use super::channel::Channel;
use super::desk::Desk;
use crate::tree::Tree;

/// Calls of one worker at one time: one, and one that it does not know to be broken.
const CALLS_MAX: u32 = 2;

/// Answers reports until the worker hangs up, or says nothing for too long.
pub(super) async fn serve(
    desk: &Desk,
    tree: Option<&Tree>,
    channel: &mut Channel,
    peer: &Peer,
) -> io::Result<()> {
    let Some(_place) = desk.orders.take(peer.claim.key, CALLS_MAX) else { return Ok(()) };
    let mut incoming = Incoming::report();
    loop {
        let Ok(record) = timeout(Duration::from_micros(IDLE_US), channel.read_record()).await else {
            return Ok(());
        };
        let Some(report) = incoming.take::<Report>(&record?).map_err(io::Error::other)? else { continue };
        let (claim, now_us) = (&peer.claim, desk.house.shared.now_us());
        let orders = match tree {
            // After a fault it is asked again.
            Some(tree) => tree
                .report(claim.key, &claim.name, &report, now_us)
                .ok_or_else(|| io::Error::other("the monitor begins anew"))?,
            // Without a tree no post is wanted.
            None => orders::Orders::default(),
        };
        for record in orders::write(&orders) {
            channel.write_record(&record).await?;
        }
    }
}
