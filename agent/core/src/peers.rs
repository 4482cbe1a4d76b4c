//! From whom datagrams are taken: addresses and networks that are configured, and nobody else.

use core::net::IpAddr;

/// Addresses and networks of a list, at most.
const PEERS_MAX: usize = 100_000;

/// Addresses that may send. Nobody's, at first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Peers {
    /// First and last addresses of ranges, in order, apart from each other. IPv4 as IPv6 maps it.
    ranges: Vec<(u128, u128)>,
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl Peers {
    /// Reads `10.0.0.7, 10.1.0.0/16, fd00::/8`.
    ///
    /// # Errors
    /// Why it is no list of addresses and networks, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.split(',').count() > PEERS_MAX {
            return Err(format!("`from` is a list of {PEERS_MAX} at most"));
        }
        let mut all = text.split(',').map(|one| range(one.trim())).collect::<Result<Vec<_>, _>>()?;
        all.sort_unstable();
        let mut ranges: Vec<(u128, u128)> = Vec::new();
        for (first, last) in all {
            match ranges.last_mut() {
                Some(before) if first <= before.1 => before.1 = before.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        Ok(Self { ranges })
    }

    /// Whether that address may send.
    pub fn has(&self, address: IpAddr) -> bool {
        let number = number(address);
        let behind = self.ranges.partition_point(|(first, _)| *first <= number);
        behind > 0 && number <= self.ranges[behind - 1].1
    }
}

fn range(one: &str) -> Result<(u128, u128), String> {
    let shown = || one.chars().take(64).collect::<String>();
    let bad = || {
        format!(
            "`from` is a list such as `10.0.0.7, 10.1.0.0/16`, and `{}` is no address or network",
            shown()
        )
    };
    let (address, bits) = match one.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u32>().map_err(|_| bad())?)),
        None => (one, None),
    };
    let address: IpAddr = address.parse().map_err(|_| bad())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    if bits > most {
        return Err(bad());
    }
    let others = u128::MAX.checked_shr(bits + 128 - most).unwrap_or(0);
    let first = number(address);
    if first & others != 0 {
        return Err(format!("`{}`: a network of {bits} bits has an address that ends in zeros", shown()));
    }
    Ok((first, first | others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_networks_may_send_and_nobody_else() {
        let peers = Peers::parse("10.1.0.0/16, 192.168.7.3,fd00::/8, 10.1.2.0/24, 192.168.7.4/32").unwrap();
        let has = |address: &str| peers.has(address.parse().unwrap());
        for good in ["10.1.0.0", "10.1.255.255", "192.168.7.3", "192.168.7.4", "fd12::1", "::ffff:10.1.9.9"] {
            assert!(has(good), "{good}");
        }
        for bad in ["10.0.255.255", "10.2.0.0", "192.168.7.5", "192.168.7.2", "fe00::", "::1", "0.0.0.0"] {
            assert!(!has(bad), "{bad}");
        }
        assert!(!Peers::default().has("127.0.0.1".parse().unwrap()), "nobody, unless it is said");
        let all = Peers::parse("0.0.0.0/0").unwrap();
        assert!(all.has("255.255.255.255".parse().unwrap()) && !all.has("::1".parse().unwrap()));
        assert!(Peers::parse("::/0").unwrap().has("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn what_is_no_list_is_refused_in_words() {
        for bad in ["", "10.0.0", "10.0.0.0/33", "10.0.0.0/x", "host", "10.0.0.1,", "::/129"] {
            assert!(Peers::parse(bad).unwrap_err().contains("no address or network"), "{bad}");
        }
        assert!(Peers::parse("10.0.0.1/24").unwrap_err().contains("ends in zeros"));
        assert!(Peers::parse(&"x".repeat(9_000)).unwrap_err().len() < 200);
    }
}
