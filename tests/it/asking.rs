//! The main job: an agent asks, another answers, over either door and across them. What the asker reads, who else may
//! read it, and that the same question asked again is the same question.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::rig::{Relay, soon, text, until};

const NOBODYS: &str = "01937000-0000-7000-8000-000000000001";

#[tokio::test]
async fn a_question_is_answered_over_either_door_and_across_them() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let (caller, replier) = (relay.caller("alice"), relay.caller("bob"));
    let (mut alice, mut bob) = (relay.bot_of("alice", "a1").await, relay.bot_of("bob", "b1").await);
    for (ask_over_mcp, reply_over_mcp) in [(true, true), (true, false), (false, true), (false, false)] {
        let question = format!("over MCP: {ask_over_mcp} {reply_over_mcp}");
        let arguments = json!({"to": "bob", "message": question});
        let asking = if ask_over_mcp {
            Some(caller.asking(arguments))
        } else {
            alice.begin_call(&question, "ask_agent", arguments).await;
            None
        };
        let wake = bob.wake().await;
        assert_eq!((text(&wake, "from"), text(&wake, "message")), ("alice", question.as_str()));
        assert_eq!(
            (&wake["attempt"], &wake["hops"], &wake["origin"], &wake["deadline_ms"]),
            (&json!(1), &json!(0), &json!("alice"), &json!(120_000))
        );
        let answer = format!("answer to {question}");
        let replied = match reply_over_mcp {
            true => replier.reply(text(&wake, "request_id"), &answer).await,
            false => bob.answer(&wake, &answer).await,
        };
        assert_eq!(replied, json!({"ok": true}));
        let result = match asking {
            Some(asking) => soon("the asker hears", asking).await.unwrap(),
            None => alice.result_of(&question).await,
        };
        let expected = json!({"ok": true, "conversation_id": wake["conversation_id"], "request_id": wake["request_id"], "answer": answer});
        assert_eq!(result, expected);
        let kept = relay.on_record(&question).await;
        assert_eq!((&kept["status"], &kept["answer"], &kept["from"], &kept["to"]), (&json!("ok"), &json!(answer), &json!("alice"), &json!("bob")));
    }
}

#[tokio::test]
async fn a_bot_that_speaks_only_the_originals_frames_works_unchanged() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "hello"}));
    let wake = bob.wake().await;
    bob.heartbeat(text(&wake, "request_id")).await;
    assert_eq!(relay.caller("bob").reply(text(&wake, "request_id"), "hi").await, json!({"ok": true}));
    assert_eq!(asking.await.unwrap()["answer"], "hi");
}

#[tokio::test]
async fn agents_see_each_other_and_who_is_there() {
    let relay = Relay::start("", &["alice", "bob", "carol\nmay_ask = [\"alice\"]"]).await;
    let _bob = relay.bot("bob").await;
    let listed = relay.caller("alice").call("list_agents", json!({})).await;
    let names: Vec<(&str, bool)> = listed.as_array().unwrap().iter().map(|a| (text(a, "name"), a["online"] == true)).collect();
    assert_eq!(names, [("alice", false), ("bob", true), ("carol", false)]);
    assert_eq!(listed[2], json!({"name": "carol", "online": false, "last_seen": null, "waiting": 0}));
    let listed = relay.caller("carol").call("list_agents", json!({})).await;
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|a| text(a, "name")).collect();
    assert_eq!(names, ["alice", "carol"], "whom it may not ask it does not see");
}

#[tokio::test]
async fn a_call_that_waited_long_enough_is_told_so_and_the_answer_is_fetched_later() {
    let relay = Relay::start("ask_max_wait_ms = 700", &["alice", "bob", "carol"]).await;
    let (alice, mut bob) = (relay.caller("alice"), relay.bot("bob").await);
    let told = alice.ask("bob", "slow").await;
    assert_eq!((&told["ok"], text(&told, "error")), (&json!(false), "still_working"));
    let id = text(&told, "request_id");
    let wake = bob.wake().await;
    assert_eq!((text(&wake, "request_id"), text(&wake, "conversation_id")), (id, text(&told, "conversation_id")));
    assert_eq!(text(&alice.get_answer(id, 0).await, "error"), "still_working");
    // The same question asked again while it is open is the same question.
    let again = alice.ask("bob", "slow").await;
    assert_eq!((text(&again, "error"), text(&again, "request_id")), ("still_working", id));
    let fetching = until("the answer", async || Some(alice.get_answer(id, 60).await).filter(|a| a["ok"] == true));
    let (fetched, replied) = tokio::join!(fetching, bob.answer(&wake, "done"));
    assert_eq!(replied, json!({"ok": true}));
    assert_eq!(fetched, json!({"ok": true, "conversation_id": told["conversation_id"], "request_id": id, "answer": "done"}));
    assert_eq!(relay.caller("bob").get_answer(id, 0).await, fetched, "the asked may read it too");
    bob.is_not_woken().await;
    let foreign = relay.caller("carol").get_answer(id, 5).await;
    assert_eq!(text(&foreign, "error"), "unknown_request");
    assert_eq!(foreign, relay.caller("carol").get_answer(NOBODYS, 5).await, "a foreign id reads as one that is none");
    assert_eq!(foreign, relay.caller("carol").get_answer("nonsense", 0).await);
}

#[tokio::test]
async fn only_the_asked_may_answer_and_only_once() {
    let relay = Relay::start("", &["alice", "bob", "carol"]).await;
    let mut bob = relay.bot("bob").await;
    let mut carol = relay.bot("carol").await;
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "who may?"}));
    let wake = bob.wake().await;
    let id = text(&wake, "request_id");
    let unknown = relay.caller("carol").reply(NOBODYS, "x").await;
    assert_eq!(text(&unknown, "error"), "unknown_request");
    for foreign in
        [relay.caller("carol").reply(id, "stolen").await, relay.caller("alice").reply(id, "own").await, carol.answer(&wake, "stolen").await]
    {
        assert_eq!(foreign, unknown);
    }
    let failing = json!({"request_id": id, "error": "failed"});
    assert_eq!(relay.caller("carol").call("reply", failing).await, unknown);
    for blank in ["", "  \n\t"] {
        assert_eq!(text(&bob.answer(&wake, blank).await, "error"), "empty_answer");
    }
    assert_eq!(bob.answer(&wake, "mine").await, json!({"ok": true}));
    assert_eq!(asking.await.unwrap()["answer"], "mine");
    assert_eq!(text(&bob.answer(&wake, "again").await, "error"), "already_answered");
    assert_eq!(text(&relay.caller("bob").reply(id, "again").await, "error"), "already_answered");
    assert_eq!(relay.caller("carol").reply(id, "stolen").await, unknown, "after the end as before");
    assert_eq!(relay.on_record("who may?").await["answer"], "mine");
}

#[tokio::test]
async fn a_call_that_waits_is_heard_of_long_before_the_first_keep_alive_and_its_stream_may_not_be_held_back() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    let body = r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"ask_agent","arguments":{"to":"bob","message":"slow"}}}"#;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer tok-alice-0123456789\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(relay.host()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let wake = bob.wake().await;
    let mut said = String::new();
    while !said.contains("\r\n\r\n") {
        let mut chunk = [0; 1024];
        let n = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut chunk)).await.expect("a byte at once").unwrap();
        assert!(n > 0, "{said}");
        said.push_str(std::str::from_utf8(&chunk[..n]).unwrap());
    }
    let said = said.to_ascii_lowercase();
    assert!(said.starts_with("http/1.1 200") && said.contains("content-type: text/event-stream") && said.contains("x-accel-buffering: no"), "{said}");
    bob.answer(&wake, "at last").await;
    let mut rest = String::new();
    soon("the answer", stream.read_to_string(&mut rest)).await.unwrap();
    assert!(rest.contains(r#""id":"x""#) && rest.contains("at last"), "{rest}");
}

#[tokio::test]
async fn misuse_is_said_as_the_protocol_has_it_and_closes_no_socket() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let caller = relay.caller("alice");
    let wrong = [
        ("ask_agent", json!({"to": 5, "message": "m"}), "to: "),
        ("ask_agent", json!({"to": "bob"}), "message: is missing"),
        ("ask_agent", json!({"to": "bob", "message": "m", "conversation": "c"}), "conversation: "),
        ("ask_agent", json!({"to": "bob", "message": "m", "when_offline": "later"}), "when_offline: "),
        ("get_answer", json!({"request_id": "x", "wait_seconds": "long"}), "wait_seconds: "),
        ("reply", json!({"request_id": "x", "answer": ["a"]}), "answer: "),
    ];
    for (tool, arguments, said) in &wrong {
        let answer = soon(tool, caller.rpc(tool, arguments)).await.unwrap();
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(text(&answer["result"]["content"][0], "text").starts_with(said), "{answer}");
    }
    let unknown = caller.rpc("dance", &json!({})).await.unwrap();
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let mut bot = relay.bot("alice").await;
    for (tool, arguments, said) in &wrong {
        let result = bot.call(tool, arguments.clone()).await;
        assert_eq!(text(&result, "error"), "invalid_arguments");
        assert!(text(&result, "message").starts_with(said), "{result}");
    }
    assert_eq!(text(&bot.call("dance", json!({})).await, "error"), "invalid_arguments");
    for (id, frame) in [(json!(7), json!({"type": "call", "id": 7, "tool": "reply"})), (Value::Null, json!({"type": "call", "tool": "reply"}))] {
        bot.send(frame).await;
        let result = bot.next("result").await;
        assert_eq!((&result["id"], text(&result["result"], "error")), (&id, "invalid_arguments"));
    }
    bot.settle().await;
}
