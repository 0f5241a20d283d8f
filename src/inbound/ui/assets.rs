//! The page's files: one stylesheet, one script, one for the login, inside the binary, addressed by what is in them. Owns their caching;
//! they hold nothing of anybody.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};
use warp::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH};
use warp::http::{HeaderMap, StatusCode};
use warp::reply::{Reply, Response};

const CSS: &str = include_str!("assets/page.css");
const JS: &str = include_str!("assets/page.js");
const LOGIN_JS: &str = include_str!("assets/login.js");

static CSS_NAME: LazyLock<String> = LazyLock::new(|| named(CSS, "css"));
static JS_NAME: LazyLock<String> = LazyLock::new(|| named(JS, "js"));
static LOGIN_JS_NAME: LazyLock<String> = LazyLock::new(|| named(LOGIN_JS, "login.js"));

fn named(text: &str, kind: &str) -> String {
    let hash: String = Sha256::digest(text.as_bytes()).iter().take(6).map(|b| format!("{b:02x}")).collect();
    format!("/ui/assets/{hash}.{kind}")
}

pub(super) fn css() -> &'static str {
    &CSS_NAME
}

pub(super) fn js() -> &'static str {
    &JS_NAME
}

/// The login's script, which is all that the login needs.
pub(super) fn login_js() -> &'static str {
    &LOGIN_JS_NAME
}

/// A file by its name. An older name gets the present file, unkept, so that an old page is not left without looks.
pub(super) fn serve(name: &str, headers: &HeaderMap) -> Option<Response> {
    let (text, kind, present) = match name.rsplit_once('.') {
        Some((_, "css")) => (CSS, "text/css; charset=utf-8", &*CSS_NAME),
        Some((_, "js")) if name.ends_with(".login.js") => (LOGIN_JS, "text/javascript; charset=utf-8", &*LOGIN_JS_NAME),
        Some((_, "js")) => (JS, "text/javascript; charset=utf-8", &*JS_NAME),
        _ => return None,
    };
    let is_present = present.ends_with(name) && present.len() == "/ui/assets/".len() + name.len();
    let tag = format!("\"{}\"", present.rsplit('/').next().unwrap_or_default());
    let known = headers.get(IF_NONE_MATCH).and_then(|v| v.to_str().ok()).is_some_and(|v| v.contains(&tag));
    let mut response = if known { StatusCode::NOT_MODIFIED.into_response() } else { text.into_response() };
    let keep = if is_present { "public, max-age=31536000, immutable" } else { "no-cache" };
    let out = response.headers_mut();
    out.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    out.insert(CACHE_CONTROL, HeaderValue::from_static(keep));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        out.insert(ETAG, tag);
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_kept_for_ever_under_its_own_name_only() {
        let ask = |name: &str, headers: &HeaderMap| {
            serve(name, headers).map(|r| (r.status(), r.headers()[CACHE_CONTROL].clone(), r.headers()[ETAG].clone()))
        };
        let name = css().rsplit('/').next().unwrap();
        let (status, kept, tag) = ask(name, &HeaderMap::new()).unwrap();
        assert!(status == 200 && kept.to_str().unwrap().contains("immutable"));
        let mut headers = HeaderMap::new();
        headers.insert(IF_NONE_MATCH, tag);
        assert_eq!(ask(name, &headers).unwrap().0, 304);
        assert_eq!(ask("000000000000.css", &HeaderMap::new()).unwrap().1, "no-cache");
        assert!(ask("../page", &HeaderMap::new()).is_none());
    }
}
