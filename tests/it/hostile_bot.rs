//! A bot with a valid token that tries everything it can reach, all at once, while two others talk: their questions are
//! answered in much the time that they took before, nothing crashes, memory stays bounded, and what it was refused is on record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::SinkExt;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use crate::rig::{Bot, Caller, Relay, Worker, raw, text, until};

const AGENTS: [&str; 5] = ["alice", "bob", "dora", "mallory", "trudy"];
const TOKEN: &str = "tok-mallory-0123456789";

fn echo(question: &str) -> String {
    format!("about {question}")
}

/// The time that half of these questions took at most; each has its own right answer.
async fn talk(alice: &Caller, name: &str) -> Duration {
    let mut took = Vec::new();
    for n in 0..20 {
        let (question, begun) = (format!("{name} {n}"), Instant::now());
        let result = alice.ask("bob", &question).await;
        assert_eq!(result["answer"], echo(&question), "{result}");
        took.push(begun.elapsed());
    }
    took.sort();
    took[took.len() / 2]
}

/// Attacks that go on until `over`.
fn attack(relay: &Relay, over: &Arc<AtomicBool>, known: &str) -> JoinSet<()> {
    let (mut tasks, mallory, host, url) = (JoinSet::new(), relay.caller("mallory"), relay.host(), relay.url());
    let going = |over: &Arc<AtomicBool>| {
        let over = over.clone();
        move || !over.load(Ordering::Relaxed)
    };
    let evil = "x\r\nSet-Cookie: a=b\n2026-01-01T00:00:00Z ERROR forged line\u{1b}[31m<script>alert(1)</script>";
    for kind in 0..4 {
        let (mallory, on, known) = (mallory.clone(), going(over), known.to_owned());
        tasks.spawn(async move {
            for n in 0_u64.. {
                if !on() {
                    return;
                }
                let arguments = match kind {
                    0 => json!({"to": format!("nobody {n} {evil}"), "message": evil}),
                    1 => json!({"to": "dora", "message": format!("{n}{}", "q".repeat(20_000)), "when_offline": "queue"}),
                    2 => json!({"to": "trudy", "message": format!("thank you {n}")}),
                    _ => json!({"to": "bob", "message": "l".repeat(300_000), "conversation_id": known, "request_key": evil}),
                };
                // Refused as an outcome or with 429, or cut: all the same to it.
                if mallory.rpc("ask_agent", &arguments).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        });
    }
    let (sender, on) = (mallory.clone(), going(over));
    tasks.spawn(async move {
        while on() {
            let _ = sender.post(vec![b'x'; 30 << 20]).await;
        }
    });
    let on = going(over);
    tasks.spawn(async move {
        for n in 0..3_000 {
            let Ok(mut stream) = TcpStream::connect(&host).await else { continue };
            let begun: &[u8] = [&b""[..], b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n", b"\x16\x03\x01"][n % 3];
            let _ = stream.write_all(begun).await;
            if !on() {
                return;
            }
        }
    });
    let (on, known) = (going(over), known.to_owned());
    tasks.spawn(async move {
        while on() {
            let Ok(mut bot) = Bot::connect(&url, "mallory", TOKEN).await else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            for n in 0..500 {
                let frame = match n % 5 {
                    0 => json!({"type": "heartbeat", "request_id": known}),
                    1 => json!({"type": "call", "id": format!("{n}"), "tool": "reply", "arguments": {"request_id": known, "answer": "mine"}}),
                    2 => json!({"type": "call", "id": format!("{n}"), "tool": "get_answer", "arguments": {"request_id": known, "wait_seconds": 600}}),
                    3 => json!({"type": "hello", "instance": "b", "features": ["answer"]}),
                    _ => json!([[[[known]]]]),
                };
                if bot.socket.send(Message::text(frame.to_string())).await.is_err() {
                    break;
                }
            }
            let _ = bot.socket.send(Message::text("z".repeat(5 << 20))).await;
        }
    });
    tasks
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_bot_harms_nobody_else() {
    let relay = Relay::start("[limits]\nrequests_per_second = 200\nasks_per_minute = 60", &AGENTS).await;
    let alice = relay.caller("alice");
    let _workers = ["bob", "trudy"].map(|name| Worker::start(relay.address.clone(), name, echo));
    for name in ["bob", "trudy"] {
        relay.wait_online(name, true).await;
    }
    let quiet = talk(&alice, "before").await;
    let secret = relay.exchanges().await.into_iter().find(|e| e["message"] == "before 0").unwrap();
    let known = text(&secret, "request_id").to_owned();

    let over = Arc::<AtomicBool>::default();
    let mut tasks = attack(&relay, &over, &known);
    let mut half = raw::upgraded(&relay, "mallory").await;
    half.write_all(&[0x81, 0xff, 0, 0, 0, 0, 0, 0x30, 0, 0]).await.unwrap();
    let found = async |status: &str| {
        let (_, body) = relay.get(&format!("/ui/api/search?from=mallory&status={status}")).await;
        serde_json::from_str::<serde_json::Value>(&body).ok()?["total"].as_u64().filter(|total| *total > 0)
    };
    // Only mallory asks so much. Counted, not listed: a list of all that it sent would be the heaviest attack of all.
    let limited = async || relay.get("/metrics").await.1.contains(r#"status="rate_limited""#).then_some(());
    until("it runs into its limits", limited).await;
    let under = talk(&alice, "under attack").await;
    let queued = alice.call("ask_agent", json!({"to": "dora", "message": "when you are back", "when_offline": "queue"})).await;
    over.store(true, Ordering::Relaxed);
    assert!(tokio::time::timeout(Duration::from_secs(60), async { while tasks.join_next().await.is_some() {} }).await.is_ok());

    assert_eq!(queued["error"], "queued", "nobody is kept out of a line");
    eprintln!("half of the questions took {under:?} under attack, {quiet:?} before: {:.1} times", under.as_secs_f64() / quiet.as_secs_f64());
    // A ratio alone would make a machine that stands still for a second an attack.
    assert!(under < (25 * quiet).max(Duration::from_secs(5)), "{under:?} under attack, {quiet:?} before");
    for status in ["unknown_agent", "rate_limited"] {
        until(&format!("{status} is on record"), async || found(status).await).await;
    }
    assert!(relay.memory() < 400_000, "{} KiB", relay.memory());
    let said = relay.said();
    assert!(!said.contains("panicked"), "{said}");
    assert!(!said.lines().any(|line| line.contains("forged line") && line.starts_with("2026-01-01")), "a forged line is in the log");
    let kept = alice.get_answer(&known, 0).await;
    assert_eq!(kept["answer"], echo("before 0"));
    relay.is_well().await;
}
