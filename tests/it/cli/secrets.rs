//! Tokens in the open: at the highest log level, through all doors and both versions of HTTP, with right and wrong tokens and
//! every command that makes one, no token stands in any output, log, page, export, refusal or file but the one place where
//! it is shown once. Cookies and what forms carry are secrets too.

use std::path::Path;

use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use reqwest::RequestBuilder;
use serde_json::json;

use crate::rig::{Bot, Collector, OWNER, Ran, Relay, http, http_unled, soon, text, token, until};

const WRONG: &str = "hbt_wrong-but-somebodys-elsewhere";
const WRONG_OWNER: &str = "hbo_wrong-but-somebodys-elsewhere";
/// Of the configuration: what the exports and the metrics are opened with, and how the first goes out.
const KEYS: [(&str, &str); 4] = [
    ("Langfuse's key", "sk-lf-never-to-be-told"),
    ("Langfuse's keys as they are sent", "cGstbGYtMTpzay1sZi1uZXZlci10by1iZS10b2xk"),
    ("the collector's token", "otlp-never-to-be-told"),
    ("the metrics' token", "metrics-never-to-be-told"),
];
/// The relay and its commands find no owner's token in their surroundings.
const ALONE: [(&str, &str); 2] = [("HERMES_BRIDGE_UI_TOKEN", ""), ("RUST_LOG", "trace")];

/// What must stand nowhere, and all that was said where it could.
#[derive(Default)]
struct Seen {
    secrets: Vec<(&'static str, String)>,
    places: Vec<(String, String)>,
}

impl Seen {
    fn secret(&mut self, what: &'static str, secret: &str) -> String {
        assert!(secret.len() >= 16, "{what}: {secret:?}");
        self.secrets.push((what, secret.to_owned()));
        secret.to_owned()
    }

    /// Secrets are plain text: they are found between whatever else is there.
    fn place(&mut self, name: impl Into<String>, bytes: impl AsRef<[u8]>) {
        self.places.push((name.into(), String::from_utf8_lossy(bytes.as_ref()).into_owned()));
    }

    /// A command that shows a secret, on its standard output.
    fn shown(&mut self, what: &str, ran: &Ran) {
        assert_eq!(ran.code, 0, "{what}: {ran:?}");
        self.place(format!("standard error of {what}"), &ran.err);
    }

    /// A whole answer: status, headers, body.
    async fn answer(&mut self, what: &str, request: RequestBuilder, status: u16) {
        let answer = soon(what, request.send()).await.unwrap();
        assert_eq!(answer.status(), status, "{what}");
        let head = format!("{:?}", answer.headers());
        self.place(format!("head of {what}"), head);
        self.place(what, answer.bytes().await.unwrap());
    }

    /// The last answer was this session's own page, which gives its forms their token.
    fn own_forms(&mut self, form: &str) {
        let (_, page) = self.places.last_mut().unwrap();
        *page = page.replace(form, "");
    }

    /// Every file below, as it is on disk.
    fn files(&mut self, dir: &Path) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.files(&path);
            } else if path.is_file() {
                self.place(path.display().to_string(), std::fs::read(&path).unwrap());
            }
        }
    }

    fn nothing_is_told(&self) {
        for (what, secret) in &self.secrets {
            for (place, said) in &self.places {
                let around = said.lines().find(|line| line.contains(secret.as_str())).map(|line| line.chars().take(500).collect::<String>());
                assert!(around.is_none(), "{place} has {what}: {around:?}");
            }
        }
    }
}

fn link_token(said: &str) -> &str {
    said.split_whitespace().find_map(|word| word.split_once("/ui/login#")).unwrap().1
}

/// A browser's cookie, and what its forms carry.
async fn logged_in(relay: &Relay, token: &str) -> (String, String) {
    let login = http_unled().post(format!("{}/ui/login", relay.url())).body(format!("token={token}"));
    let answer = soon("login", login.send()).await.unwrap();
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let page = http().get(format!("{}/ui", relay.url())).header("cookie", &cookie).send().await.unwrap().text().await.unwrap();
    let form = page.split_once("name=\"form\" value=\"").unwrap().1.split('"').next().unwrap().to_owned();
    (cookie, form)
}

/// What each page, export and refusal of the relay says.
async fn read_all(relay: &Relay, seen: &mut Seen, owner: &str, [request, conversation]: [&str; 2]) {
    let at = |path: &str| format!("{}{path}", relay.url());
    let (exchange, thread) = (format!("/ui/x/{request}"), format!("/ui/c/{conversation}"));
    let pages = ["/ui", "/ui/agents", "/ui/security", "/ui/ask", "/ui?q=token", "/metrics", &exchange, &thread];
    let apis = ["state", "search?q=q", "agents", "security", &format!("exchanges/{request}"), &format!("conversations/{conversation}")];
    let exports = ["/ui/export.csv", "/ui/export.json", "/ui/export.ndjson", "/ui/export-security.ndjson"];
    let apis = apis.map(|api| format!("/ui/api/{api}"));
    for path in pages.into_iter().chain(exports).chain(apis.iter().map(String::as_str)) {
        seen.answer(path, http().get(at(path)).bearer_auth(owner), 200).await;
    }
    let wrong = |path: &str, token: &str| http_unled().get(at(path)).bearer_auth(token);
    seen.answer("401 of /mcp", wrong("/mcp", WRONG), 401).await;
    seen.answer("401 for a token in the address", http().get(at(&format!("/mcp?token={WRONG}"))), 401).await;
    seen.answer("401 of the API", wrong("/ui/api/state", WRONG_OWNER), 401).await;
    seen.answer("401 of /metrics", wrong("/metrics", WRONG_OWNER), 401).await;
    seen.answer("403 of a login", http().post(at("/ui/login")).body(format!("token={WRONG_OWNER}")), 403).await;
    seen.answer("403 of a foreign origin", wrong("/ui", owner).header("origin", "https://evil.example"), 403).await;
    seen.answer("404", wrong("/nothing", owner), 404).await;
    seen.answer("404 of the page", wrong("/ui/nothing", owner), 404).await;
    seen.answer("405", http().delete(at("/health")).bearer_auth(owner), 405).await;
    seen.answer("405 of /mcp", wrong("/mcp", &token("alice")), 405).await;
    seen.answer("413", http().post(at("/mcp")).bearer_auth(token("alice")).body(vec![b'x'; 5_000_000]), 413).await;
    let json =
        |body: &'static str| http().post(at("/mcp")).bearer_auth(token("alice")).header("accept", "application/json, text/event-stream").body(body);
    seen.answer("415 or the like", json("no JSON"), 415).await;
    // HTTP/2 without TLS, as behind some proxies.
    let stream = tokio::net::TcpStream::connect(relay.host()).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(at("/mcp")).header("authorization", format!("Bearer {}", token("alice")));
    let response = sender.send_request(request.body(Empty::<bytes::Bytes>::new()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 405);
    seen.place("an answer over HTTP/2", response.into_body().collect().await.unwrap().to_bytes());
}

#[tokio::test]
async fn no_token_stands_anywhere_but_where_it_is_shown_once() {
    let mut seen = Seen::default();
    let (langfuse, otlp) = (Collector::start().await, Collector::start().await);
    let keys = format!(
        "[langfuse]\nbase_url = \"{}\"\npublic_key = \"pk-lf-1\"\nsecret_key = \"{}\"\n\
         [otlp]\nendpoint = \"{}\"\nheaders = {{ authorization = \"Bearer {}\" }}\n[metrics]\ntoken = \"{}\"\n",
        langfuse.url(),
        KEYS[0].1,
        otlp.url(),
        KEYS[2].1,
        KEYS[3].1
    );
    let mut relay = Relay::prepare(&keys, &["alice", "bob"]);
    for (what, key) in KEYS {
        seen.secret(what, key);
    }
    relay.log_everything();
    relay.up_in(&[], &ALONE[..1]).await;
    let first = seen.secret("the owner's first token", link_token(&relay.said()));
    assert_eq!(relay.said().matches(&first).count(), 1, "it is shown once");
    for agent in ["alice", "bob"] {
        seen.secret("a configured token", &token(agent));
    }
    for wrong in [WRONG, WRONG_OWNER, OWNER] {
        seen.secret("a wrong token", wrong);
    }
    let owner = relay.run_with(&["ui-token"], &ALONE).await;
    seen.shown("ui-token", &owner);
    let owner = seen.secret("the owner's token", link_token(&owner.out));
    let viewer = relay.run_with(&["ui-token", "--viewer", "claire"], &ALONE).await;
    seen.shown("ui-token --viewer", &viewer);
    let viewer = seen.secret("a viewer's token", link_token(&viewer.out));
    let made = relay.run_with(&["agent", "add", "carol"], &ALONE).await;
    seen.shown("agent add", &made);
    let made = seen.secret("a made token", made.out.trim());
    let rotated = relay.run_with(&["agent", "rotate", "bob"], &ALONE).await;
    seen.shown("agent rotate", &rotated);
    let rotated = seen.secret("a rotated token", rotated.out.trim());

    let mut bob = Bot::connect(&relay.url(), "bob", &rotated).await.unwrap();
    let mut carol = Bot::connect(&relay.url(), "carol", &made).await.unwrap();
    bob.hello("b1").await;
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "q"}));
    let wake = bob.wake().await;
    bob.answer(&wake, "a").await;
    assert_eq!(asking.await.unwrap()["answer"], "a");
    carol.settle().await;
    let lent = relay.run_with(&["ask", "--as", "alice", "--to", "nobody", "q"], &ALONE).await;
    seen.place("ask --as", format!("{}{}", lent.out, lent.err));
    assert!(Bot::connect(&relay.url(), "bob", WRONG).await.is_err());
    for who in [&owner, &viewer] {
        let (cookie, form) = logged_in(&relay, who).await;
        seen.secret("a session's cookie", cookie.split_once('=').unwrap().1);
        seen.secret("a form's token", &form);
        let forged = http_unled().post(format!("{}/ui/settings", relay.url())).header("cookie", &cookie).body("hb_theme=dark");
        seen.answer("403 of a forged form", forged, 403).await;
        seen.own_forms(&form);
        let out = http_unled().post(format!("{}/ui/act/pause", relay.url())).header("cookie", &cookie).body(format!("form={form}&one=nobody"));
        let refused = if *who == owner { 409 } else { 403 };
        seen.answer("an act that is not done", out, refused).await;
        seen.own_forms(&form);
    }
    until("it is exported", async || (langfuse.count() > 0 && otlp.count() > 0).then_some(())).await;
    seen.answer("/metrics by its own token", http().get(format!("{}/metrics", relay.url())).bearer_auth(KEYS[3].1), 200).await;
    read_all(&relay, &mut seen, &owner, ["request_id", "conversation_id"].map(|key| text(&wake, key))).await;
    for command in
        [&["agent", "list", "--json"][..], &["check", "--json"], &["search", "q"], &["export"], &["backup", "copy"], &["agent", "revoke", "carol"]]
    {
        let ran = relay.run_with(command, &ALONE).await;
        seen.place(command.join(" "), format!("{}{}", ran.out, ran.err));
    }
    carol.closed().await;
    relay.configure("nonsense = 1", &["alice", "bob"]);
    relay.signal(rustix::process::Signal::HUP);
    until("the refusal of the file", async || relay.said().contains("was not taken over").then_some(())).await;
    // As a crash leaves the journal, and as a stop leaves the rest.
    seen.files(&relay.path("data"));
    relay.stop().await;
    seen.files(&relay.path("data"));
    seen.files(&relay.path("copy"));
    let said = relay.said();
    assert!(said.contains("TRACE") && said.contains(text(&wake, "request_id")), "it logs little: {} bytes", said.len());
    seen.place("the relay's output and log", said.replace(&first, ""));
    for part in ["bridge.redb", "journal", "index", "copy"] {
        assert!(seen.places.iter().any(|(place, said)| place.contains(part) && !said.is_empty()), "{part} was looked at");
    }
    seen.nothing_is_told();
    for (place, said) in &seen.places {
        assert!(!said.contains("hbt_") && !said.contains("hbo_"), "{place} has a token that was lent");
    }
}
