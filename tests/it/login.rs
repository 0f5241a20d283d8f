//! Who may open the page and its API: everything under /ui is shut without the owner's token, a viewer's or a session's cookie;
//! a login survives restarts and kills, and ends with its token.

use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;

use crate::rig::{OWNER, Ran, Relay, http, http_unled, soon, text, token, until};

/// A browser without scripts: it keeps its cookies and follows nothing by itself.
struct Browser {
    url: String,
    client: reqwest::Client,
    cookie: String,
}

impl Browser {
    fn new(relay: &Relay) -> Self {
        Self { url: relay.url(), client: http_unled(), cookie: String::new() }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url)).header("cookie", &self.cookie).header("accept", "text/html")
    }

    async fn get(&self, path: &str) -> Response {
        soon(path, self.request(Method::GET, path).send()).await.unwrap()
    }

    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Response {
        let body = reqwest::Url::parse_with_params("http://x/", fields).unwrap().query().unwrap_or_default().to_owned();
        let request = self.request(Method::POST, path).header("content-type", "application/x-www-form-urlencoded").body(body);
        soon(path, request.send()).await.unwrap()
    }

    /// What the login says: status and the cookie it sets, with its attributes.
    async fn log_in(&mut self, token: &str) -> (u16, String) {
        let answer = self.post("/ui/login", &[("token", token)]).await;
        let set = answer.headers().get("set-cookie").map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default();
        set.split(';').next().unwrap_or_default().clone_into(&mut self.cookie);
        (answer.status().as_u16(), set)
    }

    async fn is_in(&self) -> bool {
        match self.get("/ui").await.status().as_u16() {
            200 => true,
            303 => false,
            other => panic!("{other}"),
        }
    }

    /// The token that the forms of a page carry.
    async fn form_token(&self) -> String {
        let html = self.get("/ui").await.text().await.unwrap();
        let (_, rest) = html.split_once("name=\"form\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }
}

/// The token at the end of the link that the output has.
fn link_token(output: &str) -> String {
    let link = output.split_whitespace().find(|w| w.contains("/ui/login#")).unwrap_or_else(|| panic!("no link in {output:?}"));
    link.split_once('#').unwrap().1.to_owned()
}

async fn status_with(relay: &Relay, path: &str, bearer: &str) -> u16 {
    soon(path, http().get(format!("{}{path}", relay.url())).bearer_auth(bearer).send()).await.unwrap().status().as_u16()
}

/// What `round` finds: ten wrong tokens and a look. Again, for a minute may have begun in between, but not every time.
async fn after_ten<T>(what: &str, mut round: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..5 {
        if let Some(found) = round().await {
            return found;
        }
    }
    panic!("not after ten wrong tokens: {what}");
}

const NO_OWNER: &[(&str, &str)] = &[("HERMES_BRIDGE_UI_TOKEN", "")];

#[tokio::test]
async fn without_a_login_people_are_led_to_it_and_programs_hear_401() {
    let relay = Relay::start("", &["alice"]).await;
    let stranger = Browser::new(&relay);
    for path in ["/ui", "/ui/agents", "/ui/x/1", "/ui/nothing"] {
        let answer = stranger.get(path).await;
        assert_eq!(answer.status(), 303, "{path}");
        assert!(answer.headers()["location"].to_str().unwrap().starts_with("/ui/login"), "{path}");
        assert!(answer.headers().contains_key("content-security-policy"), "{path}");
    }
    let paths = ["/ui/api/state", "/ui/api/search", "/ui/api/nothing", "/ui/events", "/ui/export.csv", "/ui/export.ndjson"];
    for (n, path) in paths.into_iter().enumerate() {
        for bearer in ["", "wrong", &token("alice")] {
            // Wrong tokens are counted by address.
            let request = http().get(format!("{}{path}", relay.url())).bearer_auth(bearer).header("x-forwarded-for", format!("203.0.113.{n}"));
            let answer = soon(path, request.send()).await.unwrap();
            assert_eq!(answer.status(), 401, "{path} with {bearer}");
            assert_eq!(answer.headers()["www-authenticate"], "Bearer");
            let error: Value = answer.json().await.unwrap();
            assert!(text(&error, "error").contains("/ui/login"), "{error}");
        }
        assert_eq!(status_with(&relay, &format!("{path}?token={OWNER}"), "x").await, 401, "a token in the address");
    }
    assert_eq!(stranger.get("/ui/login").await.status(), 200);
    assert_eq!(stranger.get("/health").await.status(), 200);
}

#[tokio::test]
async fn a_session_outlives_restarts_and_ends_with_its_logout() {
    let mut relay = Relay::start("", &["alice"]).await;
    let (mut one, mut other) = (Browser::new(&relay), Browser::new(&relay));
    assert_eq!(one.log_in("wrong").await, (403, String::new()));
    let (status, set) = one.log_in(OWNER).await;
    assert_eq!(status, 303);
    for part in ["HttpOnly", "SameSite=Strict", "Path=/ui", "Max-Age=2592000"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("Secure") && !set.contains(OWNER), "{set}");
    other.log_in(OWNER).await;
    assert!(one.is_in().await && other.is_in().await && one.cookie != other.cookie);
    let cookies = [one.cookie.clone(), other.cookie.clone()];
    for stop in ["kill", "stop"] {
        // Browsers know a relay by its port, which is another one here.
        relay.again_after(stop).await;
        let here = |cookie: &str| format!("hb_session_{}={}", relay.host().rsplit(':').next().unwrap(), cookie.split_once('=').unwrap().1);
        for cookie in &cookies {
            let browser = Browser { cookie: here(cookie), ..Browser::new(&relay) };
            assert!(browser.is_in().await, "after a {stop}");
        }
    }
    let here = |cookie: &str| format!("hb_session_{}={}", relay.host().rsplit(':').next().unwrap(), cookie.split_once('=').unwrap().1);
    let one = Browser { cookie: here(&cookies[0]), ..Browser::new(&relay) };
    assert_eq!(one.post("/ui/logout", &[("form", "guessed")]).await.status(), 403, "without the form's token");
    assert!(one.is_in().await);
    let form = one.form_token().await;
    let out = one.post("/ui/logout", &[("form", &form)]).await;
    assert!(out.headers()["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert!(!one.is_in().await, "the cookie is worth nothing after the logout, whoever kept it");
    let noted = relay.noted("logout", "").await;
    assert_eq!((text(&noted, "who"), text(&noted, "address")), ("owner", "127.0.0.1"));
    assert!(Browser { cookie: here(&cookies[1]), ..Browser::new(&relay) }.is_in().await);
}

#[tokio::test]
async fn the_first_start_prints_a_link_that_logs_in_and_ui_token_makes_another() {
    let mut relay = Relay::prepare("", &["alice"]);
    relay.up_in(&[], NO_OWNER).await;
    let said = relay.said();
    let first = link_token(&said);
    assert!(first.starts_with("hbo_") && first.len() == 68 && said.matches("hbo_").count() == 1, "{said}");
    assert_eq!(status_with(&relay, "/ui/api/state", &first).await, 200);
    let mut browser = Browser::new(&relay);
    assert_eq!(browser.log_in(&first).await.0, 303);
    let second = link_token(&relay.run_with(&["ui-token"], NO_OWNER).await.out);
    assert_eq!(status_with(&relay, "/ui/api/state", &first).await, 401);
    assert!(!browser.is_in().await, "who logged in with the old token is out");
    assert_eq!(status_with(&relay, "/ui/api/state", &second).await, 200);
    relay.stop().await;
    let third = link_token(&relay.run_with(&["ui-token"], NO_OWNER).await.out);
    relay.up_in(&[], NO_OWNER).await;
    assert_eq!(relay.said().matches("hbo_").count(), 1, "a later start prints none");
    assert_eq!(status_with(&relay, "/ui/api/state", &second).await, 401);
    assert_eq!(status_with(&relay, "/ui/api/state", &third).await, 200);
    let store = std::fs::read(relay.path("data/bridge.redb")).unwrap();
    for secret in [&first, &second, &third, &browser.cookie] {
        let secret = secret.rsplit('=').next().unwrap();
        assert!(!store.windows(secret.len()).any(|w| w == secret.as_bytes()), "kept in clear");
    }
}

#[tokio::test]
async fn a_token_of_the_configuration_takes_the_place_of_a_made_one() {
    let mut relay = Relay::prepare("", &[]);
    let with = |ui: &str| format!("listen = \"127.0.0.1:0\"\n[ui]\n{ui}\n");
    relay.write_config(&with("token = \"short\""));
    let refused = relay.run_with(&["check"], NO_OWNER).await;
    assert!(
        refused.code == 1 && refused.out.contains("line 3") && refused.out.contains("16 characters") && !refused.out.contains("short\""),
        "{refused:?}"
    );
    relay.write_config(&with("token = \"a token that is long enough\""));
    relay.up_in(&[], NO_OWNER).await;
    assert!(!relay.said().contains("hbo_"), "{}", relay.said());
    assert_eq!(status_with(&relay, "/ui/api/state", "a token that is long enough").await, 200);
    let Ran { code, err, .. } = relay.run_with(&["ui-token"], NO_OWNER).await;
    assert!(code == 1 && err.contains("bridge.toml"), "{err}");
    relay.write_config(&with("token = \"another that is long enough\""));
    relay.signal(rustix::process::Signal::HUP);
    until("the new token", async || (status_with(&relay, "/ui/api/state", "another that is long enough").await == 200).then_some(())).await;
    assert_eq!(status_with(&relay, "/ui/api/state", "a token that is long enough").await, 401);
}

#[tokio::test]
async fn an_open_page_says_so_and_needs_no_login_but_still_the_tokens_of_its_forms() {
    let mut relay = Relay::prepare("", &[]);
    relay.write_config("listen = \"127.0.0.1:0\"\n[ui]\nopen = true\n");
    relay.up().await;
    assert!(relay.said().contains("WITHOUT LOGIN"), "{}", relay.said());
    let stranger = Browser::new(&relay);
    let page = stranger.get("/ui").await.text().await.unwrap();
    assert!(page.contains("No login: whoever reaches this address"), "{page}");
    assert_eq!(stranger.get("/ui/api/state").await.status(), 200);
    assert_eq!(stranger.post("/ui/settings", &[("hb_theme", "dark")]).await.status(), 403);
    let form = stranger.form_token().await;
    assert_eq!(stranger.post("/ui/settings", &[("hb_theme", "dark"), ("form", &form)]).await.status(), 303);
}

#[tokio::test]
async fn a_viewer_reads_everything_and_is_out_when_the_token_is_taken_back() {
    let relay = Relay::start("", &["alice"]).await;
    let viewer = link_token(&relay.run(&["ui-token", "--viewer", "claire"]).await.out);
    assert!(viewer.starts_with("hbv_"));
    assert_eq!(relay.run(&["ui-token", "--viewer", "claire"]).await.code, 1, "the name is taken");
    assert_eq!(relay.run(&["ui-token", "--viewer", "no name"]).await.code, 1);
    assert!(relay.run(&["ui-token", "--list"]).await.out.starts_with("claire "));
    let mut browser = Browser::new(&relay);
    assert_eq!(browser.log_in(&viewer).await.0, 303);
    for path in ["/ui", "/ui/agents", "/ui/api/state", "/ui/export.csv"] {
        assert_eq!(browser.get(path).await.status(), 200, "{path}");
    }
    let me: Value = browser.get("/ui/api/me").await.json().await.unwrap();
    assert_eq!((text(&me, "role"), text(&me, "name")), ("viewer", "claire"));
    let mut stream = soon("the stream", browser.request(Method::GET, "/ui/events").send()).await.unwrap();
    assert_eq!(stream.status(), 200);
    assert_eq!(relay.run(&["ui-token", "--revoke", "claire"]).await.code, 0);
    assert!(!browser.is_in().await);
    relay.caller("alice").ask("nobody", "not for claire").await;
    let mut told = String::new();
    while let Some(piece) = soon("the end of the stream", stream.chunk()).await.unwrap() {
        told.push_str(std::str::from_utf8(&piece).unwrap());
    }
    assert!(!told.contains("not for claire"), "an open stream goes on telling: {told}");
    assert_eq!(status_with(&relay, "/ui/api/state", &viewer).await, 401);
    assert_eq!(relay.run(&["ui-token", "--revoke", "claire"]).await.code, 1);
}

#[tokio::test]
async fn wrong_tokens_are_counted_by_address_as_the_proxy_names_it() {
    let relay = Relay::start("", &["alice"]).await;
    let browser = Browser::new(&relay);
    let tried = async |token: &str, from: &str| {
        let request = browser.request(Method::POST, "/ui/login").header("x-forwarded-for", from).body(format!("token={token}"));
        soon("login", request.send()).await.unwrap()
    };
    for _ in 0..10 {
        assert_eq!(tried("wrong", "203.0.113.1").await.status(), 403);
    }
    let throttled = after_ten("the right one is refused too", async || {
        for _ in 0..10 {
            tried("wrong", "203.0.113.1").await;
        }
        Some(tried(OWNER, "203.0.113.1").await).filter(|answer| answer.status() == 429)
    })
    .await;
    let wait: u64 = throttled.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait));
    assert_eq!(tried(OWNER, "203.0.113.2").await.status(), 303);
    let claimed = after_ten("what the caller claims before the proxy's word counts for nothing", async || {
        for _ in 0..10 {
            tried("wrong", "203.0.113.1").await;
        }
        (tried("wrong", "198.51.100.7, 203.0.113.1").await.status() == 429).then_some(())
    });
    claimed.await;
}

#[tokio::test]
async fn a_flood_of_wrong_tokens_from_everywhere_shuts_out_nobody_else() {
    let relay = Relay::start("", &["alice"]).await;
    let client = http_unled();
    let with =
        |bearer: &str, from: String| client.get(format!("{}/ui/api/state", relay.url())).bearer_auth(bearer).header("x-forwarded-for", from).send();
    for hundred in 0..4 {
        let many = (0..100).map(|n| with("wrong", format!("203.0.{hundred}.{n}")));
        for answer in soon("wrong tokens", futures_util::future::join_all(many)).await {
            assert_eq!(answer.unwrap().status(), 401);
        }
    }
    assert_eq!(soon("the owner", with(OWNER, "198.51.100.7".into())).await.unwrap().status(), 200);
    assert_eq!(Browser::new(&relay).log_in(OWNER).await.0, 303);
}

#[tokio::test]
async fn a_wrong_bearer_is_counted_as_a_wrong_login_is_and_a_session_goes_on() {
    let relay = Relay::start("[metrics]\ntoken = \"a token of Prometheus\"", &["alice"]).await;
    let mut browser = Browser::new(&relay);
    assert_eq!(browser.log_in(OWNER).await.0, 303);
    let with = async |path: &str, bearer: &str, from: &str| {
        let request = http().get(format!("{}{path}", relay.url())).bearer_auth(bearer).header("x-forwarded-for", from);
        soon(path, request.send()).await.unwrap()
    };
    let paths =
        ["/ui/api/state", "/ui/api/agents", "/metrics", "/ui/events", "/metrics", "/ui/api/search", "/ui/export.csv", "/metrics", "/ui/api/me"];
    for path in paths {
        assert_eq!(with(path, "wrong", "127.0.0.1").await.status(), 401, "{path}");
    }
    assert_eq!(with("/ui/api/state", OWNER, "127.0.0.1").await.status(), 200, "nine wrong ones are not ten");
    assert_eq!(with("/metrics", "wrong", "127.0.0.1").await.status(), 401);
    let ten = async || {
        for path in paths.iter().chain(&["/metrics"]) {
            with(path, "wrong", "127.0.0.1").await;
        }
    };
    for (path, bearer) in [("/ui/api/state", OWNER), ("/ui", "wrong"), ("/metrics", OWNER), ("/metrics", "a token of Prometheus")] {
        let throttled = after_ten(&format!("{path} is refused with {bearer}"), async || {
            ten().await;
            Some(with(path, bearer, "127.0.0.1").await).filter(|answer| answer.status() == 429)
        })
        .await;
        let wait: u64 = throttled.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((1..=60).contains(&wait));
        assert!(text(&throttled.json().await.unwrap(), "error").contains("too many wrong tokens"), "{path}");
    }
    after_ten("one count for the login and the Bearer", async || {
        ten().await;
        (browser.post("/ui/login", &[("token", OWNER)]).await.status() == 429).then_some(())
    })
    .await;
    assert!(browser.is_in().await, "a session is no token");
    assert_eq!(with("/ui/api/state", OWNER, "203.0.113.2").await.status(), 200);
    assert_eq!(with("/metrics", "a token of Prometheus", "203.0.113.2").await.status(), 200);
}

#[tokio::test]
async fn behind_tls_the_cookie_is_for_tls_only() {
    let relay = Relay::start("public_url = \"https://bridge.example\"", &["alice"]).await;
    let browser = Browser::new(&relay);
    let cookie = async |name: &str, value: &str| {
        let request = browser.request(Method::POST, "/ui/login").header(name, value).body(format!("token={OWNER}"));
        let answer = soon("login", request.send()).await.unwrap();
        answer.headers()["set-cookie"].to_str().unwrap().to_owned()
    };
    assert!(cookie("host", "bridge.example").await.ends_with("; Secure"));
    assert!(cookie("x-forwarded-proto", "https").await.ends_with("; Secure"));
    assert!(!cookie("x-forwarded-proto", "http").await.contains("Secure"));
}

#[tokio::test]
async fn no_route_takes_a_foreign_host_or_origin() {
    let relay = Relay::start("", &["alice"]).await;
    let browser = Browser::new(&relay);
    for path in
        ["/ui", "/ui/login", "/ui/logout", "/ui/api/state", "/ui/events", "/ui/export.csv", "/health", "/ready", "/metrics", "/install.py", "/mcp"]
    {
        for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example"), ("origin", "null")] {
            for method in [Method::GET, Method::POST] {
                let request = browser.request(method.clone(), path).bearer_auth(OWNER).header(name, value);
                assert_eq!(soon(path, request.send()).await.unwrap().status(), 403, "{method} {path} with {name}: {value}");
            }
        }
    }
}

#[tokio::test]
async fn search_and_export_on_the_relays_machine_need_no_token_and_elsewhere_one() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    relay.caller("alice").ask("nobody", "a question for the record").await;
    let url = relay.url();
    let found = until("it is found", async || {
        let ran = relay.run_with(&["search", "--url", &url, "record"], NO_OWNER).await;
        (ran.code == 0).then_some(ran)
    });
    assert!(found.await.out.contains("a question for the record"));
    let elsewhere = ["--url", &url, "--data-dir", "elsewhere"];
    let refused = relay.run_with(&[&["search"], &elsewhere[..], &["record"]].concat(), NO_OWNER).await;
    assert!(refused.code == 1 && refused.err.contains("401"), "{refused:?}");
    let exported = relay.run_with(&[&["export"], &elsewhere[..], &["--token", OWNER]].concat(), NO_OWNER).await;
    assert!(exported.code == 0 && exported.out.contains("a question for the record"), "{exported:?}");
}

#[tokio::test]
async fn what_is_kept_is_readable_by_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let relay = Relay::start("", &["alice"]).await;
    relay.caller("alice").ask("nobody", "a question for the record").await;
    let mut left = vec![relay.path("data")];
    let mut seen = 0;
    while let Some(path) = left.pop() {
        let about = std::fs::symlink_metadata(&path).unwrap();
        let mode = about.permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
        seen += 1;
        if about.is_dir() {
            assert_eq!(mode, 0o700, "{}", path.display());
            left.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        }
    }
    assert!(seen > 4, "only {seen} files");
}
