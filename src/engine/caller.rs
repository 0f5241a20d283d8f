//! Which addresses are one caller: what is counted by address is counted by this.

use std::net::{IpAddr, Ipv6Addr};

/// The address that counts: all of an IPv6 network of 64 bits is one caller, and an IPv4 address however it is written.
#[must_use]
pub fn caller(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 => v4,
    }
}

/// A caller in words: the address, or its network.
#[must_use]
pub(super) fn network(peer: IpAddr) -> String {
    match caller(peer) {
        IpAddr::V6(v6) => format!("{v6}/64"),
        v4 => v4.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_is_one_caller_and_a_mapped_address_is_its_ipv4_one() {
        let of = |text: &str| caller(text.parse().unwrap());
        assert_eq!(of("2001:db8::1:2:3:4"), of("2001:db8::ffff:2:3:4"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8::1"));
        assert_eq!(of("::ffff:10.1.2.3"), of("10.1.2.3"));
        assert_eq!(["2001:db8:0:1::7", "::ffff:10.1.2.3"].map(|text| network(text.parse().unwrap())), ["2001:db8:0:1::/64", "10.1.2.3"]);
    }
}
