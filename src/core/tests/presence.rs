//! Comings and goings: which connection gets a question, what the end of one takes down, how long an absence is borne,
//! and that no process has the same question twice.

use super::*;
use crate::core::exchange::Phase;
use crate::core::outcome::Outcome;

/// b's first process is at work on r1 and said so; everything before is forgotten.
fn at_work() -> Scene {
    let mut s = Scene::new("a b c");
    s.up("b", 1);
    s.hello(1, "p");
    s.ask("a b");
    s.heard(1, 1);
    s
}

#[test]
fn an_old_connection_closing_late_does_not_take_the_agent_offline() {
    let mut s = at_work();
    s.up("b", 2);
    assert_eq!(s.hello(2, "p") + &s.lost(1), "");
    assert_eq!(s.ask("a b"), "asked r2, wake r2 at 2");
    assert!(s.relay.present(None)[1].online);
}

#[test]
fn the_end_of_an_old_connection_leaves_alone_what_the_newer_one_carries() {
    let mut s = at_work();
    s.up("b", 2);
    s.hello(2, "p");
    s.ask("c b");
    let carried = s.relay.open(request(2)).cloned();
    assert_eq!(s.lost(1), "");
    assert_eq!(s.relay.open(request(2)).cloned(), carried);
}

#[test]
fn the_same_end_reported_twice_changes_nothing() {
    let mut s = at_work();
    assert_eq!(s.lost(1), "b off");
    let before = s.relay.clone();
    assert_eq!(s.lost(1) + &s.bye(1), "");
    assert_eq!(s.relay, before);
}

#[test]
fn the_newest_connection_gets_the_questions() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.up("b", 2);
    assert_eq!(s.ask("a b"), "asked r1, wake r1 at 2");
    s.lost(2);
    assert_eq!(s.ask("a b"), "asked r2, wake r2 at 1");
}

#[test]
fn a_process_that_returns_goes_on_with_what_it_has() {
    let mut s = at_work();
    s.lost(1);
    s.wait(200);
    assert_eq!(s.up("b", 2) + &s.hello(2, "p"), "b on");
    s.wait(900);
    assert_eq!(s.reply("b", 1, "42"), Replied::Taken);
}

#[test]
fn a_new_process_is_sent_what_the_old_one_had() {
    let mut s = at_work();
    s.lost(1);
    assert_eq!(s.up("b", 2), "b on");
    assert_eq!(s.hello(2, "q"), "wake r1 at 2 again");
}

#[test]
fn a_bot_without_hello_is_sent_its_question_again() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.mute(1);
    s.ask("a b");
    s.lost(1);
    assert_eq!(s.up("b", 2), "b on");
    assert_eq!(s.mute(2), "wake r1 at 2 again");
}

#[test]
fn a_bot_without_hello_that_goes_on_working_is_not_sent_its_question_again() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.ask("a b");
    s.lost(1);
    s.up("b", 2);
    s.heard(2, 1);
    assert_eq!(s.mute(2), "");
    assert_eq!(s.wait(999), "");
}

#[test]
fn a_wake_that_was_never_confirmed_is_sent_again_to_the_same_process() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.hello(1, "p");
    s.ask("a b");
    s.lost(1);
    s.up("b", 2);
    assert_eq!(s.hello(2, "p"), "wake r1 at 2 again");
}

#[test]
fn a_question_sent_in_the_moment_of_a_second_connection_is_not_lost_with_the_first() {
    let mut s = Scene::new("a b");
    s.up("b", 1);
    s.mute(1);
    s.ask("a b");
    s.up("b", 2);
    s.mute(2);
    assert_eq!(s.lost(1), "wake r1 at 2 again");
}

#[test]
fn a_second_process_takes_over_from_the_first_that_heartbeated_until_its_end() {
    let mut s = at_work();
    s.up("b", 2);
    s.hello(2, "q");
    s.wait(100);
    s.heard(1, 1);
    assert_eq!(s.lost(1), "wake r1 at 2 again");
}

#[test]
fn of_two_processes_that_had_the_question_neither_is_sent_it_again() {
    let mut s = at_work();
    s.lost(1);
    s.up("b", 2);
    s.hello(2, "q");
    s.heard(2, 1);
    s.up("b", 3);
    s.hello(3, "p");
    assert_eq!(s.lost(2), "");
    assert_eq!(s.reply("b", 1, "42"), Replied::Taken);
}

#[test]
fn a_question_stays_with_the_process_that_has_it_while_that_has_another_connection() {
    let mut s = at_work();
    s.up("b", 2);
    s.hello(2, "p");
    s.up("b", 3);
    s.hello(3, "q");
    assert_eq!(s.lost(1), "");
    assert_eq!(s.lost(2), "wake r1 at 3 again");
}

#[test]
fn a_lost_bot_is_waited_for_and_no_longer() {
    let mut s = at_work();
    assert_eq!(s.lost(1), "b off");
    assert_eq!(s.wait(299), "");
    assert_eq!(s.wait(1), "ended r1 agent_disconnected, finish r1");
}

#[test]
fn a_bot_back_in_the_last_moment_has_time_to_say_who_it_is() {
    let mut s = at_work();
    s.lost(1);
    s.wait(299);
    s.up("b", 2);
    assert_eq!(s.wait(299), "");
    assert_eq!(s.hello(2, "p"), "");
    assert_eq!(s.wait(999), "");
}

#[test]
fn new_questions_wait_for_a_lost_bot_but_not_for_one_that_said_goodbye() {
    let mut s = at_work();
    s.lost(1);
    assert_eq!(s.ask("a b"), "asked r2");
    assert_eq!(s.wait(300), "ended r1 agent_disconnected, finish r1, ended r2 agent_offline, finish r2");
    assert_eq!(s.ask("a b"), "refused r3 agent_offline");

    let mut s = at_work();
    s.bye(1);
    assert_eq!(s.ask("a b"), "refused r2 agent_offline");
    assert_eq!(s.wait(299), "");
    assert_eq!(s.wait(1), "ended r1 agent_disconnected, finish r1");
}

#[test]
fn a_question_never_sent_goes_out_as_soon_as_the_bot_is_back() {
    let mut s = at_work();
    s.lost(1);
    s.ask("c b");
    assert_eq!(s.up("b", 2), "b on, wake r2 at 2");
}

#[test]
fn a_question_left_for_an_absent_bot_is_sent_in_order_on_its_return() {
    let mut s = Scene::new("a b");
    assert_eq!(s.ask("a b queue"), "asked r1, queued r1 till 2000");
    s.ask("a b in 1 queue");
    assert_eq!(s.verdict, Some(Verdict::Queued { position: 2, expires: Millis(2000) }));
    assert_eq!(s.up("b", 1), "b on, wake r1 at 1");
    s.reply("b", 1, "one");
    assert_eq!(s.said(), "ended r1 ok, finish r1, wake r2 at 1");
}

#[test]
fn an_expired_question_is_never_sent() {
    let mut s = Scene::new("a b");
    s.ask("a b queue");
    assert_eq!(s.wait(2000), "ended r1 expired, finish r1");
    assert_eq!(s.up("b", 1), "b on");
}

#[test]
fn a_question_that_was_long_in_the_queue_has_its_full_time_after_it() {
    let mut s = Scene::with("a b", Limits { queue_ttl_ms: 60_000, ..limits() });
    s.ask("a b queue");
    s.wait(50_000);
    s.up("b", 1);
    assert_eq!(s.wait(999), "");
    assert_eq!(s.reply("b", 1, "42"), Replied::Taken);
}

#[test]
fn a_question_that_may_be_kept_goes_to_the_queue_when_the_bot_does_not_return() {
    let mut s = at_work();
    s.ask("a b in 1 queue");
    s.lost(1);
    assert_eq!(s.wait(300), "ended r1 agent_disconnected, finish r1, queued r2 till 2300");
    assert_eq!(s.ask("a b queue"), "asked r3, queued r3 till 2300");
    assert_eq!(s.up("b", 2), "b on, wake r2 at 2, wake r3 at 2");
}

#[test]
fn during_the_grace_a_question_to_be_kept_is_queued_at_once() {
    let mut s = at_work();
    s.lost(1);
    assert_eq!(s.ask("a b queue"), "asked r2, queued r2 till 2000");
}

#[test]
fn a_stranger_gets_no_connection() {
    let mut s = Scene::new("a");
    assert_eq!(s.up("b", 1), "");
    assert_eq!(s.relay.registry.owners.len(), 0);
}

#[test]
fn an_agent_that_is_removed_is_asked_nothing_more_and_ends_what_it_has() {
    let mut s = at_work();
    s.relay.set_agents(&[name("a")], Permissions::default());
    assert_eq!(s.ask("a b"), "refused r2 unknown_agent");
    assert_eq!(s.relay.present(None).len(), 1);
    assert_eq!(s.reply("b", 1, "42"), Replied::Taken);
    s.lost(1);
    s.relay.set_agents(&[name("a")], Permissions::default());
    assert_eq!(s.relay.registry.agents.len(), 1);
}

#[test]
fn the_list_shows_who_may_be_asked_and_oneself() {
    let mut s = at_work();
    let only_b = Permissions { may_ask: HashMap::from([(name("a"), [name("b")].into())]), notes: Vec::new() };
    s.relay.set_agents(&["a", "b", "c"].map(name), only_b);
    let seen: Vec<_> = s.relay.present(Some(&name("a"))).into_iter().map(|p| (p.name.to_string(), p.online, p.waiting)).collect();
    assert_eq!(seen, [("a".to_owned(), false, 0), ("b".to_owned(), true, 1)]);
}

#[test]
fn the_sentence_about_a_lost_bot_says_that_its_answer_is_kept() {
    let mut s = at_work();
    s.lost(1);
    s.now += 300;
    s.relay.tick(s.at(), &mut s.out);
    let Some(Effect::Finish { end, .. }) = s.out.last() else { panic!("{:?}", s.out) };
    assert!(end.outcome == Outcome::AgentDisconnected && end.text.contains("kept"), "{}", end.text);
}

#[test]
fn a_connection_stays_the_process_that_it_said_it_was() {
    let mut s = at_work();
    for n in 0..1_000 {
        s.hello(1, &format!("p{n}"));
        assert_eq!(s.heard(1, 1), "");
    }
    s.lost(1);
    s.up("b", 2);
    assert_eq!(s.hello(2, "p"), "");
}

#[test]
fn of_processes_that_come_and_go_within_one_question_the_newest_are_remembered() {
    let mut s = at_work();
    for n in 2..=1_000 {
        s.lost(n - 1);
        s.up("b", n);
        s.hello(n, &format!("p{n}"));
        s.heard(n, 1);
    }
    let Phase::Awake(awake) = &s.relay.open(request(1)).unwrap().phase else { panic!("it is at work") };
    assert_eq!((awake.holders.len(), awake.holders.last().map(|h| &**h)), (crate::core::exchange::MAX_HOLDERS, Some("p1000")));
}
