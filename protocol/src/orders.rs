//! Orders: what the scheduler wants of a worker beside tasks, over a sealed stream ([`crate::seal::stream`]) that the
//! worker opens and whose first record is [`ORDERS`]. What follows are JSON objects, each cut into records that begin with 0 if more of it
//! follows, and with 1 if not: the worker sends a
//! [`Report`] of all that it has, and hears [`Orders`], all that it should have. Neither says what has changed: both say
//! what is, so that nothing is lost with a record, a connection, a worker or a scheduler.
//!
//! The worker calls in each new session, when a report of it has changed, and when the doorbell
//! ([`crate::wire::Doorbell`]) says a number other than the one it heard last. It hangs up when there is nothing to say.

use core::net::SocketAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ids::{JobId, PublicKey};
use crate::seal::Secret;
use crate::seal::stream::RECORD_PLAIN_MAX;
use crate::word::words;

/// First record of a stream that carries orders.
pub const ORDERS: u8 = 4;
/// Either side closes a stream on which nothing was said for this long.
pub const IDLE_US: u64 = 30_000_000;
/// Posts of a node, at most: what else it reports is not looked at.
pub const POSTS_MAX: usize = FARM_POSTS_MAX + OWN_TREES_MAX * OWN_POSTS_MAX;
/// Those of them that are in the farm's tree, at most.
pub const FARM_POSTS_MAX: usize = 64;
/// Those that are in one tree of a job's own, at most; and such trees of a farm, at most.
pub const OWN_POSTS_MAX: usize = 4;
/// See [`OWN_POSTS_MAX`].
pub const OWN_TREES_MAX: usize = 8;
/// Addresses of a post, at most: others that are reported are not looked at.
pub const ADDRESSES_MAX: usize = 8;
/// Bytes of a machine's name, at most: what is longer is cut.
pub const HOST_BYTES_MAX: usize = 255;

/// A place in a tree, and the process that holds it. No other post of the farm ever has its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PostId(pub u64);

impl PostId {
    /// The front of the farm's own tree, in the scheduler.
    pub const FRONT: Self = Self(0);
    /// All back ends below a post, where something is said to more than one.
    pub const ALL: Self = Self(u64::MAX);
}

impl std::fmt::Display for PostId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

words! {
    /// What a post is for. The numbers are on the wire: append only.
    PostKind {
        /// A root: the front of the farm's tree, or the second one, which alarms go to by a way of their own.
        Fe = 1 => "fe",
        /// A communication process: it sums up what comes from below.
        Cp = 2 => "cp",
        /// A communication process whose children are all of them back ends.
        Ibe = 3 => "ibe",
        /// A back end: it measures its node.
        Be = 4 => "be",
        /// A process that runs programs of the user's: when there is an alarm.
        Ap = 5 => "ap",
    }
}

words! {
    /// How far a post is. The numbers are on the wire: append only.
    PostState {
        /// Its process does not run yet, or again.
        Starting = 1 => "starting",
        /// Its process runs and has said its key.
        Reported = 2 => "reported",
        /// It tries to link with its parent.
        Linking = 3 => "linking",
        /// It has a parent.
        Joined = 4 => "joined",
        /// Its parent is lost: it tries that one again, and then the ones above.
        Orphan = 5 => "orphan",
        /// It ends.
        Closing = 6 => "closing",
    }
}

/// The level of the second root.
pub const SECOND_LEVEL: u8 = FRONT_LEVEL - 1;
/// The level of the front. A post's parent is of a higher level than it: so no tree has a ring, whatever orders are late.
pub const FRONT_LEVEL: u8 = u8::MAX;

/// A machine, as far as others can tell: nodes that share one have equal ones.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Host {
    /// Its name, as it has it itself. Others may have the same.
    pub name: String,
    /// A number that only those have who run on one kernel and share `/dev/shm`.
    pub id: u64,
}

/// What a worker has.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The number of the orders that it heard last from this scheduler; 0: none.
    pub heard: u64,
    /// Its machine.
    #[serde(default)]
    pub host: Host,
    /// It takes links of others: posts that have children may be put there.
    #[serde(default)]
    pub links: bool,
    /// It has a program to run when there is an alarm.
    #[serde(default, skip_serializing_if = "is_false")]
    pub reacts: bool,
    /// It can hold posts of trees that jobs have of their own, and knows what [`PostOrder::apart`] says.
    #[serde(default, skip_serializing_if = "is_false")]
    pub own_trees: bool,
    /// Its posts.
    pub posts: Vec<PostReport>,
}

/// A post, as its worker knows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PostReport {
    /// Which.
    pub post: PostId,
    /// What it is for.
    pub kind: PostKind,
    /// Its level: 0 of back ends, and higher the nearer to the front.
    pub level: u8,
    /// The job whose own tree it is in; none: it is in the farm's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// How far it is.
    pub state: PostState,
    /// Whose child it is, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<PostId>,
    /// The public key that it links with, once its process has made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PublicKey>,
    /// Where it takes links: none where nobody can.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<SocketAddr>,
    /// Its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// What a worker should have. A post that it has and that is not named here ends.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Orders {
    /// The number of these orders: later ones have another.
    pub newest: u64,
    /// Its posts.
    pub posts: Vec<PostOrder>,
}

/// A post that a worker should have.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PostOrder {
    /// Which.
    pub post: PostId,
    /// What it is for.
    pub kind: PostKind,
    /// Its level, the same for all its life.
    pub level: u8,
    /// The job whose own tree it is in: it tells of nothing else. None: it is in the farm's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Of a back end: jobs whose units the post of their own tree on this node tells of, and the one of the farm's tree does not.
    /// Until its job is among them, a post of such a tree tells of nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<JobId>,
    /// The posts above it, its parent first, the front last; empty until the scheduler knows the post's key, and where it is
    /// to be.
    pub lineage: Vec<Ancestor>,
    /// The posts below it: nobody but these and its watchers may link with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<Descendant>,
    /// So many of them it takes as children, at most: others it sends on. 0: all.
    #[serde(default)]
    pub children_max: u32,
    /// The second root, which alarms are told as well as the parent, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<Ancestor>,
    /// Of the second root: the post that runs the program, which hears of every alarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reactor: Option<PostId>,
    /// Of a member of the ring: whom it watches, its nearest predecessor first, and the others only where those before them
    /// cannot be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<Ancestor>,
    /// Who may link with it to watch it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watchers: Vec<Descendant>,
}

impl PostOrder {
    /// One for a post of which no more is known: it has no place, and nobody may link with it.
    pub fn new(post: PostId, (kind, level): (PostKind, u8)) -> Self {
        Self {
            post,
            kind,
            level,
            job: None,
            apart: Vec::new(),
            lineage: Vec::new(),
            below: Vec::new(),
            children_max: 0,
            second: None,
            reactor: None,
            watched: Vec::new(),
            watchers: Vec::new(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls it with")]
fn is_false(is: &bool) -> bool {
    !is
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls it with")]
fn is_zero(number: &u8) -> bool {
    *number == 0
}

/// A post that may be linked with.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ancestor {
    /// Which.
    pub post: PostId,
    /// Where it takes links; empty for the front, which is wherever the worker reaches the scheduler.
    pub addresses: Vec<SocketAddr>,
    /// Its public key: nobody else can answer.
    pub key: PublicKey,
    /// What caller and called alone know, see [`crate::seal::pair_secret`].
    pub secret: Secret,
}

/// A post that may link.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Descendant {
    /// Which.
    pub post: PostId,
    /// Whose child it should be.
    pub parent: PostId,
    /// Its level: one of level 0 speaks of itself alone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub level: u8,
    /// Its public key: nobody else can call in its name.
    pub key: PublicKey,
    /// As [`Ancestor::secret`].
    pub secret: Secret,
}

/// Bytes of orders, at most; and of a report, which is of one node.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// See [`MESSAGE_BYTES_MAX`].
pub const REPORT_BYTES_MAX: usize = 256 << 10;
/// What a record begins with: more records of the same message follow, or none.
const MORE: u8 = 0;
const LAST: u8 = 1;

/// A message as records, each as long as a stream takes.
pub fn write(message: &impl Serialize) -> Vec<Vec<u8>> {
    let bytes = serde_json::to_vec(message).expect("numbers, words and keys are always JSON");
    let pieces: Vec<_> = bytes.chunks(RECORD_PLAIN_MAX - 1).collect();
    let last = pieces.len() - 1;
    let record = |(n, piece): (usize, &&[u8])| [&[if n == last { LAST } else { MORE }][..], piece].concat();
    pieces.iter().enumerate().map(record).collect()
}

/// A message that comes in, record by record.
#[derive(Debug)]
pub struct Incoming {
    bytes: Vec<u8>,
    most: usize,
}

impl Incoming {
    /// Orders.
    pub fn orders() -> Self {
        Self { bytes: Vec::new(), most: MESSAGE_BYTES_MAX }
    }

    /// A report.
    pub fn report() -> Self {
        Self { bytes: Vec::new(), most: REPORT_BYTES_MAX }
    }

    /// The next record: the message, once it is whole.
    ///
    /// # Errors
    /// It is none; what is wrong, in words.
    pub fn take<T: DeserializeOwned>(&mut self, record: &[u8]) -> Result<Option<T>, String> {
        let wrong = |why: &dyn std::fmt::Display| format!("a record of the orders channel: {why}");
        let (&mark, piece) = record.split_first().ok_or_else(|| wrong(&"it is empty"))?;
        if self.bytes.len() + piece.len() > self.most {
            return Err(wrong(&"the message is too long"));
        }
        self.bytes.extend_from_slice(piece);
        match mark {
            MORE => Ok(None),
            LAST => {
                let message = serde_json::from_slice(&std::mem::take(&mut self.bytes));
                message.map(Some).map_err(|error| wrong(&error))
            }
            _ => Err(wrong(&"it begins with neither 0 nor 1")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: DeserializeOwned>(records: &[Vec<u8>]) -> Result<T, String> {
        let mut incoming = Incoming::orders();
        let mut came = None;
        for record in records {
            assert!(came.is_none() && record.len() <= RECORD_PLAIN_MAX);
            came = incoming.take(record)?;
        }
        came.ok_or_else(|| "it is not whole".to_owned())
    }

    #[test]
    fn orders_of_a_post_with_thousands_below_it_come_whole() {
        let below = |n| Descendant {
            post: PostId(n),
            parent: PostId(7),
            level: 0,
            key: PublicKey([6; 32]),
            secret: Secret([7; 32]),
        };
        let below = (0..5_000).map(below).collect();
        let post = PostOrder { below, children_max: 64, ..PostOrder::new(PostId(7), (PostKind::Cp, 2)) };
        let orders = Orders { newest: 6, posts: vec![post] };
        let records = write(&orders);
        assert!(records.len() > 10);
        assert_eq!(read::<Orders>(&records), Ok(orders));
        assert!(read::<Orders>(&records[1..]).is_err());
    }

    #[test]
    fn what_is_written_is_read() {
        let report = PostReport {
            post: PostId(7),
            kind: PostKind::Ibe,
            level: 1,
            job: Some(JobId(9)),
            state: PostState::Joined,
            parent: Some(PostId::FRONT),
            key: Some(PublicKey([3; 32])),
            addresses: vec!["10.0.0.1:4000".parse().unwrap()],
            pid: Some(99),
        };
        let report = Report {
            heard: 5,
            host: Host { name: "a".into(), id: u64::MAX },
            links: true,
            reacts: true,
            own_trees: true,
            posts: vec![report],
        };
        assert_eq!(read::<Report>(&write(&report)), Ok(report));
        let parent = Ancestor {
            post: PostId::FRONT,
            addresses: Vec::new(),
            key: PublicKey([4; 32]),
            secret: Secret([5; 32]),
        };
        let child = Descendant {
            post: PostId(8),
            parent: PostId(7),
            level: 3,
            key: PublicKey([6; 32]),
            secret: Secret([7; 32]),
        };
        let (lineage, below) = (vec![parent.clone()], vec![child.clone()]);
        let (watched, watchers) = (vec![parent], vec![child]);
        let none = PostOrder::new(PostId(7), (PostKind::Ibe, 1));
        let (job, apart) = (Some(JobId(9)), vec![JobId(10), JobId(11)]);
        let post = PostOrder { job, apart, lineage, below, children_max: 64, watched, watchers, ..none };
        let orders = Orders { newest: 6, posts: vec![post] };
        assert_eq!(read::<Orders>(&write(&orders)), Ok(orders));
    }

    #[test]
    fn what_is_no_record_is_refused_in_words() {
        for record in
            [&b""[..], b"\x01{", b"\x01[]", b"\x01{\"heard\":-1,\"posts\":[]}", b"\x01{\"heard\":1}", b"\xFF"]
        {
            let why = read::<Report>(&[record.to_vec()]).unwrap_err();
            assert!(why.starts_with("a record of the orders channel: "), "{why}");
        }
        let later = [&[LAST][..], br#"{"heard":1,"posts":[],"of_a_later_release":true}"#].concat();
        assert_eq!(read::<Report>(&[later]), Ok(Report { heard: 1, ..Report::default() }));
    }

    #[test]
    fn a_report_is_no_longer_than_one_node_can_need() {
        let post = |n| PostReport {
            post: PostId(u64::MAX - n),
            kind: PostKind::Ibe,
            level: u8::MAX,
            job: Some(JobId(u64::MAX)),
            state: PostState::Reported,
            parent: Some(PostId(u64::MAX)),
            key: Some(PublicKey([255; 32])),
            addresses: vec![
                "[fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535".parse().unwrap();
                ADDRESSES_MAX
            ],
            pid: Some(u32::MAX),
        };
        let host = Host { name: "\u{1}".repeat(HOST_BYTES_MAX), id: u64::MAX };
        let (heard, posts) = (u64::MAX, (0..POSTS_MAX as u64).map(post).collect());
        let report = Report { heard, host, links: true, reacts: true, own_trees: true, posts };
        let records = write(&report);
        let mut incoming = Incoming::report();
        let mut came = records.iter().map(|record| incoming.take::<Report>(record).unwrap());
        assert_eq!(came.next_back().flatten(), Some(report));
        // One that goes on and on.
        let (mut incoming, piece) = (Incoming::report(), [&[MORE][..], &[b' '; 60_000]].concat());
        let taken = (0..).take_while(|_| incoming.take::<Report>(&piece).is_ok()).count();
        assert_eq!(taken, REPORT_BYTES_MAX / 60_000);
    }

    #[test]
    fn numbers_are_pinned() {
        assert_eq!(PostKind::ALL.iter().map(|kind| *kind as u8).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(PostState::ALL.iter().map(|state| *state as u8).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    }
}
