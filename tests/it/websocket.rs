//! Peers of /bridge/connect that break the protocol, flood, or never read: closed with the right word or ignored as the
//! contract says, while everybody else is served and memory stays bounded.

use futures_util::SinkExt;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;

use crate::rig::raw::{close_code, frame, upgraded};
use crate::rig::{Relay, soon, text};

const UNKNOWN: &str = "01937000-0000-7000-8000-000000000003";

#[tokio::test]
async fn what_is_no_frame_closes_that_socket_with_its_reason_and_no_other() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut bystander = relay.bot("bob").await;
    let huge = [&[0x81, 0xff][..], &(1_u64 << 40).to_be_bytes(), &[0; 4], b"x"].concat();
    let cases: [(&str, Vec<u8>, &[Option<u16>]); 10] = [
        ("a frame of a terabyte", huge, &[Some(1009)]),
        ("a binary frame", frame(0x82, b"{}"), &[Some(1003)]),
        ("bad UTF-8", frame(0x81, b"\"\xff\xfe\""), &[Some(1007)]),
        ("an unmasked frame", b"\x81\x02{}".to_vec(), &[Some(1002)]),
        ("a reserved bit", frame(0xc1, b"{}"), &[Some(1002)]),
        ("a reserved opcode", frame(0x83, b"{}"), &[Some(1002)]),
        ("a continuation of nothing", frame(0x80, b"{}"), &[Some(1002)]),
        ("a ping that is too long", frame(0x89, &[0; 200]), &[Some(1002)]),
        ("a ping in pieces", frame(0x09, b"x"), &[Some(1002)]),
        ("a close with half a code", frame(0x88, b"\x03"), &[Some(1002), None]),
    ];
    for (what, bytes, allowed) in cases {
        let mut stream = upgraded(&relay, "alice").await;
        stream.write_all(&bytes).await.unwrap();
        let code = close_code(&mut stream).await;
        assert!(allowed.contains(&code), "{what}: closed with {code:?}, not with one of {allowed:?}");
        relay.is_well().await;
    }
    // A message that grows piece by piece is as long as its pieces together.
    let mut stream = upgraded(&relay, "alice").await;
    let (mut read, mut write) = stream.split();
    let piece = frame(0x01, &[b'x'; 60_000]);
    let more = frame(0x00, &[b'x'; 60_000]);
    let flood = async {
        let _ = write.write_all(&piece).await;
        while write.write_all(&more).await.is_ok() {}
    };
    let mut end = Vec::new();
    let _ = soon("a message without an end is cut", async { tokio::join!(flood, read.read_to_end(&mut end)) }).await;
    assert!(relay.memory() < 150_000, "{} KiB", relay.memory());
    bystander.settle().await;
}

#[tokio::test]
async fn frames_that_mean_nothing_are_ignored() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let (mut bob, mut alice) = (relay.bot("bob").await, relay.bot("alice").await);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for nothing in [
        "",
        "null",
        "[]",
        "{",
        "{}",
        "7",
        "\"wake\"",
        r#"{"type":"dance"}"#,
        r#"{"type":7}"#,
        r#"{"type":"heartbeat"}"#,
        r#"{"type":"received","request_id":[]}"#,
        &deep,
    ] {
        bob.socket.send(Message::text(nothing)).await.unwrap();
    }
    bob.send(json!({"type": "hello", "adapter": 5, "instance": {"a": 1}, "features": "all", "more": null})).await;
    bob.send(json!({"type": "hello", "instance": "x".repeat(100_000), "features": [1, "answer", {}]})).await;
    for _ in 0..10_000 {
        bob.socket.feed(Message::text(format!(r#"{{"type":"heartbeat","request_id":"{UNKNOWN}"}}"#))).await.unwrap();
    }
    bob.socket.flush().await.unwrap();
    alice.begin_call("q", "ask_agent", json!({"to": "bob", "message": "still there?"})).await;
    let wake = bob.wake().await;
    bob.answer(&wake, "yes").await;
    assert_eq!(alice.result_of("q").await["answer"], "yes");
    assert!(relay.memory() < 150_000, "{} KiB", relay.memory());
}

#[tokio::test]
async fn a_bot_with_too_many_calls_under_way_is_told_so() {
    let relay = Relay::start("[limits]\nmax_wakes_per_agent = 1000", &["alice", "bob"]).await;
    let (mut alice, mut bob) = (relay.bot("alice").await, relay.bot("bob").await);
    for n in 0..256 {
        alice.begin_call(&n.to_string(), "ask_agent", json!({"to": "bob", "message": n.to_string()})).await;
    }
    let refused = alice.call("list_agents", json!({})).await;
    assert!(text(&refused, "message").contains("256 calls are under way"), "{refused}");
    let wake = bob.wake().await;
    bob.answer(&wake, "one less").await;
    assert_eq!(alice.result_of(text(&wake, "message")).await["answer"], "one less");
    assert!(alice.call("list_agents", json!({})).await.is_array());
}
