//! The sender: seals what the dispatcher packed and sends it in batches. It knows each node's session and
//! address, and nothing of what it sends.

use std::collections::HashMap;

use crossbeam_channel::Receiver;

use super::dispatcher::Outgoing;

/// Runs until nobody can ask any more.
pub(crate) fn run(batches: &Receiver<Vec<Outgoing>>, mut sender: starfarm_net::Sender) {
    let mut peers = HashMap::new();
    while let Ok(first) = batches.recv() {
        let more = std::iter::from_fn(|| batches.try_recv().ok()).take(16);
        for outgoing in std::iter::once(first).chain(more).flatten() {
            match outgoing {
                Outgoing::Peer(node, sealer, address) => {
                    peers.insert(node, (sealer, address));
                }
                Outgoing::Datagrams(node, datagrams) => {
                    let Some((sealer, address)) = peers.get(&node) else { continue };
                    for datagram in datagrams {
                        sender.push(*address, |out| sealer.seal(&datagram, out).ok());
                    }
                }
            }
        }
        sender.flush();
    }
}
