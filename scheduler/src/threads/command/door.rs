//! Who waits at the door: TCP connections that have not shaken hands. Anybody who reaches the port can make such,
//! so there are few of them, and fewer of one address. Sockets and tasks live beside it.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use starfarm_overlay::network;

/// Connections that may shake hands at one time ...
pub(crate) const WAITING_MAX: usize = 128;
/// ... and of these from one address, or one IPv6 network of 64 bits. Many workers may stand behind one.
const WAITING_PER_ADDRESS_MAX: usize = 32;
/// One that has waited for so long may have to leave for a newcomer: who means well is through in milliseconds.
const SLOW: Duration = Duration::from_secs(1);

/// The door. `H` ends a connection.
pub(crate) struct Door<H> {
    /// The oldest is first.
    waiting: Vec<Waiting<H>>,
    next: u64,
}

struct Waiting<H> {
    number: u64,
    from: IpAddr,
    since: Instant,
    handle: H,
}

/// What becomes of somebody who knocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Knock<H> {
    Wait,
    /// There is room once this one is gone.
    Instead(H),
    Full,
}

impl<H> Default for Door<H> {
    fn default() -> Self {
        Self { waiting: Vec::new(), next: 0 }
    }
}

impl<H> Door<H> {
    /// Somebody from `from` knocks: is there room?
    pub(crate) fn knock(&mut self, from: IpAddr, now: Instant) -> Knock<H> {
        let network = network(from);
        let beside = self.waiting.iter().filter(|waiting| waiting.from == network).count();
        let crowded = beside >= WAITING_PER_ADDRESS_MAX;
        if !crowded && self.waiting.len() < WAITING_MAX {
            return Knock::Wait;
        }
        let slow = |waiting: &Waiting<H>| {
            now.saturating_duration_since(waiting.since) >= SLOW && (!crowded || waiting.from == network)
        };
        match self.waiting.iter().position(slow) {
            Some(at) => Knock::Instead(self.waiting.remove(at).handle),
            None => Knock::Full,
        }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(crate) fn wait(&mut self, number: u64, from: IpAddr, handle: H, now: Instant) {
        self.waiting.push(Waiting { number, from: network(from), since: now, handle });
    }

    /// Somebody waits no more: inside, or gone.
    pub(crate) fn leave(&mut self, number: u64) {
        self.waiting.retain(|waiting| waiting.number != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, host])
    }

    /// So many knock at one moment; returns how many there is room for.
    fn crowd(door: &mut Door<u64>, from: IpAddr, count: usize, now: Instant) -> usize {
        let mut came = 0;
        for _ in 0..count {
            if door.knock(from, now) == Knock::Full {
                continue;
            }
            let number = door.number();
            door.wait(number, from, number, now);
            came += 1;
        }
        came
    }

    #[test]
    fn silent_connections_of_one_address_leave_room_for_others() {
        let (mut door, now) = (Door::default(), Instant::now());
        assert_eq!(crowd(&mut door, address(1), 1_100, now), WAITING_PER_ADDRESS_MAX);
        assert_eq!(door.knock(address(2), now), Knock::Wait);
        let same: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(door.knock(same, now), Knock::Full);
    }

    #[test]
    fn who_is_slow_leaves_for_a_newcomer_and_who_is_quick_never() {
        let (mut door, now) = (Door::default(), Instant::now());
        for host in 0..4 {
            crowd(&mut door, address(host), WAITING_PER_ADDRESS_MAX, now);
        }
        assert_eq!(door.waiting.len(), WAITING_MAX);
        assert_eq!(door.knock(address(9), now), Knock::Full);
        assert_eq!(door.knock(address(9), now + SLOW), Knock::Instead(1));
        assert_eq!(door.waiting.len(), WAITING_MAX - 1);
        assert_eq!(door.knock(address(1), now + SLOW), Knock::Instead(33), "of its own address");
        door.leave(2);
        assert_eq!(door.knock(address(9), now), Knock::Wait);
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let (mut door, now) = (Door::default(), Instant::now());
        for host in 0..WAITING_PER_ADDRESS_MAX {
            let from: IpAddr = format!("2001:db8::{host:x}").parse().unwrap();
            assert_eq!(crowd(&mut door, from, 1, now), 1);
        }
        assert_eq!(door.knock("2001:db8::ffff".parse().unwrap(), now), Knock::Full);
        assert_eq!(door.knock("2001:db8:0:1::1".parse().unwrap(), now), Knock::Wait);
    }
}
