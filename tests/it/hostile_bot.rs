//! A bot with a valid token that tries everything it can reach, all at once, while two others talk: their questions are
//! answered in much the time that they take while another relay on this machine is attacked in the same way, nothing of theirs
//! is read, nothing crashes, memory stays bounded, and what it was refused is on record.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use crate::rig::{Bot, Caller, OWNER, Relay, Worker, raw, soon, text, token, until};

const AGENTS: [&str; 7] = ["alice", "bob", "dora", "eve", "mallory", "trudy", "victor"];
const LIMITS: &str = "[limits]\nrequests_per_second = 200\nasks_per_minute = 300\nmax_asks_per_pair_per_hour = 5";
const EVIL: &str = "x\r\nSet-Cookie: a=b\n2026-01-01T00:00:00Z ERROR forged line\u{1b}[31m<script>alert(1)</script>";
/// One after the other.
const CONNECTIONS: usize = 10_000;
/// Questions in a row, and how often: of a machine that does other things too the best row tells.
const ROW: usize = 12;
const ROWS: usize = 5;
/// That half of a row may take under attack, against the same attack on another relay, which has as much of the machine; and
/// the time below which a ratio says nothing.
const TIMES: u32 = 3;
const FLOOR: Duration = Duration::from_millis(25);

fn echo(question: &str) -> String {
    format!("about {question}")
}

/// The time that half of these questions took at most, in the best row; each has its own right answer.
async fn talk(alice: &Caller, name: &str) -> Duration {
    let mut rows = Vec::new();
    for row in 0..ROWS {
        let mut took = Vec::new();
        for n in 0..ROW {
            let (question, begun) = (format!("{name} {row} {n}"), Instant::now());
            let result = alice.ask("bob", &question).await;
            assert_eq!(result["answer"], echo(&question), "{result}");
            took.push(begun.elapsed());
        }
        took.sort();
        rows.push(took[ROW / 2]);
    }
    rows.into_iter().min().unwrap()
}

/// Attacks that go on until they are called off.
struct Attack {
    over: Arc<AtomicBool>,
    /// All that the attacker was told, each once.
    told: Arc<Mutex<HashSet<String>>>,
    connections: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

impl Attack {
    /// `known`: another's request, whose id the attacker has learned.
    fn on(relay: &Relay, known: &str) -> Self {
        let mut attack = Self { over: Arc::default(), told: Arc::default(), connections: Arc::default(), tasks: JoinSet::new() };
        (0..4).for_each(|kind| attack.floods(relay, kind, known));
        attack.large_bodies(relay);
        attack.many_connections(relay);
        attack.bad_frames(relay, known);
        attack.dripping_frame(relay);
        attack
    }

    fn going(&self) -> impl Fn() -> bool + Send + 'static {
        let over = self.over.clone();
        move || !over.load(Ordering::Relaxed)
    }

    fn hears(&self) -> impl Fn(&str) + Send + 'static {
        let told = self.told.clone();
        move |text| {
            told.lock().unwrap().insert(text.to_owned());
        }
    }

    fn floods(&mut self, relay: &Relay, kind: u32, known: &str) {
        let (mallory, on, hears, known) = (relay.caller("mallory"), self.going(), self.hears(), known.to_owned());
        self.tasks.spawn(async move {
            for n in 0_u64.. {
                let arguments = match kind {
                    0 => json!({"to": format!("nobody {n} {EVIL}"), "message": EVIL}),
                    1 => json!({"to": "dora", "message": format!("{n}{}", "q".repeat(20_000)), "when_offline": "queue"}),
                    2 => json!({"to": "trudy", "message": format!("thank you {n}")}),
                    _ => json!({"to": "bob", "message": "l".repeat(300_000), "conversation_id": known, "request_key": EVIL}),
                };
                if !on() {
                    return;
                }
                // Refused as an outcome or with 429, or cut: all the same to it.
                match mallory.rpc("ask_agent", &arguments).await {
                    Ok(answer) => hears(&answer.to_string()),
                    Err(refused) => {
                        hears(&refused);
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            }
        });
    }

    fn large_bodies(&mut self, relay: &Relay) {
        let (mallory, on) = (relay.caller("mallory"), self.going());
        self.tasks.spawn(async move {
            while on() {
                let _ = mallory.post(vec![b'x'; 30 << 20]).await;
            }
        });
    }

    fn many_connections(&mut self, relay: &Relay) {
        let (host, made) = (relay.host(), self.connections.clone());
        self.tasks.spawn(async move {
            for n in 0..CONNECTIONS {
                let mut stream = TcpStream::connect(&host).await.unwrap();
                made.fetch_add(1, Ordering::Relaxed);
                let begun: &[u8] = [&b""[..], b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n", b"\x16\x03\x01"][n % 3];
                let _ = stream.write_all(begun).await;
            }
        });
    }

    fn bad_frames(&mut self, relay: &Relay, known: &str) {
        let (url, on, hears, known) = (relay.url(), self.going(), self.hears(), known.to_owned());
        self.tasks.spawn(async move {
            while on() {
                let Ok(bot) = Bot::connect(&url, "mallory", &token("mallory")).await else {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                };
                let (mut sender, mut receiver) = bot.socket.split();
                let send = async {
                    for n in 0..500 {
                        let frame = match n % 5 {
                            0 => json!({"type": "heartbeat", "request_id": known}),
                            1 => json!({"type": "call", "id": format!("{n}"), "tool": "reply", "arguments": {"request_id": known, "answer": "mine"}}),
                            2 => json!({"type": "call", "id": format!("{n}"), "tool": "get_answer", "arguments": {"request_id": known, "wait_seconds": 600}}),
                            3 => json!({"type": "hello", "instance": "b", "features": ["answer"]}),
                            _ => json!([[[[known]]]]),
                        };
                        if sender.send(Message::text(frame.to_string())).await.is_err() {
                            break;
                        }
                    }
                    let _ = sender.send(Message::text("z".repeat(5 << 20))).await;
                };
                let receive = async {
                    while let Some(Ok(frame)) = receiver.next().await {
                        hears(&frame.to_string());
                    }
                };
                // The relay ends it for the frame that is too large.
                tokio::join!(send, receive);
            }
        });
    }

    /// A frame of which a byte comes now and then.
    fn dripping_frame(&mut self, relay: &Relay) {
        let (host, on) = (relay.host(), self.going());
        self.tasks.spawn(async move {
            let mut socket = raw::upgraded_at(&host, "mallory").await;
            let frame = [&[0x81, 0xfe, 0xff, 0xff][..], &[0; 4], &[b'd'; 65_535]].concat();
            for byte in frame {
                if !on() || socket.write_all(&[byte]).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
    }

    /// Calls it off; what the attacker was told.
    async fn end(mut self) -> HashSet<String> {
        self.over.store(true, Ordering::Relaxed);
        let ended = async {
            while let Some(task) = self.tasks.join_next().await {
                task.unwrap()
            }
        };
        soon("the attacks end", ended).await;
        assert_eq!(self.connections.load(Ordering::Relaxed), CONNECTIONS);
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

/// A relay with two who talk, and what of them the attacker has learned.
async fn with_talk() -> (Relay, Caller, Vec<Worker>, String) {
    let relay = Relay::start(LIMITS, &AGENTS).await;
    let alice = relay.caller("alice");
    let workers = ["bob", "trudy"].map(|name| Worker::start(relay.address.clone(), name, echo));
    for name in ["bob", "trudy"] {
        relay.wait_online(name, true).await;
    }
    let known = text(&alice.ask("bob", "known to the attacker").await, "request_id").to_owned();
    (relay, alice, workers.into(), known)
}

/// Only mallory asks so much. Counted, not listed: a list of all that it sent would be the heaviest attack of all.
async fn in_full_swing(relay: &Relay) {
    let limited = async || relay.get("/metrics").await.1.contains(r#"status="rate_limited""#).then_some(());
    until("it runs into its limits", limited).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_bot_harms_nobody_else() {
    let (relay, alice, _workers, known) = with_talk().await;
    let beside = {
        let (other, _, _others, of_other) = with_talk().await;
        let attack = Attack::on(&other, &of_other);
        in_full_swing(&other).await;
        let beside = talk(&alice, "beside").await;
        attack.end().await;
        beside
    };
    let attack = Attack::on(&relay, &known);
    in_full_swing(&relay).await;
    let under = talk(&alice, "under attack").await;
    let queued = alice.call("ask_agent", json!({"to": "dora", "message": "when you are back", "when_offline": "queue"})).await;
    let told = attack.end().await;

    assert_eq!(queued["error"], "queued", "nobody is kept out of a line");
    eprintln!("half of the questions took {under:?} under attack, {beside:?} beside one: {:.1} times", under.as_secs_f64() / beside.as_secs_f64());
    assert!(under < (TIMES * beside).max(FLOOR), "{under:?} under attack, {beside:?} beside one");
    let found = async |status: &str| {
        let (_, body) = relay.get(&format!("/ui/api/search?from=mallory&status={status}")).await;
        serde_json::from_str::<Value>(&body).ok()?["total"].as_u64().filter(|total| *total > 0)
    };
    for status in ["unknown_agent", "rate_limited"] {
        until(&format!("{status} is on record"), async || found(status).await).await;
    }
    for what in
        ["requests_per_second = 200", "the body has more than 4194304 bytes", "no such request of its own", "a frame has at most 4194304 bytes"]
    {
        assert_eq!(relay.noted("refused_request", what).await["who"], "mallory");
    }
    assert!(relay.memory() < 400_000, "{} KiB", relay.memory());
    let said = relay.said();
    assert!(!said.contains("panicked"), "{said}");
    assert!(!said.lines().any(|line| line.contains("forged line") && line.starts_with("2026-01-01")), "a forged line is in the log");
    let (_, export) = relay.get("/ui/export.ndjson?q=from:alice").await;
    let theirs: Vec<Value> = export.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(theirs.len(), 2 * ROWS * ROW + 2, "all that they said");
    assert!(!told.is_empty());
    for one in &theirs {
        let secrets = ["message", "answer", "request_id", "conversation_id"].map(|key| one[key].as_str().unwrap_or_default());
        for secret in secrets.into_iter().filter(|secret| !secret.is_empty() && *secret != known) {
            let heard = told.iter().find(|heard| heard.contains(secret));
            assert!(heard.is_none(), "it was told {secret:?}: {heard:?}");
        }
    }
    assert_eq!(alice.get_answer(&known, 0).await["answer"], echo("known to the attacker"));
    relay.is_well().await;
}

/// Asks the next of its gang anew whenever it is asked, and answers at once: no question waits for another.
async fn collude(mut bot: Bot, next: &'static str, over: Arc<AtomicBool>) -> Option<Value> {
    let mut asked = 0;
    while !over.load(Ordering::Relaxed) {
        let frame = tokio::time::timeout(Duration::from_millis(50), bot.frame()).await;
        let Ok(Some(frame)) = frame else { continue };
        if frame["type"] == "wake" {
            asked += 1;
            let answer = json!({"request_id": frame["request_id"], "answer": "gladly"});
            bot.begin_call(&format!("reply {asked}"), "reply", answer).await;
            bot.begin_call(&format!("ask {asked}"), "ask_agent", json!({"to": next, "message": format!("pass it on {asked}")})).await;
        }
        if frame["result"]["error"] == "loop_limit" {
            over.store(true, Ordering::Relaxed);
            return Some(frame["result"].clone());
        }
    }
    None
}

#[tokio::test]
async fn three_that_keep_asking_in_a_circle_are_stopped_and_others_are_not() {
    let relay = Relay::start(LIMITS, &AGENTS).await;
    let over = Arc::<AtomicBool>::default();
    let mut gang = JoinSet::new();
    for (name, next) in [("mallory", "eve"), ("eve", "trudy"), ("trudy", "mallory")] {
        gang.spawn(collude(relay.bot(name).await, next, over.clone()));
    }
    // It begins with a question of one of them; whoever asks over HTTP is none of the circle's answers.
    relay.caller("trudy").ask("mallory", "begin").await;
    let mut stopped = Vec::new();
    soon("the circle is stopped", async {
        while let Some(result) = gang.join_next().await {
            stopped.extend(result.unwrap())
        }
    })
    .await;
    let [stopped] = &stopped[..] else { panic!("{stopped:?}") };
    assert_eq!(text(stopped, "limit"), "max_asks_per_pair_per_hour", "{stopped}");
    assert!(text(stopped, "message").contains(" -> "), "{stopped}");
    let entry = relay.noted("loop", "loop_limit").await;
    assert_eq!(entry["request_id"], stopped["request_id"]);
    let passed_on = relay.exchanges().await.iter().filter(|e| e["status"] == "ok").count();
    assert!(passed_on <= 3 * 6, "{passed_on} went round");
    let mut victor = relay.bot("victor").await;
    let asking = relay.caller("alice").asking(json!({"to": "victor", "message": "and we two?"}));
    let wake = victor.wake().await;
    victor.answer(&wake, "undisturbed").await;
    assert_eq!(asking.await.unwrap()["answer"], "undisturbed");
}

/// One of each, so that each is seen to be on record.
#[tokio::test]
async fn each_thing_that_it_is_refused_is_on_record_with_its_name() {
    let relay = Relay::start("", &AGENTS).await;
    let (mallory, alice) = (relay.caller("mallory"), relay.caller("alice"));
    let noted = async |what: &str| assert_eq!(relay.noted("refused_request", what).await["who"], "mallory", "{what}");
    let (mut bob, mut bot) = (relay.bot("bob").await, relay.bot("mallory").await);
    let asking = alice.asking(json!({"to": "bob", "message": "between us"}));
    let wake = bob.wake().await;
    let foreign = text(&wake, "request_id").to_owned();
    bot.heartbeat(&foreign).await;
    noted("heartbeat: no such request of its own").await;
    bot.received(&foreign).await;
    assert_eq!(mallory.get_answer(&foreign, 0).await["error"], "unknown_request");
    assert_eq!(mallory.reply(&foreign, "mine").await["error"], "unknown_request");
    let asked = alice.asking(json!({"to": "mallory", "message": "and you?"}));
    let own = text(&bot.wake().await, "request_id").to_owned();
    for (answer, error) in
        [(" \n ".to_owned(), "empty_answer"), ("x".repeat(300_000), "too_large"), ("fine".to_owned(), ""), ("more".to_owned(), "already_answered")]
    {
        let replied = mallory.reply(&own, &answer).await;
        assert_eq!(replied["error"].as_str().unwrap_or_default(), error, "{replied}");
        if !error.is_empty() {
            noted(&format!("reply: {error}")).await;
        }
    }
    assert_eq!(asked.await.unwrap()["answer"], "fine");
    assert_eq!(mallory.ask("bob", &"x".repeat(300_000)).await["error"], "too_large");
    relay.noted("policy", "too_large").await;
    assert_eq!(mallory.post(vec![b'x'; 30 << 20]).await.map_or(413, |(status, _)| status), 413);
    noted("the body has more than 4194304 bytes").await;
    let _ = bot.socket.send(Message::text("z".repeat(5 << 20))).await;
    noted("a frame has at most 4194304 bytes").await;
    bob.answer(&wake, "nobody else's").await;
    assert_eq!(asking.await.unwrap()["answer"], "nobody else's");
}

/// What stands in an address, a form, a header or a call never becomes a header of the answer.
#[tokio::test]
async fn no_text_becomes_a_header() {
    let relay = Relay::start("", &AGENTS).await;
    let evil = "%0d%0aSet-Cookie:%20planted=1%0d%0a%0d%0a<script>";
    let call = |tool: &str, arguments: Value| {
        json!({"jsonrpc": "2.0", "id": EVIL, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}).to_string()
    };
    let get = |path: &str| ("GET", path.to_owned(), OWNER.to_owned(), String::new());
    let post = |path: &str, token: &str, body: String| ("POST", path.to_owned(), token.to_owned(), body);
    let requests = [
        get(&format!("/ui?q={evil}")),
        get(&format!("/ui/x/{evil}")),
        get(&format!("/ui/c/{evil}")),
        get(&format!("/ui/login?back=/ui{evil}&again=1")),
        get(&format!("/ui/export.csv?q={evil}")),
        get(&format!("/{evil}")),
        ("GET", format!("/ui/x/{evil}"), String::new(), String::new()),
        post("/ui/login", "", format!("token={OWNER}&back=/ui{evil}")),
        post("/ui/settings", OWNER, format!("hb_theme={evil}&hb_lang={evil}&back=/ui{evil}")),
        post("/ui/act/pause", OWNER, format!("one=bob&back=/ui{evil}")),
        post("/mcp", &token("mallory"), call("ask_agent", json!({"to": EVIL, "message": EVIL, "request_key": EVIL, "conversation_id": EVIL}))),
        post("/mcp", &token("mallory"), call(EVIL, json!({}))),
    ];
    for (method, path, bearer, body) in requests {
        let mut stream = TcpStream::connect(relay.host()).await.unwrap();
        let kind = if path == "/mcp" { "application/json" } else { "application/x-www-form-urlencoded" };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {bearer}\r\nAccept: text/html, application/json, text/event-stream\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        soon(&path, stream.read_to_end(&mut answer)).await.unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, _) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{path}: {answer}"));
        assert!(head.starts_with("HTTP/1.1 "), "{path}: {head}");
        let planted = head.lines().find(|line| line.starts_with("Set-Cookie") || line.starts_with("set-cookie: planted") || line.contains("script>"));
        assert!(planted.is_none(), "{method} {path}: {head}");
    }
}
