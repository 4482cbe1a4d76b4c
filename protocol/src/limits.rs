//! Every limit that both sides of the wire must know, with its arithmetic. Durations carry their unit in
//! the name; `_us` is microseconds, the unit in which the cores count time. What a person may choose is in
//! [`crate::settings`].

/// Version of the messages. A hello with another one is refused in words.
pub const PROTOCOL_VERSION: u16 = 1;

/// Bytes of UDP payload that we send by default: never an IP fragment on an Ethernet of 1 500.
pub const DATAGRAM_BYTES_MAX: usize = 1_400;
/// Bytes that the seal adds to a datagram: header of 16 and tag of 16.
pub const SEAL_BYTES: usize = 32;
/// Bytes of messages that fit in a sealed datagram.
pub const PLAIN_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - SEAL_BYTES;
const _: () = assert!(DATAGRAM_BYTES_MAX + 28 <= 1_500, "IPv4 and UDP headers take 28 bytes");

/// Longest body of one result: a datagram that holds nothing but this result must still fit.
pub const RESULT_BODY_BYTES_MAX: usize = 1_200;
/// Output of a unit up to this many bytes rides in its result, stdout and stderr together.
pub const INLINE_OUTPUT_BYTES_MAX: usize = 512;

/// An offer or a result that is not acknowledged is repeated after this at the earliest ...
pub const RTO_MIN_US: u64 = 50_000;
/// ... and this at the latest.
pub const RTO_MAX_US: u64 = 2_000_000;
/// Longest time that an acknowledgement waits for a datagram to ride on.
pub const RIDE_US: u64 = 20_000;
const _: () = assert!(RIDE_US < RTO_MIN_US, "an acknowledgement must come before the repeat");

/// Slots that one worker may have.
pub const SLOTS_MAX: u16 = 1_024;
/// Tasks that one node may hold, whatever it asks for.
pub const NODE_TASKS_MAX: u32 = 4_096;
/// Bytes of a node's name.
pub const NAME_BYTES_MAX: usize = 64;

/// Keys that may enrol with one join key at once: thousands of machines that are started by one command.
pub const JOIN_BURST: u32 = 4_096;

/// Keys that may enrol with it a second after that.
pub const JOINS_PER_SECOND: u64 = 10;

/// Keys that have enrolled with one join key and are not revoked, at most: as many nodes as a farm knows. A join file that
/// leaked fills neither memory nor disk.
pub const KEYS_PER_JOIN_KEY: u32 = 65_536;

/// Units that a message names as running at most.
pub const RUNNING_MAX: usize = 32;
