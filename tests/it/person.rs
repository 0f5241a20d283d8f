//! A person takes part: asks, answers in a bot's place, cancels, pauses. Bots see it as any question and answer; the record
//! says who it was.

use serde_json::{Value, json};

use crate::rig::{OWNER, Relay, http, http_unled, soon, text, until};

/// Where the person is, behind a proxy that is believed.
const PERSON: &str = "203.0.113.7";

/// Sends a form as the owner's script would: status and where it leads.
async fn act(relay: &Relay, what: &str, token: &str, fields: &[(&str, &str)]) -> (u16, String) {
    let body = reqwest::Url::parse_with_params("http://x/", fields).unwrap().query().unwrap_or_default().to_owned();
    let request = http_unled().post(format!("{}/ui/act/{what}", relay.url())).bearer_auth(token).header("x-forwarded-for", PERSON).body(body);
    let answer = soon(what, request.send()).await.unwrap();
    let to = answer.headers().get("location").map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default();
    (answer.status().as_u16(), to)
}

async fn exchange(relay: &Relay, id: &str) -> Value {
    let (status, body) = relay.get(&format!("/ui/api/exchanges/{id}")).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

async fn last_act(relay: &Relay) -> Value {
    let (_, body) = relay.get("/ui/api/security?kind=person&limit=1").await;
    serde_json::from_str::<Value>(&body).unwrap()["events"][0].clone()
}

#[tokio::test]
async fn a_person_asks_a_bot_and_reads_the_answer_on_the_page() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut bob = relay.bot_of("bob", "b1").await;
    let (status, to) = act(&relay, "ask", OWNER, &[("to", "bob"), ("message", "how are\r\nyou?")]).await;
    assert_eq!(status, 303);
    let id = to.strip_prefix("/ui/x/").unwrap();
    let wake = bob.wake().await;
    assert_eq!((text(&wake, "from"), text(&wake, "message"), text(&wake, "request_id")), ("owner", "how are\nyou?", id));
    bob.answer(&wake, "well").await;
    until("the answer", async || (exchange(&relay, id).await["answer"] == "well").then_some(())).await;
    let conversation = text(&wake, "conversation_id");
    act(&relay, "ask", OWNER, &[("to", "bob"), ("message", "and now?"), ("conversation", conversation)]).await;
    assert_eq!(text(&bob.wake().await, "conversation_id"), conversation);
    let noted = last_act(&relay).await;
    assert_eq!((text(&noted, "who"), text(&noted, "what")), ("owner", "asked bob"));
    assert_eq!(act(&relay, "ask", OWNER, &[("to", "bob"), ("message", " ")]).await.0, 409);
    assert_eq!(act(&relay, "ask", OWNER, &[("to", "bob"), ("message", &"x".repeat(2 << 20))]).await.0, 413);
    let (status, to) = act(&relay, "ask", OWNER, &[("to", "nobody"), ("message", "?")]).await;
    assert_eq!(status, 303);
    assert_eq!(exchange(&relay, to.strip_prefix("/ui/x/").unwrap()).await["status"], "unknown_agent");
    assert_eq!(text(&relay.caller("alice").ask("owner", "are you there?").await, "error"), "unknown_agent");
}

#[tokio::test]
async fn a_person_answers_in_the_bots_place_and_cancels() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut bob = relay.bot_of("bob", "b1").await;
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "what is the code?"}));
    let wake = bob.wake().await;
    let id = text(&wake, "request_id").to_owned();
    assert_eq!(act(&relay, "answer", OWNER, &[("id", &id), ("answer", "   ")]).await.0, 409);
    assert_eq!(act(&relay, "answer", OWNER, &[("id", &id), ("answer", "four, says a person")]).await, (303, format!("/ui/x/{id}")));
    assert_eq!(asking.await.unwrap()["answer"], "four, says a person");
    let kept = exchange(&relay, &id).await;
    assert_eq!((text(&kept, "status"), text(&kept, "by")), ("ok", "owner"));
    assert_eq!(last_act(&relay).await["request_id"], id.as_str());
    assert_eq!(act(&relay, "answer", OWNER, &[("id", &id), ("answer", "again")]).await.0, 409);
    assert_eq!(relay.caller("bob").reply(&id, "mine").await["error"], "already_answered");

    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "and this?"}));
    let id = text(&bob.wake().await, "request_id").to_owned();
    assert_eq!(act(&relay, "cancel", OWNER, &[("id", &id)]).await.0, 303);
    let ended = asking.await.unwrap();
    assert_eq!(text(&ended, "error"), "cancelled");
    assert!(text(&ended, "message").contains("a person"), "{ended}");
    assert_eq!(act(&relay, "cancel", OWNER, &[("id", &id)]).await.0, 409);
    let (_, page) = relay.get(&format!("/ui/x/{id}")).await;
    assert!(page.contains("by owner, a person"));
}

#[tokio::test]
async fn a_pause_holds_across_restarts_until_a_person_resumes() {
    let mut relay = Relay::start("", &["alice", "bob", "carol"]).await;
    assert_eq!(act(&relay, "pause", OWNER, &[("one", "bob"), ("back", "/ui/agents")]).await, (303, "/ui/agents".into()));
    assert_eq!(act(&relay, "pause", OWNER, &[("one", "alice"), ("other", "carol")]).await.0, 303);
    for wrong in [&[("one", "nobody")][..], &[("one", "x y")], &[("one", "bob"), ("other", "bob")], &[("one", "")]] {
        assert_eq!(act(&relay, "pause", OWNER, wrong).await.0, 409, "{wrong:?}");
    }
    for stop in ["kill", "stop"] {
        relay.again_after(stop).await;
        for (from, to, what) in [("alice", "bob", "bob"), ("bob", "carol", "bob"), ("carol", "alice", "alice and carol")] {
            let refused = relay.caller(from).ask(to, "hello?").await;
            assert_eq!(text(&refused, "error"), "not_allowed", "{refused}");
            assert!(text(&refused, "message").contains(&format!("A person has paused {what}")), "{refused}");
        }
    }
    act(&relay, "resume", OWNER, &[("one", "bob")]).await;
    act(&relay, "resume", OWNER, &[("one", "carol"), ("other", "alice")]).await;
    assert_eq!(text(&last_act(&relay).await, "what"), "resumed carol and alice");
    for (from, to) in [("alice", "bob"), ("carol", "alice")] {
        assert_eq!(text(&relay.caller(from).ask(to, "hello?").await, "error"), "agent_offline");
    }
}

#[tokio::test]
async fn a_person_lets_go_on_what_was_stopped_as_a_loop() {
    let relay = Relay::start("[limits]\nmax_turns_per_conversation = 2", &["alice", "bob"]).await;
    let mut bob = relay.bot_of("bob", "b1").await;
    let alice = relay.caller("alice");
    let mut conversation = String::new();
    let mut stopped = Value::Null;
    for turn in 0..3 {
        let asking = alice.asking(json!({"to": "bob", "message": format!("thanks {turn}"), "conversation_id": conversation}));
        if turn == 2 {
            stopped = asking.await.unwrap();
            break;
        }
        let wake = bob.wake().await;
        text(&wake, "conversation_id").clone_into(&mut conversation);
        bob.answer(&wake, "you are welcome").await;
        assert_eq!(asking.await.unwrap()["ok"], true);
    }
    assert_eq!(text(&stopped, "error"), "loop_limit", "{stopped}");
    let (_, log) = relay.get("/ui/api/security?kind=loop").await;
    assert!(log.contains(text(&stopped, "request_id")), "{log}");
    assert_eq!(act(&relay, "clear", OWNER, &[("id", text(&stopped, "request_id"))]).await.0, 303);
    let asking = alice.asking(json!({"to": "bob", "message": "once more", "conversation_id": conversation}));
    let wake = bob.wake().await;
    bob.answer(&wake, "gladly").await;
    assert_eq!(asking.await.unwrap()["ok"], true);
}

#[tokio::test]
async fn a_viewer_and_a_bot_can_do_none_of_it() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let made = relay.run(&["ui-token", "--viewer"]).await.out;
    let viewer = made.trim().rsplit('#').next().unwrap();
    for what in ["ask", "answer", "cancel", "clear", "pause", "resume"] {
        let fields = [("to", "bob"), ("message", "m"), ("id", "0"), ("one", "bob"), ("answer", "a")];
        assert_eq!(act(&relay, what, viewer, &fields).await.0, 403, "{what}");
        assert_eq!(act(&relay, what, &crate::rig::token("alice"), &fields).await.0, 401, "{what}");
    }
    assert!(relay.exchanges().await.is_empty());
    let page = http().get(format!("{}/ui/agents", relay.url())).bearer_auth(viewer);
    let page = soon("agents", page.send()).await.unwrap().text().await.unwrap();
    assert!(!page.contains("/ui/act/"), "a viewer is shown nothing that it may not do");
    relay.write_config("listen = \"127.0.0.1:0\"\n[[agents]]\nname = \"owner\"\n");
    let refused = relay.run(&["check"]).await;
    assert!(refused.code == 1 && refused.out.contains("line 3"), "{refused:?}");
    relay.configure("", &["alice", "bob"]);
    let refused = relay.run(&["agent", "add", "owner"]).await;
    assert!(refused.code == 1 && refused.err.contains("the relay's owner asks"), "{refused:?}");
}

#[tokio::test]
async fn each_thing_that_a_person_does_is_on_record_with_who_when_and_from_where() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut bob = relay.bot_of("bob", "b1").await;
    let mut waiting = Vec::new();
    for n in 0..2 {
        let asking = relay.caller("alice").asking(json!({"to": "bob", "message": format!("question {n}")}));
        waiting.push((asking, text(&bob.wake().await, "request_id").to_owned()));
    }
    let stopped = relay.caller("alice").ask("alice", "as good as any").await;
    let ids = [waiting[0].1.as_str(), waiting[1].1.as_str(), text(&stopped, "request_id")];
    let acts = [
        ("ask", vec![("to", "bob"), ("message", "a word that is in no log")], "asked bob", None),
        ("answer", vec![("id", ids[0]), ("answer", "a word that is in no log")], "answered", Some(ids[0])),
        ("cancel", vec![("id", ids[1])], "cancelled", Some(ids[1])),
        ("clear", vec![("id", ids[2])], "loop", Some(ids[2])),
        ("pause", vec![("one", "bob")], "paused bob", None),
        ("resume", vec![("one", "bob")], "resumed bob", None),
    ];
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    for (act_of, fields, what, request) in acts {
        let begun = now();
        assert_eq!(act(&relay, act_of, OWNER, &fields).await.0, 303, "{act_of}");
        let noted = last_act(&relay).await;
        assert_eq!((text(&noted, "who"), text(&noted, "address")), ("owner", PERSON), "{act_of}: {noted}");
        assert!(text(&noted, "what").contains(what), "{act_of}: {noted}");
        assert!((begun..=now()).contains(&u128::from(noted["at"].as_u64().unwrap())), "{act_of}: {noted}");
        if let Some(request) = request {
            assert_eq!(text(&noted, "request_id"), request, "{act_of}");
        }
    }
    let entries = relay.security("?kind=person").await;
    assert_eq!(entries.len(), 6, "{entries:?}");
    assert!(!relay.said().contains("a word that is in no log") && !format!("{entries:?}").contains("a word that is in no log"));
}
