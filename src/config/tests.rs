//! What a configuration file may say, and how a wrong one is refused.

use super::*;
use crate::core::outcome::Outcome;

fn none(_: &str) -> Option<String> {
    None
}

fn parse(text: &str) -> Result<Config, String> {
    file::parse(text, Some(Path::new("conf/bridge.toml")), &none).map_err(|e| e.to_string())
}

#[test]
fn every_commented_default_is_the_real_default() {
    let is_key = |line: &str| line.split_once(" = ").is_some_and(|(key, _)| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
    let uncomment = |line: &str| match line.strip_prefix("# ") {
        Some(rest) if is_key(rest) && !rest.starts_with("token") && !rest.starts_with("may_ask") && !rest.starts_with("groups") => rest.to_owned(),
        _ => line.to_owned(),
    };
    let spelled_out = REFERENCE.lines().map(uncomment).collect::<Vec<_>>().join("\n");
    assert!(spelled_out.matches("\nask_timeout_ms = ").count() == 1);
    assert_eq!(parse(&spelled_out), parse(REFERENCE));
    assert_eq!(parse("").map(|c| c.limits), parse(REFERENCE).map(|c| c.limits));
}

/// `#   key = value   what it means`, of a section that is commented out as a whole.
fn shown(section: &str) -> Vec<(&'static str, &'static str)> {
    let lines = REFERENCE.lines().skip_while(|line| *line != format!("# [{section}]")).skip(1);
    let keys = lines.map_while(|line| line.strip_prefix("#   ")?.split_once(" = "));
    keys.map(|(key, rest)| (key, rest.split("  ").next().unwrap())).collect()
}

#[test]
fn every_default_that_the_reference_shows_of_an_export_is_the_real_one() {
    let given = |section: &str| match section {
        "langfuse" => "[langfuse]\npublic_key = \"pk-lf-1\"\nsecret_key = \"sk-lf-1\"\n",
        _ => "[otlp]\nendpoint = \"http://127.0.0.1:4318\"\n",
    };
    let is_no_default = |key: &str| key.starts_with("example: ") || matches!(key, "public_key" | "secret_key" | "endpoint" | "headers" | "ca_file");
    // What [otlp] has "as above".
    let shared = ["redact", "max_field_bytes", "sample_rate", "start", "shutdown_ms"];
    let above = shown("langfuse").into_iter().filter(|(key, _)| shared.contains(key));
    for (section, count, keys) in [("langfuse", 10, shown("langfuse")), ("otlp", 6, shown("otlp").into_iter().chain(above).collect())] {
        let defaults: Vec<String> = keys.iter().filter(|(key, _)| !is_no_default(key)).map(|(key, value)| format!("{key} = {value}\n")).collect();
        assert_eq!(defaults.len(), count, "{defaults:?}");
        let spelled_out = parse(&format!("{}{}", given(section), defaults.concat()));
        assert!(spelled_out.is_ok(), "{spelled_out:?}");
        assert_eq!(spelled_out, parse(given(section)));
    }
}

#[test]
fn every_key_stands_in_the_reference() {
    for key in [
        "listen",
        "public_url",
        "allowed_hosts",
        "data_dir",
        "ask_timeout_ms",
        "ask_max_wait_ms",
        "reconnect_grace_ms",
        "queue_ttl_ms",
        "max_exchange_ms",
        "keep_alive_ms",
        "ping_interval_ms",
        "keep_answers_days",
        "on_store_failure",
        "log_format",
        "max_message_bytes",
        "max_answer_bytes",
        "max_frame_bytes",
        "max_wakes_per_agent",
        "max_waiting_per_agent",
        "max_depth",
        "max_asks_per_root",
        "max_turns_per_conversation",
        "max_asks_per_pair_per_hour",
        "max_connections",
        "max_waiting_bytes_per_agent",
        "asks_per_minute",
        "max_open_asks_per_agent",
        "max_open_bytes_per_agent",
        "max_timeouts_in_a_row",
        "silent_rest_ms",
        "max_connections_per_agent",
        "max_connections_per_address",
        "max_calls_per_agent",
        "requests_per_second",
        "requests_per_second_per_address",
        "searches_per_second",
        "days",
        "status_days",
        "security_days",
        "max_bytes",
        "every",
        "keep",
        "dir",
        "trusted_proxies",
        "open",
        "session_days",
        "public_key",
        "secret_key",
        "secret_key_file",
        "base_url",
        "environment",
        "release",
        "tags",
        "capture",
        "redact",
        "max_field_bytes",
        "sample_rate",
        "start",
        "shutdown_ms",
        "ca_file",
        "endpoint",
        "headers",
        "token",
        "token_env",
        "token_sha256",
        "may_ask",
        "groups",
    ] {
        assert!(REFERENCE.contains(&format!("{key} = ")), "{key} is not in bridge.toml");
    }
}

#[test]
fn metrics_beyond_this_machine_need_a_token() {
    for listen in ["0.0.0.0:9464", ":9464", "192.0.2.1:9464", "[::]:9464"] {
        let error = parse(&format!("[metrics]\nlisten = \"{listen}\"\n")).unwrap_err();
        assert!(error.contains("line 2, column 10: listen = ") && error.contains(listen) && error.contains("token_env"), "{error}");
        assert!(parse(&format!("[metrics]\nlisten = \"{listen}\"\ntoken = \"read-me-0123\"\n")).is_ok());
    }
    for listen in ["127.0.0.1:9464", "[::1]:9464", "localhost:9464"] {
        assert!(parse(&format!("[metrics]\nlisten = \"{listen}\"\n")).is_ok(), "{listen}");
    }
}

#[test]
fn an_unknown_key_is_refused_with_its_place() {
    let error = parse("\n\nask_timeout = 5\n").unwrap_err();
    assert!(error.contains("line 3, column 1") && error.contains("ask_timeout"), "{error}");
}

#[test]
fn a_value_out_of_range_is_named_with_its_place_and_remedy() {
    let error = parse("[limits]\nmax_depth = 0\n").unwrap_err();
    assert_eq!(error, "conf/bridge.toml, line 2, column 13: max_depth = 0: a number from 1 to 100 is expected");
}

#[test]
fn a_sample_token_does_not_start_and_is_not_repeated() {
    let error = parse("[[agents]]\nname = \"a\"\ntoken = \"change-me-please\"\n").unwrap_err();
    assert!(error.contains("line 3") && error.contains("sample token") && !error.contains("change-me-please"), "{error}");
}

#[test]
fn a_sample_does_not_open_the_page_from_the_environment_either() {
    let owner = |value: &str| {
        let env = |name: &str| (name == "HERMES_BRIDGE_UI_TOKEN").then(|| value.to_owned());
        file::parse("", None, &env).map(|c| c.ui.token).map_err(|e| e.to_string())
    };
    for (value, why) in [("change-me-change-me", "sample token"), ("short", "16 characters"), (" spaces-around-the-token ", "no spaces")] {
        let error = owner(value).unwrap_err();
        assert!(error.contains("HERMES_BRIDGE_UI_TOKEN") && error.contains(why) && !error.contains(value), "{error}");
    }
    assert_eq!(owner("a token that is long enough"), Ok(Some(TokenHash::of("a token that is long enough"))));
}

#[test]
fn a_secret_of_the_wrong_type_is_not_repeated() {
    for (text, secret) in [
        ("[[agents]]\nname = \"a\"\ntoken = 84531297\n", "84531297"),
        ("[ui]\ntoken = [\"hidden-in-a-list\"]\n", "hidden-in-a-list"),
        ("[langfuse]\nsecret_key = 1234.5678\n", "1234.5678"),
        ("[otlp]\nheaders = \"Bearer of-a-collector\"\n", "of-a-collector"),
        ("[otlp]\nheaders = { authorization = 84531297 }\n", "84531297"),
        ("[limits]\nmax_depth = \"pasted, expected here\"\n", "pasted"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains("invalid type: ") && error.contains(" column ") && !error.contains(secret), "{error}");
    }
    assert!(parse("ask_timeout_ms = \"long\"\n").unwrap_err().ends_with("invalid type: string, expected u64"));
}

#[test]
fn two_agents_of_one_name_or_one_token_are_refused() {
    assert!(parse("[[agents]]\nname = \"Bob\"\n[[agents]]\nname = \"bob\"\n").unwrap_err().contains("line 4"));
    let twice = "[[agents]]\nname = \"a\"\ntoken = \"t1\"\n[[agents]]\nname = \"b\"\ntoken = \"t1\"\n";
    assert!(parse(twice).unwrap_err().contains("same token as a"));
}

#[test]
fn a_token_comes_from_the_environment_when_it_says_so() {
    let env = |name: &str| (name == "BOB").then(|| "s3cret".to_owned());
    let text = "[[agents]]\nname = \"bob\"\ntoken_env = \"BOB\"\n";
    let config = file::parse(text, None, &env).unwrap();
    assert_eq!(config.agents[0].credential, Some(Credential(TokenHash::of("s3cret"))));
    assert!(parse(text).unwrap_err().contains("not set"));
}

#[test]
fn may_ask_names_agents_groups_or_everybody() {
    let text =
        "[[agents]]\nname = \"a\"\nmay_ask = [\"ops\"]\n[[agents]]\nname = \"b\"\ngroups = [\"ops\"]\n[[agents]]\nname = \"c\"\nmay_ask = [\"*\"]\n";
    let p = parse(text).unwrap().permissions;
    let [a, b, c] = ["a", "b", "c"].map(|n| crate::core::ids::AgentName::parse(n).unwrap());
    assert!(p.allows(&a, &b) && !p.allows(&a, &c) && p.allows(&c, &a) && p.allows(&b, &a));
    assert!(parse("[[agents]]\nname = \"a\"\nmay_ask = [\"nobody\"]\n").unwrap_err().contains("nobody"));
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("b.toml");
    std::fs::write(&path, "listen = \"127.0.0.1:1000\"\ndata_dir = \"d\"\n").unwrap();
    let env = |name: &str| (name == "PORT").then(|| "2000".to_owned());
    let flags = Flags { config: Some(path), ..Flags::default() };
    assert_eq!(load(&flags, &none).unwrap().listen.port(), 1000);
    assert_eq!(load(&flags, &none).unwrap().data_dir, dir.path().join("d"));
    assert_eq!(load(&flags, &env).unwrap().listen.to_string(), "127.0.0.1:2000");
    let flags = Flags { listen: Some("127.0.0.1:3000".into()), data_dir: Some("/elsewhere".into()), ..flags };
    assert_eq!(load(&flags, &env).unwrap().listen.port(), 3000);
    assert_eq!(load(&flags, &env).unwrap().data_dir, Path::new("/elsewhere"));
}

#[test]
fn backups_are_taken_by_the_clock_when_the_file_says_how_often() {
    assert_eq!(parse("[backup]\nkeep = 3\n").unwrap().backups, None);
    let plan = |text: &str| parse(text).unwrap().backups.unwrap();
    let daily = plan("[backup]\nevery = \"24h\"\n");
    assert_eq!((daily.every.as_secs(), daily.keep, daily.dir.as_path()), (86_400, 7, Path::new("conf/data/backups")));
    for (every, seconds) in [("1000", 1), ("\"90s\"", 90), ("\"5m\"", 300), ("\"7d\"", 604_800), ("\"1w\"", 604_800)] {
        assert_eq!(plan(&format!("[backup]\nevery = {every}\ndir = \"/b\"\n")).every.as_secs(), seconds, "{every}");
    }
    for wrong in ["\"soon\"", "\"h\"", "\"\"", "\"5 years\"", "999", "\"99999999999999999999d\"", "\"9999999999999999d\""] {
        let error = parse(&format!("[backup]\nevery = {wrong}\n")).unwrap_err();
        assert!(error.contains("line 2, column 9: every = ") && error.contains("\"24h\""), "{error}");
    }
}

#[test]
fn history_is_kept_for_ever_unless_the_file_bounds_it() {
    let bounds = |text: &str| parse(text).map(|c| (c.retention.days, c.retention.max_bytes));
    assert_eq!(bounds("[retention]\n"), Ok((None, None)));
    assert_eq!(bounds("[retention]\ndays = 90\n"), Ok((Some(90), None)));
    assert_eq!(bounds("[retention]\nmax_bytes = 5000000\n"), Ok((None, Some(5_000_000))));
    assert!(bounds("[retention]\ndays = 0\n").unwrap_err().contains("line 2"));
    let ages = |text: &str| parse(text).unwrap().retention.ages();
    let some = ages("[retention]\nstatus_days = { timeout = 7, agent_offline = 7 }\n");
    assert_eq!(some.into_iter().collect::<Vec<_>>(), [(7, vec![Outcome::Timeout, Outcome::AgentOffline])]);
    let all = ages("[retention]\ndays = 90\nstatus_days.ok = 365\nstatus_days.timeout = 7\n");
    assert_eq!((all[&365].as_slice(), all[&7].as_slice(), all[&90].len()), (&[Outcome::Answered][..], &[Outcome::Timeout][..], 14));
    assert!(parse("").unwrap().retention.ages().is_empty());
    let unknown = bounds("[retention]\nstatus_days.answered = 3\n").unwrap_err();
    assert!(unknown.contains("line 2") && unknown.contains("one of ok, timeout"), "{unknown}");
    assert!(bounds("[retention]\nstatus_days.ok = 0\n").unwrap_err().contains("status_days.ok = 0: a number from 1"));
}

#[test]
fn the_security_log_is_kept_for_a_year_and_refusals_take_a_bounded_part_of_it() {
    let security = |text: &str| parse(text).map(|c| (c.retention.security_days, c.retention.refusals()));
    assert_eq!(security(""), Ok((Some(365), 100_000)));
    assert_eq!(security("[retention]\nsecurity_days = 0\nmax_bytes = 2000000000\n"), Ok((None, 100_000)));
    assert_eq!(security("[retention]\nsecurity_days = 30\nmax_bytes = 6400000\n"), Ok((Some(30), 1_000)));
    assert!(security("[retention]\nsecurity_days = 40000\n").unwrap_err().contains("a number from 0 to 36500"));
}

#[test]
fn who_lets_bots_ask_more_lets_them_send_more() {
    let doors = |text: &str| parse(text).unwrap().doors;
    let raised = doors("[limits]\nasks_per_minute = 600000\n");
    assert_eq!((raised.requests_per_second, raised.requests_per_second_per_address), (100_000, 1_000_000));
    let lowered = doors("[limits]\nasks_per_minute = 3\nrequests_per_second = 7\n");
    assert_eq!((lowered.requests_per_second, lowered.requests_per_second_per_address), (7, 70));
}

#[test]
fn notes_are_found_by_name_group_or_everybody_in_their_order() {
    let agents = "[[agents]]\nname = \"a\"\ngroups = [\"ops\"]\n[[agents]]\nname = \"b\"\n[[agents]]\nname = \"c\"\n";
    let trust = |from: &str, to: &str, note: &str| format!("[[trust]]\nfrom = \"{from}\"\nto = \"{to}\"\nnote = \"{note}\"\n");
    let text = format!("{agents}{}{}", trust("ops", "b", "trusted"), trust("*", "b", "be careful"));
    let p = parse(&text).unwrap().permissions;
    let [a, b, c] = ["a", "b", "c"].map(|n| crate::core::ids::AgentName::parse(n).unwrap());
    assert_eq!((p.note(&a, &b).as_deref(), p.note(&c, &b).as_deref(), p.note(&a, &c)), (Some("trusted"), Some("be careful"), None));
    let refused = |more: String| parse(&format!("{agents}{more}")).unwrap_err();
    assert!(refused(trust("nobody", "b", "x")).contains("line 9, column 8: from = \"nobody\": no agent and no group"));
    assert!(refused(trust("a", "b", &"x".repeat(401))).contains("line 11"));
    assert!(refused(trust("a", "b", "two\\nlines")).contains("one line"));
    assert!(refused("[[groups]]\nname = \"empty\"\n".into()).contains("line 9, column 8: name = \"empty\": nobody is in this group"));
}
