//! The bytes of the packets: where each field stands, read and written. No keys and no rules here; the
//! table for people stands in `seal.rs`.

use super::error::SealError;
use super::role::Role;
use crate::ids::{Boot, Epoch, FarmId, JoinKeyId};
use crate::limits::{NAME_BYTES_MAX, SEAL_BYTES};

/// Clear bytes that open every handshake packet: type, version, flags, index.
pub const HEADER_BYTES: usize = 8;
/// Clear bytes before the ciphertext of a data packet.
pub const DATA_HEADER_BYTES: usize = 16;
/// Bytes that sealing adds behind the ciphertext.
pub const TAG_BYTES: usize = 16;
/// What a data packet adds to its message.
pub const DATA_OVERHEAD_BYTES: usize = DATA_HEADER_BYTES + TAG_BYTES;

/// Clear bytes before the Noise message of an initiation; they are the end of the prologue too.
pub(super) const INITIATION_HEADER_BYTES: usize = HEADER_BYTES + 8;
/// Cookie mac behind an initiation.
pub(super) const MAC_BYTES: usize = 16;
/// Payload of an initiation, fixed so that its length says nothing and its answer is never larger.
pub(super) const GREETING_BYTES: usize = 256;
/// Payload of a response, fixed so that a refusal looks like an acceptance.
pub(super) const ANSWER_BYTES: usize = 256;
/// Longest sentence in a response.
pub(super) const REASON_BYTES_MAX: usize = ANSWER_BYTES - 32;

/// An initiation: the ephemeral key, the sealed static key, the sealed payload.
pub const INITIATION_BYTES: usize =
    INITIATION_HEADER_BYTES + 32 + (32 + TAG_BYTES) + (GREETING_BYTES + TAG_BYTES) + MAC_BYTES;
/// A response: the ephemeral key and the sealed payload.
pub const RESPONSE_BYTES: usize = HEADER_BYTES + 32 + (ANSWER_BYTES + TAG_BYTES);
/// A cookie answer: the masked cookie and its tag.
pub const COOKIE_ANSWER_BYTES: usize = HEADER_BYTES + 32 + 16;

const _: () = assert!(DATA_OVERHEAD_BYTES == SEAL_BYTES, "messages are packed to what the seal leaves");
const _: () = assert!(9 + NAME_BYTES_MAX <= GREETING_BYTES, "the longest name fits");
const _: () = assert!(INITIATION_BYTES == 384 && RESPONSE_BYTES == 312 && COOKIE_ANSWER_BYTES == 56);
const _: () = assert!(RESPONSE_BYTES < INITIATION_BYTES, "no answer may amplify");
const _: () = assert!(COOKIE_ANSWER_BYTES < INITIATION_BYTES, "no answer may amplify");
const _: () = assert!(DATA_HEADER_BYTES < DATA_OVERHEAD_BYTES, "a hint is shorter than any data packet");
const _: () = assert!(REASON_BYTES_MAX <= u8::MAX as usize, "its length is one byte");

/// What a packet is, by its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// First message of a handshake.
    Initiation = 1,
    /// Second message of a handshake.
    Response = 2,
    /// "Show that you receive at your address."
    CookieAnswer = 3,
    /// A sealed message.
    Data = 4,
    /// "I do not know the session of that message." Nothing proves who says so: a hint, no more.
    NoSession = 5,
}

/// The kind of a datagram; `None` where it is none of ours. Nothing else is checked.
pub fn kind(datagram: &[u8]) -> Option<Kind> {
    match datagram.first()? {
        1 => Some(Kind::Initiation),
        2 => Some(Kind::Response),
        3 => Some(Kind::CookieAnswer),
        4 => Some(Kind::Data),
        5 => Some(Kind::NoSession),
        _ => None,
    }
}

/// The index in a datagram: the sender's own in an initiation; in a hint that of the session in doubt, as the
/// data packet had it; the receiver's in all others.
pub fn index(datagram: &[u8]) -> Option<u32> {
    array_at(datagram, 4).map(u32::from_le_bytes)
}

/// The `N` bytes at `at`, `None` where the input is too short.
pub(super) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// What the transport is like. It is in the flags, and so in the prologue: a datagram's handshake cannot
/// be used on a stream, and a sealed one cannot be talked into going plain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mode {
    /// The packet travels on a stream, and records will follow, not datagrams.
    pub stream: bool,
    /// The messages after the handshake are not sealed: for measuring on loopback only, which the caller
    /// must see to.
    pub plain: bool,
}

impl Mode {
    fn flags(self) -> u16 {
        u16::from(self.stream) | u16::from(self.plain) << 1
    }

    fn from_flags(flags: u16) -> Option<Self> {
        (flags < 4).then_some(Self { stream: flags & 1 != 0, plain: flags & 2 != 0 })
    }
}

/// The clear part of an initiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct InitiationHeader {
    pub(super) version: u8,
    pub(super) mode: Mode,
    pub(super) sender: u32,
    pub(super) join_key: JoinKeyId,
}

impl InitiationHeader {
    pub(super) fn write(&self) -> [u8; INITIATION_HEADER_BYTES] {
        let mut bytes = [0; INITIATION_HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.opening(Kind::Initiation));
        bytes[8..].copy_from_slice(&self.join_key.0);
        bytes
    }

    /// Reads the header of a whole initiation; its length and flags are checked, its version is not: a
    /// stranger to our version still gets an answer in words.
    pub(super) fn read(datagram: &[u8]) -> Result<Self, SealError> {
        if kind(datagram) != Some(Kind::Initiation) {
            return Err(SealError::Malformed("an initiation was expected"));
        }
        if datagram.len() != INITIATION_BYTES {
            return Err(SealError::Malformed("an initiation has another length"));
        }
        let short = SealError::Malformed("shorter than its header");
        let flags = u16::from_le_bytes(array_at(datagram, 2).ok_or(short)?);
        Ok(Self {
            version: datagram[1],
            mode: Mode::from_flags(flags).ok_or(SealError::Malformed("unknown flags"))?,
            sender: index(datagram).ok_or(short)?,
            join_key: JoinKeyId(array_at(datagram, 8).ok_or(short)?),
        })
    }

    /// The eight bytes that open this initiation, or an answer to it. They repeat its version and flags there, so the
    /// initiator knows each of them in advance and a changed bit is noticed.
    pub(super) fn opening(&self, kind: Kind) -> [u8; HEADER_BYTES] {
        let [low, high] = self.mode.flags().to_le_bytes();
        let [a, b, c, d] = self.sender.to_le_bytes();
        [kind as u8, self.version, low, high, a, b, c, d]
    }
}

/// Checks that `packet` answers the initiation of `header` and returns what follows its header.
pub(super) fn answer_body<'a>(
    packet: &'a [u8],
    header: &InitiationHeader,
    kind: Kind,
    bytes: usize,
) -> Result<&'a [u8], SealError> {
    if packet.len() != bytes {
        return Err(SealError::Malformed("the answer has another length"));
    }
    match packet.split_first_chunk() {
        Some((found, body)) if *found == header.opening(kind) => Ok(body),
        _ => Err(SealError::Malformed("not an answer to this initiation")),
    }
}

/// The sealed payload of an initiation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Greeting {
    pub(super) boot: Boot,
    /// Empty where it is not text.
    pub(super) name: String,
}

impl Greeting {
    /// The name must have passed [`super::keys::is_valid_name`].
    pub(super) fn write(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[..8].copy_from_slice(&self.boot.0.to_le_bytes());
        bytes[8] = self.name.len() as u8;
        bytes[9..9 + self.name.len()].copy_from_slice(self.name.as_bytes());
        bytes
    }

    /// Reads any bytes. What stands behind the name is left for later versions and not looked at.
    pub(super) fn read(bytes: &[u8; GREETING_BYTES]) -> Self {
        let length = usize::from(bytes[8]);
        let name = if length <= NAME_BYTES_MAX { &bytes[9..9 + length] } else { &[] };
        Self {
            boot: Boot(array_at(bytes, 0).map_or(0, u64::from_le_bytes)),
            name: str::from_utf8(name).unwrap_or_default().to_owned(),
        }
    }
}

/// The sealed payload of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    /// 0: accepted; otherwise the number of a refusal.
    pub(super) status: u8,
    /// The role the join key gives; `None` in a refusal.
    pub(super) role: Option<Role>,
    /// The responder's version of the seal.
    pub(super) version: u8,
    /// The responder's index for the new session, 0 in a refusal.
    pub(super) sender: u32,
    pub(super) epoch: Epoch,
    pub(super) farm: FarmId,
    /// Why not, in words; empty where accepted. Cut to [`REASON_BYTES_MAX`].
    pub(super) reason: String,
}

impl Answer {
    pub(super) fn write(&self) -> [u8; ANSWER_BYTES] {
        let reason = &self.reason.as_bytes()[..self.reason.floor_char_boundary(REASON_BYTES_MAX)];
        let mut bytes = [0; ANSWER_BYTES];
        bytes[0] = self.status;
        bytes[1] = self.role.map_or(0, |role| role as u8);
        bytes[2] = self.version;
        bytes[3] = reason.len() as u8;
        bytes[4..8].copy_from_slice(&self.sender.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.epoch.0.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.farm.0);
        bytes[32..32 + reason.len()].copy_from_slice(reason);
        bytes
    }

    /// Reads any bytes; control characters in the reason become spaces, for it will be printed.
    pub(super) fn read(bytes: &[u8; ANSWER_BYTES]) -> Self {
        let reason = &bytes[32..32 + usize::from(bytes[3]).min(REASON_BYTES_MAX)];
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        Self {
            status: bytes[0],
            role: Role::from_number(bytes[1]),
            version: bytes[2],
            sender: array_at(bytes, 4).map_or(0, u32::from_le_bytes),
            epoch: Epoch(array_at(bytes, 8).map_or(0, u64::from_le_bytes)),
            farm: FarmId(array_at(bytes, 16).unwrap_or_default()),
            reason: String::from_utf8_lossy(reason).chars().map(printable).collect(),
        }
    }
}

/// The clear part of a data packet.
pub(super) fn write_data_header(receiver: u32, counter: u64) -> [u8; DATA_HEADER_BYTES] {
    let mut bytes = [0; DATA_HEADER_BYTES];
    bytes[0] = Kind::Data as u8;
    bytes[4..8].copy_from_slice(&receiver.to_le_bytes());
    bytes[8..].copy_from_slice(&counter.to_le_bytes());
    bytes
}

/// The hint that answers a data packet of an unknown session: its clear part with another type, so that it
/// fits a packet which was sent, and is shorter than any. `None` where `datagram` is no data packet.
pub(super) fn no_session(datagram: &[u8]) -> Option<[u8; DATA_HEADER_BYTES]> {
    let (receiver, counter, _) = read_data(datagram).ok()?;
    let mut hint = write_data_header(receiver, counter);
    hint[0] = Kind::NoSession as u8;
    Some(hint)
}

/// Index and counter of the data packet that a hint is about; `None` where it is no hint.
pub(super) fn read_no_session(datagram: &[u8]) -> Option<(u32, u64)> {
    let hint: &[u8; DATA_HEADER_BYTES] = datagram.try_into().ok()?;
    if hint[..4] != [Kind::NoSession as u8, 0, 0, 0] {
        return None;
    }
    Some((u32::from_le_bytes(array_at(hint, 4)?), u64::from_le_bytes(array_at(hint, 8)?)))
}

/// Receiver index, counter and the sealed rest of a data packet, which is at least a tag long.
pub(super) fn read_data(datagram: &[u8]) -> Result<(u32, u64, &[u8]), SealError> {
    let Some((header, sealed)) = datagram.split_first_chunk::<DATA_HEADER_BYTES>() else {
        return Err(SealError::Malformed("shorter than its header"));
    };
    if header[..4] != [Kind::Data as u8, 0, 0, 0] {
        return Err(SealError::Malformed("not a data packet"));
    }
    if sealed.len() < TAG_BYTES {
        return Err(SealError::Malformed("a data packet without a seal"));
    }
    let [.., a, b, c, d, e, f, g, h] = *header;
    let receiver = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    Ok((receiver, u64::from_le_bytes([a, b, c, d, e, f, g, h]), sealed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> InitiationHeader {
        InitiationHeader {
            version: 1,
            mode: Mode { stream: true, plain: false },
            sender: 0x0403_0201,
            join_key: JoinKeyId([9; 8]),
        }
    }

    #[test]
    fn headers_are_pinned_byte_for_byte() {
        let written = header().write();
        assert_eq!(written, [1, 1, 1, 0, 1, 2, 3, 4, 9, 9, 9, 9, 9, 9, 9, 9]);
        assert_eq!(header().opening(Kind::Response), [2, 1, 1, 0, 1, 2, 3, 4]);
        let data = write_data_header(0x0403_0201, 0x1807_0605);
        assert_eq!(data, [4, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 0x18, 0, 0, 0, 0]);
        let mut datagram = data.to_vec();
        datagram.extend([7; TAG_BYTES]);
        assert_eq!(read_data(&datagram), Ok((0x0403_0201, 0x1807_0605, &[7; TAG_BYTES][..])));
    }

    #[test]
    fn an_initiation_header_comes_back_and_unknown_flags_do_not() {
        let mut datagram = [0; INITIATION_BYTES];
        datagram[..INITIATION_HEADER_BYTES].copy_from_slice(&header().write());
        assert_eq!(InitiationHeader::read(&datagram), Ok(header()));
        datagram[2] = 4;
        assert_eq!(InitiationHeader::read(&datagram), Err(SealError::Malformed("unknown flags")));
    }

    #[test]
    fn payloads_come_back() {
        let greeting = Greeting { boot: Boot(77), name: "node-1".into() };
        assert_eq!(Greeting::read(&greeting.write()), greeting);
        let answer = Answer {
            status: 3,
            role: Some(Role::Worker),
            version: 1,
            sender: 5,
            epoch: Epoch(6),
            farm: FarmId([7; 16]),
            reason: "no".into(),
        };
        assert_eq!(Answer::read(&answer.write()), answer);
    }

    #[test]
    fn any_payload_can_be_read_and_a_reason_is_cut_at_a_character() {
        let strange = Greeting::read(&[0xff; GREETING_BYTES]);
        assert_eq!(strange.name, "");
        let answer = Answer::read(&[0xff; ANSWER_BYTES]);
        assert_eq!(answer.role, None);
        let long = Answer { reason: "ä".repeat(200), ..answer };
        assert_eq!(Answer::read(&long.write()).reason, "ä".repeat(REASON_BYTES_MAX / 2));
        let bell = Answer { reason: "a\u{1b}[2Jb".into(), ..long };
        assert_eq!(Answer::read(&bell.write()).reason, "a [2Jb");
    }
}
