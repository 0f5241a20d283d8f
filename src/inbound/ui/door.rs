//! Who may open the page: whoever has logged in, or sends a token that opens it. Owns that refusal and the headers that
//! every answer under /ui carries.

use std::sync::Arc;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::address::escaped;
use super::view::FRAGMENT;
use crate::config::Secret;
use crate::engine::{Engine, Visitor};
use crate::inbound::auth::{By, NoEntry};
use crate::inbound::peer::Peer;
use crate::inbound::throttle::Throttle;
use crate::inbound::{Body, auth, full};

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Who looks at the page, as every route under /ui finds it in its request.
#[derive(Clone, Debug)]
pub(in crate::inbound) struct Guest {
    pub visitor: Visitor,
    /// What a form of this guest must bring with it.
    pub form_token: Arc<str>,
    /// Came with a token in a header, which no browser sends by itself: its forms need bring nothing.
    pub by_token: bool,
    /// Can log out.
    pub session: bool,
    /// The token or the session's cookie; `None` where there is no login.
    key: Option<Secret>,
}

impl Guest {
    /// Whether what let this guest in would do so now.
    pub(super) fn is_still(&self, engine: &Engine) -> bool {
        match &self.key {
            None => engine.config().ui.open,
            Some(key) if self.by_token => engine.visitor(key.reveal()).is_some(),
            Some(key) => engine.visitor_of(key.reveal()).is_some(),
        }
    }
}

pub(in crate::inbound) fn is_page(path: &str) -> bool {
    path == "/ui" || path.starts_with("/ui/")
}

/// `None` when the request may pass, with its `Guest` and `Peer` put into it; the login and the page's looks are for everybody.
pub(in crate::inbound) fn admit<B>(engine: &Engine, tries: &Throttle, peer: Peer, request: &mut Request<B>) -> Option<Response<Body>> {
    let guest = guest(engine, tries, peer, request.headers());
    let path = request.uri().path();
    let for_all = path == "/ui/login" || path.starts_with("/ui/assets/");
    match guest {
        Ok(guest) => {
            request.extensions_mut().insert(guest);
        }
        Err(_) if for_all => {}
        Err(NoEntry::Later(seconds)) => return Some(shut(auth::later(seconds))),
        Err(NoEntry::Stranger) => {
            let refusal = refusal(request);
            if refusal.status() == StatusCode::UNAUTHORIZED {
                auth::note_stranger(engine, peer, path, request.headers());
            }
            return Some(refusal);
        }
    }
    request.extensions_mut().insert(peer);
    None
}

fn guest(engine: &Engine, tries: &Throttle, peer: Peer, headers: &HeaderMap) -> Result<Guest, NoEntry> {
    let (visitor, by) = auth::visitor(engine, tries, peer, headers)?;
    let session = auth::session(headers).filter(|cookie| engine.visitor_of(cookie).is_some());
    let key = match by {
        By::Token => auth::bearer(headers),
        By::Session => session,
        By::Nothing => None,
    };
    let key = key.map(|key| Secret::new(key.to_owned()));
    Ok(Guest { visitor, form_token: engine.form_token(session).into(), by_token: by == By::Token, session: session.is_some(), key })
}

/// People are led to the login and from there to where they wanted to go; programs hear 401.
fn refusal<B>(request: &Request<B>) -> Response<Body> {
    let (uri, headers) = (request.uri(), request.headers());
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    let from_form = || headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).is_some_and(|v| v.contains("text/html"));
    let for_programs = ["/ui/api/", "/ui/events", "/ui/export"].iter().any(|p| uri.path().starts_with(p)) || headers.contains_key(FRAGMENT);
    if for_programs || !(reads || from_form()) {
        shut(auth::not_a_visitor())
    } else {
        let here = uri.path_and_query().map_or("/ui", |p| p.as_str());
        let to = if reads && here != "/ui" { format!("/ui/login?back={}", escaped(here)) } else { "/ui/login".to_owned() };
        let mut response = Response::new(full(""));
        *response.status_mut() = StatusCode::SEE_OTHER;
        response.headers_mut().insert(header::LOCATION, HeaderValue::from_str(&to).unwrap_or(HeaderValue::from_static("/ui/login")));
        shut(response)
    }
}

fn shut(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    guard(response.headers_mut());
    response
}

/// What keeps a browser from doing anything with an answer but showing it; beside `nosniff`, which every answer has.
pub(super) fn guard(headers: &mut HeaderMap) {
    let mut set = |name: HeaderName, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_SECURITY_POLICY, CSP);
    // Not "no-referrer": with it a browser names no origin when it sends a form.
    set(header::REFERRER_POLICY, "same-origin");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(method: Method, path: &str, header: Option<(&'static str, &'static str)>) -> (u16, String) {
        let mut request = Request::builder().method(method).uri(path).body(()).unwrap();
        header.map(|(name, value)| request.headers_mut().insert(name, HeaderValue::from_static(value)));
        let response = refusal(&request);
        assert!(response.headers().contains_key(header::CONTENT_SECURITY_POLICY));
        let told = response.headers().get(header::LOCATION).or_else(|| response.headers().get(header::WWW_AUTHENTICATE)).unwrap();
        (response.status().as_u16(), told.to_str().unwrap().to_owned())
    }

    #[test]
    fn people_are_led_to_the_login_and_programs_hear_401() {
        assert_eq!(refused(Method::GET, "/ui", None), (303, "/ui/login".into()));
        assert_eq!(refused(Method::GET, "/ui/x/1?a=b&c=%22", None), (303, "/ui/login?back=%2Fui%2Fx%2F1%3Fa%3Db%26c%3D%2522".into()));
        assert_eq!(refused(Method::POST, "/ui/settings", Some(("accept", "text/html,*/*"))), (303, "/ui/login".into()));
        for (method, path, header) in [
            (Method::GET, "/ui/api/state", None),
            (Method::GET, "/ui/events", None),
            (Method::GET, "/ui/export.csv", None),
            (Method::GET, "/ui", Some((FRAGMENT, "found"))),
            (Method::POST, "/ui/ask", None),
            (Method::GET, "/ui/api/state", Some(("accept", "text/html"))),
        ] {
            assert_eq!(refused(method, path, header), (401, "Bearer".into()), "{path}");
        }
    }

    #[test]
    fn the_page_is_what_lies_under_its_name() {
        assert!(is_page("/ui") && is_page("/ui/x") && !is_page("/uix"));
    }
}
