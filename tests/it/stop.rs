//! A stop in order, with everything under way at once: 200 bots, 50 callers that wait, open pages, connections that idle and one that
//! says nothing. Bots are told to come back, callers are let go with an event to come back to, the relay is out in time, and after the
//! start the work that went on meanwhile is delivered.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::rig::raw::upgraded;
use crate::rig::{Bot, OWNER, Relay, event_id, http, soon, text, tool_result, until};

#[tokio::test]
async fn a_stop_under_load_is_orderly_and_the_work_goes_on_after_it() {
    story(Signal::TERM).await;
}

#[tokio::test]
async fn an_interrupt_under_load_is_as_orderly() {
    story(Signal::INT).await;
}

async fn story(signal: Signal) {
    let names: Vec<String> = (0..200).map(|n| format!("bot{n}")).chain(["alice".to_owned()]).collect();
    let mut relay = Relay::start("", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let alice = relay.caller("alice");
    let mut bots: Vec<Bot> = Vec::new();
    for (n, name) in names[..200].iter().enumerate() {
        // Every second one is as the original was.
        bots.push(if n % 2 == 0 { relay.bot_of(name, "p1").await } else { relay.bot(name).await });
    }
    let askings: Vec<_> = names[..50].iter().map(|name| alice.streaming(json!({"to": name, "message": format!("to {name}")}))).collect();
    let mut wakes = Vec::new();
    for bot in &mut bots[..50] {
        let wake = bot.wake().await;
        bot.received(text(&wake, "request_id")).await;
        bot.settle().await;
        wakes.push(wake);
    }
    let mut pages = Vec::new();
    for _ in 0..3 {
        let page = http().get(format!("{}/ui/events", relay.url())).bearer_auth(OWNER).send().await.unwrap();
        assert_eq!(page.status().as_u16(), 200);
        pages.push(tokio::spawn(page.bytes()));
    }
    let mut silent = TcpStream::connect(relay.host()).await.unwrap();
    let mut idle = TcpStream::connect(relay.host()).await.unwrap();
    let head = format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", relay.host());
    idle.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");

    let (code, took) = relay.stop_by(signal).await;
    assert_eq!(code, Some(0), "{}", relay.said());
    assert!(took < Duration::from_secs(10), "{took:?}: {}", relay.said());
    for (n, bot) in bots.iter_mut().enumerate() {
        let (code, frames) = bot.closed().await;
        let told = if n % 2 == 0 { vec![json!({"type": "restarting"})] } else { vec![] };
        assert_eq!((code, frames), (Some(1012), told), "{}", bot.name);
    }
    let mut streams = Vec::new();
    for (asking, wake) in askings.into_iter().zip(&wakes) {
        let stream = soon("a caller is let go", asking).await.unwrap();
        assert!(event_id(&stream).starts_with(text(wake, "request_id")), "{stream}");
        streams.push(stream);
    }
    for page in pages {
        let _ = soon("a page's stream ends", page).await.unwrap();
    }
    let mut rest = Vec::new();
    soon("the silent connection ends", silent.read_to_end(&mut rest)).await.unwrap_or(0);
    assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));

    relay.up().await;
    for ((name, wake), stream) in names[..50].iter().zip(&wakes).zip(&streams) {
        let mut bot = relay.bot_of(name, "p1").await;
        if name.ends_with('4') {
            // The process had it already.
            bot.is_not_woken().await;
        }
        let id = text(wake, "request_id");
        assert_eq!(bot.answer(wake, &format!("from {name}")).await, json!({"ok": true}));
        assert_eq!(alice.get_answer(id, 30).await["answer"], format!("from {name}"));
        let (status, response) = alice.resume(event_id(stream)).await;
        assert_eq!((status, &response["id"]), (200, &json!("my own")));
        assert_eq!(tool_result(&response)["answer"], format!("from {name}"));
    }
    assert_eq!(relay.stop().await.0, Some(0));
}

#[tokio::test]
async fn a_stop_does_not_wait_for_who_neither_reads_nor_goes_on_sending() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    let deaf = upgraded(&relay, "bob").await;
    relay.wait_online("bob", true).await;
    let alice = relay.caller("alice");
    let askings: Vec<_> = (0..32).map(|n| alice.streaming(json!({"to": "bob", "message": format!("{n} {}", "x".repeat(250_000))}))).collect();
    until("the deaf bot is asked", async || (alice.look_at("bob").await["waiting"] == 32).then_some(())).await;
    let mut half = TcpStream::connect(relay.host()).await.unwrap();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer tok-alice-0123456789\r\nContent-Length: 100\r\n\r\n{";
    half.write_all(head.as_bytes()).await.unwrap();
    // An answered question on the same relay: the half request has been taken in by now.
    assert_eq!(text(&alice.ask("alice", "me").await, "error"), "self_ask");
    let (code, took) = relay.stop().await;
    assert_eq!(code, Some(0), "{}", relay.said());
    assert!(took < Duration::from_secs(10), "{took:?}: {}", relay.said());
    for asking in askings {
        assert!(!event_id(&soon("a caller is let go", asking).await.unwrap()).is_empty());
    }
    drop(deaf);
    relay.up().await;
    let mut bob = relay.bot("bob").await;
    for _ in 0..32 {
        let wake = bob.wake().await;
        bob.answer(&wake, "heard").await;
    }
    assert!(relay.exchanges().await.iter().filter(|e| e["to"] == "bob").all(|e| e["answer"] == "heard"));
}
