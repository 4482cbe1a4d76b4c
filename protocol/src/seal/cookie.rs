//! The cookie, which shows that an initiation's sender receives at the address it gives: how it is made,
//! asked for and checked. Asked for only under load, since it costs a round trip; the cookie itself costs
//! the scheduler one hash and no memory. After WireGuard (whitepaper, section 5.3), with BLAKE3.

use std::collections::HashMap;

use super::error::SealError;
use super::packet::{
    COOKIE_ANSWER_BYTES, HEADER_BYTES, INITIATION_BYTES, InitiationHeader, Kind, MAC_BYTES, answer_body,
    array_at,
};
use crate::ids::PublicKey;

/// How long one secret makes cookies, and how long an initiator uses one. A cookie is accepted for this
/// long at least and twice this long at most.
pub const COOKIE_LIFE_US: u64 = 120_000_000;

/// Initiations in a second beyond which a cookie is asked for. A handshake costs the scheduler
/// 0.22 ms (measured by `seal_rate`), so strangers can take 4.4 % of a core.
pub const INITIATIONS_PER_SECOND: u32 = 200;

/// Of those who have shown their address, handshakes in a second from one of them, and in all: a fifth of a core. Whoever
/// has a join file can show as many addresses as he has; those whose sessions are up go on.
pub const SHOWN_PER_ADDRESS: u32 = 500;
/// See [`SHOWN_PER_ADDRESS`].
pub const SHOWN_PER_SECOND: u32 = 1_000;

pub(super) const SECOND_US: u64 = 1_000_000;

/// A cookie as its initiator keeps it.
#[derive(Clone)]
pub struct Cookie {
    value: [u8; 32],
    received_us: u64,
}

impl Cookie {
    /// Whether it is still worth sending.
    pub fn is_fresh(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.received_us) < COOKIE_LIFE_US
    }

    /// The mac over an initiation without its last [`MAC_BYTES`] bytes.
    pub(super) fn mac(&self, initiation: &[u8]) -> [u8; MAC_BYTES] {
        mac(&self.value, initiation)
    }

    /// Reads the cookie out of the answer to `initiation`.
    ///
    /// # Errors
    /// [`SealError::Malformed`] where it answers something else, [`SealError::Forged`] where its sender
    /// does not know the scheduler's public key or has not seen the initiation.
    pub(super) fn read_answer(
        answer: &[u8],
        header: &InitiationHeader,
        disguise: &Disguise,
        now_us: u64,
    ) -> Result<Self, SealError> {
        let body = answer_body(answer, header, Kind::CookieAnswer, COOKIE_ANSWER_BYTES)?;
        let (masked, tag) = body.split_at(32);
        if !same(tag, &disguise.tag(&answer[..HEADER_BYTES + 32])) {
            return Err(SealError::Forged);
        }
        let masked: [u8; 32] = array_at(masked, 0).ok_or(SealError::Forged)?;
        Ok(Self { value: disguise.apply(masked), received_us: now_us })
    }
}

impl std::fmt::Debug for Cookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cookie(..)")
    }
}

/// How the cookie travels: masked for everybody who does not know the scheduler's public key, tagged,
/// and tied to the one initiation it answers, so that it can be neither overheard nor planted.
pub(super) struct Disguise {
    key: [u8; 32],
    binding: [u8; 32],
}

impl Disguise {
    pub(super) fn new(scheduler: &PublicKey, initiation: &[u8]) -> Self {
        Self {
            key: blake3::derive_key("starfarm 2026 cookie answer v1", &scheduler.0),
            binding: *blake3::hash(initiation).as_bytes(),
        }
    }

    fn apply(&self, mut value: [u8; 32]) -> [u8; 32] {
        let mask = blake3::keyed_hash(&self.key, &self.binding);
        value.iter_mut().zip(mask.as_bytes()).for_each(|(byte, mask)| *byte ^= mask);
        value
    }

    fn tag(&self, answer: &[u8]) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&self.binding).update(answer);
        first_half(&hasher.finalize())
    }
}

/// Makes and checks cookies on the scheduler's side.
pub(super) struct CookieJar {
    secret: [u8; 32],
}

impl CookieJar {
    /// `secret` must be random, and new with each start.
    pub(super) fn new(secret: [u8; 32]) -> Self {
        Self { secret }
    }

    /// The cookie of `source` during the `period`th [`COOKIE_LIFE_US`].
    fn cookie(&self, period: u64, source: &[u8]) -> [u8; 32] {
        let secret = blake3::keyed_hash(&self.secret, &period.to_le_bytes());
        *blake3::keyed_hash(secret.as_bytes(), source).as_bytes()
    }

    /// Whether `initiation` carries the mac of a cookie given to `source` in this period or the last.
    pub(super) fn admits(&self, initiation: &[u8], source: &[u8], now_us: u64) -> bool {
        let Some((body, found)) = initiation.split_last_chunk::<MAC_BYTES>() else { return false };
        let now = now_us / COOKIE_LIFE_US;
        [Some(now), now.checked_sub(1)]
            .into_iter()
            .flatten()
            .any(|period| same(found, &mac(&self.cookie(period, source), body)))
    }

    /// The cookie answer to `initiation`, which came from `source`.
    pub(super) fn answer(
        &self,
        header: &InitiationHeader,
        disguise: &Disguise,
        source: &[u8],
        now_us: u64,
    ) -> Vec<u8> {
        let cookie = self.cookie(now_us / COOKIE_LIFE_US, source);
        let mut bytes = Vec::with_capacity(COOKIE_ANSWER_BYTES);
        bytes.extend(header.opening(Kind::CookieAnswer));
        bytes.extend(disguise.apply(cookie));
        bytes.extend(disguise.tag(&bytes));
        bytes
    }
}

/// Counts initiations in the running second of the caller's time.
pub(super) struct LoadMeter {
    per_second: u32,
    second: u64,
    count: u32,
}

impl LoadMeter {
    pub(super) fn new(per_second: u32) -> Self {
        Self { per_second, second: 0, count: 0 }
    }

    /// Counts one more and says whether that is more than is let in without a cookie.
    pub(super) fn is_over(&mut self, now_us: u64) -> bool {
        let second = now_us / SECOND_US;
        if second != self.second {
            (self.second, self.count) = (second, 0);
        }
        self.count = self.count.saturating_add(1);
        self.count > self.per_second
    }
}

/// Counts handshakes of those who have shown their address, in the running second.
#[derive(Default)]
pub(super) struct Shown {
    second: u64,
    all: u32,
    /// By IP address; no more of them than there are handshakes.
    each: HashMap<Vec<u8>, u32>,
}

impl Shown {
    /// Counts one more from `source`, an IP address and port, and says whether there is room for it.
    pub(super) fn has_room(&mut self, source: &[u8], now_us: u64) -> bool {
        let second = now_us / SECOND_US;
        if second != self.second {
            *self = Self { second, ..Self::default() };
        }
        let port = source.iter().rposition(|&byte| byte == b':').unwrap_or(source.len());
        let of = self.each.get(&source[..port]).copied().unwrap_or(0);
        if self.all >= SHOWN_PER_SECOND || of >= SHOWN_PER_ADDRESS {
            return false;
        }
        self.all += 1;
        self.each.insert(source[..port].to_vec(), of + 1);
        true
    }
}

fn mac(cookie: &[u8; 32], bytes: &[u8]) -> [u8; MAC_BYTES] {
    debug_assert!(bytes.len() == INITIATION_BYTES - MAC_BYTES, "a mac covers all before it");
    first_half(&blake3::keyed_hash(cookie, bytes))
}

fn first_half(hash: &blake3::Hash) -> [u8; 16] {
    array_at(hash.as_bytes(), 0).expect("a hash has 32 bytes")
}

/// Compares without telling by its duration where the first difference is.
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b));
    a.len() == b.len() && std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: usize = INITIATION_BYTES - MAC_BYTES;

    fn initiation(jar: &CookieJar, source: &[u8], period: u64) -> Vec<u8> {
        let mut bytes = vec![5; BODY];
        bytes.extend(mac(&jar.cookie(period, source), &bytes));
        bytes
    }

    #[test]
    fn a_cookie_lives_for_its_period_and_the_next() {
        let jar = CookieJar::new([1; 32]);
        let bytes = initiation(&jar, b"10.0.0.1", 7);
        for (period, admitted) in [(6, false), (7, true), (8, true), (9, false)] {
            assert_eq!(jar.admits(&bytes, b"10.0.0.1", period * COOKIE_LIFE_US), admitted, "{period}");
        }
        assert!(jar.admits(&initiation(&jar, b"x", 0), b"x", 0), "also in the first period");
    }

    #[test]
    fn a_cookie_is_for_one_address_and_one_packet() {
        let jar = CookieJar::new([1; 32]);
        let mut bytes = initiation(&jar, b"10.0.0.1", 0);
        assert!(jar.admits(&bytes, b"10.0.0.1", 0));
        assert!(!jar.admits(&bytes, b"10.0.0.2", 0));
        assert!(!CookieJar::new([2; 32]).admits(&bytes, b"10.0.0.1", 0));
        bytes[0] ^= 1;
        assert!(!jar.admits(&bytes, b"10.0.0.1", 0));
        assert!(!jar.admits(&[], b"10.0.0.1", 0));
    }

    #[test]
    fn load_is_counted_by_the_second() {
        let mut meter = LoadMeter::new(2);
        assert_eq!([0, 1, 2, 3].map(|us| meter.is_over(us)), [false, false, true, true]);
        assert!(!meter.is_over(SECOND_US));
        assert!(!meter.is_over(SECOND_US));
        assert!(meter.is_over(SECOND_US + 1));
    }

    #[test]
    fn one_address_takes_a_part_of_a_second_and_all_together_no_more_than_it_has() {
        let mut shown = Shown::default();
        let mut come = |address: u32, now_us| {
            let of = |port: u32| format!("10.0.0.{address}:{}", 1_000 + port);
            (0..1_000).filter(|&port| shown.has_room(of(port).as_bytes(), now_us)).count() as u32
        };
        assert_eq!([1, 2, 1].map(|address| come(address, 0)), [SHOWN_PER_ADDRESS, SHOWN_PER_ADDRESS, 0]);
        assert_eq!(come(3, 1), SHOWN_PER_SECOND - 2 * SHOWN_PER_ADDRESS);
        assert_eq!(come(1, SECOND_US), SHOWN_PER_ADDRESS);
    }

    #[test]
    fn a_cookie_is_dropped_when_it_is_old() {
        let cookie = Cookie { value: [0; 32], received_us: 10 };
        assert!(cookie.is_fresh(10) && cookie.is_fresh(9) && cookie.is_fresh(COOKIE_LIFE_US + 9));
        assert!(!cookie.is_fresh(COOKIE_LIFE_US + 10));
    }
}
