//! Coming from the TypeScript relay: its table and its config.yaml taken over by `import`, whole or not at all, and the
//! same file twice adds nothing.

use std::fs;
use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::rig::{Collector, Relay, Worker, text, token, until};

const CONVERSATION: &str = "0b9d4f0e-6a0e-4c3a-9a63-3b1f0e5a7c11";

/// As `\copy .. TO history.csv CSV HEADER` writes it.
fn history() -> String {
    let mut csv = String::from("request_id,conversation_id,from_agent,to_agent,message,status,answer,error,started_at,ended_at\n");
    for (n, status) in ["ok", "ok", "timeout", "agent_offline", "unknown_agent", "pending"].iter().enumerate() {
        let (to, answer) =
            (if *status == "unknown_agent" { "Nobody Here!" } else { "bob" }, if *status == "ok" { "\"la réponse, \"\"oui\"\"\"" } else { "" });
        let error = if matches!(*status, "ok" | "pending") { "" } else { status };
        let ended = if *status == "pending" { String::new() } else { format!("2026-05-0{} 10:00:02.5+00", n + 1) };
        csv.push_str(&format!(
            "r-{n},{CONVERSATION},alice,{to},\"ancienne question {n},\nsecond line\",{status},{answer},{error},2026-05-0{} 10:00:00+00,{ended}\n",
            n + 1
        ));
    }
    csv
}

fn echo(question: &str) -> String {
    format!("echo of {question}")
}

#[tokio::test]
async fn the_history_of_the_original_is_taken_over_once_and_can_be_searched_and_continued() {
    let mut relay = Relay::prepare("", &["alice", "bob"]);
    fs::write(relay.path("history.csv"), history()).unwrap();
    let dry = relay.run(&["import", "--dry-run", "history.csv"]).await;
    assert!(dry.code == 0 && dry.out.contains("6 exchanges can be read") && !relay.path("data").exists(), "{dry:?}");
    let first = relay.run(&["import", "--config", "bridge.toml", "history.csv"]).await;
    assert!(first.code == 0 && first.out.contains("6 exchanges imported, 0 were there"), "{first:?}");
    // The same rows as JSON lines are the same exchanges.
    let row = json!({"request_id": "r-0", "conversation_id": CONVERSATION, "from_agent": "alice", "to_agent": "bob", "message": "m", "status": "ok",
        "answer": "a", "error": null, "started_at": "2026-05-01T10:00:00+00:00", "ended_at": "2026-05-01T10:00:02.5+00:00"});
    let mut newer = row.clone();
    newer["request_id"] = json!("r-9");
    newer["started_at"] = json!("2026-06-01T10:00:00+00:00");
    newer["ended_at"] = json!("2026-06-01T10:00:01+00:00");
    fs::write(relay.path("history.jsonl"), format!("{row}\n{newer}\n")).unwrap();
    let again = relay.run(&["import", "history.csv", "history.jsonl"]).await;
    assert!(again.out.contains("0 exchanges imported, 6 were there") && again.out.contains("1 exchanges imported, 1 were there"), "{again:?}");

    relay.up().await;
    let running = relay.run(&["import", "history.csv"]).await;
    assert!(running.code == 1 && running.err.contains("stop it first"), "{running:?}");
    let all = relay.exchanges().await;
    let statuses: Vec<&str> = all.iter().map(|e| text(e, "status")).collect();
    assert_eq!(statuses, ["ok", "ok", "timeout", "agent_offline", "unknown_agent", "failed", "ok"]);
    assert_eq!((text(&all[0], "answer"), text(&all[0], "message")), ("la réponse, \"oui\"", "ancienne question 0,\nsecond line"));
    assert_eq!((&all[0]["started_at"], &all[0]["ended_at"]), (&json!(1_777_629_600_000_u64), &json!(1_777_629_602_500_u64)));
    assert_eq!((text(&all[4], "to"), all[4].get("answer")), ("nobody-here-", None));
    until("it can be searched", async || {
        let (_, body) = relay.get("/ui/api/search?q=ancienne+status:ok").await;
        (serde_json::from_str::<Value>(&body).unwrap()["total"] == 2).then_some(())
    })
    .await;
    let _bob = Worker::start(relay.address.clone(), "bob", echo);
    relay.wait_online("bob", true).await;
    let on = json!({"to": "bob", "message": "and now?", "conversation_id": CONVERSATION});
    assert_eq!(relay.caller("alice").call("ask_agent", on).await["answer"], "echo of and now?");
    assert_eq!(text(&relay.exchanges().await[7], "message"), "and now?");
}

#[tokio::test]
async fn a_file_with_mistakes_changes_nothing_unless_they_are_left_out() {
    let relay = Relay::prepare("", &["alice", "bob"]);
    let good = history();
    fs::write(relay.path("history.csv"), format!("{good}r-7,c,alice,bob,q,odd,,,2026-05-01 10:00:00+00,\nr-8,c,alice,bob,q,ok,a,,soon,\nr-9,c\n"))
        .unwrap();
    let refused = relay.run(&["import", "history.csv"]).await;
    assert!(refused.code == 1 && refused.err.contains("3 lines cannot be read; nothing was written"), "{refused:?}");
    for wrong in ["history.csv:14: status = \"odd\"", "history.csv:15: started_at = \"soon\"", "history.csv:16: 2 fields"] {
        assert!(refused.err.contains(wrong), "{wrong}: {refused:?}");
    }
    assert!(!relay.path("data").exists());
    let taken = relay.run(&["import", "--skip-bad", "history.csv"]).await;
    assert!(taken.code == 0 && taken.out.contains("6 exchanges imported"), "{taken:?}");
    for (name, what) in [("nothing.csv", "No such file"), ("history.txt", "Name it .csv")] {
        let ran = relay.run(&["import", name]).await;
        assert!(ran.code == 1 && ran.err.contains(what), "{ran:?}");
    }
}

#[tokio::test]
async fn the_configuration_of_the_original_becomes_a_bridge_toml_that_starts() {
    let mut relay = Relay::prepare("", &[]);
    let yaml = "# ours\nagents:\n  - name: Alice\n    token: \"tok-alice-0123456789\"\n  - {name: bob, token: 'tok-bob-0123456789'}\n\
        ask_timeout_ms: 90000\ndb:\n  driver: postgres\ncolour: blue\n";
    fs::write(relay.path("config.yaml"), yaml).unwrap();
    let there = relay.run(&["import", "config.yaml"]).await;
    assert!(there.code == 1 && there.err.contains("stays as it is"), "{there:?}");
    fs::remove_file(relay.path("bridge.toml")).unwrap();
    let done = relay.run(&["import", "config.yaml"]).await;
    assert!(done.code == 0 && done.out.contains("2 agents") && done.err.contains("public_url"), "{done:?}");
    assert!(done.err.contains("\"Alice\" is called alice") && done.err.contains("colour is not known"), "{done:?}");
    let toml = fs::read_to_string(relay.path("bridge.toml")).unwrap();
    assert!(toml.contains("ask_timeout_ms = 90000"), "{toml}");
    relay.up_with(&["--listen", "127.0.0.1:0"]).await;
    let _bob = Worker::start(relay.address.clone(), "bob", echo);
    relay.wait_online("bob", true).await;
    assert_eq!(relay.caller("alice").ask("bob", "with the old token").await["ok"], true);
    fs::write(relay.path("config.yaml"), "agents:\n  - name: a\n\ttoken: t\n").unwrap();
    let wrong = relay.run(&["import", "--out", "other.toml", "config.yaml"]).await;
    assert!(wrong.code == 1 && wrong.err.contains("line 3") && !relay.path("other.toml").exists(), "{wrong:?}");
}

#[tokio::test]
async fn tokens_and_keys_from_the_environment_stay_there_and_langfuse_goes_on() {
    let collector = Collector::start().await;
    let mut relay = Relay::prepare("", &[]);
    let yaml = format!(
        "agents:\n  - name: alice\n    token: \"${{ALICE_TOKEN}}\"\n  - name: bob\n    token: {}\n\
         langfuse:\n  public_key: pk-lf-1\n  secret_key: ${{SECRET}}\n  base_url: {}\n\
         db:\n  driver: postgres\n  connection_string: postgres://bridge:pass@db/bridge\n",
        token("bob"),
        collector.url()
    );
    fs::write(relay.path("config.yaml"), yaml).unwrap();
    fs::remove_file(relay.path("bridge.toml")).unwrap();
    let env = [("ALICE_TOKEN", "tok-alice-0123456789"), ("LANGFUSE_SECRET_KEY", "sk-lf-secret")];
    let lacking = relay.run_with(&["import", "--out", "lacking.toml", "config.yaml"], &[]).await;
    assert!(lacking.code == 1 && lacking.err.contains("needs a hand") && lacking.err.contains("ALICE_TOKEN"), "{lacking:?}");
    let done = relay.run_with(&["import", "config.yaml"], &env).await;
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.err.contains("set LANGFUSE_SECRET_KEY") && done.err.contains("db is not needed any more"), "{done:?}");
    let toml = fs::read_to_string(relay.path("bridge.toml")).unwrap();
    assert!(toml.contains("token_env = \"ALICE_TOKEN\"") && toml.contains("public_key = \"pk-lf-1\""), "{toml}");
    for left_out in ["secret_key", "SECRET", "postgres", "tok-alice"] {
        assert!(!toml.contains(left_out) && !done.out.contains(left_out), "{left_out}: {toml} {done:?}");
    }
    relay.up_in(&["--listen", "127.0.0.1:0"], &env).await;
    let _bob = Worker::start(relay.address.clone(), "bob", echo);
    relay.wait_online("bob", true).await;
    assert_eq!(relay.caller("alice").ask("bob", "with the token of the environment").await["ok"], true);
    until("langfuse has it", async || (collector.count() == 1).then_some(())).await;
}

/// The file is a pipe, so that it takes as long as the test likes.
#[tokio::test]
async fn what_takes_longer_than_a_second_says_how_far_it_is() {
    let relay = Relay::prepare("", &["alice", "bob"]);
    let (pipe, text) = (relay.path("history.csv"), history());
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let feeding = std::thread::spawn(move || {
        let mut pipe = fs::OpenOptions::new().write(true).open(pipe).unwrap();
        let half = text.len() / 2;
        pipe.write_all(&text.as_bytes()[..half]).unwrap();
        // Its reader has begun, and a second passes.
        std::thread::sleep(Duration::from_millis(1_100));
        pipe.write_all(&text.as_bytes()[half..]).unwrap();
    });
    let ran = relay.run(&["import", "--dry-run", "history.csv"]).await;
    feeding.join().unwrap();
    assert!(ran.code == 0 && ran.out.contains("6 exchanges can be read"), "{ran:?}");
    let said: Vec<&str> = ran.err.lines().collect();
    assert!(said.len() == 1 && said[0].starts_with("checking: "), "{ran:?}");
    fs::remove_file(relay.path("history.csv")).unwrap();
    fs::write(relay.path("history.csv"), history()).unwrap();
    assert_eq!(relay.run(&["import", "--dry-run", "history.csv"]).await.err, "", "nothing within the first second");
}
