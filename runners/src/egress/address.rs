//! Which addresses the broker may dial: public ones, and those of networks that the operator trusts.

use std::net::IpAddr;
use std::str::FromStr;

/// A network in CIDR notation, such as `10.0.0.0/8`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// A text that is no network.
#[derive(Debug, thiserror::Error)]
#[error("not a network in CIDR notation such as 10.0.0.0/8: {0:?}")]
pub struct NotANetwork(pub String);

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let refuse = || NotANetwork(text.chars().take(80).collect());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| refuse())?;
        let widest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(digits) => digits.parse().map_err(|_| refuse())?,
            None => widest,
        };
        if prefix > widest { Err(refuse()) } else { Ok(Self { address, prefix }) }
    }
}

impl Network {
    /// Whether `address` lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(self.prefix);
                let cut = |bits: u32| bits.checked_shr(shift).unwrap_or(0);
                cut(network.to_bits()) == cut(address.to_bits())
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(self.prefix);
                let cut = |bits: u128| bits.checked_shr(shift).unwrap_or(0);
                cut(network.to_bits()) == cut(address.to_bits())
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Whether the broker may dial `address`.
pub fn may_dial(address: IpAddr, trusted: &[Network]) -> bool {
    let address = address.to_canonical();
    is_public(address) || trusted.iter().any(|network| network.contains(address))
}

/// Networks that are not the public internet (IANA's special-purpose registries), and the ranges
/// that carry an IPv4 address within an IPv6 one, through which a private host could be meant.
const SPECIAL: &[(&str, u8)] = &[
    ("0.0.0.0", 8),
    ("10.0.0.0", 8),
    ("100.64.0.0", 10),
    ("127.0.0.0", 8),
    ("169.254.0.0", 16),
    ("172.16.0.0", 12),
    ("192.0.0.0", 24),
    ("192.0.2.0", 24),
    ("192.88.99.0", 24),
    ("192.168.0.0", 16),
    ("198.18.0.0", 15),
    ("198.51.100.0", 24),
    ("203.0.113.0", 24),
    ("224.0.0.0", 4),
    ("240.0.0.0", 4),
    ("::", 96),
    ("64:ff9b::", 96),
    ("64:ff9b:1::", 48),
    ("100::", 64),
    ("2001::", 23),
    ("2001:db8::", 32),
    ("2002::", 16),
    ("3fff::", 20),
    ("5f00::", 16),
    ("fc00::", 7),
    ("fe80::", 10),
    ("fec0::", 10),
    ("ff00::", 8),
];

fn is_public(address: IpAddr) -> bool {
    !SPECIAL.iter().any(|&(network, prefix)| {
        let network = network.parse().expect("the table holds addresses only");
        Network { address: network, prefix }.contains(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_may_be_dialled() {
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "203.0.113.80",
            "255.255.255.255",
            "224.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "::127.0.0.1",
        ] {
            assert!(!may_dial(private.parse().unwrap(), &[]), "{private}");
        }
        for public in ["1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1"] {
            assert!(may_dial(public.parse().unwrap(), &[]), "{public}");
        }
    }

    #[test]
    fn a_trusted_network_is_dialled_and_its_neighbour_is_not() {
        let trusted: Vec<Network> = vec!["203.0.113.80/32".parse().unwrap(), "fd00::/64".parse().unwrap()];
        assert!(may_dial("203.0.113.80".parse().unwrap(), &trusted));
        assert!(!may_dial("203.0.113.81".parse().unwrap(), &trusted));
        assert!(may_dial("fd00::5".parse().unwrap(), &trusted));
        assert!(!may_dial("fd00:0:0:1::5".parse().unwrap(), &trusted));
    }

    #[test]
    fn a_network_has_an_address_and_a_prefix_that_fits() {
        for wrong in ["", "10.0.0.0/33", "10.0.0.0/", "host/8", "10.0.0.0/-1", "::/129"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong:?}");
        }
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("8.8.8.8".parse().unwrap()));
    }
}
