//! What `check` says of the other side.

use serde_json::Value;

use crate::rig::{Answer, Collector, Relay, text, until};

#[tokio::test]
async fn check_says_whether_langfuse_is_there_understands_and_takes_the_keys() {
    let mut collector = Collector::start().await;
    let relay = Relay::prepare(&collector.langfuse(""), &["alice"]);
    let found = async || {
        let ran = relay.run(&["check", "--json"]).await;
        let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        let findings: Vec<Value> = report["findings"].as_array().unwrap().iter().filter(|f| f["topic"] == "langfuse").cloned().collect();
        (ran.code, findings)
    };
    let (code, well) = found().await;
    assert_eq!((code, well.len(), text(&well[0], "level")), (0, 1, "ok"), "{well:?}");
    assert!(text(&well[0], "what").ends_with("version 4.16.0, project the project"), "{well:?}");

    collector.be("3.80.1");
    let (code, old) = found().await;
    assert_eq!((code, text(&old[0], "level")), (1, "wrong"), "{old:?}");
    assert!(text(&old[0], "what").contains("is 3.80.1") && text(&old[0], "remedy").contains("update Langfuse"), "{old:?}");

    collector.be("4.16.0-troubled");
    let (code, troubled) = found().await;
    assert_eq!((code, text(&troubled[0], "level")), (0, "warning"), "{troubled:?}");
    assert!(text(&troubled[0], "what").contains("does not say whether it takes the keys: it answers 503"), "{troubled:?}");

    collector.be("4.16.0");
    let right = std::fs::read_to_string(relay.path("bridge.toml")).unwrap();
    relay.write_config(&right.replace("sk-lf-secret", "sk-lf-wrong"));
    let (code, wrong) = found().await;
    assert_eq!((code, text(&wrong[0], "level")), (1, "wrong"), "{wrong:?}");
    assert!(text(&wrong[0], "what").contains("does not take the keys: it answers 401"), "{wrong:?}");
    assert!(!wrong[0].to_string().contains("sk-lf-wrong"), "{wrong:?}");

    relay.write_config(&right);
    collector.close().await;
    let (code, away) = found().await;
    assert_eq!((code, text(&away[0], "level")), (0, "warning"), "{away:?}");
    assert!(text(&away[0], "what").contains("cannot be reached") && text(&away[0], "remedy").contains("none is lost"), "{away:?}");
}

#[tokio::test]
async fn check_says_whether_a_collector_is_there_and_takes_what_it_would_get() {
    let mut collector = Collector::start().await;
    let section = format!("[otlp]\nendpoint = \"{}\"\nheaders = {{ authorization = \"a-secret\" }}", collector.url());
    let relay = Relay::prepare(&section, &["alice"]);
    let found = async || {
        let ran = relay.run(&["check", "--json"]).await;
        let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        let [finding] =
            <[Value; 1]>::try_from(report["findings"].as_array().unwrap().iter().filter(|f| f["topic"] == "otlp").cloned().collect::<Vec<_>>())
                .unwrap_or_else(|all| panic!("not one finding: {all:?}"));
        assert!(!finding.to_string().contains("a-secret"), "{finding}");
        let words = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        (ran.code, words("level"), words("what"), words("remedy"))
    };
    let (code, level, what, _) = found().await;
    assert!(code == 0 && level == "ok" && what.ends_with("/v1/traces: takes what is exported"), "{level}: {what}");
    let request = &collector.requests()[0];
    assert_eq!((request.line.as_str(), request.headers["authorization"].as_str()), ("POST /v1/traces HTTP/1.1", "a-secret"));
    assert!(request.spans.is_empty() && request.headers["content-type"] == "application/json");

    for (answer, wanted, said, mend) in [
        (Answer::Refuse(401, ""), "wrong", "answers 401", "keys (or headers)"),
        (Answer::Refuse(403, ""), "wrong", "answers 403", "keys (or headers)"),
        (Answer::Refuse(404, ""), "wrong", "answers 404", "look at the address"),
        (Answer::Refuse(400, ""), "wrong", "answers 400", "OTLP over HTTP as JSON"),
        (Answer::Refuse(503, ""), "warning", "answers 503", "none is lost"),
    ] {
        collector.once(answer);
        let (code, level, what, remedy) = found().await;
        assert_eq!((code, level.as_str()), (i32::from(wanted == "wrong"), wanted), "{what}");
        assert!(what.contains(said) && remedy.contains(mend), "{what}: {remedy}");
    }

    collector.close().await;
    let (code, level, what, remedy) = found().await;
    assert_eq!((code, level.as_str()), (0, "warning"), "{what}");
    assert!(what.contains("takes nothing at the moment") && remedy.contains("4318") && remedy.contains("none is lost"), "{what}: {remedy}");
}

#[tokio::test]
async fn check_says_how_far_the_running_relays_export_is() {
    let mut collector = Collector::start().await;
    let relay = Relay::start(&collector.langfuse(""), &["alice"]).await;
    let found = async |part: &str| {
        until(part, async || {
            let ran = relay.run(&["check", "--json"]).await;
            let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
            let all = report["findings"].as_array().unwrap();
            all.iter().find(|f| f["topic"] == "export" && text(f, "what").contains(part)).cloned()
        })
        .await
    };
    relay.caller("alice").ask("nobody", "what is refused is exported too").await;
    until("it is exported", async || collector.requests().iter().any(|r| !r.spans.is_empty()).then_some(())).await;
    assert_eq!(found("export to langfuse: has followed the log to its end").await["level"], "ok");
    collector.close().await;
    relay.caller("alice").ask("nobody", "and this waits").await;
    assert_eq!(found("export to langfuse: goes on, ").await["level"], "ok");
}
