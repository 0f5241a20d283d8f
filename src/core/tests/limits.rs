//! What one agent may take of the relay, and what happens to an agent that lets everything time out.

use super::*;

fn scene(agents: &str, limits: Limits) -> Scene {
    let mut s = Scene::with(agents, limits);
    agents.split(' ').zip(1..).for_each(|(agent, n)| drop(s.up(agent, n)));
    s
}

fn limited(s: &Scene) -> (&'static str, u64) {
    match s.refusal() {
        Refusal::RateLimited { limit, retry_in_ms, .. } => (limit, *retry_in_ms),
        Refusal::LineFull { limit, .. } => (limit, 0),
        Refusal::Silent { retry_in_ms, .. } => ("silent", *retry_in_ms),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_agent_asks_so_often_and_the_others_as_often_as_they_may() {
    let mut s = scene("a b c", Limits { asks_per_minute: 3, max_waiting_per_agent: 100, ..limits() });
    (0..3).for_each(|_| drop(s.ask("a b")));
    assert_eq!(s.ask("a b"), "refused r4 rate_limited");
    assert_eq!(limited(&s), ("asks_per_minute", 20_000));
    assert!(s.refusal().to_string().contains("asks_per_minute = 3") && s.refusal().to_string().contains("20 seconds"), "{}", s.refusal());
    s.ask("c b");
    assert_eq!(s.verdict, Some(Verdict::Accepted));
    s.now += 20_000;
    s.ask("a b");
    assert_eq!(s.verdict, Some(Verdict::Accepted));
}

#[test]
fn refused_questions_count_as_asked_and_those_of_a_flood_are_recorded_short() {
    let mut s = scene("a b", Limits { asks_per_minute: 2, max_message_bytes: 100_000, ..limits() });
    assert_eq!(s.ask("a zed") + &s.ask("a a"), "refused r1 unknown_agentrefused r2 self_ask");
    let ask = s.parse(&format!("a b say {}", "x".repeat(5_000)));
    s.relay.ask(s.at(), ask, &mut s.out);
    assert_eq!(Scene::asked(&s.out[0]).message.len(), 1_024);
    assert_eq!(s.said(), "refused r3 rate_limited");
}

#[test]
fn the_same_question_asked_again_is_heard_at_any_pace() {
    let mut s = scene("a b", Limits { asks_per_minute: 1, ..limits() });
    s.ask("a b say hi");
    for _ in 0..5 {
        s.ask("a b say hi");
        assert_eq!(s.verdict, Some(Verdict::Joined(request(1))));
    }
}

#[test]
fn so_many_questions_of_one_agent_are_open_at_a_time() {
    let mut s = scene("a b c", Limits { max_open_asks_per_agent: 2, ..limits() });
    s.ask("a b");
    s.ask("a c");
    assert_eq!(s.ask("a b"), "refused r3 rate_limited");
    assert_eq!(limited(&s).0, "max_open_asks_per_agent");
    s.reply("b", 1, "done");
    s.said();
    assert_eq!(s.ask("a b"), "asked r4, wake r4 at 2");
}

#[test]
fn so_many_bytes_of_one_agent_are_open_at_a_time() {
    let mut s = scene("a b", Limits { max_open_bytes_per_agent: 100, ..limits() });
    s.ask(&format!("a b say {}", "x".repeat(60)));
    assert_eq!(s.ask(&format!("a b say {}", "y".repeat(41))), "refused r2 rate_limited");
    assert_eq!(limited(&s).0, "max_open_bytes_per_agent");
    assert_eq!(s.ask(&format!("a b say {}", "y".repeat(40))), "asked r3, wake r3 at 2");
}

#[test]
fn a_line_takes_so_many_bytes() {
    let mut s = scene("a b", Limits { max_waiting_bytes_per_agent: 100, max_wakes_per_agent: 1, ..limits() });
    s.ask("a b");
    s.ask(&format!("a b say {}", "x".repeat(60)));
    assert_eq!(s.ask(&format!("a b say {}", "y".repeat(41))), "refused r3 rate_limited");
    assert_eq!(limited(&s).0, "max_waiting_bytes_per_agent");
}

#[test]
fn nobody_is_kept_out_by_one_who_fills_the_line() {
    let mut s = scene("a b c d", limits());
    (0..6).for_each(|_| drop(s.ask("a b")));
    assert_eq!(s.ask("a b"), "refused r7 rate_limited");
    assert_eq!((s.ask("c b"), s.ask("d b")), ("asked r8".into(), "asked r9".into()));
    assert_eq!(s.ask("c b"), "refused r10 rate_limited");
}

#[test]
fn what_an_agent_has_open_is_known_after_a_restart() {
    let mut old = scene("a b", limits());
    old.ask("a b");
    let asked = old.relay.open(request(1)).unwrap().asked.clone();
    let mut s = scene("a b", Limits { max_open_asks_per_agent: 1, ..limits() });
    s.asked = 1;
    s.relay.restore(s.at(), vec![crate::core::relay::Restored { asked, queued: None, holders: Vec::new(), attempt: 0 }]);
    assert_eq!(s.ask("a b"), "refused r2 rate_limited");
}

fn silent(timeouts: u32) -> Scene {
    let mut s = scene("a b", Limits { max_timeouts_in_a_row: 2, ..limits() });
    for _ in 0..timeouts {
        s.ask("a b");
        assert!(s.wait(1000).contains("timeout"));
    }
    s
}

#[test]
fn who_lets_everything_time_out_is_asked_nothing_for_a_while() {
    let mut s = silent(1);
    s.ask("a b");
    s.wait(1000);
    assert_eq!(s.ask("a b"), "refused r3 rate_limited");
    assert_eq!(limited(&s), ("silent", 500));
    let text = s.refusal().to_string();
    assert!(text.contains("max_timeouts_in_a_row = 2") && text.contains("Do not retry before 1970-01-01T00:00:02Z"), "{text}");
    assert_eq!(s.ask("b a"), "asked r4, wake r4 at 1");
}

#[test]
fn after_the_rest_one_question_is_let_through_and_its_answer_ends_it() {
    let mut s = silent(2);
    s.now += 500;
    assert_eq!(s.ask("a b"), "asked r3, wake r3 at 2");
    assert_eq!(s.ask("a b"), "refused r4 rate_limited");
    s.reply("b", 3, "here I am");
    s.said();
    assert_eq!(s.ask("a b"), "asked r5, wake r5 at 2");
    assert_eq!(s.ask("a b"), "asked r6, wake r6 at 2");
}

#[test]
fn a_probe_that_times_out_is_another_rest_and_one_that_is_cancelled_makes_room_for_another() {
    let mut s = silent(2);
    s.now += 500;
    s.ask("a b");
    s.wait(1000);
    assert_eq!(s.ask("a b"), "refused r4 rate_limited");
    s.now += 500;
    s.ask("a b");
    s.relay.cancel(s.at(), request(5), "enough", &mut s.out);
    s.said();
    assert_eq!(s.ask("a b"), "asked r6, wake r6 at 2");
}

#[test]
fn a_late_answer_and_a_return_end_the_silence_but_a_heartbeat_between_is_no_answer() {
    let mut s = silent(2);
    assert_eq!(s.reply("b", 1, "late"), Replied::TakenLate);
    s.said();
    assert_eq!(s.ask("a b"), "asked r3, wake r3 at 2");

    let mut s = silent(2);
    s.lost(2);
    s.up("b", 9);
    assert_eq!(s.ask("a b"), "asked r3, wake r3 at 9");

    let mut s = silent(1);
    s.ask("a b");
    s.heard(2, 2);
    s.wait(1000);
    assert_eq!(s.ask("a b"), "refused r3 rate_limited");
}
