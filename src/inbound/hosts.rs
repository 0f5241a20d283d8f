//! Which Host and Origin a request may carry, so that a page somebody visits cannot reach the relay through their
//! browser (DNS rebinding). Checked on every route.

use hyper::Uri;
use hyper::header::{HOST, HeaderMap, ORIGIN};

use crate::config::Config;

/// `None` when the request may pass; else which header is wrong and what is to be said.
pub(super) fn check(config: &Config, uri: &Uri, headers: &HeaderMap) -> Option<(&'static str, String)> {
    let named = uri.authority().map(|a| a.as_str()).or_else(|| headers.get(HOST)?.to_str().ok()).unwrap_or_default();
    let host = host_only(named).to_ascii_lowercase();
    if !allowed(config, &host) {
        let shown = shown(&host);
        return Some(("Host", format!("the host \"{shown}\" is not one of this relay's: set public_url or allowed_hosts in bridge.toml")));
    }
    let origin = headers.get(ORIGIN)?.to_str().unwrap_or("null");
    if is_own(config, origin, named) {
        return None;
    }
    Some(("Origin", format!("requests from another origin, here \"{}\", are not allowed", shown(origin))))
}

/// Bots send no Origin; a browser's own page has the host and the port it talks to. A proxy may hand on another host, or none
/// of the port: then its page has the one that public_url or allowed_hosts names with its port.
fn is_own(config: &Config, origin: &str, named: &str) -> bool {
    let Some((scheme, origin)) = origin.split_once("://") else { return false };
    let usual = match scheme {
        "http" => "80",
        "https" => "443",
        _ => return false,
    };
    let place = |text: &str| (host_only(text).to_ascii_lowercase(), port(text).filter(|port| *port != usual).map(str::to_owned));
    let (from, here) = (place(origin), place(named));
    let public = config.public_url.iter().filter_map(|url| url.split_once("://")).filter(|(of, _)| *of == scheme).map(|(_, rest)| rest);
    let listed = config.allowed_hosts.iter().map(String::as_str).filter(|listed| port(listed).is_some());
    from == here || public.chain(listed).any(|known| place(known) == from)
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(100).collect()
}

fn allowed(config: &Config, host: &str) -> bool {
    // No name leads to an address that is written out, so those that are listened on are as good as loopback.
    let listens = |ip| [Some(config.listen), config.scrape.listen].into_iter().flatten().any(|at| at.ip() == ip);
    let is_own = |ip: std::net::IpAddr| ip.is_loopback() || (listens(ip) && !ip.is_unspecified());
    let own = host == "localhost" || host.parse().is_ok_and(is_own);
    let listed = || config.allowed_hosts.iter().any(|h| h == "*" || host_only(h).eq_ignore_ascii_case(host));
    let public =
        || config.public_url.as_deref().and_then(|u| u.split_once("://")).is_some_and(|(_, rest)| host_only(rest).eq_ignore_ascii_case(host));
    own || listed() || public()
}

/// The port that stands behind the host.
fn port(text: &str) -> Option<&str> {
    let authority = text.split('/').next().unwrap_or_default();
    let (_, port) = authority.rsplit_once(':')?;
    (!port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())).then_some(port)
}

/// The host of `host`, `host:port`, `[v6]:port` or `host/path`.
fn host_only(text: &str) -> &str {
    let authority = text.split('/').next().unwrap_or_default();
    if let Some(v6) = authority.strip_prefix('[') {
        return v6.split(']').next().unwrap_or_default();
    }
    authority.split(':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(public: Option<&str>, host: &str, origin: Option<&str>) -> Option<&'static str> {
        at("127.0.0.1:8787", public, host, origin)
    }

    fn at(listen: &str, public: Option<&str>, host: &str, origin: Option<&str>) -> Option<&'static str> {
        let flags = crate::config::Flags { config: Some("/dev/null".into()), listen: Some(listen.into()), ..Default::default() };
        let mut config = crate::config::load(&flags, &|_| None).unwrap();
        config.public_url = public.map(str::to_owned);
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        check(&config, &Uri::from_static("/mcp"), &headers).map(|(header, _)| header)
    }

    #[test]
    fn loopback_and_the_public_host_may_be_named() {
        for host in ["localhost:8787", "127.0.0.1", "127.0.0.9:1", "[::1]:8787", "LOCALHOST"] {
            assert_eq!(status(None, host, None), None, "{host}");
        }
        assert_eq!(status(Some("https://bridge.example.org/x"), "bridge.example.org", None), None);
        for host in ["evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example"] {
            assert_eq!(status(None, host, None), Some("Host"), "{host}");
        }
    }

    #[test]
    fn the_address_that_is_listened_on_may_be_named_and_no_other() {
        assert_eq!(at("192.0.2.1:8787", None, "192.0.2.1:8787", None), None);
        assert_eq!(at("[2001:db8::1]:8787", None, "[2001:db8::1]:8787", None), None);
        for (listen, host) in [("192.0.2.1:8787", "192.0.2.2:8787"), ("0.0.0.0:8787", "0.0.0.0:8787"), ("0.0.0.0:8787", "192.0.2.1:8787")] {
            assert_eq!(at(listen, None, host, None), Some("Host"), "{listen} {host}");
        }
    }

    #[test]
    fn a_foreign_origin_is_refused() {
        for (host, origin) in [
            ("localhost:8787", "http://localhost:8787"),
            ("LOCALHOST:8787", "http://localhost:8787"),
            ("[::1]:8787", "http://[::1]:8787"),
            ("127.0.0.1", "http://127.0.0.1"),
            ("127.0.0.1:443", "https://127.0.0.1"),
        ] {
            assert_eq!(status(None, host, Some(origin)), None, "{host} {origin}");
        }
        for origin in
            ["https://evil.example", "null", "http://127.0.0.1:8787", "http://localhost:3000", "http://localhost", "file://localhost:8787", ""]
        {
            assert_eq!(status(None, "localhost:8787", Some(origin)), Some("Origin"), "{origin}");
        }
        assert_eq!(status(None, "[::1]:8787", Some("http://[::1]:3000")), Some("Origin"));
    }

    #[test]
    fn behind_a_proxy_the_origin_is_the_public_one_with_or_without_the_port_in_the_host() {
        let public = Some("https://bridge.example.org:8443/x");
        for host in ["bridge.example.org:8443", "bridge.example.org"] {
            assert_eq!(status(public, host, Some("https://bridge.example.org:8443")), None, "{host}");
            for origin in ["https://bridge.example.org:3000", "http://bridge.example.org:8443", "https://evil.example:8443"] {
                let expected = if origin.starts_with("http:") && host.ends_with("8443") { None } else { Some("Origin") };
                assert_eq!(status(public, host, Some(origin)), expected, "{host} {origin}");
            }
        }
        // nginx names its upstream unless it is told otherwise.
        assert_eq!(status(public, "127.0.0.1:8787", Some("https://bridge.example.org:8443")), None);
        assert_eq!(status(public, "127.0.0.1:8787", Some("https://bridge.example.org")), Some("Origin"));
        assert_eq!(status(Some("https://bridge.example.org"), "bridge.example.org", Some("https://bridge.example.org")), None);
        assert_eq!(status(Some("https://bridge.example.org"), "bridge.example.org:443", Some("https://bridge.example.org")), None);
    }
}
