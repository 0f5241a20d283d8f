//! Where a request comes from: the connection's own address, or what proxies that are believed say of it.

use std::net::IpAddr;

use hyper::Uri;
use hyper::header::{HOST, HeaderMap};

use crate::config::Config;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Peer {
    pub address: IpAddr,
    /// The browser's side of it is encrypted.
    pub https: bool,
}

/// More than any chain of proxies has.
const MAX_HOPS: usize = 20;

/// Read from the right: each proxy that is believed vouches for the address that it wrote.
pub(super) fn of(config: &Config, connection: IpAddr, uri: &Uri, headers: &HeaderMap) -> Peer {
    let trusted = |address: IpAddr| config.trusted_proxies.iter().any(|n| n.contains(address));
    let text = |name: &str| headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).collect::<Vec<_>>().join(",");
    let connection = connection.to_canonical();
    let mut address = connection;
    for hop in text("x-forwarded-for").rsplit(',').take(MAX_HOPS) {
        let Some(before) = one(hop).filter(|_| trusted(address)) else { break };
        address = before;
    }
    let forwarded_https = trusted(connection) && text("x-forwarded-proto").rsplit(',').next().is_some_and(|p| p.trim().eq_ignore_ascii_case("https"));
    let host = uri.authority().map(|a| a.as_str()).or_else(|| headers.get(HOST)?.to_str().ok()).unwrap_or_default();
    let public = config.public_url.as_deref().and_then(|url| url.strip_prefix("https://"));
    let public_https = public.is_some_and(|rest| rest.split('/').next().unwrap_or_default().eq_ignore_ascii_case(host));
    Peer { address, https: forwarded_https || public_https }
}

/// `1.2.3.4`, `1.2.3.4:5`, `::1` or `[::1]:5`.
fn one(hop: &str) -> Option<IpAddr> {
    let hop = hop.trim();
    let alone = hop.parse::<IpAddr>().ok().or_else(|| hop.parse::<std::net::SocketAddr>().ok().map(|s| s.ip()));
    alone.or_else(|| hop.strip_prefix('[')?.strip_suffix(']')?.parse().ok()).map(|a| a.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(connection: &str, forwarded: &[&str], proto: Option<&str>) -> (String, bool) {
        let flags = crate::config::Flags { config: Some("/dev/null".into()), ..Default::default() };
        let config = crate::config::load(&flags, &|_| None).unwrap();
        let mut headers = HeaderMap::new();
        for hops in forwarded {
            headers.append("x-forwarded-for", hops.parse().unwrap());
        }
        if let Some(proto) = proto {
            headers.insert("x-forwarded-proto", proto.parse().unwrap());
        }
        let peer = of(&config, connection.parse().unwrap(), &Uri::from_static("/ui"), &headers);
        (peer.address.to_string(), peer.https)
    }

    #[test]
    fn a_proxy_on_this_machine_is_believed_and_a_stranger_is_not() {
        assert_eq!(peer("127.0.0.1", &["203.0.113.9"], Some("https")), ("203.0.113.9".into(), true));
        assert_eq!(peer("198.51.100.1", &["203.0.113.9"], Some("https")), ("198.51.100.1".into(), false));
        assert_eq!(peer("127.0.0.1", &[], None), ("127.0.0.1".into(), false));
    }

    #[test]
    fn what_the_caller_itself_wrote_into_the_header_is_not_believed() {
        assert_eq!(peer("127.0.0.1", &["1.1.1.1, 203.0.113.9"], None).0, "203.0.113.9");
        assert_eq!(peer("127.0.0.1", &["1.1.1.1", "203.0.113.9:4711"], None).0, "203.0.113.9");
        assert_eq!(peer("127.0.0.1", &["1.1.1.1, ::ffff:127.0.0.1"], None).0, "1.1.1.1");
        assert_eq!(peer("127.0.0.1", &["1.1.1.1, nonsense"], None).0, "127.0.0.1");
    }
}
