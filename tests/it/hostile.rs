//! Malformed HTTP and JSON-RPC: each gets a clear refusal or a closed connection, the relay serves on, and its memory
//! stays bounded. What WebSocket peers can do wrong is in `websocket`.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::rig::{Relay, soon, text};

/// Sends the bytes; the first line of what came back until the relay closed or was silent for a while.
async fn said_to(relay: &Relay, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(relay.host()).await.unwrap();
    let (mut read, mut write) = stream.split();
    let (mut answer, mut chunk) = (Vec::new(), [0; 4096]);
    let send = async {
        // A peer that has been refused may have closed already.
        let _ = write.write_all(bytes).await;
        std::future::pending::<()>().await;
    };
    let receive = async {
        while let Ok(n @ 1..) = read.read(&mut chunk).await {
            answer.extend_from_slice(&chunk[..n]);
            if answer.contains(&b'\n') {
                break;
            }
        }
    };
    tokio::select! {
        () = send => {}
        done = soon("an answer to what is malformed", receive) => done,
    }
    String::from_utf8_lossy(&answer).lines().next().unwrap_or("closed").to_owned()
}

fn post(head: &str, body: &[u8]) -> Vec<u8> {
    let start = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer tok-alice-0123456789\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
    [start.as_bytes(), head.as_bytes(), b"\r\n", body].concat()
}

#[tokio::test]
async fn malformed_http_is_refused_and_the_relay_serves_on() {
    let relay = Relay::start("", &["alice"]).await;
    let host = "Host: localhost\r\n";
    let huge = format!("GET /health HTTP/1.1\r\n{host}X: {}\r\n\r\n", "x".repeat(200_000));
    let many = format!("GET /health HTTP/1.1\r\n{host}{}\r\n", "A: b\r\n".repeat(5_000));
    let cases: Vec<(Vec<u8>, &[&str])> = vec![
        (huge.into(), &["431", "400", "closed"]),
        (many.into(), &["431", "400", "closed"]),
        (format!("GET // HTTP/1.1\r\n{host}\r\n").into(), &["404", "400"]),
        (format!("GET //[::1 HTTP/1.1\r\n{host}\r\n").into(), &["404", "400"]),
        (format!("GET http://[::1 HTTP/1.1\r\n{host}\r\n").into(), &["403", "400"]),
        (format!("GET /%zz%ff HTTP/1.1\r\n{host}\r\n").into(), &["404", "400"]),
        (format!("GET /{} HTTP/1.1\r\n{host}\r\n", "a/".repeat(20_000)).into(), &["431", "closed"]),
        (format!("GET /{} HTTP/1.1\r\n{host}\r\n", "a/".repeat(7_000)).into(), &["404", "414"]),
        (format!("OPTIONS * HTTP/1.1\r\n{host}\r\n").into(), &["404", "405", "400"]),
        (format!("CONNECT localhost:1 HTTP/1.1\r\n{host}\r\n").into(), &["404", "405", "400"]),
        (format!("DELETE /health HTTP/1.1\r\n{host}\r\n").into(), &["405"]),
        (format!("GET /health HTTP/9.9\r\n{host}\r\n").into(), &["400", "505", "closed"]),
        (b"GET /health HTTP/1.1\r\n\r\n".to_vec(), &["403", "400"]),
        (b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_vec(), &["403"]),
        (format!("GET /health HTTP/1.1\r\n{host}Origin: https://evil.example\r\n\r\n").into(), &["403"]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello\r\n\r\n".to_vec(), &["400", "closed"]),
        (b"\x00\xff\x00\xff\x00\xff\r\n\r\n".to_vec(), &["400", "closed"]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(), &["", "closed"]),
        (format!("GET /mcp HTTP/1.1\r\n{host}\r\n").into(), &["401"]),
        (format!("GET /mcp?token=tok-alice-0123456789 HTTP/1.1\r\n{host}\r\n").into(), &["401"]),
        (format!("GET /bridge/connect HTTP/1.1\r\n{host}Authorization: Bearer wrong\r\n\r\n").into(), &["401"]),
        (format!("GET /bridge/connect HTTP/1.1\r\n{host}Authorization: Bearer tok-alice-0123456789\r\n\r\n").into(), &["400"]),
        (format!("GET /mcp HTTP/1.1\r\n{host}Authorization: Bearer tok-alice-0123456789\r\n\r\n").into(), &["405"]),
        (format!("HEAD /mcp HTTP/1.1\r\n{host}Authorization: Bearer tok-alice-0123456789\r\n\r\n").into(), &["405"]),
        (post("Transfer-Encoding: chunked\r\n", b"zz\r\nno chunk\r\n"), &["400", "closed"]),
        (post("Transfer-Encoding: chunked\r\n", b"ffffffffffffffffff\r\n"), &["400", "closed"]),
        (post("Content-Length: 5000000\r\n", &vec![b'x'; 5_000_000]), &["413"]),
        (post("Content-Length: -1\r\n", b""), &["400"]),
        (post("Content-Length: 2\r\nContent-Length: 3\r\n", b"{}}"), &["400"]),
    ];
    for (bytes, allowed) in cases {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned();
        let line = said_to(&relay, &bytes).await;
        let fine =
            allowed.iter().any(|word| line == *word || line.split(' ').nth(1) == Some(word) || (word.is_empty() && !line.starts_with("HTTP/1.1 2")));
        assert!(fine, "{shown:?} was answered with {line:?}, not with one of {allowed:?}");
        relay.is_well().await;
    }
}

#[tokio::test]
async fn a_head_that_is_too_long_and_what_is_no_http_are_told_so_in_words() {
    let relay = Relay::start("", &["alice"]).await;
    // No more than the relay reads after it has refused; what it never reads, the system takes for a broken connection.
    let long = format!("GET /health HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(50_000));
    for (bytes, status, why, noted) in [
        (long.as_str(), "431 Request Header Fields Too Large", "a request's head has at most 16384 bytes", "more than 16384 bytes"),
        ("what is this?\r\n\r\n", "400 Bad Request", "this is no HTTP request", "this is no HTTP"),
    ] {
        let mut stream = TcpStream::connect(relay.host()).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let mut said = String::new();
        soon("an answer", stream.read_to_string(&mut said)).await.unwrap();
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{said}");
        assert_eq!(serde_json::from_str::<Value>(body).unwrap(), json!({"error": why}));
        relay.noted("refused_request", noted).await;
    }
}

#[tokio::test]
async fn errors_of_the_ordinary_routes_are_json() {
    let relay = Relay::start("", &["alice"]).await;
    for (path, expected) in [("/nothing", 404), ("/ui/api/nothing", 404), ("/bridge/connect", 401), ("/mcp", 401)] {
        let (status, body) = relay.get(path).await;
        assert_eq!(status, expected, "{path}");
        let error: Value = serde_json::from_str(&body).unwrap();
        assert!(!text(&error, "error").is_empty(), "{path}: {body}");
    }
    assert_eq!(relay.get("/ready").await, (200, r#"{"status":"ready"}"#.to_owned()));
}

#[tokio::test]
async fn slow_and_half_open_senders_hold_nobody_up() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    let mut held = Vec::new();
    for n in 0..100 {
        let mut stream = TcpStream::connect(relay.host()).await.unwrap();
        let begun: Vec<u8> = match n % 4 {
            0 => Vec::new(),
            1 => b"GET /hea".to_vec(),
            2 => post("Content-Length: 100\r\n", b"{\"jsonrpc\""),
            _ => post("Transfer-Encoding: chunked\r\n", b"5\r\n{\"js"),
        };
        stream.write_all(&begun).await.unwrap();
        held.push(stream);
    }
    let mut dripping = TcpStream::connect(relay.host()).await.unwrap();
    let drip = tokio::spawn(async move {
        for byte in b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" {
            dripping.write_all(&[*byte]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let mut answer = String::new();
        dripping.read_to_string(&mut answer).await.unwrap();
        answer
    });
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "meanwhile"}));
    let wake = bob.wake().await;
    bob.answer(&wake, "fine").await;
    assert_eq!(asking.await.unwrap()["answer"], "fine");
    assert!(soon("who is slow is served too", drip).await.unwrap().starts_with("HTTP/1.1 200"));
    drop(held);
    relay.is_well().await;
}

#[tokio::test]
async fn malformed_json_rpc_is_refused_and_the_relay_serves_on() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let alice = relay.caller("alice");
    let call =
        |arguments: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"ask_agent","arguments":{arguments}}}}}"#);
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_object = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let whole = call(r#"{"to":"bob","message":"m"}"#);
    let mut malformed: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"null".to_vec(),
        b"[]".to_vec(),
        b"\"text\"".to_vec(),
        b"{}".to_vec(),
        b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"tools/list\"}".to_vec(),
        b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":5}".to_vec(),
        format!("[{whole},{whole}]").into(),
        deep.clone().into(),
        deep_object.clone().into(),
        call(&deep).into(),
        call(&format!("{{\"to\":{deep_object}}}")).into(),
        call(r#"{"to":"bob","message":"\ud800"}"#).into(),
        call(r#"{"to":"bob","message":"\udc00\ud800"}"#).into(),
        call(r#"{"to":"bob","message":"\u12"}"#).into(),
        [call("{\"to\":\"bob\",\"message\":\"").as_bytes(), b"\xff\xfe\xc0\x80", b"\"}"].concat(),
        call("{\"to\":\"bob\",\"message\":\"raw \u{1} control\"}").into(),
        call("5").into(),
        call("[]").into(),
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":7}}".to_vec(),
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}".to_vec(),
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no/such\"}".to_vec(),
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}", "m".repeat(1_000_000)).into(),
    ];
    malformed.extend((1..whole.len()).step_by(7).map(|cut| whole.as_bytes()[..cut].to_vec()));
    for body in malformed {
        let shown = String::from_utf8_lossy(&body[..body.len().min(100)]).into_owned();
        let (status, answer) = soon(&shown, alice.post(body)).await.unwrap();
        let refused = (400..500).contains(&status) || (status == 200 && (answer.contains("\"error\":{") || answer.contains("\"isError\":true")));
        assert!(refused && answer.len() < 4_000_000, "{shown:?} was answered with {status}: {}", &answer[..answer.len().min(300)]);
    }
    relay.is_well().await;
    assert_eq!(relay.exchanges().await, Vec::<Value>::new(), "nothing of it became a question");
    assert!(relay.memory() < 200_000, "{} KiB", relay.memory());
}

#[tokio::test]
async fn odd_texts_travel_whole() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    for odd in
        ["a\u{0}b", "\u{feff}\u{202e}evil\u{202c}", "𝄞 👩‍👩‍👧 é e\u{301}", "\r\n\r\ndata: x\n\n:\n", "</script><b>&amp;", "\u{2028}\u{ffff}\u{fffd}"]
    {
        let asking = relay.caller("alice").asking(json!({"to": "bob", "message": odd}));
        let wake = bob.wake().await;
        assert_eq!(text(&wake, "message"), odd);
        assert_eq!(bob.answer(&wake, odd).await, json!({"ok": true}));
        assert_eq!(asking.await.unwrap()["answer"], odd);
        let kept = relay.on_record(odd).await;
        assert_eq!(kept["answer"], odd);
    }
}

#[tokio::test]
async fn a_caller_that_leaves_ends_nothing() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "left behind"}));
    let wake = bob.wake().await;
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    bob.settle().await;
    assert_eq!(bob.answer(&wake, "kept").await, json!({"ok": true}));
    assert_eq!(relay.caller("alice").get_answer(text(&wake, "request_id"), 30).await["answer"], "kept");
}

#[tokio::test]
async fn connections_beyond_the_limit_are_told_which_it_is_and_one_that_ends_makes_room() {
    let relay = Relay::start("[limits]\nmax_connections = 3", &["alice"]).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(relay.bot("alice").await);
    }
    let mut refused = TcpStream::connect(relay.host()).await.unwrap();
    let mut answer = String::new();
    soon("a refusal", refused.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n") && answer.contains("retry-after: 5\r\n"), "{answer}");
    assert!(answer.ends_with(r#"{"error":"max_connections = 3 is reached; come back in 5 seconds"}"#), "{answer}");
    // No client takes it for a broken connection, however it sends its request.
    for size in [0, 40_000] {
        let http = crate::rig::http();
        for _ in 0..20 {
            let refused = soon("a refusal", http.post(format!("{}/mcp", relay.url())).body("x".repeat(size)).send()).await.unwrap();
            assert_eq!(refused.status(), 503);
        }
    }
    held.pop().unwrap().say_goodbye().await;
    // Which is read over a connection that finds room.
    relay.noted("refused_request", "max_connections = 3 is reached").await;
}
