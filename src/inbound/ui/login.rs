//! The login: the owner's token, or a viewer's, becomes a session's cookie. The token comes in the link's fragment, which
//! browsers keep to themselves; a script hands it in and takes it out of the address. Without scripts it is pasted.

use std::sync::Arc;

use maud::html;
use warp::http::{StatusCode, header};
use warp::reply::{Reply, Response};

use super::form::{Form, see_other};
use super::words::fill;
use super::{Ask, page};
use crate::config::Secret;
use crate::engine::{Engine, Kind, Visitor};
use crate::inbound::auth;
use crate::inbound::gate::Gate;
use crate::inbound::peer::Peer;

impl Ask {
    /// Shown to whoever is logged in too: the link of a new token must work in a browser that has an old session.
    pub(super) fn login_page(self) -> Response {
        // A link from another site comes without the cookie; the page asks once more by itself, with it.
        if self.value("again") == "1" && self.view.guest.is_some() {
            return see_other(self.back());
        }
        self.login(StatusCode::OK, None)
    }

    fn back(&self) -> &str {
        let wanted = self.value("back");
        if super::door::is_page(wanted.split(['?', '#']).next().unwrap_or_default()) { wanted } else { "/ui" }
    }

    fn login(&self, status: StatusCode, wrong: Option<&str>) -> Response {
        let words = self.view.words();
        let main = html! {
            div class="notice login" {
                h1 { (words.log_in) }
                p { (words.log_in_why) " " code { "hermes-bridge ui-token" } }
                @if let Some(wrong) = wrong { p class="wrong" role="alert" { (wrong) } }
                form action="/ui/login" method="post" {
                    input type="hidden" name="back" value=(self.back());
                    label for="token" { (words.token) }
                    input id="token" name="token" type="password" required autocomplete="current-password" autocapitalize="off" spellcheck="false" maxlength="1000" autofocus;
                    button type="submit" class="main" { (words.log_in) }
                }
            }
        };
        let mut response = warp::reply::html(page::bare(&self.view, words.log_in, &main).into_string()).into_response();
        *response.status_mut() = status;
        response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
        response
    }

    fn too_many(&self, seconds: u64) -> Response {
        let wrong = fill(self.view.words().log_in_slow, &[("n", &seconds.to_string())]);
        let mut response = self.login(StatusCode::TOO_MANY_REQUESTS, Some(&wrong));
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        response
    }
}

pub(super) async fn log_in(form: Form, headers: warp::http::HeaderMap, gate: Arc<Gate>) -> Response {
    let (engine, peer) = (form.ask.engine.clone(), form.ask.peer);
    let note = |rule, what: &str| engine.audit_counted(Kind::RefusedLogin, rule, "", Some(peer.address), what);
    // The page that comes again must lead to the same place.
    let ask = Ask { pairs: vec![("back".to_owned(), form.value("back").to_owned())], ..form.ask.clone() };
    if let Err(seconds) = gate.tries.may_try(engine.now(), peer.address) {
        note("wrong tokens of one address", "login: too many tries");
        return ask.too_many(seconds);
    }
    match engine.log_in(form.value("token").trim()).await {
        Ok(Some((visitor, cookie))) => {
            noted(&engine, Kind::Login, &visitor, peer).await;
            let life = engine.config().ui.session.as_secs();
            with_cookie(form.back(), &headers, &cookie, life, peer.https)
        }
        Ok(None) => {
            gate.tries.wrong(engine.now(), peer.address);
            note("login", &format!("login: {}", auth::offered(Some(form.value("token").trim()))));
            ask.login(StatusCode::FORBIDDEN, Some(ask.view.words().log_in_wrong))
        }
        Err(e) => {
            tracing::error!(error = %e, "a login failed");
            ask.login(StatusCode::SERVICE_UNAVAILABLE, Some(ask.view.words().trouble))
        }
    }
}

pub(super) async fn log_out(form: Form, headers: warp::http::HeaderMap) -> Response {
    let peer = form.ask.peer;
    if let Some(cookie) = auth::session(&headers)
        && let Err(e) = form.ask.engine.log_out(cookie).await
    {
        // Out for as long as the relay runs; the cookie is gone from this browser all the same.
        tracing::error!(error = %e, "a logout could not be recorded");
    }
    if let Some(guest) = &form.ask.view.guest {
        noted(&form.ask.engine, Kind::Logout, &guest.visitor, peer).await;
    }
    with_cookie(see_other("/ui/login"), &headers, &Secret::new(String::new()), 0, peer.https)
}

async fn noted(engine: &Engine, kind: Kind, who: &Visitor, peer: Peer) {
    // A disk that refuses keeps it in memory for later, and nobody out of the page where that is to be read.
    let _ = engine.audit(kind, &who.to_string(), Some(peer.address), "").await;
}

fn with_cookie(mut response: Response, headers: &warp::http::HeaderMap, value: &Secret, life: u64, https: bool) -> Response {
    let (name, secure) = (auth::session_cookie(headers), if https { "; Secure" } else { "" });
    let cookie = format!("{name}={}; Path=/ui; Max-Age={life}; HttpOnly; SameSite=Strict{secure}", value.reveal());
    if let Ok(mut cookie) = header::HeaderValue::from_str(&cookie) {
        cookie.set_sensitive(true);
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}
