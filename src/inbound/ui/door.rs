//! Who may open the page: until there is a login, only whoever sits at this machine. Owns that refusal and the headers that
//! every answer under /ui carries.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode, Uri};

use crate::inbound::{Body, full};

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const WHY: &str = "The page of this relay has no login yet, so it is shown only to whoever sits at its machine: on a listener at a loopback \
address, opened by a loopback name, with no proxy in between.\n\nWhat to do: open it there, or bring it to you through ssh:\n\n    \
ssh -L 8787:127.0.0.1:8787 the-relay's-machine\n\nthen open http://127.0.0.1:8787/ui. The relay must listen on a loopback address for that \
(listen = \"127.0.0.1:8787\").\n";

pub(in crate::inbound) fn is_page(path: &str) -> bool {
    path == "/ui" || path.starts_with("/ui/")
}

/// `None` when the page may be shown. A forwarded request is a stranger's, whatever it says of its host.
pub(in crate::inbound) fn refusal(loopback: bool, uri: &Uri, headers: &HeaderMap) -> Option<Response<Body>> {
    let host = uri.host().or_else(|| headers.get(header::HOST)?.to_str().ok()).unwrap_or_default();
    let forwarded = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"].iter().any(|name| headers.contains_key(*name));
    if loopback && !forwarded && is_loopback(host) {
        return None;
    }
    let mut response = Response::new(full(WHY));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    guard(response.headers_mut());
    Some(response)
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// What keeps a browser from doing anything with an answer but showing it.
pub(super) fn guard(headers: &mut HeaderMap) {
    let mut set = |name: HeaderName, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_SECURITY_POLICY, CSP);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Not "no-referrer": with it a browser names no origin when it sends the form of the settings.
    set(header::REFERRER_POLICY, "same-origin");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(loopback: bool, host: &str, extra: Option<&'static str>) -> Option<StatusCode> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(name) = extra {
            headers.insert(name, HeaderValue::from_static("1.2.3.4"));
        }
        refusal(loopback, &Uri::from_static("/ui"), &headers).map(|r| r.status())
    }

    #[test]
    fn the_page_is_for_whoever_sits_at_the_machine() {
        for host in ["127.0.0.1:8787", "localhost", "[::1]:8787"] {
            assert_eq!(status(true, host, None), None, "{host}");
            assert_eq!(status(false, host, None), Some(StatusCode::FORBIDDEN), "{host}");
        }
        assert_eq!(status(true, "bridge.example.org", None), Some(StatusCode::FORBIDDEN));
        assert_eq!(status(true, "localhost", Some("x-forwarded-for")), Some(StatusCode::FORBIDDEN));
        assert!(is_page("/ui") && is_page("/ui/x") && !is_page("/uix"));
    }
}
