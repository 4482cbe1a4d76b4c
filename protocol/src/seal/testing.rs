//! What the tests of this folder share: chance from a seed, a small farm, a pair of sessions.

use super::error::SealError;
use super::handshake::{Initiator, Introduction, Outcome, Pending, Reply, Request, Responder};
use super::keys::{Secret, StaticKey};
use super::packet::Mode;
use super::refusal::Refusal;
use super::role::Role;
use super::session::Session;
use super::store::KeyStore;
use super::table::{Opened, SessionTable};
use crate::ids::{Boot, Epoch, FarmId};
use crate::random::SplitMix64;

/// Numbers from a seed.
pub(super) struct Chance(SplitMix64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    pub(super) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// A scheduler: responder, keys and sessions. Its join secrets are `[1; 32]` for workers and `[2; 32]`
/// for admins.
pub(super) struct Farm {
    pub(super) responder: Responder,
    pub(super) scheduler: StaticKey,
    pub(super) keys: KeyStore,
    pub(super) table: SessionTable,
    pub(super) now_us: u64,
    next_index: u32,
}

pub(super) const WORKERS: Secret = Secret([1; 32]);
pub(super) const ADMINS: Secret = Secret([2; 32]);
pub(super) const SOURCE: &[u8] = b"192.0.2.7:9000";

impl Farm {
    pub(super) fn new() -> Self {
        Self::with_mode(Mode::default())
    }

    pub(super) fn with_mode(mode: Mode) -> Self {
        let scheduler = StaticKey::generate().unwrap();
        let mut keys = KeyStore::default();
        keys.add_join_key(WORKERS, Role::Worker);
        keys.add_join_key(ADMINS, Role::Admin);
        let responder = Responder::new(scheduler.clone(), FarmId([4; 16]), Epoch(5), mode, [6; 32]);
        let table = SessionTable::new(8);
        Self { responder, scheduler, keys, table, now_us: 0, next_index: 100 }
    }

    pub(super) fn answer(&mut self, initiation: &[u8]) -> Result<Reply, SealError> {
        self.next_index += 1;
        let index = self.table.free_index(self.next_index);
        let request = Request { datagram: initiation, source: SOURCE, index, now_us: self.now_us };
        self.responder.answer(&self.keys, &request)
    }

    /// Answers, and takes an accepted peer into the table.
    pub(super) fn admit(&mut self, initiation: &[u8]) -> Vec<u8> {
        match self.answer(initiation).unwrap() {
            Reply::Accepted { bytes, pending } => {
                self.table.admit(pending, self.now_us);
                bytes
            }
            other => panic!("not accepted but answered with type {}", other.bytes()[0]),
        }
    }

    pub(super) fn open(&mut self, datagram: &[u8]) -> Result<(Vec<u8>, Opened), SealError> {
        let mut out = vec![0; datagram.len()];
        let opened = self.table.open(&mut self.keys, datagram, &mut out, self.now_us, 1_700_000_000)?;
        out.truncate(opened.bytes);
        Ok((out, opened))
    }

    /// A whole handshake, the first message included.
    pub(super) fn join(&mut self, node: &Node) -> Session {
        let session = self.half_join(node);
        self.open(&seal_one(&session, b"hello")).unwrap();
        session
    }

    /// A handshake without the first message.
    pub(super) fn half_join(&mut self, node: &Node) -> Session {
        let (mut initiator, initiation) = node.start(self);
        let response = self.admit(&initiation);
        node.accepted(&mut initiator, &response, self.now_us)
    }

    pub(super) fn refusal(&mut self, node: &Node) -> (Refusal, String) {
        let (mut initiator, initiation) = node.start(self);
        let reply = self.answer(&initiation).unwrap();
        assert!(reply.bytes().len() <= initiation.len());
        match initiator.read_response(reply.bytes()).unwrap() {
            Outcome::Refused { refusal: Some(refusal), reason } => (refusal, reason),
            _ => panic!("was not refused"),
        }
    }
}

/// A worker or admin.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) key: StaticKey,
    pub(super) name: String,
    pub(super) secret: Secret,
    pub(super) mode: Mode,
    pub(super) index: u32,
}

impl Node {
    pub(super) fn new(name: &str) -> Self {
        let key = StaticKey::generate().unwrap();
        Self { key, name: name.into(), secret: WORKERS, mode: Mode::default(), index: 900 }
    }

    pub(super) fn introduction<'a>(&'a self, scheduler: &'a crate::ids::PublicKey) -> Introduction<'a> {
        let Self { key, name, secret, mode, .. } = self;
        Introduction { key, scheduler, join_secret: secret, name, boot: Boot(11), mode: *mode }
    }

    pub(super) fn start(&self, farm: &Farm) -> (Initiator, Vec<u8>) {
        let scheduler = farm.scheduler.public();
        Initiator::start(&self.introduction(&scheduler), self.index, None).unwrap()
    }

    pub(super) fn accepted(&self, initiator: &mut Initiator, response: &[u8], now_us: u64) -> Session {
        match initiator.read_response(response).unwrap() {
            Outcome::Accepted(accepted) => accepted.into_session(now_us),
            Outcome::Refused { reason, .. } => panic!("refused: {reason}"),
        }
    }
}

/// The two ends of one session.
pub(super) struct Pair {
    pub(super) a: Session,
    pub(super) b: Session,
}

impl Pair {
    pub(super) fn sealed() -> Self {
        let mut farm = Farm::new();
        let node = Node::new("a");
        let (mut initiator, initiation) = node.start(&farm);
        let Ok(Reply::Accepted { bytes, pending: Pending { established, .. } }) = farm.answer(&initiation)
        else {
            panic!("was not accepted")
        };
        Self { a: node.accepted(&mut initiator, &bytes, 0), b: established.into_session(0) }
    }

    pub(super) fn plain() -> Self {
        Self { a: Session::plain(1, 2, 0), b: Session::plain(2, 1, 0) }
    }
}

pub(super) fn seal_one(session: &Session, plain: &[u8]) -> Vec<u8> {
    let mut out = vec![0; plain.len() + 32];
    let bytes = session.sealer.seal(plain, &mut out).unwrap();
    assert_eq!(bytes, out.len());
    out
}

pub(super) fn open_one(session: &mut Session, datagram: &[u8]) -> Result<Vec<u8>, SealError> {
    let mut out = vec![0; datagram.len()];
    let bytes = session.opener.open(datagram, &mut out)?;
    out.truncate(bytes);
    Ok(out)
}
