//! Agents and their tokens: made once and shown once, added, rotated and revoked on a relay that runs or not, and read
//! anew from the file without dropping a socket.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Bot, Ran, Relay, soon, text, token, until};

const NO_TOKENS: &str = "listen = \"127.0.0.1:0\"\n[[agents]]\nname = \"alice\"\n[[agents]]\nname = \"bob\"\n";

fn tokens_in(text: &str) -> Vec<String> {
    text.split_whitespace().filter(|w| w.starts_with("hbt_")).map(str::to_owned).collect()
}

fn token_of(ran: &Ran) -> String {
    assert_eq!(ran.code, 0, "{ran:?}");
    let tokens = tokens_in(&ran.out);
    assert_eq!((tokens.len(), ran.out.trim()), (1, tokens[0].as_str()), "{ran:?}");
    tokens[0].clone()
}

async fn is_valid(relay: &Relay, token: &str) -> bool {
    match relay.caller_with(token).rpc("list_agents", &json!({})).await {
        Ok(answer) => answer["result"]["isError"] == false,
        Err(e) => {
            assert!(e.starts_with("401"), "{e}");
            false
        }
    }
}

#[tokio::test]
async fn the_first_start_prints_the_tokens_it_made_and_no_later_one_does() {
    let mut relay = Relay::prepare("", &[]);
    relay.write_config(NO_TOKENS);
    relay.up().await;
    let said = relay.said();
    let tokens = tokens_in(&said);
    assert_eq!(tokens.len(), 2, "{said}");
    assert!(said.contains("/bridge/connect") && said.contains("/mcp"), "{said}");
    let mut bob = Bot::connect(&relay.url(), "bob", &tokens[1]).await.unwrap();
    let asking = relay.caller_with(&tokens[0]).asking(json!({"to": "bob", "message": "hi"}));
    let wake = bob.wake().await;
    assert_eq!(wake["from"], "alice");
    bob.answer(&wake, "ho").await;
    assert_eq!(asking.await.unwrap()["answer"], "ho");
    relay.kill().await;
    relay.up().await;
    assert!(is_valid(&relay, &tokens[0]).await && is_valid(&relay, &tokens[1]).await);
    assert_eq!(tokens_in(&relay.said()), tokens, "a second start prints none");
}

#[tokio::test]
async fn agents_are_managed_on_a_running_relay_and_everything_counts_at_once() {
    let relay = Relay::start("", &["alice"]).await;
    let carol = token_of(&relay.run(&["agent", "add", "carol"]).await);
    let mut socket = Bot::connect(&relay.url(), "carol", &carol).await.unwrap();
    let asking = relay.caller("alice").asking(json!({"to": "carol", "message": "welcome"}));
    let wake = socket.wake().await;
    socket.answer(&wake, "thanks").await;
    assert_eq!(asking.await.unwrap()["answer"], "thanks");

    let listed = relay.run(&["agent", "list", "--json"]).await;
    let rows: Value = serde_json::from_str(&listed.out).unwrap();
    let row = |n: usize| (text(&rows[n], "name"), text(&rows[n], "source"), rows[n]["online"] == true);
    assert_eq!((row(0), row(1)), (("alice", "bridge.toml", false), ("carol", "agent add", true)));
    let table = relay.run(&["agent", "list"]).await;
    assert!(table.out.lines().any(|l| l.starts_with("carol") && l.contains("online")), "{table:?}");

    let rotated = token_of(&relay.run(&["agent", "rotate", "--config", "bridge.toml", "carol"]).await);
    assert_ne!(rotated, carol);
    assert!(is_valid(&relay, &rotated).await && is_valid(&relay, &carol).await, "the old one stays valid for a while");
    socket.settle().await;
    let mut second = Bot::connect(&relay.url(), "carol", &rotated).await.unwrap();
    second.settle().await;
    let configured = token_of(&relay.run(&["agent", "--config", "bridge.toml", "rotate", "alice"]).await);
    assert!(is_valid(&relay, &configured).await);
    relay.caller("alice").call("list_agents", json!({})).await;

    assert_eq!(relay.run(&["agent", "revoke", "carol"]).await.code, 0);
    assert_eq!((socket.closed().await.0, second.closed().await.0), (Some(1008), Some(1008)));
    assert!(!is_valid(&relay, &rotated).await && !is_valid(&relay, &carol).await);
    assert!(Bot::connect(&relay.url(), "carol", &rotated).await.is_err());
    assert_eq!(text(&relay.caller("alice").ask("carol", "gone?").await, "error"), "unknown_agent");

    for (arguments, said) in [
        (["agent", "add", "alice"], "already an agent"),
        (["agent", "revoke", "alice"], "bridge.toml"),
        (["agent", "rotate", "nobody"], "no agent nobody"),
        (["agent", "revoke", "nobody"], "no agent nobody"),
        (["agent", "add", "no name"], "no agent name"),
    ] {
        let ran = relay.run(&arguments).await;
        assert!(ran.code == 1 && ran.out.is_empty() && ran.err.contains(said), "{arguments:?}: {ran:?}");
    }
}

#[tokio::test]
async fn agents_are_managed_on_a_stopped_relay_too() {
    let mut relay = Relay::prepare("", &["alice"]);
    let first = token_of(&relay.run(&["agent", "add", "carol"]).await);
    let second = token_of(&relay.run(&["agent", "rotate", "carol"]).await);
    let gone = token_of(&relay.run(&["agent", "add", "dave"]).await);
    assert_eq!(relay.run(&["agent", "revoke", "dave"]).await.code, 0);
    let listed = relay.run(&["agent", "list"]).await;
    assert!(listed.out.contains("carol") && !listed.out.contains("dave"), "{listed:?}");
    relay.up().await;
    assert!(is_valid(&relay, &first).await && is_valid(&relay, &second).await && !is_valid(&relay, &gone).await);
}

#[tokio::test]
async fn a_hangup_reads_the_agents_anew_without_dropping_a_socket_and_a_bad_file_changes_nothing() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let (mut alice, mut bob) = (relay.bot("alice").await, relay.bot("bob").await);
    let reloads = |relay: &Relay| relay.said().matches("read the configuration anew").count();
    relay.configure("", &["alice", "dave"]);
    relay.signal(Signal::HUP);
    until("the reload", async || (reloads(&relay) == 1).then_some(())).await;
    assert_eq!(bob.closed().await.0, Some(1008));
    assert!(Bot::connect(&relay.url(), "bob", "tok-bob-0123456789").await.is_err());
    alice.settle().await;
    let mut dave = relay.bot("dave").await;
    let asking = relay.caller("alice").asking(json!({"to": "dave", "message": "new here?"}));
    let wake = dave.wake().await;
    dave.answer(&wake, "yes").await;
    assert_eq!(asking.await.unwrap()["answer"], "yes");
    for bad in ["[[agents]]\nname = \"eve\"\nnmae = 1\n", "not toml at all", "[[agents]]\nname = \"eve\"\ntoken = \"change-me\"\n"] {
        let before = relay.said().matches("was not taken over").count();
        relay.write_config(bad);
        relay.signal(Signal::HUP);
        until("the refusal", async || (relay.said().matches("was not taken over").count() == before + 1).then_some(())).await;
        alice.settle().await;
        dave.settle().await;
        assert_eq!(relay.caller("alice").call("list_agents", json!({})).await.as_array().unwrap().len(), 2);
    }
    relay.configure("", &["alice", "dave", "bob"]);
    relay.signal(Signal::HUP);
    until("the reload", async || (reloads(&relay) == 2).then_some(())).await;
    relay.bot("bob").await.settle().await;
}

#[tokio::test]
async fn whom_an_agent_may_ask_is_read_anew_too() {
    let relay = Relay::start("", &["alice\nmay_ask = []", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    assert_eq!(text(&relay.caller("alice").ask("bob", "may I?").await, "error"), "not_allowed");
    relay.configure("", &["alice\nmay_ask = [\"helpers\"]", "bob\ngroups = [\"helpers\"]"]);
    relay.signal(Signal::HUP);
    until("the reload", async || relay.said().contains("read the configuration anew").then_some(())).await;
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "and now?"}));
    let wake = bob.wake().await;
    bob.answer(&wake, "you may").await;
    assert_eq!(asking.await.unwrap()["answer"], "you may");
}

/// What had begun with a token that is not good any more ends, and hears nothing of what comes after.
async fn hears_nothing(waiting: reqwest::Response, secret: &str) {
    assert_eq!(waiting.status(), 200, "it had begun");
    // Cut, not ended: an error is as good.
    let heard = soon("what waits ends", waiting.text()).await.unwrap_or_default();
    assert!(!heard.contains(secret) && !heard.contains("jsonrpc"), "{heard}");
}

#[tokio::test]
async fn calls_that_wait_end_with_the_token_that_began_them() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let mut bob = relay.bot("bob").await;
    let carol = relay.caller_with(&token_of(&relay.run(&["agent", "add", "carol"]).await));
    let asking = carol.begin("ask_agent", &json!({"to": "bob", "message": "what is the code?"})).await;
    let wake = bob.wake().await;
    let fetching = carol.begin("get_answer", &json!({"request_id": text(&wake, "request_id"), "wait_seconds": 600})).await;
    assert_eq!(relay.run(&["agent", "revoke", "carol"]).await.code, 0);
    bob.answer(&wake, "the code is 4711").await;
    hears_nothing(asking, "4711").await;
    hears_nothing(fetching, "4711").await;
}

#[tokio::test]
async fn a_token_that_is_changed_in_the_file_closes_what_the_old_one_opened_and_nothing_else() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let (mut alice, mut bob) = (relay.bot("alice").await, relay.bot("bob").await);
    let asking = relay.caller("alice").begin("ask_agent", &json!({"to": "bob", "message": "what is the code?"})).await;
    let wake = bob.wake().await;
    let agent = |name: &str, token: &str| format!("[[agents]]\nname = \"{name}\"\ntoken = \"{token}\"\n");
    relay.write_config(&format!("listen = \"127.0.0.1:0\"\n{}{}", agent("alice", "another-of-alice"), agent("bob", &token("bob"))));
    relay.signal(Signal::HUP);
    assert_eq!(alice.closed().await.0, Some(1008));
    bob.answer(&wake, "the code is 4711").await;
    hears_nothing(asking, "4711").await;
    assert!(!is_valid(&relay, &token("alice")).await && is_valid(&relay, "another-of-alice").await);
    let kept = relay.caller_with("another-of-alice").get_answer(text(&wake, "request_id"), 60).await;
    assert_eq!(kept["answer"], "the code is 4711", "it is alice's still");
}
