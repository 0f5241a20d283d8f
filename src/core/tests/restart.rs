//! The relay is built anew from what history has: nothing is lost, and no process has the same question twice.

use super::*;
use crate::core::relay::Restored;

/// A new relay in which b, last seen connected, is expected; `history` says what a and c had asked it, with those that had received it.
fn restarted(history: &[(&str, &[&str])]) -> Scene {
    let mut old = Scene::new("a b c");
    old.up("b", 1);
    let mut asked: Vec<Restored> = Vec::new();
    for (line, holders) in history {
        let ask = old.parse(line);
        let n = old.asked;
        old.threads.insert(n, [ask.from.clone(), name(&ask.to)]);
        old.relay.ask(Millis(0), ask, &mut old.out);
        let record = old.out.iter().find(|e| said(e) == format!("asked r{n}")).unwrap();
        let holders: Vec<Arc<str>> = holders.iter().map(|h| (*h).into()).collect();
        asked.push(Restored { asked: Scene::asked(record).clone(), queued: None, attempt: holders.len() as u32, holders });
    }
    let mut s = Scene::new("a b c");
    (s.now, s.asked, s.threads) = (9000, old.asked, old.threads);
    s.relay.recall(s.at(), &name("b"), Millis(0), true);
    s.relay.restore(s.at(), asked);
    s
}

#[test]
fn a_process_that_had_the_question_goes_on_and_its_answer_is_taken() {
    let mut s = restarted(&[("a b", &["p"])]);
    assert_eq!(s.up("b", 1) + &s.hello(1, "p"), "b on");
    assert_eq!(s.wait(999), "");
    assert_eq!(s.reply("b", 1, "42"), Replied::Taken);
}

#[test]
fn another_process_is_sent_the_question() {
    let mut s = restarted(&[("a b", &["p"])]);
    s.up("b", 1);
    assert_eq!(s.hello(1, "q"), "wake r1 at 1 again");
}

#[test]
fn every_process_that_had_the_question_is_known_after_the_restart() {
    let mut s = restarted(&[("a b", &["p", "q"])]);
    s.up("b", 1);
    assert_eq!(s.hello(1, "p"), "");
}

#[test]
fn what_may_have_been_sent_waits_for_the_introduction_and_the_rest_for_its_turn() {
    let mut s = restarted(&[("a b", &[]), ("a b in 1", &[]), ("c b", &[]), ("c b", &[])]);
    assert_eq!(s.up("b", 1), "b on");
    assert_eq!(s.mute(1), "wake r1 at 1, wake r3 at 1");
    s.reply("b", 1, "one");
    assert_eq!(s.said(), "owed r1, ended r1 ok, finish r1, wake r2 at 1");
}

#[test]
fn what_was_received_keeps_its_turn_whatever_the_order() {
    let mut s = restarted(&[("a b", &[]), ("a b in 1", &["p"]), ("a b in 1", &[])]);
    assert_eq!(s.up("b", 1) + &s.hello(1, "p"), "b on");
    s.reply("b", 2, "two");
    assert_eq!(s.said(), "owed r2, ended r2 ok, finish r2, wake r1 at 1");
}

#[test]
fn the_outage_is_not_the_bots_silence() {
    let mut s = restarted(&[("a b", &["p"]), ("a b in 1", &[])]);
    assert_eq!(s.wait(299), "");
    assert_eq!(s.wait(1), "ended r1 agent_disconnected, finish r1, ended r2 agent_offline, finish r2");
}

#[test]
fn new_questions_wait_for_a_bot_that_was_connected_before() {
    let mut s = restarted(&[]);
    assert_eq!(s.ask("a b"), "asked r1");
    assert_eq!(s.ask("a c"), "refused r2 agent_offline");
    assert_eq!(s.up("b", 1), "b on, wake r1 at 1");
}

#[test]
fn what_was_queued_keeps_its_expiry_and_its_order() {
    let s = restarted(&[("c b", &[])]);
    let asked = s.relay.open(request(1)).unwrap().asked.clone();
    let mut s = Scene::new("b c");
    s.relay.restore(Millis(0), vec![Restored { asked, queued: Some((Millis(0), Millis(70))), holders: Vec::new(), attempt: 0 }]);
    assert_eq!(s.relay.next_deadline(), Some(Millis(70)));
    assert_eq!(s.ask("c b say other"), "refused r1 agent_offline");
    assert_eq!(s.up("b", 1), "b on, wake r1 at 1");
}

#[test]
fn the_same_question_joins_across_the_restart_by_text_and_by_key() {
    let mut s = restarted(&[("a b say hi", &[]), ("c b key k say hi", &[])]);
    s.ask("a b say hi");
    assert_eq!(s.verdict, Some(Verdict::Joined(request(1))));
    s.ask("c b key k say hi");
    assert_eq!(s.verdict, Some(Verdict::Joined(request(2))));
}

#[test]
fn an_agent_that_is_gone_from_the_configuration_is_not_asked_but_its_questions_end() {
    let s = restarted(&[("a b", &[])]);
    let asked = s.relay.open(request(1)).unwrap().asked.clone();
    let mut s = Scene::new("a c");
    s.relay.restore(Millis(0), vec![Restored { asked, queued: None, holders: Vec::new(), attempt: 0 }]);
    assert_eq!(s.ask("c b"), "refused r1 unknown_agent");
    assert_eq!(s.wait(300), "ended r1 agent_disconnected, finish r1");
}

#[test]
fn a_bot_that_was_away_for_a_moment_when_the_relay_ended_has_its_grace_too() {
    let line = restarted(&[("a b", &["p"]), ("a b in 1", &[])]).relay;
    let of = |n| Restored { asked: line.open(request(n)).unwrap().asked.clone(), queued: None, holders: Vec::new(), attempt: 0 };
    let mut s = Scene::new("a b");
    s.now = 9000;
    s.relay.recall(s.at(), &name("b"), Millis(0), false);
    s.relay.restore(s.at(), vec![of(1), of(2)]);
    assert_eq!(s.wait(299), "");
    assert_eq!(s.up("b", 1) + " - " + &s.mute(1), "b on - wake r1 at 1");
}

#[test]
fn a_question_from_the_queue_that_was_being_answered_is_not_in_the_queue_again() {
    let asked = restarted(&[("a b", &[])]).relay.open(request(1)).unwrap().asked.clone();
    let mut s = Scene::new("a b");
    s.relay.recall(Millis(90), &name("b"), Millis(50), true);
    s.relay.restore(Millis(90), vec![Restored { asked, queued: Some((Millis(0), Millis(70))), holders: Vec::new(), attempt: 0 }]);
    assert_eq!(s.wait(90), "");
    assert_eq!(s.up("b", 1) + " - " + &s.mute(1), "b on - wake r1 at 1");
}

#[test]
fn nothing_overtakes_an_earlier_question_that_is_in_the_queue() {
    let line = restarted(&[("a b", &[]), ("a b in 1", &[])]).relay;
    let of = |n, queued| Restored { asked: line.open(request(n)).unwrap().asked.clone(), queued, holders: Vec::new(), attempt: 0 };
    let mut s = Scene::new("a b");
    s.relay.restore(Millis(0), vec![of(1, Some((Millis(0), Millis(2000)))), of(2, None)]);
    assert_eq!(s.up("b", 1) + &s.mute(1), "b on, wake r1 at 1");
}
