//! What a form of the page sends: read once, and believed only when it brings the token that the page gave it, so that no
//! other site can send one in somebody's name.

use bytes::Bytes;
use subtle::ConstantTimeEq;
use warp::http::{StatusCode, header};
use warp::reply::{Reply, Response};

use super::{Ask, door};
use crate::engine::Visitor;

/// The name of the field that holds the form's token.
pub(super) const TOKEN: &str = "form";
const MAX_FIELDS: usize = 50;
/// The rule that a viewer broke, as the security log names it.
pub(super) const OWNERS_ONLY: &str = "for the owner only";

/// What is answered to a form that is not obeyed.
pub(super) type Refused = Box<Response>;

pub(super) struct Form {
    pub ask: Ask,
    pairs: Vec<(String, String)>,
}

impl Form {
    /// A form of somebody who is logged in.
    pub(super) fn read(ask: Ask, body: &Bytes) -> Result<Self, Refused> {
        let form = Self { pairs: pairs(&String::from_utf8_lossy(body)), ask };
        let guest = form.ask.view.guest.as_ref();
        let good = guest.is_some_and(|g| g.by_token || bool::from(g.form_token.as_bytes().ct_eq(form.value(TOKEN).as_bytes())));
        if good { Ok(form) } else { Err(Box::new(form.ask.refused("a form without its token", form.ask.view.words().form_old))) }
    }

    /// The login's: nobody is logged in yet.
    pub(super) fn of_stranger(ask: Ask, body: &Bytes) -> Self {
        Self { pairs: pairs(&String::from_utf8_lossy(body)), ask }
    }

    /// Only for what a viewer may not do.
    pub(super) fn owners(self) -> Result<Self, Refused> {
        match self.ask.view.guest.as_ref().map(|g| &g.visitor) {
            Some(Visitor::Owner) => Ok(self),
            _ => Err(Box::new(self.ask.refused(OWNERS_ONLY, self.ask.view.words().viewer_only))),
        }
    }

    pub(super) fn value(&self, name: &str) -> &str {
        self.pairs.iter().rev().find(|(n, _)| n == name).map_or("", |(_, v)| v)
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// To where the form was sent from; only a page of ours, never another host.
    pub(super) fn back(&self) -> Response {
        let wanted = Some(self.value("back")).filter(|v| door::is_page(v.split(['?', '#']).next().unwrap_or_default()));
        see_other(wanted.unwrap_or("/ui"))
    }
}

pub(super) fn see_other(to: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let to = header::HeaderValue::from_str(to).unwrap_or(header::HeaderValue::from_static("/ui"));
    response.headers_mut().insert(header::LOCATION, to);
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

/// Whatever stands there is read; nothing in it is an error.
pub(super) fn pairs(encoded: &str) -> Vec<(String, String)> {
    let url = reqwest::Url::parse(&format!("http://relay/?{encoded}"));
    url.map(|u| u.query_pairs().take(MAX_FIELDS).map(|(n, v)| (n.into_owned(), v.into_owned())).collect()).unwrap_or_default()
}
