//! Tokens in the open: at the highest log level, through both doors and both versions of HTTP, with right and wrong tokens
//! and every command that makes one, no token stands in any output or log but the one place where it is shown once.

use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;

use crate::rig::{Bot, Relay, text, until};

const WRONG: &str = "hbt_wrong-but-somebodys-elsewhere";

#[tokio::test]
async fn no_token_stands_in_any_log_however_much_is_logged() {
    let mut relay = Relay::prepare("", &["alice", "bob"]);
    relay.log_everything();
    relay.up().await;
    let made = relay.run_with(&["agent", "add", "carol"], &[("RUST_LOG", "trace")]).await;
    let made_token = made.out.trim().to_owned();
    let rotated = relay.run(&["agent", "rotate", "bob"]).await;
    let rotated_token = rotated.out.trim().to_owned();
    let mut bob = Bot::connect(&relay.url(), "bob", &rotated_token).await.unwrap();
    let mut carol = Bot::connect(&relay.url(), "carol", &made_token).await.unwrap();
    bob.hello("b1").await;
    let asking = relay.caller("alice").asking(json!({"to": "bob", "message": "q"}));
    let wake = bob.wake().await;
    bob.answer(&wake, "a").await;
    assert_eq!(asking.await.unwrap()["answer"], "a");
    carol.settle().await;
    let lent = relay.run_with(&["ask", "--as", "alice", "--to", "nobody", "q"], &[("RUST_LOG", "trace")]).await;
    assert!(Bot::connect(&relay.url(), "bob", WRONG).await.is_err());
    assert!(relay.caller_with(WRONG).rpc("list_agents", &json!({})).await.unwrap_err().starts_with("401"));
    relay.get(&format!("/mcp?token={WRONG}")).await;

    // HTTP/2 without TLS, as behind some proxies.
    let stream = tokio::net::TcpStream::connect(relay.host()).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(format!("{}/mcp", relay.url())).header("authorization", "Bearer tok-alice-0123456789");
    let response = sender.send_request(request.body(Empty::<bytes::Bytes>::new()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 405);
    response.into_body().collect().await.unwrap();

    let revoked = relay.run(&["agent", "revoke", "carol"]).await;
    carol.closed().await;
    relay.configure("nonsense = 1", &["alice", "bob"]);
    relay.signal(rustix::process::Signal::HUP);
    until("the refusal of the file", async || relay.said().contains("was not taken over").then_some(())).await;
    relay.stop().await;
    let said = relay.said();
    assert!(said.contains("TRACE") && said.contains(text(&wake, "request_id")), "it logs little: {} bytes", said.len());
    let tokens = ["tok-alice-0123456789", "tok-bob-0123456789", &made_token, &rotated_token, WRONG];
    for token in tokens {
        for (what, output) in
            [("relay", &said), ("add", &made.err), ("rotate", &rotated.err), ("ask", &lent.err), ("ask", &lent.out), ("revoke", &revoked.out)]
        {
            let found = output.lines().find(|line| line.contains(token));
            assert!(found.is_none(), "the {what} printed a token: {found:?}");
        }
        let store = std::fs::read(relay.path("data/bridge.redb")).unwrap();
        assert!(!store.windows(token.len()).any(|w| w == token.as_bytes()), "a token is stored in clear");
    }
    assert!(!said.contains("hbt_") && !lent.err.contains("hbt_"), "a token that was lent or made was logged");
}
