//! Whose turn it is: one question at a time in a conversation, so many at a time in all, in the order of asking; and how
//! long silence is borne.

use super::*;
use crate::core::outcome::Outcome;

#[test]
fn a_question_is_recorded_then_sent_and_its_answer_is_recorded_then_told() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    assert_eq!(s.ask("a b"), "asked r1, wake r1 at 1");
    assert_eq!(s.reply("b", 1, "42"), Replied::Taken);
    assert_eq!(s.said(), "ended r1 ok, finish r1");
    assert_eq!(s.relay.next_deadline(), None);
}

#[test]
fn the_second_question_of_a_conversation_waits_for_the_first() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.ask("a b");
    assert_eq!(s.ask("a b in 1"), "asked r2");
    assert_eq!(s.ask("a b in 1"), "asked r3");
    s.reply("b", 1, "one");
    assert_eq!(s.said(), "ended r1 ok, finish r1, wake r2 at 1");
    s.reply("b", 2, "two");
    assert_eq!(s.said(), "ended r2 ok, finish r2, wake r3 at 1");
}

#[test]
fn a_bot_answers_no_more_conversations_at_once_than_it_has_hands() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.ask("a b");
    s.ask("a b");
    assert_eq!(s.ask("a b"), "asked r3");
    s.reply("b", 2, "two");
    assert_eq!(s.said(), "ended r2 ok, finish r2, wake r3 at 1");
}

#[test]
fn a_busy_conversation_does_not_hold_up_another_that_asked_later() {
    let mut s = Scene::new("a b c");
    s.up("b", 1);
    s.ask("a b");
    s.ask("a b in 1");
    assert_eq!(s.ask("c b"), "asked r3, wake r3 at 1");
}

#[test]
fn silence_ends_a_question_and_the_next_gets_its_turn() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.ask("a b");
    s.ask("a b in 1");
    assert_eq!(s.wait(999), "");
    assert_eq!(s.wait(1), "ended r1 timeout, finish r1, wake r2 at 1");
}

#[test]
fn a_heartbeat_gives_the_whole_quiet_limit_again() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.ask("a b");
    s.wait(900);
    s.heard(1, 1);
    assert_eq!(s.wait(999), "");
    assert_eq!(s.wait(1), "ended r1 timeout, finish r1");
}

#[test]
fn the_quiet_clock_of_a_waiting_question_starts_at_its_wake() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.ask("a b");
    s.ask("a b in 1");
    s.wait(900);
    s.reply("b", 1, "one");
    s.said();
    assert_eq!(s.wait(999), "");
    assert_eq!(s.wait(1), "ended r2 timeout, finish r2");
}

#[test]
fn a_heartbeat_of_somebody_else_counts_for_nothing() {
    let mut s = Scene::new("a b c");
    s.up("b", 1);
    s.up("c", 2);
    s.ask("a b");
    s.wait(900);
    s.heard(2, 1);
    assert_eq!(s.wait(100), "ended r1 timeout, finish r1");
}

#[test]
fn no_heartbeat_keeps_a_question_open_beyond_the_longest_time() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.ask("a b");
    for _ in 0..9 {
        s.now += 500;
        s.heard(1, 1);
    }
    assert_eq!(s.wait(499), "");
    s.now += 1;
    s.relay.tick(s.at(), &mut s.out);
    let Some(Effect::Finish { end, .. }) = s.out.last() else { panic!("{:?}", s.out) };
    assert_eq!(end.outcome, Outcome::Timeout);
    assert!(end.text.contains("still at work after 5 seconds"), "{}", end.text);
}

#[test]
fn a_question_that_never_had_its_turn_does_not_claim_that_it_was_received() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.ask("a b");
    s.ask("a b in 1");
    for _ in 0..10 {
        s.now += 499;
        s.heard(1, 1);
    }
    s.now = 5000;
    s.relay.deadlines.retain(|(_, id)| number(*id) == 2);
    s.relay.tick(s.at(), &mut s.out);
    let Some(Effect::Finish { end, .. }) = s.out.last() else { panic!("{:?}", s.out) };
    assert!(end.text.contains("it was not sent"), "{}", end.text);
}

#[test]
fn an_early_or_needless_tick_does_no_harm() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.ask("a b");
    let before = s.relay.clone();
    assert_eq!(s.wait(500) + &s.wait(0) + &s.wait(0), "");
    assert_eq!(s.relay, before);
}

#[test]
fn the_asker_who_gives_up_frees_the_conversation_and_the_bot_may_stop() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.hello(1, "p");
    s.ask("a b");
    s.ask("a b in 1");
    s.relay.cancel(s.at(), request(1), "no longer needed", &mut s.out);
    assert_eq!(s.said(), "ended r1 cancelled, cancel r1 at 1, finish r1, wake r2 at 1");
}

#[test]
fn a_bot_whose_time_is_up_is_not_told_to_stop_because_its_late_answer_is_kept() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.hello(1, "p");
    s.ask("a b");
    assert_eq!(s.wait(1000), "ended r1 timeout, finish r1");
}

#[test]
fn cancelling_what_waits_disturbs_nobody() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.hello(1, "p");
    s.ask("a b");
    s.ask("a b in 1");
    s.relay.cancel(s.at(), request(2), "why not", &mut s.out);
    assert_eq!(s.said(), "ended r2 cancelled, finish r2");
    assert!(!s.relay.cancel(s.at(), request(2), "twice", &mut s.out));
}

#[test]
fn a_question_asked_while_answering_knows_where_it_comes_from() {
    let mut s = Scene::new("a b c");
    s.up("b", 1);
    s.up("c", 2);
    s.ask("a b");
    let ask = s.parse("b c");
    s.relay.ask(s.at(), ask, &mut s.out);
    let trail = &Scene::asked(&s.out[0]).trail;
    assert_eq!((trail.parent, trail.origin.as_str(), trail.hops()), (Some(request(1)), "a", 1));
}
