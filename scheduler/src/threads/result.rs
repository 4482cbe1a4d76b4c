//! The result thread: receives in batches, opens the seal, hands what opened to the dispatcher. It owns
//! the sessions, so handshakes are answered here too. What does not open is counted and
//! gets no answer, but for a hint where it comes from a session that is not known.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::{Receiver, Sender};
use starfarm_net::BUFFER_BYTES;
use starfarm_protocol::ids::{Boot, PublicKey};
use starfarm_protocol::limits::DATAGRAM_BYTES_MAX;
use starfarm_protocol::path::{Heard, Path};
use starfarm_protocol::seal::{
    Claim, Hints, Kind, Reply, Request, Responder, Role, SealError, SessionTable, packet,
};
use starfarm_protocol::wire::is_of_boot;
use starfarm_scheduler_core::NodeId;

use super::{House, Input, Outgoing, enrolled, stop_with};
use crate::store::state::random;

/// How often sessions that have run out are dropped, in microseconds.
const EXPIRE_US: u64 = 10_000_000;

struct Known {
    node: NodeId,
    address: SocketAddr,
    /// The incarnation that its newest session belongs to.
    boot: Boot,
    path: Path,
    /// Size of datagrams that the sender was told of.
    told: usize,
}

/// What others must hear of one batch of datagrams.
#[derive(Default)]
struct News {
    datagrams: Vec<(NodeId, Vec<u8>)>,
    /// Keys that are not on the disk yet.
    enrolled: Vec<PublicKey>,
    sessions: Vec<Input>,
    /// For the sender, by way of the dispatcher.
    peers: Vec<Outgoing>,
}

/// The thread's state.
pub(crate) struct ResultThread {
    house: Arc<House>,
    responder: Responder,
    dispatcher: Sender<Input>,
    /// Keys whose sessions are to end.
    revoked: Receiver<PublicKey>,
    sessions: SessionTable,
    hints: Hints,
    nodes: HashMap<PublicKey, Known>,
    indexes: Indexes,
}

/// Which node a key is. A node is its name, which belongs to one key at a time: where a key was revoked and another has its
/// name, that is the machine made anew, not a second node of the same name.
struct Indexes {
    named: HashMap<String, NodeId>,
    /// First index that was never given.
    next: NodeId,
}

impl Indexes {
    /// The node of that name.
    fn of(&mut self, name: &str) -> NodeId {
        if let Some(&node) = self.named.get(name) {
            return node;
        }
        let node = self.next;
        self.next.0 += 1;
        self.named.insert(name.to_owned(), node);
        node
    }
}

impl ResultThread {
    /// `known` are the nodes of earlier epochs, `next` is the first index that was never given.
    pub(crate) fn new(
        house: Arc<House>,
        responder: Responder,
        dispatcher: Sender<Input>,
        revoked: Receiver<PublicKey>,
        (known, next): (Vec<(NodeId, String)>, NodeId),
    ) -> Self {
        let (sessions, hints, nodes) = (SessionTable::default(), Hints::default(), HashMap::new());
        let named = known.into_iter().map(|(node, name)| (name, node)).collect();
        let indexes = Indexes { named, next };
        Self { house, responder, dispatcher, revoked, sessions, hints, nodes, indexes }
    }

    /// Runs until the process stops.
    pub(crate) fn run(mut self, mut receiver: starfarm_net::Receiver, mut sender: starfarm_net::Sender) {
        let mut expire_us = 0;
        let mut plain = [0; BUFFER_BYTES];
        while !self.house.shared.stopping() {
            if let Err(e) = receiver.receive() {
                // Nothing of ours makes this fail for good; a farm that hears nothing must not look alive.
                panic!("datagrams cannot be received any more: {e}");
            }
            let now_us = self.house.shared.now_us();
            while let Ok(key) = self.revoked.try_recv() {
                self.sessions.revoke(&key);
                if let Some(node) = self.node_of(&key) {
                    self.nodes.remove(&key);
                    let _ = self.dispatcher.send(Input::Revoked(node));
                }
            }
            if now_us >= expire_us {
                self.sessions.expire(now_us);
                expire_us = now_us + EXPIRE_US;
            }
            let mut news = News::default();
            for (datagram, from) in receiver.datagrams() {
                match packet::kind(datagram) {
                    Some(Kind::Data) => self.open(datagram, from, &mut plain, &mut news, &mut sender),
                    Some(Kind::Initiation) => self.answer(datagram, from, &mut sender),
                    _ => self.refuse(),
                }
            }
            sender.flush();
            let dropped = u64::from(receiver.dropped());
            if self.house.shared.dropped.swap(dropped, Ordering::Relaxed) != dropped {
                let _ = self.dispatcher.send(Input::Overflow);
            }
            self.tell(news);
        }
    }

    /// The node whose key that is: it was heard in this epoch, or it was not heard since the start.
    fn node_of(&self, key: &PublicKey) -> Option<NodeId> {
        self.nodes.get(key).map(|known| known.node).or_else(|| {
            let keys = self.house.keys.lock().expect("a panic under the lock ends the process");
            let enrolled = keys.key(key).filter(|enrolled| enrolled.role == Role::Worker)?;
            self.indexes.named.get(&enrolled.name).copied()
        })
    }

    fn refuse(&self) {
        self.house.shared.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn open(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        plain: &mut [u8],
        news: &mut News,
        sender: &mut starfarm_net::Sender,
    ) {
        let now_us = self.house.shared.now_us();
        let mut keys = self.house.keys.lock().expect("a panic under the lock ends the process");
        let opened = match self.sessions.open(&mut keys, datagram, plain, now_us, now_us / 1_000_000) {
            Ok(opened) => opened,
            Err(error) => {
                drop(keys);
                // Most likely a worker of the incarnation before, which should shake hands anew.
                if error == SealError::UnknownSession
                    && let Some(hint) = self.hints.answer(datagram, now_us)
                {
                    send(sender, from, &hint);
                }
                return self.refuse();
            }
        };
        drop(keys);
        if opened.confirmed.as_ref().is_some_and(|confirmed| confirmed.store_changed) {
            news.enrolled.push(opened.peer.claim.key);
            let _ = self.dispatcher.send(Input::Event(Box::new(enrolled(&opened.peer))));
        }
        // A worker's place is here, everybody else's is the sealed TCP channel.
        if opened.peer.role != Role::Worker {
            return self.refuse();
        }
        let (key, boot) = (opened.peer.claim.key, opened.peer.claim.boot);
        let known = self.nodes.entry(key).or_insert_with(|| {
            let node = self.indexes.of(&opened.peer.claim.name);
            Known { node, address: from, boot, path: Path::default(), told: DATAGRAM_BYTES_MAX }
        });
        let node = known.node;
        if opened.confirmed.as_ref().is_some_and(|confirmed| confirmed.sealer.is_some()) {
            known.path.ask_again();
            if std::mem::replace(&mut known.boot, boot) != boot {
                known.path.forget_pieces();
            }
        } else if known.boot != boot {
            // A late word of an earlier incarnation, whose numbers mean other things than this one's.
            return self.refuse();
        }
        let moved = known.address != from;
        known.address = from;
        let fresh = opened.confirmed.and_then(|confirmed| confirmed.sealer);
        if fresh.is_some() {
            news.sessions.push(Input::Session(node, opened.peer.claim.name.clone()));
        }
        let moved_with = || self.sessions.sealer(&key).filter(|_| moved).cloned();
        let sealer = fresh.or_else(moved_with);
        news.peers.extend(sealer.map(|sealer| Outgoing::Peer(node, sealer, from)));
        self.travelled(&opened.peer.claim, &plain[..opened.bytes], now_us, news);
    }

    /// What came may be about the path itself, or a piece. While a node is heard its path is asked about.
    fn travelled(&mut self, claim: &Claim, plain: &[u8], now_us: u64, news: &mut News) {
        let Known { node, path, told, .. } = self.nodes.get_mut(&claim.key).expect("it was just heard");
        let messages = match path.hear(plain, now_us) {
            Heard::Messages => Some(plain.to_vec()),
            Heard::Whole(whole) => Some(whole),
            Heard::Probe(answer) => {
                news.peers.push(Outgoing::Whole(*node, answer));
                None
            }
            Heard::Nothing => None,
        };
        if let Some(messages) = messages {
            match is_of_boot(&messages, claim.boot) {
                true => news.datagrams.push((*node, messages)),
                // Which of its datagrams are of the incarnation before could not be told any more.
                false => drop(self.house.shared.refused.fetch_add(1, Ordering::Relaxed)),
            }
        }
        if let Some(probe) = path.probe(now_us) {
            news.peers.push(Outgoing::Whole(*node, probe));
        }
        if std::mem::replace(told, path.bytes()) != path.bytes() {
            news.peers.push(Outgoing::Size(*node, path.bytes()));
            let mut sizes = self.house.shared.sizes.lock().expect("a panic under the lock ends the process");
            sizes.insert(claim.name.clone(), path.bytes());
        }
    }

    /// Nobody hears of those who joined before their keys are on the disk: one write and one sync for all.
    fn tell(&self, News { datagrams, enrolled, sessions, peers }: News) {
        if !enrolled.is_empty() {
            let keys = self.house.keys.lock().expect("a panic under the lock ends the process");
            if let Err(e) = self.house.state.save_enrolled(&keys, &enrolled) {
                stop_with(&format!("{e}. Make room, or repair the disk, then start the scheduler again"));
            }
        }
        for session in sessions {
            let _ = self.dispatcher.send(session);
        }
        if !peers.is_empty() {
            let _ = self.dispatcher.send(Input::Outgoing(peers));
        }
        if !datagrams.is_empty() {
            let _ = self.dispatcher.send(Input::Datagrams(datagrams));
        }
    }

    fn answer(&mut self, datagram: &[u8], from: SocketAddr, sender: &mut starfarm_net::Sender) {
        let Ok(seed) = random::<4>() else { return };
        let index = self.sessions.free_index(u32::from_le_bytes(seed));
        let source = from.to_string();
        let now_us = self.house.shared.now_us();
        let request = Request { datagram, source: source.as_bytes(), index, now_us };
        let keys = self.house.keys.lock().expect("a panic under the lock ends the process");
        let Ok(reply) = self.responder.answer(&*keys, &request) else {
            drop(keys);
            return self.refuse();
        };
        drop(keys);
        send(sender, from, reply.bytes());
        if let Reply::Accepted { pending, .. } = reply {
            self.sessions.admit(pending, now_us);
        }
    }
}

fn send(sender: &mut starfarm_net::Sender, to: SocketAddr, bytes: &[u8]) {
    sender.push(to, |out| {
        out.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(bytes.len())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_takes_the_name_of_a_revoked_one_is_the_same_node() {
        let named = HashMap::from([("west".to_owned(), NodeId(0)), ("east".to_owned(), NodeId(1))]);
        let mut indexes = Indexes { named, next: NodeId(2) };
        assert_eq!(["west", "west", "north", "east"].map(|name| indexes.of(name).0), [0, 0, 2, 1]);
        assert_eq!((indexes.of("north"), indexes.next), (NodeId(2), NodeId(3)));
    }
}
