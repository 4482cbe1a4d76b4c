//! Who has called and not yet proved to be anybody. Anybody who reaches the port can call, so there are few of them, fewer of one
//! address, and one that comes in time to be heard is not thrown out for those who come after it.

use std::net::IpAddr;

use starfarm_overlay_core::pipe::LinkId;

/// Callers that have not shaken hands yet, at most ...
const STRANGERS_MAX: usize = 256;
/// ... and of these from one address, or one IPv6 network of 64 bits.
const OF_AN_ADDRESS_MAX: usize = 128;
/// One that has waited for so long may have to leave for a newcomer, in microseconds: who means well is through in milliseconds.
const SLOW_US: u64 = 1_000_000;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stranger {
    pub(crate) from: IpAddr,
    pub(crate) since_us: u64,
}

/// What becomes of somebody who calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Wait,
    /// There is room once this one is gone.
    Instead(LinkId),
    Full,
}

/// Somebody calls from that address, where these wait already, the oldest first.
pub(crate) fn call(
    waiting: impl Iterator<Item = (LinkId, Stranger)> + Clone,
    from: IpAddr,
    now_us: u64,
) -> Call {
    let network = network(from);
    let beside = |(_, other): &(LinkId, Stranger)| self::network(other.from) == network;
    let is_crowded = waiting.clone().filter(beside).count() >= OF_AN_ADDRESS_MAX;
    if !is_crowded && waiting.clone().count() < STRANGERS_MAX {
        return Call::Wait;
    }
    let is_slow = |of: &(LinkId, Stranger)| {
        now_us.saturating_sub(of.1.since_us) >= SLOW_US && (!is_crowded || beside(of))
    };
    let mut slow = waiting.filter(is_slow);
    slow.next().map_or(Call::Full, |(link, _)| Call::Instead(link))
}

/// The address, or of an IPv6 address its network, within which anybody has as many as he likes.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, host])
    }

    /// So many call at one moment; those who wait then.
    fn flood(waiting: &mut Vec<(LinkId, Stranger)>, from: IpAddr, count: usize, now_us: u64) {
        for _ in 0..count {
            match call(waiting.iter().copied(), from, now_us) {
                Call::Full => continue,
                Call::Instead(link) => waiting.retain(|(of, _)| *of != link),
                Call::Wait => {}
            }
            let next = waiting.last().map_or(0, |(link, _)| link.0 + 1);
            waiting.push((LinkId(next), Stranger { from, since_us: now_us }));
        }
    }

    #[test]
    fn a_flood_throws_out_nobody_who_has_just_called() {
        let mut waiting = Vec::new();
        flood(&mut waiting, address(1), 1, 0);
        for from in 2..9 {
            flood(&mut waiting, address(from), 300, SLOW_US / 2);
        }
        assert_eq!((waiting.len(), waiting[0].0), (STRANGERS_MAX, LinkId(0)));
        // One that is slow leaves.
        flood(&mut waiting, address(9), 3, SLOW_US);
        assert_eq!((waiting.len(), waiting[0].0), (STRANGERS_MAX, LinkId(1)));
    }

    #[test]
    fn one_address_leaves_room_for_others_and_one_ipv6_network_is_one() {
        let mut waiting = Vec::new();
        flood(&mut waiting, address(1), 300, 0);
        assert_eq!(waiting.len(), OF_AN_ADDRESS_MAX);
        let same: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(call(waiting.iter().copied(), same, 0), Call::Full);
        assert_eq!(call(waiting.iter().copied(), same, SLOW_US), Call::Instead(LinkId(0)));
        assert_eq!(call(waiting.iter().copied(), address(2), 0), Call::Wait);
        let mut waiting = Vec::new();
        for host in 0..200 {
            flood(&mut waiting, format!("2001:db8::{host:x}").parse().unwrap(), 1, 0);
        }
        assert_eq!(waiting.len(), OF_AN_ADDRESS_MAX);
    }
}
