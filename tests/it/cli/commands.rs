//! `ask`, `listen`, `check` and `healthcheck`: what they print and how they exit.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::rig::{Relay, soon, text, until};

#[tokio::test]
async fn listen_and_ask_make_a_real_answer_without_any_bot() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    let mut listener = relay.spawn(&["listen", "--as", "bob", "--exec", "tr a-z A-Z"], "listen");
    relay.wait_online("bob", true).await;
    let ran = relay.run(&["ask", "--as", "alice", "--to", "bob", "hello there"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "HELLO THERE\n"), "{ran:?}");
    let ran = relay.run(&["ask", "--as", "alice", "--to", "bob", "--json", "again"]).await;
    let result: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &result["ok"], &result["answer"]), (0, &json!(true), &json!("AGAIN")));
    let conversation = text(&result, "conversation_id");
    let ran = relay.run(&["ask", "--as", "alice", "--to", "bob", "--json", "--conversation", conversation, "more"]).await;
    let result: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((text(&result, "conversation_id"), text(&result, "answer")), (conversation, "MORE"));
    // It comes back by itself, and a token of one's own works from anywhere.
    relay.kill().await;
    relay.up().await;
    relay.wait_online("bob", true).await;
    let url = relay.url();
    for address in [format!("{url}/mcp"), format!("{}/bridge/connect", url.replacen("http", "ws", 1))] {
        let env = [("HERMES_BRIDGE_TOKEN", "tok-alice-0123456789"), ("HERMES_BRIDGE_RELAY_URL", address.as_str())];
        let ran = relay.run_with(&["ask", "--to", "bob", "from afar"], &env).await;
        assert_eq!((ran.code, ran.out.as_str()), (0, "FROM AFAR\n"), "{ran:?}");
    }
    listener.kill().await.unwrap();
}

#[tokio::test]
async fn who_asks_on_the_command_line_gets_the_answer_though_the_relay_was_killed_or_stopped_and_started_again() {
    let mut relay = Relay::start("keep_alive_ms = 1000", &["alice", "bob"]).await;
    // A token that ends with the relay, and one's own.
    for (n, who) in [["--as", "alice"], ["--token", "tok-alice-0123456789"]].into_iter().enumerate() {
        let mut bot = relay.bot_of("bob", "a process").await;
        let arguments = [&["ask", "--to", "bob", "take your time"], &who[..]].concat();
        let mut asking = relay.spawn_to(&arguments, &format!("answer-{n}"), &format!("said-{n}"));
        let wake = bot.wake().await;
        let log = relay.path(&format!("said-{n}"));
        let said = |what: String| fs::read_to_string(&log).unwrap().contains(&what).then_some(());
        let request = format!("(request {})", text(&wake, "request_id"));
        until("the asker has something to come back with", async || said(format!("waiting for the answer {request}"))).await;
        if n == 0 {
            relay.kill().await;
        } else {
            assert_eq!(relay.stop().await.0, Some(0));
        }
        until("it waits for the relay", async || said(format!("waiting for the relay {request}"))).await;
        relay.up().await;
        let mut bot = relay.bot_of("bob", "a process").await;
        assert_eq!(bot.answer(&wake, "été, at last").await, json!({"ok": true}));
        assert_eq!(soon("the command ends", asking.wait()).await.unwrap().code(), Some(0));
        assert_eq!(fs::read_to_string(relay.path(&format!("answer-{n}"))).unwrap(), "été, at last\n");
    }
    assert_eq!(relay.exchanges().await.len(), 2);
}

#[tokio::test]
async fn a_command_of_listen_that_fails_or_says_nothing_is_told_to_the_asker() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    let script = r#"read q; case "$q" in fail) echo working >&2; echo "boom: $HERMES_BRIDGE_FROM" >&2; exit 3;; mute) ;; *) echo "$HERMES_BRIDGE_REQUEST_ID";; esac"#;
    let mut listener = relay.spawn(&["listen", "--as", "bob", "--exec", script], "listen");
    relay.wait_online("bob", true).await;
    for (question, said) in [("fail", "boom: alice"), ("mute", "printed nothing")] {
        let ran = relay.run(&["ask", "--as", "alice", "--to", "bob", question]).await;
        assert!(ran.code == 4 && ran.out.is_empty() && ran.err.contains("failed") && ran.err.contains(said), "{ran:?}");
    }
    let ran = relay.run(&["ask", "--as", "alice", "--to", "bob", "--json", "who am I?"]).await;
    let result: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(result["answer"], result["request_id"]);
    listener.kill().await.unwrap();
}

#[tokio::test]
async fn listen_says_goodbye_when_it_is_stopped_so_that_nobody_waits_for_it() {
    let relay = Relay::start("", &["alice", "bob"]).await;
    for signal in [Signal::INT, Signal::TERM] {
        let mut listener = relay.spawn(&["listen", "--as", "bob", "--exec", "cat"], "listen");
        relay.wait_online("bob", true).await;
        let pid = Pid::from_raw(i32::try_from(listener.id().unwrap()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        let status = soon("listen ends", listener.wait()).await.unwrap();
        assert_eq!(status.code(), Some(0));
        relay.wait_online("bob", false).await;
        let started = Instant::now();
        let refused = relay.caller("alice").ask("bob", "still there?").await;
        assert_eq!(text(&refused, "error"), "agent_offline");
        assert!(started.elapsed() < Duration::from_secs(10), "the ask waited for a bot that said goodbye");
    }
}

#[tokio::test]
async fn without_a_file_the_built_in_configuration_runs_with_two_agents() {
    let mut relay = Relay::prepare("", &[]);
    std::fs::remove_file(relay.path("bridge.toml")).unwrap();
    relay.up_with(&["--listen", "127.0.0.1:0"]).await;
    let mut listener = relay.spawn(&["listen", "--as", "bob", "--exec", "wc -w"], "listen");
    relay.wait_online("bob", true).await;
    let ran = relay.run(&["ask", "--as", "alice", "--to", "bob", "how many words are these?"]).await;
    assert_eq!((ran.code, ran.out.trim()), (0, "5"), "{ran:?}");
    relay.kill().await;
    relay.up_with(&["serve", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(text(&relay.on_record("how many words are these?").await, "status"), "ok");
    assert_eq!(relay.said().matches("hbt_").count(), 2);
    listener.kill().await.unwrap();
}

#[tokio::test]
async fn the_exit_code_of_ask_says_how_it_ended() {
    let relay = Relay::start("ask_timeout_ms = 300", &["alice", "bob", "carol"]).await;
    let ask = async |more: &[&str]| relay.run(&[&["ask", "--as", "alice"], more].concat()).await;
    let offline = ask(&["--to", "bob", "q"]).await;
    assert!(offline.code == 5 && offline.err.contains("agent_offline"), "{offline:?}");
    assert_eq!(ask(&["--to", "nobody", "q"]).await.code, 5);
    let queued = ask(&["--to", "bob", "--queue", "q"]).await;
    assert!(queued.code == 3 && queued.err.contains("queued"), "{queued:?}");
    let mut carol = relay.bot("carol").await;
    let (silent, _wake) = tokio::join!(ask(&["--to", "carol", "q"]), carol.wake());
    assert!(silent.code == 4 && silent.err.contains("timeout"), "{silent:?}");
    assert_eq!(ask(&["q"]).await.code, 2);
    let stranger = relay.run(&["ask", "--as", "stranger", "--to", "bob", "q"]).await;
    assert!(stranger.code == 1 && stranger.err.contains("no agent stranger"), "{stranger:?}");
    let wrong = relay.run(&["ask", "--url", &relay.url(), "--token", "wrong", "--to", "bob", "q"]).await;
    assert!(wrong.code == 1 && wrong.err.contains("401"), "{wrong:?}");
    let nobody = relay.run(&["ask", "--to", "bob", "q"]).await;
    assert!(nobody.code == 1 && nobody.err.contains("--as NAME"), "{nobody:?}");
    let nowhere = relay.run(&["ask", "--url", "http://127.0.0.1:1", "--token", "x", "--to", "bob", "q"]).await;
    assert!(nowhere.code == 1 && nowhere.err.contains("does not answer"), "{nowhere:?}");
}

#[tokio::test]
async fn listen_ends_when_trying_again_cannot_mend_it() {
    let relay = Relay::start("", &["alice"]).await;
    let ran = relay.run(&["listen", "--url", &relay.url(), "--token", "wrong", "--exec", "cat"]).await;
    assert!(ran.code == 1 && ran.err.contains("401"), "{ran:?}");
}

#[tokio::test]
async fn check_says_what_is_wrong_and_exits_by_it() {
    let mut relay = Relay::prepare("", &["alice", "bob"]);
    let fresh = relay.run(&["check"]).await;
    assert!(fresh.code == 0 && fresh.out.contains("not there yet") && fresh.out.contains("all is well"), "{fresh:?}");
    assert!(!relay.path("data").exists(), "it changes nothing");
    relay.up().await;
    let _bob = relay.bot("bob").await;
    relay.wait_online("bob", true).await;
    let running = relay.run(&["check"]).await;
    assert!(running.code == 0 && running.out.contains("a relay is running on it; 1 of 2 agents online"), "{running:?}");
    assert!(running.out.contains("120000 ms") && running.out.contains("240000 ms") && running.out.contains("300000 ms"), "{running:?}");
    let _ = relay.caller("alice").ask("alice", "counted").await;
    relay.stop().await;
    let stopped = relay.run(&["check"]).await;
    assert!(stopped.code == 0 && stopped.out.contains("opens, 1 exchanges, 0 of them open"), "{stopped:?}");
    relay.configure("ask_max_wait_ms = 600000", &["alice"]);
    let warned = relay.run(&["check"]).await;
    assert!(warned.code == 0 && warned.out.contains("warning") && warned.out.contains("600000"), "{warned:?}");
    relay.configure("ask_timeout = 5", &["alice"]);
    let bad = relay.run(&["check"]).await;
    assert!(bad.code == 1 && bad.out.contains("ask_timeout") && bad.out.contains("line 2"), "{bad:?}");
    relay.configure("data_dir = \"bridge.toml\"", &["alice"]);
    let no_directory = relay.run(&["check"]).await;
    assert!(no_directory.code == 1 && no_directory.out.contains("is not a directory"), "{no_directory:?}");
}

#[tokio::test]
async fn check_finds_what_keeps_a_relay_from_working_and_names_the_remedy() {
    let mut relay = Relay::prepare("", &["alice", "bob"]);
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().to_string();
    let found = |ran: &crate::rig::Ran, topic: &str| -> Value {
        let report: Value = serde_json::from_str(&ran.out).unwrap();
        report["findings"].as_array().unwrap().iter().filter(|f| f["topic"] == topic).cloned().collect()
    };
    relay.write_config(&format!("listen = \"{taken}\"\n"));
    let port = relay.run(&["check", "--json"]).await;
    let wrong = &found(&port, "port")[0];
    assert!(port.code == 1 && wrong["level"] == "wrong" && text(wrong, "what").contains("another program"), "{port:?}");
    assert!(text(wrong, "remedy").contains("choose another port"), "{wrong}");
    assert_eq!(found(&port, "agents")[0]["level"], "warning");

    relay.configure("allowed_hosts = [\"*\"]\n[backup]\nevery = \"1h\"", &["alice", "bob"]);
    relay.up().await;
    let (_alice, mut bob) = (relay.bot("alice").await, relay.bot("bob").await);
    bob.send(json!({"type": "hello", "adapter": "0.1.4", "instance": "b", "features": []})).await;
    bob.settle().await;
    let report = until("the first backup is there", async || {
        let ran = relay.run(&["check", "--json"]).await;
        (found(&ran, "backup")[0]["level"] == "ok").then_some(ran)
    });
    let report = report.await;
    assert_eq!(report.code, 0, "{report:?}");
    assert_eq!(found(&report, "hosts")[0]["level"], "warning");
    let agents = found(&report, "agents");
    assert!(text(&agents[0], "what").contains("alice: online"), "{agents}");
    assert!(text(&agents[1], "what").contains("adapter 0.1.4") && text(&agents[1], "remedy").contains("install line"), "{agents}");
    let on_another_directory = relay.run(&["check", "--data-dir", "other"]).await;
    assert_eq!(on_another_directory.code, 0, "{on_another_directory:?}");

    // Behind a proxy whose name the relay does not know, because it was not restarted.
    let config = std::fs::read_to_string(relay.path("bridge.toml")).unwrap().replace("allowed_hosts = [\"*\"]", "");
    relay.write_config(&config);
    relay.stop().await;
    relay.up().await;
    relay.write_config(&format!("public_url = \"http://bridge.invalid\"\n{config}"));
    let host = relay.run(&["check"]).await;
    assert!(host.code == 1 && host.out.contains("`Host: bridge.invalid`") && host.out.contains("-> reload the relay"), "{host:?}");
    assert!(host.out.contains("not encrypted") && host.out.contains("does not lead to a relay"), "{host:?}");
}

#[tokio::test]
async fn check_deep_finds_a_page_that_was_damaged() {
    let mut relay = Relay::start("", &["alice", "bob"]).await;
    for n in 0..40 {
        let _ = relay.caller("alice").ask("bob", &format!("{n} {}", "long ".repeat(1000))).await;
    }
    relay.stop().await;
    let whole = relay.run(&["check", "--deep"]).await;
    assert!(whole.code == 0 && whole.out.contains("every page was read"), "{whole:?}");
    let mut bytes = std::fs::read(relay.path("data/bridge.redb")).unwrap();
    let at = bytes.windows(10).rposition(|w| w == b"long long ").unwrap();
    bytes[at] ^= 0x20;
    std::fs::write(relay.path("data/bridge.redb"), bytes).unwrap();
    let damaged = relay.run(&["check", "--deep"]).await;
    assert!(damaged.code == 1 && damaged.out.contains("is damaged") && damaged.out.contains("restore"), "{damaged:?}");
}

#[tokio::test]
async fn healthcheck_exits_by_the_relays_readiness() {
    let mut relay = Relay::start("", &["alice"]).await;
    let url = relay.url();
    let ran = relay.run(&["healthcheck", "--url", &url]).await;
    assert!(ran.code == 0 && ran.out.contains("ready"), "{ran:?}");
    relay.stop().await;
    let ran = relay.run(&["healthcheck", "--url", &url]).await;
    assert!(ran.code == 1 && ran.err.contains("does not answer"), "{ran:?}");
}

#[tokio::test]
async fn commands_of_this_machine_find_the_relay_where_it_really_listens() {
    // On a free port, while the file goes on to name another and an address that leads nowhere.
    let keys = "public_url = \"http://bridge.invalid\"";
    let relay = Relay::start(keys, &["alice", "bob"]).await;
    let config = std::fs::read_to_string(relay.path("bridge.toml")).unwrap().replace("127.0.0.1:0", "127.0.0.1:1");
    relay.write_config(&config);
    let mut listener = relay.spawn(&["listen", "--as", "bob", "--exec", "tr a-z A-Z"], "listen");
    relay.wait_online("bob", true).await;
    let token = crate::rig::token("alice");
    for identity in [["--as", "alice"], ["--token", &token]] {
        let ran = relay.run(&[&["ask", "--to", "bob", "hello"], &identity[..]].concat()).await;
        assert_eq!((ran.code, ran.out.as_str()), (0, "HELLO\n"), "{ran:?}");
    }
    until("search finds it", async || {
        let ran = relay.run_with(&["search", "hello"], &[("HERMES_BRIDGE_UI_TOKEN", "")]).await;
        assert!(ran.err.contains(" found"), "{ran:?}");
        ran.out.contains("! HELLO").then_some(())
    })
    .await;
    for owner in ["", crate::rig::OWNER] {
        let ran = relay.run_with(&["export"], &[("HERMES_BRIDGE_UI_TOKEN", owner)]).await;
        assert_eq!((ran.code, ran.out.lines().count()), (0, 2), "{ran:?}");
    }
    let ran = relay.run(&["healthcheck"]).await;
    assert!(ran.code == 0 && ran.out.contains("ready"), "{ran:?}");
    listener.kill().await.unwrap();
}

#[tokio::test]
async fn wrong_arguments_exit_with_2_and_help_with_0() {
    let relay = Relay::prepare("", &["alice"]);
    for wrong in
        [&["dance"][..], &["--dance"], &["agent"], &["agent", "add"], &["ask"], &["serve", "extra"], &["listen", "--exec", "x", "--jobs", "0"]]
    {
        let ran = relay.run(wrong).await;
        assert!(ran.code == 2 && ran.err.contains("Usage") || ran.err.contains("error:"), "{wrong:?}: {ran:?}");
    }
    for fine in [&["--help"][..], &["--version"], &["help", "ask"], &["agent", "--help"]] {
        let ran = relay.run(fine).await;
        assert!(ran.code == 0 && !ran.out.is_empty(), "{fine:?}: {ran:?}");
    }
    assert!(!relay.path("data").exists());
}

#[tokio::test]
async fn the_port_comes_from_flag_environment_or_file_in_this_order() {
    let relay = Relay::prepare("", &["alice"]);
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().port().to_string();
    let by_env = relay.run_with(&["serve"], &[("PORT", &taken)]).await;
    assert!(by_env.code == 1 && by_env.err.contains(&format!("127.0.0.1:{taken}")), "{by_env:?}");
    let by_flag = relay.run_with(&["--listen", &format!("127.0.0.1:{taken}")], &[("PORT", "1")]).await;
    assert!(by_flag.code == 1 && by_flag.err.contains(&format!("127.0.0.1:{taken}")), "{by_flag:?}");
    let nonsense = relay.run_with(&["serve"], &[("PORT", "many")]).await;
    assert!(nonsense.code == 1 && nonsense.err.contains("PORT") && nonsense.err.contains("many"), "{nonsense:?}");
    let config = relay.path("elsewhere.toml");
    std::fs::write(&config, "nonsense = 1\n").unwrap();
    let by_env = relay.run_with(&["check"], &[("HERMES_BRIDGE_CONFIG", config.to_str().unwrap())]).await;
    assert!(by_env.code == 1 && by_env.out.contains("elsewhere.toml"), "{by_env:?}");
    until("the port is still held", async || Some(held.local_addr())).await.unwrap();
}
