//! The sender: seals what the dispatcher packed and sends it in batches. It knows each node's session and
//! address, and nothing of what it sends.

use std::collections::HashMap;

use crossbeam_channel::Receiver;
use starfarm_protocol::path::Cutter;
use starfarm_scheduler_core::NodeId;

use super::Outgoing;

/// Runs until nobody can ask any more.
pub(crate) fn run(batches: &Receiver<Vec<Outgoing>>, mut sender: starfarm_net::Sender) {
    let mut peers = HashMap::new();
    // Of nodes whose path swallows large datagrams.
    let mut cutters: HashMap<NodeId, Cutter> = HashMap::new();
    while let Ok(first) = batches.recv() {
        let more = std::iter::from_fn(|| batches.try_recv().ok()).take(16);
        for outgoing in std::iter::once(first).chain(more).flatten() {
            match outgoing {
                Outgoing::Peer(node, sealer, address) => {
                    peers.insert(node, (sealer, address));
                }
                Outgoing::Size(node, bytes) => cutters.entry(node).or_default().set_bytes(bytes),
                Outgoing::Datagrams(node, datagrams) => {
                    let Some((sealer, address)) = peers.get(&node) else { continue };
                    let mut push = |plain: &[u8]| sender.push(*address, |out| sealer.seal(plain, out).ok());
                    match cutters.get_mut(&node) {
                        None => datagrams.iter().for_each(|datagram| push(datagram)),
                        Some(cutter) => datagrams.iter().for_each(|datagram| cutter.cut(datagram, &mut push)),
                    }
                }
                Outgoing::Whole(node, datagram) => {
                    if let Some((sealer, address)) = peers.get(&node) {
                        sender.push(*address, |out| sealer.seal(&datagram, out).ok());
                    }
                }
            }
        }
        sender.flush();
    }
}
